"""Print every measured ratio: `python -m benchmarks [engine|profile|curvature|... ...] [--data nltcs,plants]`.

A piece of a section is named by both: `python -m benchmarks scaling.workers`. Ratios have both sides in one run and take the
minimum of several; absolute times mean little. BLAS has one thread. With `--record` numbers go to `benchmarks/results.json`, and
what is there for the code as it is is not measured again.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse  # noqa: E402
import importlib  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

from benchmarks import record  # noqa: E402

SECTIONS = ("engine", "profile", "peers", "curvature", "posterior", "learning", "rivals", "compiling", "scaling", "gpu")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Print measured ratios.")
    parser.add_argument("names", nargs="*", help=f"sections ({', '.join(SECTIONS)}) or pieces (scaling.files); all by default")
    parser.add_argument("--data", help="names of data sets for engine and profile, with commas between them")
    parser.add_argument("--record", action="store_true", help="keep numbers in benchmarks/results.json; goes on where it stopped")
    parser.add_argument("--again", action="store_true", help="measure again what is recorded")
    given = parser.parse_args()
    if given.record and given.data:
        parser.error("--record is for all data sets; leave out --data")
    for section, module, pieces in _chosen(given.names or SECTIONS, parser):
        print(f"== {section} ==\n")
        getattr(module, "prepare_machine", lambda: None)()
        named = {"names": tuple(given.data.split(","))} if given.data else {}
        for name, piece in pieces.items():
            options = named if name in getattr(module, "BY_DATA", ()) else {}
            if not given.record:
                piece(**options)
            elif given.again or not record.is_measured(section, name):
                record.measure(section, name, piece)
            else:
                print(f"{section}.{name} is recorded.")


def _chosen(names: Sequence[str], parser: argparse.ArgumentParser) -> list[tuple[str, Any, dict[str, Any]]]:
    """Sections with their pieces, all or those that are named; a name that is not known ends the program."""
    out: list[tuple[str, Any, dict[str, Any]]] = []
    for given in names:
        section, _, piece = given.partition(".")
        if section not in SECTIONS:
            parser.error(f"there is no section {section!r}; choose from {', '.join(SECTIONS)}")
        module = importlib.import_module(f"benchmarks.{section}")
        if piece and piece not in module.PIECES:
            parser.error(f"there is no piece {piece!r} in {section}; choose from {', '.join(module.PIECES)}")
        out.append((section, module, {piece: module.PIECES[piece]} if piece else module.PIECES))
    return out


if __name__ == "__main__":
    main()
