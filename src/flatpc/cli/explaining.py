"""`flatpc explain`: which rows of the training table an answer is based on."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from flatpc._printable import printable
from flatpc.cli.application import examples
from flatpc.cli.options import Data, IgnoreExtra, Json, Missing, ModelFile, OfSplit, OnMissing, OnUnseen, Unseen
from flatpc.cli.output import number, print_json, show_table
from flatpc.errors import OptionError

EXAMPLES = examples(
    "flatpc explain people.model people.csv --row 17",
    "flatpc explain people.model new-people.csv --row 3 --train people.csv --top 10",
    "flatpc explain people.model people.csv --suspicious",
)


def explain(
    model: ModelFile,
    data: Data,
    row: Annotated[int | None, typer.Option(min=0, help="The row to explain, counted from 0.", show_default=False)] = None,
    suspicious: Annotated[
        bool,
        typer.Option("--suspicious", help="The training rows that would be most unlikely had the model not learnt from them."),
    ] = False,
    train: Annotated[
        str | None, typer.Option(metavar="TABLE", help="The table that the model was learnt from, if it is another.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many training rows to list.")] = 5,
    split: OfSplit = None,
    missing: OnMissing = Missing.RAISE,
    unseen: OnUnseen = Unseen.RAISE,
    ignore_extra: IgnoreExtra = False,
    json: Json = False,
) -> None:
    """Which training rows a row's log-likelihood is based on, or which training rows are suspicious.

    The influence of a training row is what one more copy of it would add to the log-likelihood, in nats, to first order.
    Suspicious rows are listed by their log-likelihood by a model without them, approximately, the lowest first.
    """
    if (row is None) == (not suspicious):
        raise OptionError("Give --row to explain a row, or --suspicious to list training rows that stand out; one of them.")
    import numpy as np

    from flatpc.cli.models import Reader, posterior
    from flatpc.cli.sources import read_source
    from flatpc.curvature import influence, leave_one_out

    reader = Reader(model, missing.value, unseen.value, ignore_extra)
    post = posterior(reader, train or data, "flatpc explain")
    rows, circuit = post.log_posterior.rows, post.circuit
    options: Any = {"uncertainty": post, "missing": "marginalize"}
    if suspicious:
        left_out, own = leave_one_out(circuit, rows, **options), influence(circuit, rows, **options)
        order = np.argsort(left_out, kind="stable")[:top]
        listed = [{"row": int(i), "left_out_log_likelihood": float(left_out[i]), "self_influence": float(own[i])} for i in order]
        if json:
            print_json(listed)
        else:
            show_table(
                "Training rows that stand out: log-likelihood without the row, self-influence",
                [(f"row {e['row']}", f"{number(e['left_out_log_likelihood'])}   {number(e['self_influence'])}") for e in listed],
            )
        return
    asked = reader.read(read_source(data, whole="flatpc explain"), split, "train" if train is None else "test").rows
    assert row is not None
    if row >= len(asked):
        raise OptionError(f"--row {row}: {data} has {len(asked):,} rows, counted from 0.")
    answer = post.log_prob(asked[row : row + 1], missing="marginalize")
    found = influence(circuit, rows, on=answer, **options)
    order = np.argsort(-found, kind="stable")
    told: dict[str, Any] = {
        "row": row,
        "log_likelihood": float(answer.value[0]),
        "standard_error": float(answer.error[0]),
        "helpful": [_told(i, found, rows, reader) for i in order[:top] if found[i] > 0],
        "harmful": [_told(i, found, rows, reader) for i in order[::-1][:top] if found[i] < 0],
    }
    if json:
        print_json(told)
        return
    show_table(f"Row {row}", [("log-likelihood", f"{number(told['log_likelihood'])} ± {number(told['standard_error'])}")])
    for kind in ("helpful", "harmful"):
        lines = [(f"row {e['row']}", f"{number(e['influence'])}   {printable(_values(e['values']))}") for e in told[kind]]
        if lines:
            show_table(f"Most {kind} training rows", lines)


def _told(i: Any, found: Any, rows: Any, reader: Any) -> dict[str, Any]:
    """A training row with its influence and values, None where one is missing."""
    values = {
        column.name: None if math.isnan(code) else column.decode(rows[i, j : j + 1], column.dtype == "integer")[0]
        for j, (column, code) in enumerate(zip(reader.model.columns.columns, rows[i], strict=True))
    }
    return {"row": int(i), "influence": float(found[i]), "values": values}


def _values(values: dict[str, Any]) -> str:
    known = {name: value for name, value in values.items() if value is not None}
    shown = ", ".join(f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}" for name, value in known.items())
    return shown if len(shown) <= 100 else shown[:97] + "..."
