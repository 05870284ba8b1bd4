"""What people do with a model of a table, beside what else does it: `flatpc reproduce uses`."""
