"""What a circuit is: vector nodes, scopes, parameters, properties, families of inputs, files."""
