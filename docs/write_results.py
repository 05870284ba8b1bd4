"""Write the tables of `results.md` from the committed results: `python docs/write_results.py`."""

from pathlib import Path

from flatpc._writing import replace_file
from flatpc.experiments import full_data, never_lose_table
from flatpc.experiments.questions import answers
from flatpc.experiments.report import compare
from flatpc.experiments.results import Results
from flatpc.experiments.summary import summary

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"


def texts() -> dict[str, str]:
    """What the files should hold."""
    cells = never_lose_table.standings(Results(RESULTS, "never-lose").all().values())
    return {
        "results-summary.md": summary(compare(RESULTS), answers(RESULTS), cells),
        "never-lose-table.md": never_lose_table.as_markdown(cells),
        "full-data-table.md": full_data.as_markdown(full_data.entries(Results(RESULTS, "full-data").all().values())),
    }


if __name__ == "__main__":
    for name, text in texts().items():
        replace_file(HERE / name, text.encode())
        print(f"docs/{name}")
