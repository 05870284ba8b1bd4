"""Measured ratios. `python -m benchmarks` prints them all; see `__main__.py`."""
