"""`flatpc fit`: learn a model from a table."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from flatpc.cli.application import INTERRUPTED, examples
from flatpc.cli.options import Data, Force, Json, Missing, OnMissing, OnUnseen, Seed, Unseen
from flatpc.cli.output import check_output, print_json
from flatpc.errors import OptionError

EXAMPLES = examples(
    "flatpc fit people.csv -o people.model",
    "flatpc fit people.csv -o people.model --drop id --kind zip=categorical --missing marginalize",
    "flatpc fit people.csv -o people.model --effort thorough",
    "flatpc fit nltcs -o nltcs.model --structure hclt --latents 100 --fraction 0.05",
    "flatpc fit spiral -o spiral.model --structure rat-spn --method adam --mu adaptive --epochs 200",
)


TRAINED = ("hclt", "mixture", "rat-spn")
"""Structures that are trained step by step."""


class Structure(StrEnum):
    """The shape of the circuit."""

    AUTO = "auto"
    FACTORIZED = "factorized"
    CHOW_LIU = "chow-liu"
    TREE_MIXTURE = "tree-mixture"
    KERNELS = "kernels"
    BINNED_TREE = "binned-tree"
    HCLT = "hclt"
    MIXTURE = "mixture"
    RAT_SPN = "rat-spn"


class Effort(StrEnum):
    """How much work to spend."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"


class Judge(StrEnum):
    """What models are judged by."""

    AUTO = "auto"
    VALID = "valid"
    HOLDOUT = "holdout"
    CV = "cv"
    LOO = "loo"
    EVIDENCE = "evidence"


class Method(StrEnum):
    """How parameters are learnt."""

    EM = "em"
    ADAM = "adam"
    SGD = "sgd"


def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file of the model.", show_default=False)],
    structure: Annotated[Structure, typer.Option(help="auto: by the kinds of columns and by validation rows.")] = Structure.AUTO,
    latents: Annotated[
        int | None, typer.Option(min=1, help="States of each latent; several are tried unless given.", show_default=False)
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=0, help="Cuts of a rat-spn; one unless given.", show_default=False)
    ] = None,
    mu: Annotated[
        str, typer.Option(help="Weight of the sharpness penalty: auto (by validation rows), a number, mean-flow or adaptive.")
    ] = "auto",
    effort: Annotated[
        Effort, typer.Option(help="The most work spent: about 5, 30 or 120 seconds on one core, the same on every machine.")
    ] = Effort.NORMAL,
    judge: Annotated[
        Judge,
        typer.Option(help="By what models are chosen. auto: validation rows if there are any, else rows in turn or held out; "
                     "loo, evidence: by curvature, from the rows learnt from."),
    ] = Judge.AUTO,
    method: Annotated[
        Method | None, typer.Option(help="EM or gradient descent; trains one structure as told.", show_default=False)
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="The most passes over the rows; trains one structure as told.", show_default=False)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Rows per step; EM: all up to 2000, else 1000; Adam, SGD: 200.", show_default=False)
    ] = None,
    step_size: Annotated[
        float | None, typer.Option(help="EM: 1 with all rows at once, 0.3 with batches; else 0.1.", show_default=False)
    ] = None,
    pseudocount: Annotated[
        float | None,
        typer.Option(help="Counts added to each unit of inputs, so that no category is impossible.", show_default=False),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option(help="Rows to judge by: a file; for a structure trained as told also a share of the rows (0 for none).",
                     metavar="FILE|FRACTION", show_default=False),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(min=0, help="Stop after so many epochs that brought nothing; 0 never.", show_default=False)
    ] = None,
    time_budget: Annotated[
        float | None, typer.Option(help="The most seconds it may take; none unless given.", show_default=False)
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder in which to keep what has been learnt so far.", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is in the folder of --checkpoint.")] = False,
    fraction: Annotated[float, typer.Option(help="Learn from this share of the training rows.")] = 1.0,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="COLUMN=KIND", help="binary, categorical, count or continuous.", show_default=False),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COLUMN", help="A column to leave out.", show_default=False)
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A column that says how often each row counts; no variable.", show_default=False),
    ] = None,
    missing: OnMissing = Missing.RAISE,
    unseen: OnUnseen = Unseen.RARE,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:  # fmt: skip
    """Learn a model from a table, and keep it in one file.

    Kinds of columns are recognised and shown. Models from independent columns to averages of hidden trees are tried, judged by
    rows that had no part in learning, and the choice is fitted to all rows. With --method, --epochs and the like one structure is
    trained as told. Ctrl-C ends learning and keeps the best model so far. With --checkpoint, the same command and --resume go on
    with a run that was killed, and end with the same model.
    """
    check_output(output, force)
    check_checkpoint(checkpoint, resume)
    if not 0 < fraction <= 1:
        raise OptionError(f"--fraction {fraction}; it is greater than 0 and at most 1.")
    judges, share = read_valid(valid)
    if structure.value in ("factorized", "chow-liu", "kernels", "binned-tree") and mu != "auto":
        raise OptionError(f"--mu is for what is learnt step by step, and {structure.value} is counted; leave it out.")
    from flatpc.cli.training import Run
    from flatpc.search.one_model import Told
    from flatpc.search.plans import Wishes

    wishes = Wishes(structure.value.replace("-", "_"), latents, depth)
    given: dict[str, Any] = {
        "method": None if method is None else method.value, "epochs": epochs, "batch_size": batch_size,
        "step_size": _step_size(step_size, method or Method.EM), "patience": patience, "share": share,
        "pseudocount": _zero_or_more("--pseudocount", pseudocount),
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    weight = read_mu(mu)
    told = None
    if given or weight == "adaptive" or depth is not None:
        if structure.value not in TRAINED:
            named = (
                next(iter(given), "mu adaptive" if weight == "adaptive" else "depth").replace("_", "-").replace("share", "valid")
            )
            raise OptionError(f"--{named} trains one structure as told; name it: --structure {', '.join(TRAINED)}.")
        if judge is not Judge.AUTO:
            raise OptionError("--judge is for choosing among models, and one is trained as told; leave it out.")
        told = Told(**given, mu="auto" if weight is None else weight)
    run = Run(
        data, wishes, told, "auto" if weight is None else weight, effort.value, judge.value,
        _positive("--time-budget", time_budget), seed, judges, share is None, fraction, read_kinds(kind or []), drop or [],
        weights, missing.value, unseen.value, checkpoint, quiet=json,
    )  # fmt: skip
    run.learn(output)
    found = run.measure(output)
    if json:
        print_json(found)
    else:
        run.show(found)
    if run.interrupted:
        raise typer.Exit(INTERRUPTED)


def check_checkpoint(folder: Path | None, resume: bool) -> None:
    """Refuse to start in a folder that something was learnt in, and to go on where nothing was."""
    if folder is None:
        if resume:
            raise OptionError("--resume goes on with what is in a folder; name it: --checkpoint FOLDER.")
        return
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"--checkpoint {folder} is a file; give the name of a folder.")
    begun = folder.is_dir() and any(folder.iterdir())
    if begun and not resume:
        raise OptionError(f"--checkpoint {folder} holds files already; add --resume to go on with them, or give a new folder.")
    if resume and not begun:
        raise OptionError(f"--resume: there is nothing in {folder} to go on with; leave --resume out to start anew.")


def read_mu(text: str) -> float | str | None:
    """`mean-flow`, `adaptive` or a number; None for `auto`.

    >>> read_mu("0.1"), read_mu("mean-flow"), read_mu("auto")
    (0.1, 'mean-flow', None)
    """
    if text == "auto":
        return None
    if text in ("mean-flow", "adaptive"):
        return text
    try:
        mu = float(text)
    except ValueError:
        raise OptionError(f"--mu {text}; give a number, or auto, mean-flow or adaptive.") from None
    if not 0 <= mu < float("inf"):
        raise OptionError(f"--mu {text}; the weight of a penalty is a finite number of 0 or more.")
    return mu


def read_valid(text: str | None) -> tuple[str | None, float | None]:
    """A file or a share of the rows; neither if nothing is said.

    >>> read_valid("0.2"), read_valid("judges.csv")
    ((None, 0.2), ('judges.csv', None))
    """
    if text is None:
        return None, None
    try:
        share = float(text)
    except ValueError:
        return text, None
    if not 0 <= share < 1:
        raise OptionError(f"--valid {text}; a share of the rows is 0 or more and less than 1. For a file give its name.")
    return None, share


def read_kinds(given: list[str]) -> dict[str | int, str]:
    """Kinds by column.

    >>> read_kinds(["age=continuous"])
    {'age': 'continuous'}
    """
    out: dict[str | int, str] = {}
    for text in given:
        column, sign, kind = text.rpartition("=")
        if not sign or not column:
            raise OptionError(f"--kind {text}; write a column and its kind, such as --kind age=continuous.")
        if column in out:
            raise OptionError(f"--kind {column} stands there twice; give a column one kind.")
        out[column] = kind
    return out


def _step_size(value: float | None, method: Method) -> float | None:
    if value is not None and method is Method.EM and not 0 < value <= 1:
        raise OptionError(f"--step-size {value}; with EM, which averages old and new parameters, it is above 0 and at most 1.")
    return _positive("--step-size", value)


def _positive(name: str, value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise OptionError(f"{name} {value}; give a positive number.")
    return value


def _zero_or_more(name: str, value: float | None) -> float | None:
    if value is not None and not 0 <= value < float("inf"):
        raise OptionError(f"{name} {value}; give 0 or a positive number.")
    return value
