"""How the documentation is built; `make docs` runs it with warnings as errors."""

from typing import Any

import flatpc

project = "flatpc"
author = "The flatpc developers"
copyright = author
version = release = flatpc.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_title = f"flatpc {release}"
exclude_patterns = ["*-summary.md", "*-table.md", "_build"]
myst_heading_anchors = 3

autodoc_typehints = "none"
napoleon_use_rtype = False  # "Returns: type – what it is", on one line
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# Docstrings quote code with single backticks.
default_role = "code"


def setup(app: Any) -> None:
    """Let the docstring of a property be a sentence."""
    app.connect("autodoc-process-docstring", _begin_with_a_comment, priority=400)


def _begin_with_a_comment(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    # napoleon, which comes next, takes what stands before a colon in an attribute's first line for its type.
    if what in ("attribute", "property", "data"):
        lines[:0] = ["..", ""]
