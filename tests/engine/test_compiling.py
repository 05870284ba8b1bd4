"""Compiling ahead: what it covers, and that nothing calls from Python what has no wrapper for it."""

import importlib
import os
import pkgutil
import subprocess
import time
from pathlib import Path

import numba

import flatpc
from flatpc import compile_kernels
from flatpc.engine import kernel_cache
from flatpc.engine._kernels import compiling


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
        if isinstance(value, compiling._Inner) and value.targetoptions["no_cpython_wrapper"]
    ]
    assert len(modules) > 50
    assert held == []


def test_integers_of_all_widths_share_one_version():
    from flatpc.engine._kernels import dense

    assert len({tuple(map(str, s[3:])) for s in dense.multiply.signatures}) <= 1


def test_nothing_is_started_where_kernels_are_there(monkeypatch):
    monkeypatch.setattr(kernel_cache, "found_empty", False)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: 1 / 0)
    compile_kernels.compile_kernels()


def test_the_second_process_compiles_the_curvature(monkeypatch):
    started = []

    class Process:
        returncode = 1

        def __init__(self, arguments, **_):
            started.append(arguments[1:])

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(kernel_cache, "found_empty", True)
    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr(compile_kernels, "_engine", lambda: started.append("engine"))
    compile_kernels.compile_kernels(single=True)
    assert started == [["-m", "flatpc.compile_kernels", "curvature", "training"], "engine"]
    compile_kernels.compile_kernels()
    assert len(started) == 2


def test_both_parts_run():
    from flatpc.curvature._kernels import passes as curvature_passes
    from flatpc.engine._kernels import passes

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
    monkeypatch.setattr(kernel_cache, "found_empty", True)  # say nothing
    with kernel_cache.kernel_cache(tmp_path):
        pass
    left = {folder.name for folder in tmp_path.iterdir()}
    assert "kernels-old" not in left
    assert {"kernels-recent", "data"} <= left
    assert len(left) == 3


def test_a_folder_that_cant_be_written_to(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(kernel_cache, "found_empty", True)
    with kernel_cache.kernel_cache(tmp_path):
        used = Path(numba.config.CACHE_DIR)
    assert used.is_dir()
    assert tmp_path not in used.parents
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err
