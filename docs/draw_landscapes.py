"""Draw the loss landscapes of `curvature.md`: `python docs/draw_landscapes.py`."""

from pathlib import Path

import flatpc as fp

HERE = Path(__file__).parent / "images"


def main() -> None:
    """The paper's model of two_moons, learnt from 5% of the rows, without and with the penalty."""
    data = fp.datasets.manifold_splits("two_moons", seed=0, fraction=0.05)
    start = fp.structures.rat_spn(2, depth=1, n_repetitions=5, n_sums=10, n_inputs=10, family="gaussian")
    start = start.randomize(0, X=data.train)
    directions = "random"
    for name, sharpness in {"plain": None, "regularised": fp.Sharpness(mu="adaptive")}.items():
        learnt = fp.fit(
            start, data.train, valid=data.valid, method=fp.Adam(step_size=0.05), epochs=200, sharpness=sharpness, progress=False
        )
        found = fp.curvature.landscape(learnt.circuit, data.train, data.valid, n_steps=41, directions=directions)
        directions = found.directions  # the second circuit is seen along the same ones
        found.plot(title=name).savefig(HERE / f"landscape-{name}.png", dpi=90)
        found.plot("surface", title=name).savefig(HERE / f"landscape-{name}-surface.png", dpi=90)
        trace = fp.curvature.trace(learnt.circuit, data.train).mean()
        nlls = [-learnt.circuit.log_prob(rows).mean() for rows in (data.train, data.valid)]
        print(f"{name}: train NLL {nlls[0]:.3f}, validation NLL {nlls[1]:.3f}, mean trace {trace:.1f}")


if __name__ == "__main__":
    main()
