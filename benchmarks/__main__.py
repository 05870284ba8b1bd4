"""Print every measured ratio: `python -m benchmarks [engine|profile|curvature|... ...] [--data nltcs,plants]`.

Ratios have both sides in one run and take the minimum of several; absolute times mean little. BLAS has one thread. With
`--record` numbers go to `benchmarks/results.json`, and what is there for the code as it is is not measured again.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse  # noqa: E402
import importlib  # noqa: E402

from benchmarks import record  # noqa: E402

SECTIONS = ("engine", "profile", "peers", "curvature", "posterior", "learning", "rivals", "compiling", "scaling", "gpu")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Print measured ratios.")
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="which ones; all by default")
    parser.add_argument("--data", help="names of data sets for engine and profile, with commas between them")
    parser.add_argument("--record", action="store_true", help="keep numbers in benchmarks/results.json; goes on where it stopped")
    parser.add_argument("--again", action="store_true", help="measure again what is recorded")
    given = parser.parse_args()
    if given.record and given.data:
        parser.error("--record is for all data sets; leave out --data")
    for section in given.sections or SECTIONS:
        module = importlib.import_module(f"benchmarks.{section}")
        print(f"== {section} ==\n")
        getattr(module, "prepare_machine", lambda: None)()
        named = {"names": tuple(given.data.split(","))} if given.data else {}
        for name, piece in module.PIECES.items():
            options = named if name in getattr(module, "BY_DATA", ()) else {}
            if not given.record:
                piece(**options)
            elif given.again or not record.is_measured(section, name):
                record.measure(section, name, piece)
            else:
                print(f"{section}.{name} is recorded.")


if __name__ == "__main__":
    main()
