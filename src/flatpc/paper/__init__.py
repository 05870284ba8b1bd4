"""What the paper ran, as data: declared grids, a runner that can be killed, results, and a report."""

from flatpc._extras import need

for _package in ("jinja2", "markdown_it", "matplotlib", "plotly", "PIL"):
    need(_package, "paper", "What reruns and reports the paper")
