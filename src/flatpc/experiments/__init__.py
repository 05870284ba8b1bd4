"""What the paper ran, as data: declared grids, a runner that can be killed, results, and a report."""
