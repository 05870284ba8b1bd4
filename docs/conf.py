"""How the documentation is built; `make docs` runs it with warnings as errors."""

import flatpc

project = "flatpc"
author = "The flatpc developers"
copyright = author
version = release = flatpc.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"flatpc {release}"
exclude_patterns = ["results-summary.md", "never-lose-table.md", "full-data-table.md", "_build"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# Docstrings quote code with single backticks.
default_role = "code"
