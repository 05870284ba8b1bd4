"""The most memory that a piece of code takes, in a process of its own."""

import subprocess
import sys

import pytest

GIB = 1 << 30
# Not ru_maxrss, which begins with the memory of the process that started this one.
PRINT_PEAK = "\nprint(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"


def peak_memory(code: str, *arguments: object) -> int:
    """Bytes, by what the system says of the process; the code finds its arguments in `sys.argv[1:]`."""
    if sys.platform != "linux":
        pytest.skip("the peak of a process's memory is read from /proc, which Linux has")
    command = [sys.executable, "-c", code + PRINT_PEAK, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return 1024 * int(done.stdout.split()[-1])
