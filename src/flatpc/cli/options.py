"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Missing(StrEnum):
    """What to do about missing values."""

    RAISE = "raise"
    MARGINALIZE = "marginalize"


class Unseen(StrEnum):
    """What to do about values that training never had."""

    RARE = "rare"
    RAISE = "raise"
    MISSING = "missing"


class Split(StrEnum):
    """Which rows of a data set."""

    TRAIN = "train"
    VALID = "valid"
    TEST = "test"


class Space(StrEnum):
    """In which coordinates curvature is taken."""

    WEIGHTS = "weights"
    LOGITS = "logits"
    SIMPLEX = "simplex"


ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that `flatpc fit` or `circuit.save` wrote.", show_default=False)
]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A csv, tsv, parquet, arrow or npz file; a folder, or a pattern in quotes; or a data set's name (flatpc datasets).",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file if it is there.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of everything that is drawn.")]
OnMissing = Annotated[
    Missing, typer.Option("--missing", help="Missing values: refuse them, or integrate them out.", show_choices=True)
]
OnUnseen = Annotated[
    Unseen, typer.Option("--unseen", help="Values that training never had: a small probability, an error, or missing.")
]
OfSplit = Annotated[
    Split | None,
    typer.Option("--split", help="Which rows of data that has splits; the test rows unless given.", show_default=False),
]
IgnoreExtra = Annotated[bool, typer.Option("--ignore-extra", help="Leave columns alone that the model doesn't know.")]
Rows = Annotated[int, typer.Option("--rows", min=1, help="Use the first so many rows at most.")]
