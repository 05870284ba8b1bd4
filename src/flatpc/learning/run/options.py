"""`run=` of `fit`: what is written and called on the way, and in how many processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flatpc._options import file_path, flag, function, number, put, several, whole_number, wrong
from flatpc.learning.run.history import Row

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Callback = Callable[[Row, Callable[[], "Circuit"]], Any]


@dataclass(frozen=True)
class Run:
    """What is written and called while learning. `run="fit.ckpt"` is short for `Run(checkpoint="fit.ckpt")`.

    Parameters
    ----------
    checkpoint
        A file that holds the run. If it is there, the run goes on from it and ends with the same bits as one that was never
        interrupted.
    checkpoint_every
        Epochs from one checkpoint to the next.
    log
        A file that gets one line of JSON per epoch.
    callbacks
        Functions that are called after every epoch with the row of the history and a function that returns the circuit; one
        that returns True stops the run.
    sharpness_every
        Record the exact sharpness of the training likelihood every so many epochs; 0 never does.
    distributed
        Share every batch among the processes started by torchrun.
    checkpoint_seconds
        Within an epoch, write the checkpoint when so many seconds have passed since the last one, and twenty times as many as
        it took to write; 0 writes it after every batch.

    Raises
    ------
    OptionError
        If an option is of the wrong type or out of range.

    Examples
    --------
    >>> import flatpc as fp
    >>> run = fp.learning.Run(checkpoint="fit.ckpt", log="fit.jsonl")
    >>> str(run.part(2).checkpoint)
    'fit.ckpt.2'
    """

    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 1
    log: str | os.PathLike[str] | None = None
    callbacks: Sequence[Callback] = ()
    sharpness_every: int = 0
    distributed: bool = False
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        put(
            self,
            checkpoint=None if self.checkpoint is None else file_path("Run: checkpoint", self.checkpoint),
            checkpoint_every=whole_number("Run: checkpoint_every", self.checkpoint_every, 1),
            log=None if self.log is None else file_path("Run: log", self.log),
            callbacks=tuple(
                function("Run: callbacks", each) for each in several("Run: callbacks", self.callbacks, "a list of functions")
            ),
            sharpness_every=whole_number("Run: sharpness_every", self.sharpness_every, 0),
            distributed=flag("Run: distributed", self.distributed),
            checkpoint_seconds=number("Run: checkpoint_seconds", self.checkpoint_seconds, 0.0, infinite=True),
        )

    def part(self, number: int) -> Run:
        """The same for one of several fits: its files have names that end in its number.

        Parameters
        ----------
        number
            Which of the fits it is.

        Returns
        -------
        Run
            For that fit.
        """
        return replace(
            self,
            checkpoint=None if self.checkpoint is None else f"{os.fspath(self.checkpoint)}.{number}",
            log=None if self.log is None else f"{os.fspath(self.log)}.{number}",
        )


def read_run(given: Any) -> Run:
    """What a user gave: None, the name of a checkpoint, or a `Run`."""
    if isinstance(given, Run):
        return given
    if given is None:
        return Run()
    if not isinstance(given, str | os.PathLike):
        raise wrong("run", given, "give the path of a checkpoint, fp.learning.Run(...), or None.")
    return Run(checkpoint=file_path("run", given))
