"""Keep the counts of `make hostile`, and write them into `docs/reliability.md`.

`python docs/write_reliability.py FOLDER` takes the folder that FLATPC_HOSTILE_LOG named, adds up its logs by kind, keeps the sums
in `docs/reliability.json`, and lets `write_results.py` write the page.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import write_results

from flatpc._writing import replace_file


def summed(folder: Path) -> dict[str, dict[str, Any]]:
    """Kind of case -> how many, with what outcome, in how many seconds."""
    kinds: dict[str, Counter[str]] = {}
    for path in folder.glob("*.json"):
        log = json.loads(path.read_text())
        kinds.setdefault(log.pop("kind"), Counter()).update(log)
    return {kind: {name: round(n) for name, n in kinds[kind].items()} for kind in sorted(kinds)}


def main() -> None:
    """Refuse a folder without logs, and failures: they are to be mended, not to be published."""
    found = summed(Path(sys.argv[1]))
    failed = sum(counts.get("failed", 0) for counts in found.values())
    if not found or failed:
        sys.exit(f"{sys.argv[1]}: {failed} failed cases of {len(found)} kinds; nothing is written.")
    replace_file(write_results.HOSTILE, (json.dumps(found, indent=2) + "\n").encode())
    write_results.main()


if __name__ == "__main__":
    main()
