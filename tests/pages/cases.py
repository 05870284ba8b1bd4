"""A small page with one of everything."""

import numpy as np
import plotly.graph_objects as go

from flatpc.pages import Cell, Column, Page


def everything() -> Page:
    rng = np.random.default_rng(0)
    page = Page("Flat & sharp", "Learnt from the *same* rows; see [the shapes](#shapes-two-surfaces).", footer="The end.")
    numbers = page.tab("Numbers")
    numbers.heading("Summary").text("- one\n- two\n")
    columns = [
        "set",
        *(Column(name, ".2f", group=group) for group in ("1%", "5%", "10%", "50%") for name in ("paper", "ours", "Δ")),
    ]
    rows = [[f"set {i}", *rng.normal(size=12)] for i in range(6)]
    numbers.table(columns, rows, caption="A wide table", file="wide.csv")
    small = [["plain", 10.0, None], ["flat", 9.5, Cell(2.0, note="a")], ["flatter", -1.0, "not run"]]
    numbers.table(
        ["model", Column("NLL", ".1f", best="min"), "seconds"], small, caption="A small table", notes={"a": "on a laptop"}
    )
    claim = "confirmed: " + ", ".join(["9.9 ± 0.9"] * 20)
    numbers.table(["what is said", "text", "code", "ours"], [["it is less sharp", claim, claim, claim]], caption="Claims")

    shapes = page.tab("Shapes")
    shapes.heading("Two surfaces")
    x = np.linspace(-1, 1, 15)
    bowl = x[:, None] ** 2 + x**2
    surfaces = {name: go.Figure(go.Surface(x=x, y=x, z=k * bowl, cmin=0, cmax=8)) for name, k in (("sharp", 4), ("flat", 1))}
    for figure in surfaces.values():
        figure.update_layout(scene={"zaxis_range": [0, 8], "zaxis_title": "loss"})
    shapes.figures(surfaces, linked=True, height=300, note="Turn one and both turn.")
    shapes.figure(go.Figure(go.Scatter(y=rng.normal(size=30), name="noise")), title="A line")

    page.tab("Pictures").pictures({"random": (rng.random((12, 8, 8)) < 0.5).astype(float)})
    return page
