"""Learn a small circuit from 400 noisy pictures, ask it questions, and save what it says as a picture.

    make demo

The pictures, 8 by 8 pixels, hold a bar that lies or stands; every pixel is flipped with probability 0.03.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

import flatpc as fp

SIDE = 8
FOLDER = Path("demo")


def pictures(n: int, seed: int) -> np.ndarray:
    """`[n, 64]` bits: a lying or a standing bar, two pixels thick, with noise."""
    rng = np.random.default_rng(seed)
    bits = np.zeros((n, SIDE, SIDE), dtype=bool)
    for picture in bits:
        start, lies = rng.integers(0, SIDE - 1), rng.random() < 0.5
        (picture if lies else picture.T)[start : start + 2] = True
    return (bits ^ (rng.random(bits.shape) < 0.03)).reshape(n, -1).astype(np.float64)


def em_step(circuit: fp.Circuit, X: np.ndarray, pseudocount: float) -> fp.Circuit:
    """Parameters proportional to their expected use, `pseudocount` added to each sum unit and input."""
    flows = circuit.flows(X)
    new = {}
    for i, flow in flows.sums.items():
        smoothed = flow + pseudocount / flow.shape[1]
        new[i] = smoothed / smoothed.sum(axis=1, keepdims=True)
    for i, statistics in flows.inputs.items():
        new[i] = circuit.nodes[i].family.update(circuit.parameters[i], statistics, pseudocount)
    return circuit.with_parameters(new)


def main() -> None:
    """Learn, ask, print, draw."""
    console = Console()
    X, fresh = pictures(400, seed=0), pictures(400, seed=1)

    circuit = fp.structures.hclt(X, n_latents=24)
    console.print(f"A hidden Chow-Liu tree: {circuit}")
    table = Table("EM steps", "mean log p, seen", "mean log p, new", title="Learning from 400 pictures")
    steps = 40
    for step in range(steps + 1):
        if step % 10 == 0:
            table.add_row(str(step), f"{circuit.log_prob(X).mean():.2f}", f"{circuit.log_prob(fresh).mean():.2f}")
        if step < steps:
            circuit = em_step(circuit, X, pseudocount=1.0)
    console.print(table)

    drawn = circuit.sample(8, seed=0)
    hidden = fresh[:8].copy()
    hidden[:, SIDE * SIDE // 2 :] = np.nan
    filled = circuit.expectation(hidden)

    asked = Table("question", "answer", title="Asking it about the first new picture")
    asked.add_row("log p(picture)", f"{circuit.log_prob(fresh[:1])[0]:.2f}")
    asked.add_row("log p(upper half), lower half summed out", f"{circuit.log_prob(hidden[:1], missing='marginalize')[0]:.2f}")
    rest = circuit.conditional_log_prob(fresh[:1], given=range(SIDE * SIDE // 2))[0]
    asked.add_row("log p(lower half | upper half)", f"{rest:.2f}")
    right = ((filled > 0.5) == (fresh[:8] > 0.5))[:, SIDE * SIDE // 2 :].mean()
    asked.add_row("hidden pixels guessed right, 8 pictures", f"{right:.0%}")
    console.print(asked)

    FOLDER.mkdir(exist_ok=True)
    circuit.save(FOLDER / "model.safetensors")
    draw({"seen": X[:8], "drawn from the circuit": drawn, "lower half hidden": hidden, "its mean given the upper": filled})
    console.print(f"Look at {FOLDER / 'pictures.png'}; the circuit is in {FOLDER / 'model.safetensors'} (flatpc.load).")


def draw(rows: dict[str, np.ndarray]) -> None:
    """One row of pictures for each entry."""
    figure, axes = plt.subplots(len(rows), 8, figsize=(10, 5.6))
    colours = plt.get_cmap("Greys").with_extremes(bad="tab:orange")
    for line, (title, values) in zip(axes, rows.items(), strict=True):
        for axis, picture in zip(line, values, strict=True):
            axis.imshow(np.ma.masked_invalid(picture.reshape(SIDE, SIDE)), cmap=colours, vmin=0, vmax=1)
            axis.set_axis_off()
        line[0].set_title(title, loc="left", fontsize=10)
    figure.savefig(FOLDER / "pictures.png", dpi=120, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    main()
