"""Tables that people bring: reading files and frames, recognising columns, encoding rows."""

from flatpc.tables.columns import Column, Columns, kinds
from flatpc.tables.files import Table, read_table

__all__ = ["Column", "Columns", "Table", "kinds", "read_table"]
