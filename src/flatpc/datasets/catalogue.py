"""Every data set that has a name: what it is, where it comes from, and whether it is here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from flatpc._options import choice, seed_number
from flatpc.datasets.debd import DEBD, SPLITS, load_debd, registry
from flatpc.datasets.gaussian_mixture import N_VARIABLES, gaussian_mixture_splits
from flatpc.datasets.local_files import is_local
from flatpc.datasets.manifolds import MANIFOLDS, SPLIT_SIZE, manifold, manifold_splits
from flatpc.datasets.mixed import FOLDER, load_mixed, mixed_registry
from flatpc.datasets.mnist import FILE, N_VALID, SHAPE, load_mnist
from flatpc.datasets.packaged import PACKAGED, load_packaged, sizes
from flatpc.datasets.splits import Splits

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class DataSet:
    """One line of the catalogue; see `datasets`."""

    name: str
    """The name that `load` takes."""
    kind: str
    """What its columns are: `"binary"`, `"continuous"`, `"mixed"` for a table, or `"image"` for pixels from 0 to 255."""
    n_variables: int
    """Number of columns."""
    rows: dict[str, int]
    """Number of rows of train, valid and test."""
    source: str
    """Where it comes from, in words."""
    local: bool
    """Whether it can be had without a download."""


def datasets() -> list[DataSet]:
    """All data sets that `load` knows, those that are drawn by seed first.

    >>> import flatpc as fp
    >>> [data.name for data in fp.datasets.datasets()][:3]
    ['two_moons', 'spiral', 'pinwheel']

    Returns
    -------
    list of DataSet
        Name, kind, sizes and source of each.
    """
    rows = dict.fromkeys(SPLITS, SPLIT_SIZE)
    out = [DataSet(name, "continuous", manifold(name, 2).shape[1], rows, "drawn by seed", True) for name in MANIFOLDS]
    out.append(DataSet("gaussian_mixture", "continuous", N_VARIABLES, rows, "drawn by seed", True))
    for name, known in registry().sets.items():
        source = "binary benchmark" if name in DEBD else "further binary benchmark"
        out.append(DataSet(name, "binary", known.n_variables, known.rows, source, is_local(known.file)))
    for name, table in mixed_registry().sets.items():
        out.append(DataSet(f"{FOLDER}/{name}", "mixed", len(table.n_values), table.rows, "mixed table", is_local(table.file)))
    images = {"train": 60_000 - N_VALID, "valid": N_VALID, "test": 10_000}
    out.append(DataSet("mnist", "image", SHAPE[0] * SHAPE[1], images, "handwritten digits", is_local(FILE)))
    for name, package in PACKAGED.items():
        where = f"table inside {name.partition('/')[0]}"
        out.append(DataSet(name, "mixed", package.n_columns, sizes(name), where, find_spec(package.package) is not None))
    return out


def load(name: str, *, seed: int = 0, fraction: float = 1.0) -> Splits:
    """A data set by its name.

    >>> import flatpc as fp
    >>> fp.datasets.load("helix", fraction=0.05).train.shape
    (50, 3)

    Parameters
    ----------
    name
        One of the names of `datasets()`.
    seed
        Random seed of the data sets that are drawn, and of the splits of tables inside packages; others are always the same.
    fraction
        Share of the training rows to keep, the first ones.

    Returns
    -------
    Splits
        `train`, `valid` and `test`.

    Raises
    ------
    OptionError
        For an unknown name, or a fraction that is not between 0 and 1.
    DataError
        For a benchmark that is neither here nor can be downloaded.
    MissingPackageError
        For a table inside a package that is not installed.
    """
    mixed = (f"{FOLDER}/{table}" for table in mixed_registry().sets)
    choice("name", name, [*MANIFOLDS, "gaussian_mixture", *registry().sets, *mixed, "mnist", *PACKAGED])
    seed = seed_number(seed)
    if name in MANIFOLDS:
        return manifold_splits(name, seed=seed, fraction=fraction)
    if name == "gaussian_mixture":
        return gaussian_mixture_splits(seed=seed, fraction=fraction)
    if name in PACKAGED:
        return load_packaged(name, seed=seed).fraction(fraction)
    if name == "mnist":
        return load_mnist().fraction(fraction)
    if name.startswith(f"{FOLDER}/"):
        return load_mixed(name.removeprefix(f"{FOLDER}/")).fraction(fraction)
    return load_debd(name).fraction(fraction)


def show(sets: Sequence[DataSet] | None = None) -> Table:
    """The catalogue as a rich table."""
    from rich.table import Table

    out = Table("name", "kind", "variables", *SPLITS, "source", "here")
    for column in out.columns[2:6]:
        column.justify = "right"
    for data in datasets() if sets is None else sets:
        sizes = (f"{number:,}" for number in (data.n_variables, *data.rows.values()))
        out.add_row(data.name, data.kind, *sizes, data.source, "yes" if data.local else "to download")
    return out
