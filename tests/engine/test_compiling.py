"""Compiling ahead: what it covers, and that nothing calls from Python what has no wrapper for it."""

import importlib
import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numba
import numpy as np
import pytest

import flatpc
from flatpc import compile_kernels
from flatpc.engine import clock
from flatpc.engine.numba import kernel_cache
from flatpc.engine.numba._kernels import compiling


def test_functions_without_wrapper_are_out_of_pythons_reach():
    """Calling one would crash the process, so no module outside the kernels' folders may hold one."""
    modules = [
        m.name for m in pkgutil.walk_packages(flatpc.__path__, "flatpc.") if "_kernels" not in m.name and "__main__" not in m.name
    ]
    held = [
        f"{name}.{attribute}"
        for name in modules
        if not name.startswith("flatpc.adapters")
        for attribute, value in vars(importlib.import_module(name)).items()
        if isinstance(value, compiling.Inner)
    ]
    assert len(modules) > 50
    assert held == []


def test_integers_of_all_widths_share_one_version():
    from flatpc.engine.numba._kernels import dense

    assert len({tuple(map(str, s[3:])) for s in dense.multiply.signatures}) <= 1


def test_nothing_is_started_where_kernels_are_there(monkeypatch):
    monkeypatch.setattr(kernel_cache, "is_ready", lambda dtype: True)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: 1 / 0)
    compile_kernels.compile_kernels()


def test_the_second_process_compiles_the_curvature(monkeypatch, tmp_path):
    started = []

    class Process:
        returncode = 0

        def __init__(self, arguments, **_):
            started.append(arguments[1:])

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    folders = {tmp_path / "engine", tmp_path / "curvature"}
    for folder in folders:
        folder.mkdir()
    monkeypatch.setattr(kernel_cache, "_folders", folders)
    monkeypatch.setattr(compile_kernels, "_tried", set())
    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr(compile_kernels, "_engine", lambda: started.append("engine"))
    compile_kernels.compile_kernels(single=True)
    assert started == [["-m", "flatpc.compile_kernels", "curvature", "training"], "engine"]
    assert kernel_cache.is_ready("float64")
    assert kernel_cache.is_ready("float32")
    monkeypatch.setattr(compile_kernels, "_tried", set())
    compile_kernels.compile_kernels()
    assert len(started) == 2
    # Other sources or settings have another folder, in which nothing is ready.
    monkeypatch.setattr(kernel_cache, "_folders", {*folders, tmp_path})
    Process.returncode = 1
    compile_kernels.compile_kernels()
    assert len(started) == 4
    assert not kernel_cache.is_ready("float64")
    compile_kernels.compile_kernels()
    assert len(started) == 4


def test_both_parts_run():
    from flatpc.curvature._kernels import walks as curvature_passes
    from flatpc.engine.numba._kernels import passes

    compile_kernels._engine()
    for part in compile_kernels.PARTS.values():
        part()
    for kernel in (passes.forward, passes.backward, curvature_passes.rise, curvature_passes.descend, curvature_passes.gather):
        assert kernel.signatures


def test_kernels_that_nobody_uses_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    old, recent, foreign = tmp_path / "kernels-old", tmp_path / "kernels-recent", tmp_path / "data"
    for folder in (old, recent, foreign):
        folder.mkdir()
        (folder / "file").write_text("x")
    for folder, days in ((old, 31), (recent, 29), (foreign, 400)):
        os.utime(folder, (time.time() - days * 24 * 3600,) * 2)
    monkeypatch.setattr(kernel_cache, "_folders", set())
    with kernel_cache.kernel_cache(tmp_path):
        pass
    left = {folder.name for folder in tmp_path.iterdir()}
    assert "kernels-old" not in left
    assert {"kernels-recent", "data"} <= left
    assert len(left) == 3


def test_a_folder_that_cant_be_written_to(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(kernel_cache, "_folders", set())
    with kernel_cache.kernel_cache(tmp_path):
        double = numba.njit(cache=True)(lambda x: 2 * x)
    assert double(21) == 42
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err
    assert kernel_cache.is_ready("float64")  # there is no point in compiling ahead what can't be kept


@pytest.mark.parametrize(
    ("setting", "value"), [("BOUNDSCHECK", 0), ("BOUNDSCHECK", 1), ("CPU_NAME", "generic"), ("OPT", 0), ("ENABLE_AVX", 0)]
)
def test_settings_that_change_code_have_a_folder_of_their_own(setting, value, monkeypatch, tmp_path):
    (tmp_path / "kernel.py").write_text("1")
    before, old = kernel_cache.cache_folder((tmp_path,)), getattr(numba.config, setting)
    assert kernel_cache.cache_folder((tmp_path,)) == before
    monkeypatch.setattr(numba.config, setting, value)
    assert (kernel_cache.cache_folder((tmp_path,)) == before) == (old == value)


def test_another_processor_has_a_folder_of_its_own(monkeypatch, tmp_path):
    before = kernel_cache.cache_folder((tmp_path,))
    monkeypatch.setattr(kernel_cache.llvm, "get_host_cpu_name", lambda: "another")
    assert kernel_cache.cache_folder((tmp_path,)) != before


def test_where_flatpc_is_installed_makes_no_difference(tmp_path, monkeypatch):
    """A second environment finds what the first has compiled: nothing is compiled, and the search chooses the same model."""
    source = Path(flatpc.__file__).parent
    shutil.copytree(source, tmp_path / "flatpc", ignore=shutil.ignore_patterns("__pycache__"))
    script = """
import numpy as np, flatpc as fp, flatpc.learning._kernels, flatpc.curvature._kernels
from flatpc.engine import clock
from flatpc.engine.numba import kernel_cache
X = np.random.default_rng(0).integers(0, 2, (16, 4))
fp.fit(fp.structures.hclt(X, n_latents=2), X, epochs=1, progress=False)
chosen = fp.choose(np.random.default_rng(1).integers(0, 2, (60, 4)), effort=1)
said = fp.curvature.trace(chosen.circuit, X).tolist()
print(fp.__file__, clock._compiling.total, sorted(folder.name for folder in kernel_cache._folders), len(chosen.candidates), said)
"""
    said = []
    for path in (source.parent, tmp_path):
        child = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": str(path)},
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(child.stdout)
    here, there = said
    assert there.startswith(str(tmp_path))
    assert " 0.0 [" in there
    assert there.partition("[")[2] == here.partition("[")[2]


def test_a_loop_read_from_disk_while_another_is_compiled_keeps_its_address(tmp_path):
    """Without an address, a pass that calls it would crash the process."""
    (tmp_path / "loops_of_a_test.py").write_text("""
from pathlib import Path
from flatpc.engine.numba import kernel_cache
from flatpc.engine.numba._kernels import compiling
with kernel_cache.kernel_cache(Path(__file__).parent):
    @compiling.loop
    def called(i):
        return i + 1
    @compiling.loop
    def caller(i):
        return 2 * called(i)
""")
    script = """
import sys, loops_of_a_test
from numba import types
from flatpc.engine.numba._kernels import loops
loops._FIXED["i"] = types.int64
print([loops._address(getattr(loops_of_a_test, name), "float64") != 0 for name in sys.argv[1:]])
"""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    for names in (["called"], ["caller", "called"]):
        child = subprocess.run([sys.executable, "-c", script, *names], env=env, capture_output=True, text=True, check=True)
        assert child.stdout.strip() == str([True] * len(names))
    assert len(list((tmp_path / "cache").rglob("*.kernel"))) == 2


def _slow_to_compile():
    """A new function of the same code; compiling it takes a second or so."""

    @numba.njit
    def sort(x):
        return np.sort(x)[np.argsort(x)] + np.median(x)

    return sort


def test_the_clock_of_budgets_stands_still_while_kernels_are_compiled():
    began, budget = time.perf_counter(), clock.now()
    _slow_to_compile()(np.arange(3.0))
    wall, counted = time.perf_counter() - began, clock.now() - budget
    assert 0 <= counted < wall / 4
    before = clock.now()
    time.sleep(0.05)
    assert clock.now() - before >= 0.05


def test_kernels_compiled_inside_a_budget_cost_nothing_of_it():
    X = np.random.default_rng(0).integers(0, 2, (16, 4))
    taken = []

    def compile_more(row, circuit):
        began = time.perf_counter()
        _slow_to_compile()(np.arange(3.0))
        taken.append(time.perf_counter() - began)

    start = flatpc.structures.hclt(X, n_latents=2)
    Run, Stopping = flatpc.learning.Run, flatpc.learning.Stopping
    flatpc.fit(start, X, epochs=1, progress=False)
    result = flatpc.fit(start, X, epochs=4, stopping=Stopping(time_budget=0.5), run=Run(callbacks=[compile_more]), progress=False)
    assert sum(taken) > 0.5
    assert result.stopped == "epochs"


# ---- only what is needed, and said when it begins ---------------------------------------------------------------------------

FRESH = """
import sys
import numpy as np, flatpc as fp
assert "numba" not in sys.modules
X = np.random.default_rng(0).integers(0, 2, (16, 4))
circuit = fp.structures.hclt(X, n_latents=2)
{}
"""
PLANNING = {"sharing.small_symbols", "sharing.number_sub_rows", "sharing.plan_whole", "work_items.upward", "passes.forward"}


def _fresh(folder, what):
    """A process that finds no kernels: what it prints on stderr, and the modules and functions that it compiles."""
    child = subprocess.run(
        [sys.executable, "-c", FRESH.format(what)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert child.stdout == ""
    return child.stderr, {path.name.partition("-")[0] for path in folder.rglob("*.kernel")}, len(list(folder.rglob("*.kernel")))


def test_a_first_log_prob_compiles_the_way_up_alone_and_once(tmp_path):
    said, kernels, n = _fresh(tmp_path, "circuit.log_prob(X)")
    assert said.count("compiling") == said.count("\n") == 1
    assert kernels >= PLANNING
    modules = {name.partition(".")[0] for name in kernels}
    assert modules == {"dense", "factor_rows", "input_values", "passes", "product_values", "sharing", "sum_values", "threads",
                       "tickets", "underflow", "work_items"}  # fmt: skip
    assert not kernels & {"product_values.evaluate_kronecker", "sum_values.evaluate_mixture", "input_values.evaluate_formula"}
    assert not kernels & {"passes.backward", "work_items.downward", "dense.accumulate_outer", "dense.multiply"}
    # Each for one kind of numbers only.
    assert n == len(kernels) <= 30
    # What is there is not compiled again, and nothing is said.
    said, _, again = _fresh(tmp_path, "circuit.log_prob(X)")
    assert (said, again) == ("", n)
    # A first step of EM adds the way down, for the same kind of numbers, and what updates tables; no curvature, no second dtype.
    said, more, n = _fresh(tmp_path, "fp.fit(circuit, X, epochs=1, dtype='float64', progress=False)")
    assert said.count("compiling") == 1
    assert {"passes.backward", "work_items.downward", "input_tables.update_tables"} <= more
    added = {name.partition(".")[0] for name in more - kernels}
    assert added == {"adjoints", "collect", "dense", "fused", "input_tables", "passes", "tickets", "update", "work_items"}
    assert not more & {"adjoints.from_sum", "adjoints.from_kronecker", "collect.add_gradient", "update.exact_multiplier"}
    assert n == len(more) <= 62


def test_a_pass_is_not_compiled_for_what_its_loops_would_misread():
    from numba import types

    from flatpc.engine.numba._kernels import loops, passes

    declared = loops._declared("float64")
    names = list(inspect.signature(passes.forward.py_func).parameters)
    fitting = [declared.get(name, types.int64) for name in names]
    assert "V" in names
    for name in ("V", "B", "E"):
        wrong = {"V": types.float64[:], "B": declared["P"], "E": types.float32[::1]}[name]
        with pytest.raises(numba.TypingError, match=f"^{name} is .* loops are compiled for"):
            passes.forward.compile(tuple(wrong if given == name else fits for given, fits in zip(names, fitting, strict=True)))


def test_loops_of_one_call_have_one_list_of_parameters():
    """A call by address hands over what the names say, in their order."""
    from flatpc.engine.numba._kernels import adjoints, loops, passes

    def parameters(function):
        return list(inspect.signature(function).parameters)

    calls = {passes.SCALARS: loops.evaluate_run}
    for number, loop in passes.UPWARD._loops.items():
        call = calls.get(number, loops.evaluate)
        assert parameters(call._defn)[2:] == parameters(loop.py_func)
    calls = {
        adjoints.FROM_KRONECKER: loops.pull_from, adjoints.FROM_SUM: loops.pull_from, adjoints.ADD_GRADIENT: loops.collect,
        adjoints.DESCEND_SCALARS: loops.descend_run, adjoints.COLLECT_SCALARS: loops.collect_run,
    }  # fmt: skip
    assert calls.keys() == passes.DOWNWARD._loops.keys()
    for number, loop in passes.DOWNWARD._loops.items():
        assert parameters(calls[number]._defn)[2:] == parameters(loop.py_func)
    assert parameters(loops.solve._defn)[2:] == parameters(passes.SOLVERS._loops[0].py_func)


def test_nothing_is_said_and_compiled_without_need(tmp_path):
    said, kernels, _ = _fresh(tmp_path, "import flatpc.engine.numba.evaluator")
    assert (said, kernels) == ("", set())


COUNTED = """
from numba.core import event
from flatpc.engine.numba.announcing import to_compile

class Count(event.Listener):
    depth, expected, compiled = 0, set(), set()

    def on_start(self, event):
        function = event.data["dispatcher"]
        if function.py_func.__module__.startswith("flatpc."):
            if self.depth == 0:
                Count.expected |= to_compile(function)
            Count.compiled.add(function)
            self.depth += 1

    def on_end(self, event):
        self.depth -= event.data["dispatcher"].py_func.__module__.startswith("flatpc.")

event.register("numba:compile", Count())
circuit.log_prob(X)
assert len(Count.compiled) > 20
assert Count.compiled == Count.expected, (Count.compiled ^ Count.expected)
"""


def test_how_many_functions_will_be_compiled_is_known(tmp_path):
    _fresh(tmp_path, COUNTED)


def test_a_bar_on_a_terminal_counts_what_is_done(monkeypatch, capsys):
    from types import FunctionType, SimpleNamespace

    from flatpc.engine.numba.announcing import Announcer

    def compiling_of(module):
        function = FunctionType((lambda: None).__code__, {"__name__": module})
        return SimpleNamespace(data={"dispatcher": Mock(py_func=function, overloads={})})

    ours, theirs = compiling_of("flatpc.engine.numba._kernels.passes"), compiling_of("someone.else")
    for variables, bar in (({"FORCE_COLOR": "1"}, True), ({"TERM": "dumb"}, False)):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        announcer = Announcer()
        announcer.on_start(theirs)
        announcer.on_end(theirs)
        assert capsys.readouterr().err == ""
        for _ in range(2):
            for part in (announcer.on_start, announcer.on_start, announcer.on_end, announcer.on_end):
                part(ours)
        said = capsys.readouterr().err
        assert announcer.done == 4
        assert ("4 of 4 done" in said) == bar
        assert bar or said.count("compiling") == 1
        for name in variables:
            monkeypatch.delenv(name)
