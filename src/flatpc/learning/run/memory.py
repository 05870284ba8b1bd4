"""What may be held of rows that come from a source."""

WINDOW_ROWS, WINDOW_BYTES = 1 << 16, 1 << 26
"""Of a window: up to 65,536 rows and 64 MiB."""
MEMORY = 1 << 28
"""Of an evaluator's work buffers, in bytes."""


def window_rows(n_columns: int) -> int:
    """Rows of a window of a table with so many columns."""
    return max(min(WINDOW_ROWS, WINDOW_BYTES // (8 * n_columns)), 1)
