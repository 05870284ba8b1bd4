"""Print every measured ratio: `python -m benchmarks [engine|profile|curvature|learning|rivals|peers ...] [--data nltcs,plants]`.

Ratios have both sides in one run and take the minimum of several; absolute times mean little. BLAS has one thread.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse  # noqa: E402
import importlib  # noqa: E402

SECTIONS = ("engine", "profile", "peers", "curvature", "learning", "rivals")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Print measured ratios.")
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="which ones; all by default")
    parser.add_argument("--data", help="names of data sets for engine and profile, with commas between them")
    given = parser.parse_args()
    for section in given.sections or SECTIONS:
        module = importlib.import_module(f"benchmarks.{section}")
        print(f"== {section} ==\n")
        if section in ("engine", "profile") and given.data:
            module.main(tuple(given.data.split(",")))
        else:
            module.main()


if __name__ == "__main__":
    main()
