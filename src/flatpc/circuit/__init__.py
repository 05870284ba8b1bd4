"""What a circuit is: vector nodes, scopes, parameters, properties, files."""
