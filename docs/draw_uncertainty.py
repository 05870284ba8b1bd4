"""Draw the pictures of `how-to/how-sure-is-it.md` and `how-to/which-rows-matter.md`: `python docs/draw_uncertainty.py`."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import flatpc as fp

IMAGES = Path(__file__).parent / "images"
OPTIONS = {
    "batch_size": None, "epochs": 500, "method": fp.EM(step_size=1.0), "regularizer": fp.learning.Laplace(1.0),
    "dtype": "float64", "progress": False,
}  # fmt: skip


KINDS = np.array([[0.2, 0.3, 0.8, 0.6], [0.8, 0.9, 0.3, 0.2]])
TABLES = 25
"""Over which it is counted how many intervals hold the truth."""


def how_sure() -> Figure:
    """Log-likelihoods of all rows of four bits with their intervals, from few and from many rows."""
    asked = np.array(list(np.ndindex(2, 2, 2, 2)), float)
    truth = np.log(np.where(asked == 1, KINDS[:, None], 1 - KINDS[:, None]).prod(axis=2).mean(axis=0))
    names = ["".join(str(int(bit)) for bit in row) for row in asked]
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    for axes, n in zip(figure.subplots(1, 2, sharex=True), (200, 4000), strict=True):
        answers = [answers_from(table(seed)[:n], asked) for seed in range(TABLES)]
        ends = [each.interval(0.9) for each in answers]
        held = [int(np.sum((low <= truth) & (truth <= high))) for low, high in ends]
        told = f"{held[0]} of 16 intervals hold the truth; of {TABLES} tables, {np.mean(held) / 16:.0%}"
        answers[0].plot(labels=names, axes=axes)
        axes.set_title(f"learnt from {n:,} rows\n{told}", fontsize=10)
        axes.plot(truth, np.arange(16), "k|", markersize=9, label="data-generating model")
        axes.set_xlabel("log p")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def table(seed: int) -> np.ndarray:
    """4,000 rows of two kinds."""
    rng = np.random.default_rng(seed)
    latent = rng.integers(0, 2, (4000, 1))
    return (rng.random((4000, 4)) < np.where(latent == 0, *KINDS)).astype(float)


def answers_from(rows: np.ndarray, asked: np.ndarray) -> fp.curvature.Estimate:
    """Of a hidden tree that was fitted to the rows."""
    fitted = fp.fit(fp.structures.hclt(rows, n_latents=2), rows, **OPTIONS).circuit
    return fp.curvature.laplace(fitted, rows, pseudocount=1.0).log_prob(asked)


def which_rows() -> Figure:
    """Self-influence of 500 rows, ten of which are noise, and influence on other rows."""
    rng = np.random.default_rng(0)
    latent = rng.integers(0, 2, (500, 1))
    rows = (rng.random((500, 30)) < np.where(latent == 0, 0.02, 0.98)).astype(float)
    rows[:10] = rng.integers(0, 2, (10, 30))
    circuit = fp.fit(fp.structures.hclt(rows, n_latents=2), rows, **OPTIONS).circuit
    others = (rng.random((100, 30)) < 0.02).astype(float)
    own, on = fp.curvature.influence(circuit, rows), fp.curvature.influence(circuit, rows, on=others)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    place = np.argsort(-own)
    noise = place < 10
    rank = np.arange(len(rows))
    left.semilogy(rank[~noise], own[place][~noise], ".", color="0.6", label="row of one of the two kinds")
    left.semilogy(rank[noise], own[place][noise], "o", color="#c2518b", label="noise")
    left.set(xlabel="rank", ylabel="influence on its own log-likelihood")
    left.legend(frameon=False)
    for kind, name, colour in ((latent[:, 0] == 0, "mostly 0", "#3a7bd5"), (latent[:, 0] == 1, "mostly 1", "#e07b28")):
        kept = kind & (np.arange(500) >= 10)
        dots, count = np.unique(np.stack([own[kept], on[kept]]).round(9), axis=1, return_counts=True)
        right.scatter(*dots, s=8 * count**0.5, color=colour, label=name)
    right.plot(own[:10], on[:10], "o", color="#c2518b", label="noise")
    right.axhline(0, color="0.7", linewidth=0.8)
    right.set(xscale="log", xlabel="influence on its own log-likelihood", ylabel="on 100 rows that are mostly 0")
    right.legend(frameon=False)
    for axes, title in ((left, "all rows, by rank"), (right, "larger dots: several equal rows")):
        axes.set_title(title, fontsize=10)
    return figure


if __name__ == "__main__":
    for name, draw in (("how-sure", how_sure), ("which-rows", which_rows)):
        draw().savefig(IMAGES / f"{name}.png", dpi=80)
        print(f"docs/images/{name}.png")
