"""Write the tables of README and docs from the runs in `results`, times in `benchmarks/results.json` and counts in this folder.

`python docs/write_results.py`. Files of this folder whose names end in `-summary.md` or `-table.md` are written as a whole; in
other pages what stands between `<!-- begin NAME -->` and `<!-- end NAME -->` is.
"""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from flatpc.circuit.files import replace_file
from flatpc.paper import figures, full_data, gap_ranks, judges, more_rows, never_lose_table, people_page, without_validation
from flatpc.paper.cells import Result
from flatpc.paper.comparison import Comparison
from flatpc.paper.cost import table_cost
from flatpc.paper.figures import ablation, measures, mnist
from flatpc.paper.questions import answers
from flatpc.paper.report import compare
from flatpc.paper.results import Results, versions
from flatpc.paper.rivals import standard_normal
from flatpc.paper.summary import contradictions, differences, summary
from flatpc.paper.text_tables import markdown
from flatpc.paper.uses import page as uses_page

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
TIMES = HERE.parent / "benchmarks" / "results.json"
HOSTILE = HERE / "reliability.json"
PLANTED = HERE / "planted.json"
STEP = "one EM step of a hidden Chow-Liu tree, 100 latents, 200 rows, one thread: times as fast as a dense step"
THREADS = "the same step: two threads against one, data sets of 100 variables and more"
IRREGULAR = "an irregular circuit of {} scalar nodes, 1, 16 and 200 rows: times as fast as a NumPy interpreter"
NOT_MEASURED = "not measured; `make bench` does"
PICTURED = "two_moons"
IMAGE = f"docs/images/figure-landscape-{PICTURED}.png"
SHOWN = ("kdd", "nltcs", "tmovie", "baudio", "bnetflix", "dna")
"""Data sets that the README names, from the most to share to the least."""


def texts() -> dict[str, str]:
    """What the files of this folder should hold."""
    cells = never_lose_table.standings(_runs("never-lose"))
    return {
        "results-summary.md": summary(compare(RESULTS, kept=True), answers(RESULTS), cells),
        "never-lose-table.md": f"{_run_with('never-lose')} {never_lose_table.as_markdown(cells)}",
        "without-validation-table.md": without_validation.as_markdown(without_validation.entries(_runs("without-validation"))),
        "tables-table.md": people_page.as_markdown(people_page.found(_runs("tables"))),
        "more-rows-table.md": more_rows.as_markdown(_runs("more-rows")),
        "uses-table.md": uses_page.as_markdown(uses_page.found(_runs("uses"))),
        "mnist-table.md": mnist.as_markdown(figures.load("mnist", RESULTS)) + "\n",
        "judges-table.md": judges.as_markdown(judges.cells(_runs("judges"))),
        "gap-ranks-table.md": gap_ranks.as_markdown({name: _runs(name) for name in ("table1", "table2")}),
        "factors-table.md": measures.as_markdown(figures.load("figure-measures", RESULTS)),
        "full-data-table.md": f"{full_data.as_markdown(full_data.entries(_runs('full-data')))}\n{_run_with('full-data')}\n",
    }


def _runs(name: str) -> list[Result]:
    return Results(RESULTS, name).kept()


def _run_with(name: str) -> str:
    return f"Run with version {versions(_runs(name))}." if _runs(name) else ""


def blocks() -> dict[str, dict[str, str]]:
    """Page, from the project's folder -> name of a block -> what it should hold."""
    return {
        "README.md": {"picture": picture(), "measured": measured()},
        "docs/engine.md": {"compiling": compiling(), "torch": by_torch(), "phases": phases(), "bounds": bounds()},
        "docs/learning.md": {"steps": steps_of_regularisers(), "per-second": per_second()},
        "docs/how-to/how-sure-is-it.md": {"error-bars": error_bars()},
        "docs/how-to/which-rows-matter.md": {"planted": planted()},
        "docs/reliability.md": {"hostile": hostile()},
        "docs/results.md": {"signs": contradictions().rstrip(), "protocols": differences()},
        "docs/scaling.md": {"scaling": scaling(), "simulated": simulated()},
    }


def filled(page: str, wanted: dict[str, str]) -> str:
    """The page with these blocks in it."""
    text = (HERE.parent / page).read_text()
    for name, content in wanted.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if begin not in text or end not in text:
            raise SystemExit(f"{page} has no block {name}: add {begin} and {end}.")
        text = re.sub(f"({re.escape(begin)}).*?({re.escape(end)})", lambda m, c=content: f"{m[1]}\n{c}\n{m[2]}", text, flags=re.S)
    return text


# ---- the README's table --------------------------------------------------------------------------------------------------


def picture() -> str:
    """A landscape and what is seen there."""
    data = figures.load("figure-landscape", RESULTS)[PICTURED]
    plain, flat = data["plain"], data["regularised"]
    return f"""![loss landscapes and Hessian eigenvalues of a plain and of a regularised model of two moons]({IMAGE})

The paper's Einsum Network on 50 points of two moons, learnt plainly (above) and with a penalty on the trace of the Hessian, as
strong as validation likes best (below): loss along one and two directions, and the largest eigenvalues. The trace falls from
{plain["trace"]:.0f} to {flat["trace"]:.0f}, the test NLL from {plain["nll"]["test"]:.2f} to {flat["nll"]["test"]:.2f}; that of
N(0, I) is {standard_normal(PICTURED):.2f} (`flatpc reproduce figure-landscape`, then `python docs/draw_figures.py`)."""


def measured() -> str:
    """What was measured, with the command that prints it."""
    table2 = compare(RESULTS, kept=True)["table2"]
    engine, curvature = "`python -m benchmarks engine`", "`python -m benchmarks curvature`"
    rows = [
        [
            STEP,
            _steps(),
            engine,
        ],
        [THREADS, _threads(), engine],
        [
            IRREGULAR.format(_nodes()),
            _irregular(),
            engine,
        ],
        ["exact trace of the Hessian, in units of the pass that computes flows row by row", _trace(), curvature],
        ["top 15 eigenvalues of the Hessian of a hidden Chow-Liu tree, one thread", _spectrum(), curvature],
        ["a regularised Adam step, in units of a plain one", _regularised(), "`python -m benchmarks learning`"],
        [
            "the paper's second table: 20 data sets, 5 fractions, 5 trials, every value of μ, 100 epochs at the most",
            _cost(next((c for c in table2 if c.protocol == "ours" and c), table2[0])),
            "`flatpc reproduce table2 --protocol ours`, then `python docs/write_results.py`",
        ],
        [
            "5% of dna, validation NLL after 100 epochs, mean of three trials",
            _ablation(),
            "`flatpc reproduce figure-ablation`, then `python docs/write_results.py`",
        ],
        [
            f"`fp.choose` of version {_version_of_default()}, a minute on one core, against the best of a factorised "
            "model, a Chow-Liu tree and the paper's two models: 20 binary data sets, 5 fractions of their rows",
            _never_lose(),
            "`flatpc reproduce never-lose`",
        ],
        [
            "the same with all rows, two minutes on two cores each: mean test log-likelihood over the 20 data sets",
            _full_data(),
            "`flatpc reproduce full-data`",
        ],
    ]
    return markdown(["what", "measured", "command"], rows, texts=None)


def _times() -> dict[str, Any]:
    if not TIMES.is_file():
        return {}
    return {name: piece["numbers"] for name, piece in json.loads(TIMES.read_text())["pieces"].items()}


def _steps() -> str:
    found = _times().get("engine.steps", {}).get("times as fast")
    if not found:
        return NOT_MEASURED
    mean = math.exp(sum(map(math.log, found.values())) / len(found))
    named = ", ".join(f"{name} {found[name]:.1f}" for name in SHOWN if name in found)
    return f"{named}; geometric mean over {len(found)} data sets {mean:.1f}"


def _threads() -> str:
    found = _times().get("engine.threads", {}).get("times as fast")
    return _range(found.values()) if found else NOT_MEASURED


def _nodes() -> str:
    found = _times().get("engine.irregular")
    return f"{found['nodes']:,}" if found else "many"


def _irregular() -> str:
    found = _times().get("engine.irregular")
    return ", ".join(f"{ratio:.0f}" for ratio in found["times as fast"].values()) if found else NOT_MEASURED


def _trace() -> str:
    found = _times().get("curvature.against_passes")
    return _range(of["trace"] for of in found.values()) if found else NOT_MEASURED


def _spectrum() -> str:
    found = _times().get("curvature.spectrum")
    return f"{found['seconds']:.1f} s for {found['weights']:,} weights and {found['rows']:,} rows" if found else NOT_MEASURED


def _regularised() -> str:
    found = _times().get("learning.regularised_steps")
    return _range(found["times a plain step"].values()) if found else NOT_MEASURED


def _range(values: Any) -> str:
    found = list(values)
    return f"{min(found):.2f} to {max(found):.2f}"


def _cost(comparison: Comparison) -> str:
    cost = table_cost(comparison)
    if cost is None:
        return "not run"
    return (
        f"{cost.hours / 2:.1f} hours on two cores, by the times of the {cost.ran:,} runs that have been made of {cost.whole:,} "
        f"({cost.spent:.1f} core-hours)"
    )


def _ablation() -> str:
    found = figures.load("figure-ablation", RESULTS)
    if not found:
        return "not run"
    data = ablation.summary(found)
    at = dict(zip(data["mu"], data["valid"], strict=True))
    best = min((mu for mu in at if mu), key=lambda mu: at[mu])
    early = data["best_valid"][0]
    return f"plain {at[0.0]:.2f}, plain stopped early {early:.2f}, μ = {best:g} **{at[best]:.2f}**, μ = 1 {at[1.0]:.2f}"


def _version_of_default() -> str:
    return versions(run for run in _runs("never-lose") if run.cell.method == "default")


def _never_lose() -> str:
    won, decided = never_lose_table.count(never_lose_table.standings(_runs("never-lose")))
    return f"at least as good a test NLL, within one standard error, in {won} of {decided} cells" if decided else "not run"


def _full_data() -> str:
    found = full_data.entries(_runs("full-data"))
    if not found:
        return "not run"
    ours, best = full_data.means(found)
    said = f"**{ours:.2f}**; the best of one tractable learner, of the results that we could read, is {best:.2f}"
    return said.replace("-", "−")


# ---- tables of other pages -----------------------------------------------------------------------------------------------


def compiling() -> str:
    """What first calls take where no kernel has been compiled."""
    found = _times().get("compiling.first_calls")
    if not found:
        return f"({NOT_MEASURED})"
    parts = {"processor": "processor, s", "clock": "clock, s", "kernels": "functions compiled"}
    calls = dict.fromkeys(key.rpartition(".")[0] for key in found)
    rows = [[call, *(f"{found[f'{call}.{part}']:.{0 if part == 'kernels' else 1}f}" for part in parts)] for call in calls]
    return markdown(["first call", *parts.values()], rows)


def phases() -> str:
    """Where the milliseconds of one EM step go."""
    found = _times().get("profile.phases")
    if not found:
        return f"({NOT_MEASURED})"
    parts = list(next(iter(found["ms"].values())))
    shown = ("nltcs", "kdd", "plants", "bnetflix", "msweb")
    rows = [[name, *(f"{found['ms'][name][part]:.2f}" for part in parts)] for name in shown if name in found["ms"]]
    machine = f"On one core with {found['gigaflops']:.0f} gigaflops and {found['GB/s']:.0f} GB/s:"
    return f"{machine}\n\n{markdown(['data', *parts], rows)}"


def bounds() -> str:
    """Irregular circuits and two threads."""
    lines = [f"- {IRREGULAR.format(_nodes())}: {_irregular()}", f"- {THREADS}: {_threads()}"]
    found = _times().get("engine.threads")
    if found:
        lines.append(
            f"- two matrix products at once, each on its thread, against one after the other: {found['two products']:.2f}"
        )
        lines.append(f"- the same of two copies of arrays: {found['two copies']:.2f}")
    return "\n".join(lines)


def steps_of_regularisers() -> str:
    """The time of a step over that of a plain one."""
    found = _times().get("rivals.steps", {}).get("times a plain step")
    if not found:
        return f"({NOT_MEASURED})"
    rows = [
        [method, f"`{name}`", f"{ratio:.2f}"] for method, of in found.items() for name, ratio in of.items() if name != "plain"
    ]
    return markdown(["learnt by", "regulariser", "times a plain step"], rows, texts=2)


def per_second() -> str:
    """Train NLL by method and time."""
    found = _times().get("learning.per_second")
    if not found:
        return f"({NOT_MEASURED})"
    each = [(name, method, of) for name, methods in found.items() for method, of in methods.items()]
    rows = [[name, method, *(f"{value:.4g}" for value in of.values())] for name, method, of in each]
    return markdown(["data set", "method", *(f"after {seconds} s" for seconds in each[0][2])], rows, texts=2)


def error_bars() -> str:
    """How well standard errors and influences hold, and what else was measured of them."""
    times = _times()
    names = ("bootstrap", "intervals", "leaving_out", "per_row_autograd", "million")
    spread, held, left, autograd, million = (times.get(f"posterior.{name}") for name in names)
    legend = {
        "ratio": "the standard error of log p at 40 rows over its spread in 200 fits to bootstrap rows, median",
        "held": "how many of the 90% intervals, of 100 tables each, hold the data-generating circuit's value",
        "left out": "correlation of what leaving a row out does to its log-likelihood with what is said without a refit, "
        "40 rows, at an optimum and after ten epochs of EM from a random start",
        "times as fast": "as the bootstrap refits, and as refits that leave out each row",
    }
    columns = {
        "ratio": {name: f"{of['ratio']:.2f}" for name, of in (spread or {}).items()},
        "held": {name: f"{share:.2f}" for name, share in (held or {}).items()},
        "left out, optimum": {name: f"{of['at an optimum']:.3f}" for name, of in (left or {}).items()},
        "left out, stopped early": {name: f"{of['stopped early']:.2f}" for name, of in (left or {}).items()},
        "times as fast as bootstrap": {name: f"{of['times as fast']:,.0f}" for name, of in (spread or {}).items()},
        "as leaving out": {name: f"{of['times as fast']:,.0f}" for name, of in (left or {}).items()},
    }
    columns = {title: column for title, column in columns.items() if column}
    lines = []
    if columns:
        rows = [[name, *(column[name] for column in columns.values())] for name in next(iter(columns.values()))]
        shown = {name: text for name, text in legend.items() if any(title.startswith(name) for title in columns)}
        lines += [" ".join(f"*{name.capitalize()}*: {text}." for name, text in shown.items()), ""]
        lines += [markdown(["circuit", *columns], rows), ""]
    else:
        lines += [f"({NOT_MEASURED})", ""]
    if held:
        lines += [f"Of all intervals {100 * sum(held.values()) / len(held):.0f}% hold the truth.", ""]
    else:
        lines += [f"How many of the intervals hold the truth: {NOT_MEASURED}.", ""]
    if autograd:
        lines.append(
            f"- Gradients of all rows and the Hessian of a hidden tree of {autograd['weights']} weights: "
            f"{autograd['gradients of rows']:.1f} and {autograd['Hessian']:.0f} times as fast as by automatic differentiation on "
            f"the torch engine, which is how libraries for neural networks take them."
        )
    if million:
        lines.append(
            f"- A circuit of {million['parameters']:,} parameters: error bars of {million['answers']} answers by conjugate "
            f"gradients take {million['processor seconds']:.0f} s of the processor, all threads together."
        )
    return "\n".join(lines).rstrip()


def planted() -> str:
    """How many of 20 planted rows each score puts among the first 40, for every data set, and the mean."""
    columns = [
        ("2", "self-influence", "self-influence"), ("2", "unlikely", "−log p"), ("2", "left out", "−log p, left out"),
        ("2", "left out, one step", "left out by one EM step"), ("16", "unlikely", "16 latents: −log p"),
        ("16", "left out, one step", "left out by one EM step"),
    ]  # fmt: skip
    counts = json.loads(PLANTED.read_text())
    found = {name: [each.get(latents, {}).get(score) for latents, score, _ in columns] for name, each in counts.items()}
    rows = [[name, *("–" if n is None else str(n) for n in each)] for name, each in found.items()]
    whole = [each for each in found.values() if None not in each]
    means = [f"{sum(column) / len(whole):.2f}" for column in zip(*whole, strict=True)]
    table = markdown(["data set", *(title for *_, title in columns)], [*rows, [f"mean of {len(whole)} without a gap", *means]])
    asked = {name: each[0] for name, each in found.items() if each[0] is not None}
    all_of_them = [name for name, n in asked.items() if n == 20]
    told = f"Self-influence finds all 20 on {len(all_of_them)} of the {len(asked)} data sets that it was asked of"
    return f"{table}\n\n{told}: {', '.join(all_of_them)}."


def by_torch() -> str:
    """What the torch engine saves of a step by shared sub-rows and by compiling, and its step on CUDA."""
    shared, compiled, cuda = (_times().get(f"gpu.{name}") for name in ("shared", "compiled", "cuda"))
    lines = []
    if shared:
        of = "; ".join(
            f"{name} {', '.join(f'{ratio:.2f} ({batch})' for batch, ratio in each.items())}" for name, each in shared.items()
        )
        lines.append(
            f"- Sub-rows shared, one thread of the CPU, 100 latents: times as fast as without, with so many rows a batch: {of}."
        )
    if compiled:
        lines.append(
            f"- Compiled, one thread of the CPU, 16 variables, 100 latents, 200 rows: {compiled['times as fast']:.2f} times as "
            f"fast, after {compiled['seconds of compiling']:.0f} s of compiling."
        )
    for name, steps in (cuda or {}).items():
        lines.append(f"- {name} on CUDA, ms: {', '.join(f'{whose} {taken:.2f}' for whose, taken in steps.items())}.")
    return "\n".join(lines) or f"({NOT_MEASURED})"


def scaling() -> str:
    """Rows from files beside rows in memory, and workers beside what the model of `benchmarks/scaling.py` says of them."""
    names = ("files", "killed", "workers", "images", "torch_steps")
    files, killed, workers, images, by_torch = (_times().get(f"scaling.{name}") for name in names)
    lines = []
    if files and "of memory" in files:
        lines.append(
            f"- {files['rows']:,} rows × 50 binary columns from parquet files, 16 latents, whole fits of {files['epochs']} "
            f"epochs of EM in batches of 5,000 by one thread: {files['rows per second']:,.0f} rows per second; peak of memory of "
            f"fitting, scoring and sampling {files['peak MiB']:,.0f} MiB."
        )
        lines.append(
            f"- {files['rows in memory']:,} rows in memory, of which it is worked out once, in the first epoch, which sub-rows "
            f"are alike: from files, {_beside(files['of memory'])}. Of more rows in memory that is worked out anew for every "
            f"batch, as it is from files; beside such rows: {_beside(files['of by batch'])}."
        )
    if killed:
        bits = "the same" if killed["same bits"] else "other"
        lines.append(
            f"- {killed['rows']:,} rows from files, killed after {killed['batches']:,} of {killed['of']:,} batches of epoch "
            f"{killed['epoch']} and resumed: all parameters have {bits} bits as without."
        )
    if workers:
        one, two = workers["seconds"]["1"], workers["seconds"]["2"]
        lines.append(
            f"- {workers['rows']:,} rows × 100 columns, 100 latents, {workers['edges']:,} edges, one step of EM over all rows: "
            f"two Dask workers are {workers['by the clock']:.2f} times as fast as one by the clock, while {workers['busy']:.1f} "
            f"other processes wanted the cores of {workers['machine']}. The processor time of the busiest worker, of which two "
            f"have half the work each by construction, is {one:.1f} s with one and {two:.1f} s with two; calibrated by the "
            f"first, the model says {workers['predicted']['2']:.1f} s of the second."
        )
    if images:
        lines.append(
            f"- {images['variables']:,} variables of 256 values, {images['rows']:,} rows, `hclt(bins=32)`: "
            f"{images['seconds']:.0f} s of processor time, all threads together, and {images['peak GiB']:.1f} GiB."
        )
    for name, against in (("torch engine", "a dense step in plain PyTorch"), ("torch engine, other dense", "a second dense one")):
        if by_torch and name in by_torch:
            lines.append(
                f"- a step of EM by the torch engine on one thread of the CPU, 100 latents, 200 rows, float32: "
                f"{_range(by_torch[name].values())} times as fast as {against}, on {', '.join(by_torch[name])}."
            )
    return "\n".join(lines) or f"({NOT_MEASURED})"


def _beside(ratios: dict[str, dict[str, float]]) -> str:
    """Rates from files, of those in memory."""
    whole, further = ratios["whole"], ratios["further"]
    return (
        f"{whole['processor']:.2f} of their rows per second in a whole fit and {further['processor']:.2f} in further epochs by "
        f"processor time, reading included, and {whole['clock']:.2f} and {further['clock']:.2f} by the clock"
    )


def simulated() -> str:
    """What the model says of larger clusters."""
    found = _times().get("scaling.simulated")
    if not found or any("longest" not in of for of in found.values()):  # recorded by an earlier model
        return f"({NOT_MEASURED})"
    parts = ("passes", "reading", "tasks", "network")
    rows = [
        [
            name,
            f"{of['hours']:,.2f}",
            *(f"{of[part]:,.3g}" for part in parts),
            of["longest"],
            f"{of['useful workers']:,}",
            of["saturates"],
        ]
        for name, of in found.items()
    ]
    return markdown(["cluster", "hours", *parts, "longest", "workers up to which passes are", "then"], rows)


def hostile() -> str:
    """What became of the cases of `make hostile`."""
    rows = []
    total = Counter[str]()
    for kind, found in json.loads(HOSTILE.read_text()).items():
        counts = Counter[str](found)
        rows.append(_counted(kind, counts))
        total += counts
    return markdown(["cases", "tried", "answered", "refused", "failed", "seconds"], [*rows, _counted("all", total)])


def _counted(kind: str, counts: Counter[str]) -> list[str]:
    tried = sum(n for name, n in counts.items() if name != "seconds")
    return [kind, f"{tried:,}", *(f"{counts[name]:,}" for name in ("answered", "refused", "failed", "seconds"))]


def main() -> None:
    """Write all that has changed."""
    wanted = {f"docs/{name}": text for name, text in texts().items()}
    wanted |= {page: filled(page, content) for page, content in blocks().items()}
    for page, text in wanted.items():
        replace_file(HERE.parent / page, text.encode())
        print(page)


if __name__ == "__main__":
    main()
