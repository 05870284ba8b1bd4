"""A callback that writes the history for TensorBoard, where that is installed."""

from __future__ import annotations

import math
import os
from typing import Any

from flatpc._options import file_path
from flatpc.errors import MissingPackageError
from flatpc.learning.run.history import Row


class TensorBoard:
    """A callback that writes the history of a fit for TensorBoard.

    Parameters
    ----------
    folder
        Where to write.

    Raises
    ------
    MissingPackageError
        If tensorboard or torch is not installed.

    Examples
    --------
    >>> import flatpc as fp
    >>> run = fp.learning.Run(callbacks=[fp.learning.TensorBoard("runs/one")])  # doctest: +SKIP
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        folder = file_path("folder", folder)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingPackageError(
                "TensorBoard(...) needs the packages tensorboard and torch; install them, or pass "
                "run=fp.learning.Run(log='run.jsonl')."
            ) from None
        self._writer: Any = SummaryWriter(str(folder))

    def __call__(self, row: Row, circuit: Any) -> None:
        """Write one epoch."""
        for name, value in row.items():
            if name != "epoch" and math.isfinite(value):
                self._writer.add_scalar(name, value, row["epoch"])
        self._writer.flush()
