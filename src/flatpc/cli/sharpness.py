"""`flatpc curvature` and `flatpc landscape`: how sharp a model is on some rows."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from flatpc.cli.application import examples, say
from flatpc.cli.options import (
    Data,
    Force,
    IgnoreExtra,
    Json,
    Missing,
    ModelFile,
    OfSplit,
    OnMissing,
    OnUnseen,
    Rows,
    Seed,
    Space,
    Unseen,
)
from flatpc.cli.output import check_output, number, print_json, show_table, shows_progress
from flatpc.errors import OptionError

CURVATURE = examples(
    "flatpc curvature people.model people.csv",
    "flatpc curvature nltcs.model nltcs --split train -k 3 --space simplex --json",
)
LANDSCAPE = examples(
    "flatpc landscape people.model people.csv -o landscape.html",
    "flatpc landscape spiral.model spiral -o landscape.png --kind surface --steps 31",
)
PAGES = (".html",)
PICTURES = (".png", ".svg", ".pdf")


class Kind(StrEnum):
    """How a picture is drawn."""

    CONTOUR = "contour"
    SURFACE = "surface"


class Directions(StrEnum):
    """Along which directions."""

    RANDOM = "random"
    EIGENVECTORS = "eigenvectors"


def curvature(
    model: ModelFile,
    data: Data,
    k: Annotated[int, typer.Option("-k", min=0, help="So many of the largest eigenvalues of the Hessian.")] = 5,
    space: Annotated[
        Space, typer.Option(help="The weights themselves, their logits, or moves that keep sums at one.")
    ] = Space.WEIGHTS,
    rows: Rows = 2000,
    split: OfSplit = None,
    missing: OnMissing = Missing.RAISE,
    unseen: OnUnseen = Unseen.RARE,
    ignore_extra: IgnoreExtra = False,
    json: Json = False,
) -> None:
    """How sharp a model is: the trace of the Hessian of the mean negative log-likelihood, layer by layer, and its spectrum.

    The trace is exact. Layer 1 is next to the inputs. Rows are the training rows of data that has splits, unless --split says
    otherwise.
    """
    import numpy as np

    from flatpc.cli.models import Reader
    from flatpc.cli.sources import read_source
    from flatpc.curvature import breakdown, eigenvalues

    asked = Reader(model, missing.value, unseen.value, ignore_extra).read(read_source(data, first=rows), split, default="train")
    some = asked.rows[:rows]
    circuit = asked.model.circuit
    n_weights = _count_weights(circuit, model)
    parts = breakdown(circuit, some, space=space.value, reduction="mean", missing="marginalize")
    found: dict[str, Any] = {
        "data": data,
        "split": asked.split,
        "rows": len(some),
        "space": space.value,
        "weights": n_weights,
        "trace": parts.total,
        "by_layer": parts.by_layer,
        "eigenvalues": [],
        "residuals": [],
        "converged": True,
    }
    if k:
        options: Any = {"space": space.value, "reduction": "mean", "missing": "marginalize"}
        top = eigenvalues(circuit, some, min(k, n_weights), **options)
        found |= {"eigenvalues": np.asarray(top.values), "residuals": np.asarray(top.residuals), "converged": top.converged}
    if json:
        print_json(found)
        return
    _show(found)


def _count_weights(circuit: Any, model: Path) -> int:
    """How many weights of sums there are; without any there is nothing to move along."""
    from flatpc.curvature.layout import Layout

    n_weights = Layout(circuit, False).size
    if n_weights == 0:
        raise OptionError(f"{model} has no weights: it is a product of independent columns, which has no such curvature.")
    return n_weights


def _show(found: dict[str, Any]) -> None:
    title = f"Curvature on {found['rows']:,} rows ({found['split']}), in {found['space']}"
    show_table(title, [("trace", number(found["trace"])), ("weights", f"{found['weights']:,}")])
    shares = {layer: f"{value / found['trace']:.1%}" if found["trace"] else "—" for layer, value in found["by_layer"].items()}
    layers = [(str(layer), number(value), shares[layer]) for layer, value in found["by_layer"].items()]
    show_table("Where it comes from", layers, ("layer", "trace", "share"))
    if len(found["eigenvalues"]):
        pairs = zip(found["eigenvalues"], found["residuals"], strict=True)
        values = [(str(i), number(float(value)), f"{residual:.1e}") for i, (value, residual) in enumerate(pairs, start=1)]
        show_table("Largest eigenvalues", values, ("", "eigenvalue", "off by at most"))
        if not found["converged"]:
            say("Note: not all eigenvalues were found; ask for fewer with -k.")


def landscape(
    model: ModelFile,
    data: Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="A page (.html) that can be turned, or a picture (.png, .svg, .pdf).", show_default=False
        ),
    ],
    valid: Annotated[
        str | None, typer.Option(metavar="FILE", help="Other rows, beside those of DATA.", show_default=False)
    ] = None,
    dimensions: Annotated[int, typer.Option(min=1, max=2, help="1: a line, 2: a surface.")] = 2,
    steps: Annotated[int, typer.Option(help="Points along each direction, an odd number.")] = 21,
    radius: Annotated[float, typer.Option(help="How far to go; 1 is the length of each unit's own weights.")] = 1.0,
    directions: Annotated[Directions, typer.Option(help="Random ones, or those of the largest eigenvalues.")] = Directions.RANDOM,
    kind: Annotated[Kind, typer.Option(help="Of a picture of a surface.")] = Kind.CONTOUR,
    rows: Rows = 2000,
    missing: OnMissing = Missing.RAISE,
    unseen: OnUnseen = Unseen.RARE,
    ignore_extra: IgnoreExtra = False,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw the loss around a model, along one or two directions.

    For data with splits these are the training and the validation rows; else the rows of DATA, and those of --valid.
    """
    check_output(output, force, PAGES + PICTURES)
    import numpy as np

    from flatpc.cli.models import Reader
    from flatpc.cli.sources import read_source
    from flatpc.curvature import landscape as compute

    reader = Reader(model, missing.value, unseen.value, ignore_extra)
    _count_weights(reader.model.circuit, model)
    source = read_source(data, first=rows)
    asked = reader.read(source, None, default="train")
    judges = None
    if valid is not None:
        judges = reader.read(read_source(valid, first=rows), None, default="valid").rows[:rows]
    elif source.valid is not None:
        judges = reader.read(source, "valid").rows[:rows]
    surface = compute(
        asked.model.circuit, asked.rows[:rows], judges, dimensions=dimensions, radius=radius, n_steps=steps,
        directions=directions.value, missing="marginalize", seed=seed, progress=shows_progress(json),
    )  # fmt: skip
    _draw(surface, output, f"{model} on {data}", kind.value)
    found: dict[str, Any] = {
        "output": output,
        "rows": len(asked.rows[:rows]),
        "steps": surface.steps,
        "loss": float(surface.train[(steps // 2,) * dimensions]),
        "highest": float(np.nanmax(np.where(np.isfinite(surface.train), surface.train, np.nan))),
        "valid_loss": math.nan if surface.valid is None else float(surface.valid[(steps // 2,) * dimensions]),
    }
    if json:
        print_json(found | {"train": surface.train, "valid": surface.valid})
        return
    shown = [("loss at the model", number(found["loss"])), ("highest on the grid", number(found["highest"]))]
    if judges is not None:
        shown.insert(1, ("validation loss at the model", number(found["valid_loss"])))
    show_table(f"Landscape on {found['rows']:,} rows", shown)
    say(f"Wrote {output}.")


def _draw(surface: Any, output: Path, title: str, kind: str) -> None:
    import io

    from flatpc._writing import replace_file

    if output.suffix.lower() in PAGES:
        from flatpc.pages import Page

        page = Page("Loss landscape", f"The mean negative log-likelihood around {title}; 0 is the model itself.")
        page.figure(surface.interactive(), height=600)
        page.write(output)
        return
    data = io.BytesIO()
    drawn = surface.plot("line" if surface.dimensions == 1 else kind, title=title)
    drawn.savefig(data, format=output.suffix[1:].lower(), dpi=150)
    replace_file(output, data.getvalue())
