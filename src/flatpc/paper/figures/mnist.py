"""MNIST: hidden Chow-Liu trees of growing size, and digits told apart by ten of them.

Each size starts from the one before, every latent state copied (`fp.structures.grow`), so that the small ones do most of the
climbing. What a size has learnt is kept beside the results: a run that was killed goes on at the batch where it was.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._writing import replace_file
from flatpc.paper.figures.panels import SERIES, Panel, static
from flatpc.paper.figures.store import Found
from flatpc.paper.text_tables import markdown

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.datasets.mnist import Digits

TAB = "MNIST"
TITLE = "MNIST: bits per dimension, samples, completed halves, digits told apart"
CAPTION = (
    "Hidden Chow-Liu trees over the 784 pixels of MNIST, each with 256 shades, learnt by mini-batch EM on the CPU. The next size "
    "starts from the last one, with every state copied. Bits per dimension of validation rows against processor time; samples, "
    "also of ten circuits, each learnt from the images of one digit; lower halves drawn given upper halves of test images."
)
STAGES = ((32, 6, 0.6, 0.1), (64, 4, 0.3, 0.05), (128, 4, 0.15, 0.03))
"""Latent states, epochs, first and last step size."""
PUBLISHED = {"SparsePC": 1.14, "tensorised CP circuits": 1.175, "QPC": 1.18, "HCLT": 1.21, "RAT-SPN": 1.67}
"""Test bits per dimension, as Gala et al. (2024) and april-tools/uni-circ-le print them."""
DENSITY, CLASSES, SHARING = "{} latents", "digits", "sharing"
WIDTH, N_SAMPLES, N_HALVES = 28, 40, 10
RECIPE = {"batch": 500, "pseudocount": 10.0, "bins": 32, "noise": 0.3, "seed": 0}


def pieces(quick: bool = False) -> dict[str, dict[str, Any]]:
    """One for each size, one for telling digits apart, and one for what evidence sharing saves."""
    stages: Sequence[tuple[int, int, float, float]] = ((4, 2, 0.6, 0.1), (8, 1, 0.3, 0.1)) if quick else STAGES
    rows, judged = (2_000, 500) if quick else (55_000, 10_000)
    recipe = {**RECIPE, "batch": 100} if quick else RECIPE
    out: dict[str, dict[str, Any]] = {
        DENSITY.format(stage[0]): {"stages": [list(each) for each in stages[: i + 1]], "rows": rows, "judged": judged, **recipe}
        for i, stage in enumerate(stages)
    }
    classes = [[4, 2, 0.6, 0.1]] if quick else [[16, 4, 0.6, 0.1]]
    out[CLASSES] = {
        "classes": 10,
        "stages": classes,
        "rows": rows,
        "judged": judged,
        **{**recipe, "batch": 100 if quick else 250, "pseudocount": 3.0},
        "drawn": N_SAMPLES // 10,
    }
    out[SHARING] = {"latents": 4 if quick else 32, "images": 100 if quick else 500, "rows": 2_000, "bins": RECIPE["bins"]}
    return out


def compute(piece: Mapping[str, Any], work: Path) -> dict[str, Any]:
    """Of a size: its curve, bits per dimension, and images; of digits: how many are told apart; of sharing: times as fast."""
    from flatpc.datasets import load_mnist

    data = load_mnist()
    if "images" in piece:
        return _shared(piece, data)
    if "classes" in piece:
        return _tell_apart(piece, data, work)
    circuit, curve = learn(data.train[: piece["rows"]], data.valid, piece, work / _name(piece))
    test = data.test[: piece["judged"]]
    known = _some_of_each(data)
    given = known.copy()
    given[:, known.shape[1] // 2 :] = np.nan
    return {
        "latents": piece["stages"][-1][0],
        "parameters": circuit.n_parameters,
        "curve": curve,
        "valid": bits(-circuit.log_prob(data.valid[: piece["judged"]]).mean()),
        "test": bits(-circuit.log_prob(test).mean()),
        "test rows": len(test),
        "samples": pack(circuit.sample(N_SAMPLES, seed=1)),
        "known": pack(known),
        "completed": pack(circuit.sample(1, given=given, seed=1)),
    }


def learn(X: Any, valid: Any, piece: Mapping[str, Any], stem: Path) -> tuple[Circuit, list[list[float]]]:
    """The circuit after the last stage, and `[latents, processor seconds, seconds, train, valid, peak]` after each epoch of all.

    The peak is that of the process's memory until then, in MiB.
    """
    import flatpc as fp

    *before, (latents, epochs, first, last) = piece["stages"]
    done, curve_file = stem.with_suffix(".circuit"), stem.with_suffix(".json")
    if done.is_file():
        return fp.load(done), json.loads(curve_file.read_text())
    first_one = stem.with_suffix(".start")
    if first_one.is_file():
        start, curve = fp.load(first_one), json.loads(stem.with_suffix(".before").read_text())
    elif before:
        smaller = {**piece, "stages": before}
        start, curve = learn(X, valid, smaller, stem.with_name(_name(smaller)))
        start = fp.structures.grow(start, noise=piece["noise"], seed=piece["seed"])
    else:
        start, curve = fp.structures.hclt(X, latents, family=fp.Categorical(256), bins=piece["bins"]), []
    stem.parent.mkdir(parents=True, exist_ok=True)
    if not first_one.is_file():
        replace_file(stem.with_suffix(".before"), json.dumps(curve).encode())
        start.save(first_one)
    spent, clock = (curve[-1][1], curve[-1][2]) if curve else (0.0, 0.0)
    log = stem.with_suffix(".epochs")
    began = time.process_time()
    mine: list[list[float]] = json.loads(log.read_text()) if log.is_file() else []

    def record(row: Mapping[str, Any], circuit: Any) -> None:
        nonlocal began
        now = time.process_time()
        used = (mine[-1][1] if mine else spent) + now - began
        began = now
        mine.append([latents, used, clock + row["seconds"], bits(row["train_nll"]), bits(row["valid_nll"]), _peak()])
        replace_file(log, json.dumps(mine).encode())

    found = fp.fit(
        start, X, valid=valid, epochs=epochs, batch_size=piece["batch"], seed=piece["seed"],
        method=fp.EM(step_size=fp.learning.linear(first, last)),
        regularizer=fp.learning.Laplace(piece["pseudocount"]),
        run=fp.learning.Run(checkpoint=stem.with_suffix(".ckpt"), callbacks=[record]),
    )  # fmt: skip
    if found.stopped == "interrupted":
        raise KeyboardInterrupt
    replace_file(curve_file, json.dumps([*curve, *mine]).encode())
    found.circuit.save(done)
    for suffix in (".ckpt", ".start", ".before", ".epochs"):
        stem.with_suffix(suffix).unlink(missing_ok=True)
    return found.circuit, [*curve, *mine]


def _tell_apart(piece: Mapping[str, Any], data: Digits, work: Path) -> dict[str, Any]:
    """The digit y of largest p(y) p(x | y), each p(x | y) learnt from the images of one digit."""
    X, labels = data.train[: piece["rows"]], data.train_labels[: piece["rows"]]
    log_prior = np.log(np.bincount(labels, minlength=10) / len(labels))
    rows = {"valid": data.valid[: piece["judged"]], "test": data.test[: piece["judged"]]}
    truth = {"valid": data.valid_labels[: piece["judged"]], "test": data.test_labels[: piece["judged"]]}
    columns: dict[str, list[Any]] = {split: [] for split in rows}
    samples = []
    seconds = 0.0
    for digit in range(10):
        mine = data.valid[data.valid_labels == digit][:200]
        circuit, curve = learn(X[labels == digit], mine, piece, work / f"{_name(piece)}-{digit}")
        seconds += curve[-1][1]
        for split, some in rows.items():
            columns[split].append(circuit.log_prob(some) + log_prior[digit])
        samples.append(circuit.sample(piece["drawn"], seed=1))
    joint = {split: np.stack(columns[split], axis=1) for split in rows}
    right = {split: joint[split].argmax(axis=1) == truth[split] for split in rows}
    confusion = np.zeros((10, 10), np.int64)
    np.add.at(confusion, (truth["test"], joint["test"].argmax(axis=1)), 1)
    top = joint["test"].max(axis=1, keepdims=True)
    together = top[:, 0] + np.log(np.exp(joint["test"] - top).sum(axis=1))
    return {
        "latents": piece["stages"][-1][0],
        "seconds": seconds,
        "valid": float(right["valid"].mean()),
        "test": float(right["test"].mean()),
        "test rows": len(rows["test"]),
        "test bits": bits(-together.mean()),
        "confusion": confusion,
        "samples": pack(np.concatenate(samples)),
    }


def _shared(piece: Mapping[str, Any], data: Digits, turns: int = 5) -> dict[str, Any]:
    """One E-step over some images, each node once per distinct sub-row and once per image: times as fast, and work of all."""
    import flatpc as fp
    from flatpc.engine.numba.evaluator import Evaluator
    from flatpc.engine.numba.evidence import Evidence

    circuit = fp.structures.hclt(data.train[: piece["rows"]], piece["latents"], family=fp.Categorical(256), bins=piece["bins"])
    evaluator = Evaluator(circuit, "float32", 1)
    X = np.asarray(data.train[: piece["images"]], np.float64)
    rows, seconds, worked = np.arange(len(X)), {True: math.inf, False: math.inf}, {}
    evidence = {share: Evidence(evaluator.program, X, share=share) for share in seconds}
    for _ in range(turns):
        for share, known in evidence.items():
            began = time.thread_time()
            evaluator.statistics(known, rows)
            seconds[share] = min(seconds[share], time.thread_time() - began)
            worked[share] = known.plan(rows).n_values
    return {
        "latents": piece["latents"],
        "images": len(X),
        "times as fast": seconds[False] / seconds[True],
        "values": worked[True] / worked[False],
    }


def _peak() -> float:
    """The most memory that the process has had, in MiB."""
    import resource
    import sys

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def bits(nll: float) -> float:
    """A mean negative log-likelihood in nats as bits per dimension."""
    return float(nll) / (WIDTH * WIDTH * math.log(2))


def pack(images: Any) -> str:
    """Rows of pixels as text.

    >>> unpack(pack([[0] * 784, [255] * 784]))[1, 0]
    np.uint8(255)
    """
    return base64.b64encode(zlib.compress(np.asarray(images).astype(np.uint8).tobytes(), 9)).decode()


def unpack(text: str) -> Any:
    """`[images, 784]` from what `pack` gave."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(-1, WIDTH * WIDTH)


def as_markdown(found: Found) -> str:
    """Time against bits per dimension, and what others have published."""
    rows = []
    for data in _sizes(found):
        _, processor, clock, train, valid = data["curve"][-1][:5]
        peak = max((row[5] for row in data["curve"] if len(row) > 5), default=None)
        rows.append([
            f"{data['latents']} latents, {data['parameters']:,} parameters, {len(data['curve'])} epochs altogether",
            f"{processor / 60:.1f}", f"{clock / 60:.1f}", "" if peak is None else f"{peak / 1024:.1f}",
            f"{train:.3f}", f"{valid:.3f}", f"**{data['test']:.3f}**",
        ])  # fmt: skip
    rows += [[f"{name} (published)", "", "", "", "", "", f"{value:g}"] for name, value in PUBLISHED.items()]
    head = [
        "model",
        "minutes of learning, one thread",
        "by the clock",
        "peak GiB",
        "train (during the last epoch)",
        "validation",
        "test",
    ]
    out = markdown(head, rows)
    if CLASSES in found:
        data = found[CLASSES]
        out += (
            f"\n\nTen circuits of {data['latents']} latents, each learnt from the images of one digit "
            f"({data['seconds'] / 60:.1f} minutes of processor time): of {data['test rows']:,} test images, "
            f"{data['test']:.2%} have the largest p(digit | pixels) at their own digit. Together they are a density of "
            f"{data['test bits']:.3f} bits per dimension, one that has seen labels."
        )
    if SHARING in found:
        data = found[SHARING]
        out += (
            f"\n\nBackground pixels are alike: an E-step over {data['images']} images, {data['latents']} latents, works out "
            f"{data['values']:.0%} of the values that it would without evidence sharing, and is "
            f"{data['times as fast']:.1f} times as fast."
        )
    return out


def draw(found: Found) -> list[Panel]:
    """Curves, and the images of the largest size."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for color, (latents, rows) in zip(SERIES, _curves(found).items(), strict=False):
        figure.add_scatter(x=[row[1] / 60 for row in rows], y=[row[4] for row in rows], name=f"{latents} latents",
                           mode="lines+markers", line={"color": color})  # fmt: skip
    figure.update_layout(xaxis_title="minutes of processor time", yaxis_title="validation bits per dimension")
    panels = [Panel("", {"Learning": figure})]
    if sizes := _sizes(found):
        sheets = {"Samples": _sheet(unpack(sizes[-1]["samples"])), "Lower halves given upper ones": _halves(sizes[-1])}
        if CLASSES in found:
            sheets["Samples of ten circuits, one for each digit"] = _sheet(unpack(found[CLASSES]["samples"]))
        panels.append(Panel("", {title: _picture(sheet) for title, sheet in sheets.items()}))
    return panels


def plot(found: Found) -> dict[str, Any]:
    """Samples of the circuits of the digits and of the largest size, its completed halves, and the curve."""
    figure = static(14, 3.4)
    sizes = _sizes(found)
    first, left, middle, right = figure.subplots(1, 4, width_ratios=(3, 3, 3, 4))
    if CLASSES in found:
        first.imshow(_sheet(unpack(found[CLASSES]["samples"])), cmap="gray", vmin=0, vmax=255)
        first.set_title(f"samples, a circuit for each digit, {found[CLASSES]['latents']} latents", fontsize=9)
    if sizes:
        left.imshow(_sheet(unpack(sizes[-1]["samples"])), cmap="gray", vmin=0, vmax=255)
        left.set_title(f"samples, one circuit, {sizes[-1]['latents']} latents", fontsize=9)
        middle.imshow(_halves(sizes[-1]), cmap="gray", vmin=0, vmax=255)
        middle.set_title("test images, and lower halves drawn given upper ones", fontsize=9)
    for axes in (first, left, middle):
        axes.set_axis_off()
    for color, (latents, rows) in zip(SERIES, _curves(found).items(), strict=False):
        right.plot([row[1] / 60 for row in rows], [row[4] for row in rows], "o-", ms=3, color=color, label=f"{latents} latents")
    right.set_xlabel("minutes of processor time")
    right.set_ylabel("validation bits per dimension")
    if sizes:
        right.legend(fontsize=8)
    return {"mnist": figure}


def _picture(sheet: Any) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure(go.Heatmap(z=sheet[::-1], colorscale="gray", showscale=False))
    return figure.update_layout(yaxis={"scaleanchor": "x"})


def _sizes(found: Found) -> list[Any]:
    """Pieces of densities, small ones first."""
    return sorted((data for name, data in found.items() if name not in (CLASSES, SHARING)), key=lambda data: data["latents"])


def _curves(found: Found) -> dict[int, list[list[float]]]:
    """Latents -> epochs of that size."""
    rows = _sizes(found)[-1]["curve"] if _sizes(found) else []
    return {int(latents): [row for row in rows if row[0] == latents] for latents in dict.fromkeys(row[0] for row in rows)}


def _sheet(images: Any, columns: int = 8) -> Any:
    """Images in rows of `columns`, as one."""
    lines = images.reshape(-1, columns, WIDTH, WIDTH)
    return lines.transpose(0, 2, 1, 3).reshape(len(lines) * WIDTH, columns * WIDTH)


def _halves(data: Mapping[str, Any]) -> Any:
    """Known images above, completed ones below, in two bands of five."""
    known, completed = (unpack(data[name]).reshape(2, N_HALVES // 2, WIDTH * WIDTH) for name in ("known", "completed"))
    return _sheet(np.concatenate([known[0], completed[0], known[1], completed[1]]), N_HALVES // 2)


def _some_of_each(data: Digits) -> Any:
    """The first test image of every digit."""
    return np.stack([data.test[np.flatnonzero(data.test_labels == digit)[0]] for digit in range(N_HALVES)])


def _name(piece: Mapping[str, Any]) -> str:
    """Of the files of what is learnt in a piece: the same for the same recipe."""
    said = {name: value for name, value in piece.items() if name != "judged"}
    return f"mnist-{hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]}"
