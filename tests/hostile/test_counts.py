"""The committed counts of `make hostile`, which `docs/reliability.md` shows: enough cases, no failures, and kinds that exist."""

import json
from pathlib import Path

HERE = Path(__file__).parent
COUNTS = json.loads((HERE.parents[1] / "docs" / "reliability.json").read_text())


def test_nothing_failed_of_20_000_cases():
    assert sum(n for counts in COUNTS.values() for name, n in counts.items() if name != "seconds") >= 20_000
    assert all(counts.get("failed", 0) == 0 for counts in COUNTS.values())


def test_kinds_are_those_of_the_generators():
    sources = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    assert [kind for kind in COUNTS if f'Tally("{kind}"' not in sources] == []
