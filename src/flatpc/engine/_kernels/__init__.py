"""Native loops of the numba engine, one idea per file; `README.md` lists the traps.

Compiled code is kept in a folder named after a hash of these sources. Numba itself looks only at the file of the function
it loads, and would go on using code that a change in another file has made stale.
"""

import hashlib
import os
from pathlib import Path

import numba


def cache_folder() -> Path:
    """Where compiled kernels of exactly these sources are kept."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    root = os.environ.get("NUMBA_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "flatpc"
    )
    return Path(root) / f"kernels-{digest.hexdigest()[:16]}"


_before = numba.config.CACHE_DIR
numba.config.CACHE_DIR = str(cache_folder())
try:
    from flatpc.engine._kernels import adjoints, collect, dense, items, log_domain, passes, sharing, threads, update, values
finally:
    numba.config.CACHE_DIR = _before

__all__ = ["adjoints", "collect", "dense", "items", "log_domain", "passes", "sharing", "threads", "update", "values"]
