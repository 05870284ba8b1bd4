"""Checkpoints: all that is needed to go on after a crash and end with the same bits.

One safetensors file, replaced in one step: after a crash at any moment it holds the state after some epoch, never half of
a state; if an epoch takes long, the state within it. Shuffling needs no state, because the order of rows depends on seed and
epoch alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as write_arrays

from flatpc._writing import replace_file
from flatpc.circuit.nodes import Sum
from flatpc.engine.contract import Work
from flatpc.errors import FileFormatError, FlatpcError, OptionError
from flatpc.learning.run.history import History, row_from_json, to_json

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

VERSION = 5
READ = (4, 5)
"""Versions that are read: 4 knew of whole epochs only."""
SAMPLES = 1000
ROW = {"epoch", "train_nll", "valid_nll", "overfitting", "sharpness", "mu", "step_size", "seconds"}
"""Keys of a row of the history."""
_KEY = "flatpc checkpoint"


@dataclass
class State:
    """Where a run is."""

    epoch: int = 0
    """Epochs done."""
    learner: dict[str, NDArray[Any]] = field(default_factory=dict)
    best: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Packed parameters after the epoch with the lowest validation NLL."""
    best_epoch: int = 0
    best_nll: float = float("inf")
    history: History = field(default_factory=History)
    notes: list[str] = field(default_factory=list)
    stopped: str = ""
    """Why the run ended, if it has."""
    work: Work = field(default_factory=Work)
    """What its passes have done."""
    batches: int = 0
    """Done of the next epoch, where a run was left in the middle of one."""
    rows: int = 0
    """Of these batches."""
    total: float = 0.0
    """Their log-likelihoods, each before its own step."""
    good: dict[str, NDArray[Any]] = field(default_factory=dict)
    """The learner's state after the last epoch that proved good, where that is another one."""
    seconds: float = 0.0


def fingerprint(circuit: Circuit, X: Any, valid: Any, options: dict[str, Any]) -> dict[str, str]:
    """What must be the same for a run to be resumed: each part's name, and its digest or value."""
    parameters = hashlib.sha256()
    for i, value in circuit.parameters.items():
        for array in value.values() if isinstance(value, dict) else (value,):
            parameters.update(f"{i}".encode() + np.ascontiguousarray(array).tobytes())
    return {
        "structure of the circuit": _structure(circuit),
        "starting parameters": parameters.hexdigest(),
        "training rows": _digest(X),
        "validation rows": _digest(valid),
        **{name: _described(name, value) for name, value in options.items()},
    }


def _described(name: str, value: Any) -> str:
    """An option as text that is the same in every run, and different for what makes a difference."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(_described(name, item) for item in value)}]"
    if is_dataclass(value) and not isinstance(value, type):
        parts = (f"{part.name}={_described(f'{name}.{part.name}', getattr(value, part.name))}" for part in fields(value))
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, np.ndarray):
        return _digest(value)
    if callable(value):
        return _sampled(name, value)
    text = repr(value.item() if isinstance(value, np.generic) else value)
    if " at 0x" in text:
        raise OptionError(
            f"{name}={text} can't be told from another one when the run is resumed; leave out checkpoint, or give a number."
        )
    return text


def _sampled(name: str, schedule: Callable[[float], Any]) -> str:
    """What a function of progress does, at a thousand places: its name says nothing, and its address changes from run to run."""
    try:
        values = np.array([float(schedule(i / SAMPLES)) for i in range(SAMPLES)])
    except Exception as error:
        raise OptionError(
            f"{name}={schedule!r} is not a function from progress to a number ({error}), so that it can't be compared when the "
            f"run is resumed; leave out checkpoint, or give a schedule."
        ) from error
    return f"function with the values {_digest(values)}"


def _structure(circuit: Circuit) -> str:
    digest = hashlib.sha256()
    for node in circuit.nodes:
        digest.update(repr(node).encode())
        if isinstance(node, Sum) and node.mask is not None:
            digest.update(node.mask.tobytes())
    return digest.hexdigest()


def _digest(rows: Any) -> str:
    if isinstance(rows, str):
        return rows
    return "none" if rows is None else hashlib.sha256(f"{rows.shape}".encode() + rows.tobytes()).hexdigest()


def write(path: str | os.PathLike[str], state: State, identity: dict[str, str]) -> None:
    """Replace the checkpoint by this state."""
    arrays = {f"{part}.{name}": array for part in ("learner", "best", "good") for name, array in getattr(state, part).items()}
    text: dict[str, Any] = {
        "version": VERSION,
        "identity": identity,
        "epoch": state.epoch,
        "best_epoch": state.best_epoch,
        "best_nll": to_json(state.best_nll),
        "history": to_json(state.history),
        "notes": state.notes,
        "stopped": state.stopped,
        "work": asdict(state.work),
        "batches": state.batches,
        "rows": state.rows,
        "total": to_json(state.total),
        "seconds": state.seconds,
    }
    text["sha256"] = _digest_of(arrays, text)
    replace_file(path, write_arrays(arrays, {_KEY: json.dumps(text)}))


def read(path: str | os.PathLike[str], identity: dict[str, str]) -> State | None:
    """The state that was written last; None if there is no file yet."""
    if not Path(path).exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            text = json.loads((file.metadata() or {})[_KEY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        version, digest = text["version"], text.pop("sha256", None)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a checkpoint that fit wrote ({error}); give another name or delete it.") from None
    if version not in READ:
        raise FileFormatError(f"{path} has version {version} of the format, and this flatpc reads {VERSION}; delete it.")
    if digest != _digest_of(arrays, text):
        raise FileFormatError(f"{path} is damaged: the checksum doesn't fit; delete it to start anew.")
    try:
        _check_identity(path, text["identity"], identity)
        return _state(text, arrays)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, FlatpcError):
            raise
        raise FileFormatError(f"{path} is not a checkpoint that fit wrote ({error!r}); give another name or delete it.") from None


def _check_identity(path: str | os.PathLike[str], found: dict[str, str], identity: dict[str, str]) -> None:
    different = sorted(name for name in identity if found.get(name) != identity[name])
    if different:
        raise OptionError(
            f"{path} is the checkpoint of another run; different here: {', '.join(different)}. "
            f"Give the same as before to go on with that run, or another file name to start a new one."
        )


def _state(text: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> State:
    parts: dict[str, dict[str, NDArray[Any]]] = {"learner": {}, "best": {}, "good": {}}
    for name, array in arrays.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = array
    epoch, work, notes, stopped = _count(text["epoch"]), text["work"], text["notes"], text["stopped"]
    history = History(row_from_json(row) for row in text["history"])
    if len(history) != epoch or any(set(row) != ROW or not all(map(_is_number, row.values())) for row in history):
        raise ValueError("its history is not that of so many epochs")
    if not isinstance(stopped, str) or not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError("its notes are not texts")
    return State(
        epoch,
        parts["learner"],
        parts["best"],
        _count(text["best_epoch"]),
        float(text["best_nll"]),
        history,
        notes,
        stopped,
        Work(_count(work["passes"]), _count(work["steps"]), float(work["multiplications"]), _count(work.get("calls", 0))),
        _count(text.get("batches", 0)),
        _count(text.get("rows", 0)),
        float(text.get("total", 0.0)),
        parts["good"],
        float(text.get("seconds", history[-1]["seconds"] if history else 0.0)),
    )


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number of epochs, passes or steps")
    return value


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def check_arrays(path: str | os.PathLike[str], found: dict[str, NDArray[Any]], wanted: dict[str, NDArray[Any]]) -> None:
    """Refuse a state that a learner could not take up."""
    for name, array in wanted.items():
        if name not in found or found[name].shape != array.shape or found[name].dtype != array.dtype:
            raise FileFormatError(f"{path}: its {name} is missing or not as this run's; give another name or delete it.")


def _digest_of(arrays: dict[str, NDArray[Any]], text: dict[str, Any]) -> str:
    """Of everything: the arrays with their names and shapes, and the text."""
    digest = hashlib.sha256(json.dumps(text, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
