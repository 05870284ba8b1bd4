"""Tables that people bring: reading files and frames, recognising columns, encoding rows; sources that come in blocks."""

from flatpc.tables.column import Column
from flatpc.tables.columns import Columns, kinds
from flatpc.tables.files import Table, read_table
from flatpc.tables.scanning import scan
from flatpc.tables.sources import Source, source

__all__ = ["Column", "Columns", "Source", "Table", "kinds", "read_table", "scan", "source"]
