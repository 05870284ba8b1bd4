"""Draw the paper's figures from the committed results: `python docs/draw_figures.py`, after `flatpc reproduce figure-...`."""

from pathlib import Path

from flatpc.paper import figures

HERE = Path(__file__).parent
SHOWN = {"figure-curves": ("spiral", "plants")}
"""Parts of a figure that has too many for a page; `flatpc report` shows them all."""


def main() -> None:
    """Every picture as `docs/images/figure-NAME-PART.png`."""
    for name in figures.FIGURES:
        found = figures.load(name, HERE.parent / "results")
        for part, picture in figures.plot(name, found).items() if found else ():
            if part not in SHOWN.get(name, (part,)):
                continue
            path = HERE / "images" / (f"{name}.png" if name.endswith(part) else f"{name}-{part}.png")
            picture.savefig(path, dpi=80)
            print(path.relative_to(HERE.parent), f"{path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
