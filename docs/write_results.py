"""Write `docs/results-summary.md` from the committed results: `python docs/write_results.py`."""

from pathlib import Path

from flatpc.circuit.files import replace_file
from flatpc.experiments.report import compare
from flatpc.experiments.summary import summary

HERE = Path(__file__).parent
FILE = HERE / "results-summary.md"


def text() -> str:
    """What the file should hold."""
    return summary(compare(HERE.parent / "results"))


if __name__ == "__main__":
    replace_file(FILE, text().encode())
    print(FILE.relative_to(HERE.parent))
