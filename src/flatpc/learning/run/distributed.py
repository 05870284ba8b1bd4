"""Several processes, each with a share of every batch, that add up what they found (`torch.distributed`).

Start them with `torchrun --nproc-per-node=2 script.py`, where the script calls
`fp.fit(..., run=fp.learning.Run(distributed=True))` with the same circuit, rows and options in each process. All
processes end with the same model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._extras import need
from flatpc._typing import Ints
from flatpc.errors import OptionError

if TYPE_CHECKING:
    from flatpc.learning.steps.em_learner import Statistics


class Workers:
    """One process, working alone; `connect` makes one among many."""

    rank = 0
    n = 1

    def share_of(self, rows: Ints) -> Ints:
        """The rows of this process."""
        # Kernels are compiled for contiguous arrays.
        return np.ascontiguousarray(rows[self.rank :: self.n])

    def add(self, *arrays: NDArray[Any]) -> None:
        """Replace every array by its sum over all processes."""

    def any(self, flag: bool) -> bool:
        """Whether the flag is set anywhere."""
        total = np.array([float(flag)])
        self.add(total)
        return bool(total[0] > 0)

    def add_statistics(self, statistics: Statistics) -> Statistics:
        """The statistics of all processes together."""
        if self.n == 1:
            return statistics
        numbers = np.array([statistics.log_likelihood, statistics.weight], np.float64)
        self.add(numbers, statistics.gradient, statistics.inputs)
        return replace(statistics, log_likelihood=float(numbers[0]), weight=float(numbers[1]))


class _Connected(Workers):
    def __init__(self) -> None:
        import torch.distributed as dist

        self.rank, self.n = dist.get_rank(), dist.get_world_size()

    def add(self, *arrays: NDArray[Any]) -> None:
        import torch
        import torch.distributed as dist

        for array in arrays:
            dist.all_reduce(torch.from_numpy(array))


def connect() -> Workers:
    """Join the process group that torchrun announces in the environment, or the one that was joined already."""
    need("torch", "torch", "distributed=True")
    import torch.distributed as dist

    if not dist.is_available():
        raise OptionError("distributed=True, but this torch was built without torch.distributed; install another build.")
    if not dist.is_initialized():
        if not dist.is_torchelastic_launched():
            raise OptionError("distributed=True, but no process group was announced; start the script with torchrun.")
        dist.init_process_group("gloo")
    return _Connected()
