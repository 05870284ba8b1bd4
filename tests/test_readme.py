"""What the project says of itself is true: its examples run, its demo writes a page, and importing it is light."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flatpc

PROJECT = Path(__file__).parent.parent
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if PYTHON_BLOCK.search(page.read_text())], ids=lambda page: page.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page, in order, as one program in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    text = page.read_text()
    for block in PYTHON_BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        # Blank lines before the block make a traceback point at the page's own line.
        exec(compile("\n" * line + block.group(1), str(page), "exec"), names)


def imports(source: str) -> list[tuple[str, str]]:
    """Modules of flatpc, and the names that are imported from them; "" where the module itself is."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "flatpc":
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.partition(".")[0] == "flatpc"]
    return found


def is_exported(module: str, name: str) -> bool:
    """Whether `flatpc`, or a room that `flatpc` exports, exports the name."""
    room = module.removeprefix("flatpc").removeprefix(".")
    if room and not (room in flatpc.__all__ and inspect.ismodule(getattr(flatpc, room))):
        return False
    return not name or name in importlib.import_module(module).__all__


@pytest.mark.parametrize("page", [page for page in PAGES if PYTHON_BLOCK.search(page.read_text())], ids=lambda page: page.name)
def test_python_blocks_import_what_is_exported(page: Path) -> None:
    found = [each for block in PYTHON_BLOCK.findall(page.read_text()) for each in imports(block)]
    assert [each for each in found if not is_exported(*each)] == []


def test_imports_of_what_is_private_are_found() -> None:
    assert is_exported("flatpc", "Gaussian")
    assert is_exported("flatpc.tables", "Columns")
    private = [
        "from flatpc.estimator.model_files import load_model",
        "import flatpc.curvature.layout",
        "from flatpc import _options",
    ]
    for line in private:
        assert not is_exported(*imports(line)[0])


def test_the_readme_has_an_example() -> None:
    assert PYTHON_BLOCK.search((PROJECT / "README.md").read_text())


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, PROJECT / "CONTRIBUTING.md", PROJECT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def resolves(dotted: str) -> bool:
    """Whether a name such as `flatpc.queries.log_prob` means something."""
    from importlib import import_module

    import flatpc

    thing, path = flatpc, "flatpc"
    for part in dotted.split(".")[1:]:
        path = f"{path}.{part}"
        if not hasattr(thing, part) and part in getattr(thing, "__annotations__", {}):
            return True  # a field without a default
        try:
            thing = getattr(thing, part) if hasattr(thing, part) else import_module(path)
        except ImportError:
            return False
    return True


@pytest.mark.parametrize("page", [*PAGES, PROJECT / "CONTRIBUTING.md", PROJECT / "SECURITY.md"], ids=lambda page: page.name)
def test_names_and_files_that_pages_mention_exist(page: Path) -> None:
    text = page.read_text()
    names = set(re.findall(r"(?<![\w./-])(?:flatpc|fp)(?:\.[A-Za-z_]\w*)+", text))
    assert [name for name in sorted(names) if not resolves(name)] == []
    files = set(re.findall(r"`((?:\w+/)+\w+\.py)", text))
    places = (PROJECT, PROJECT / "src" / "flatpc", PROJECT / "docs")
    assert [file for file in sorted(files) if not any((place / file).exists() for place in places)] == []


def test_the_demo_writes_its_page(tmp_path: Path) -> None:
    """As `make demo` starts it, with tiny models; `tests/pages` looks at the page in a browser."""
    said = run([str(PROJECT / "examples" / "demo.py"), "--quick"], tmp_path)
    assert "sharpness-aware" in said
    assert "demo/report.html" in said
    assert (tmp_path / "demo" / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "demo" / "spiral-plain.safetensors").exists()


def test_make_runs_the_demo() -> None:
    assert "$(BIN)/python examples/demo.py\n" in (PROJECT / "Makefile").read_text()


def test_theory_names_functions_and_tests_that_exist() -> None:
    from importlib import import_module

    text = (PROJECT / "docs" / "theory.md").read_text()
    rows = re.findall(r"^\|.*\| `(flatpc\.[\w.]+)` \| `(tests/[\w/]+\.py)::(\w+)` \|$", text, re.MULTILINE)
    # Every statement of a table names both.
    tables = [
        line for line in text.splitlines() if line.startswith("|") and not line.startswith(("|---", "| statement | function"))
    ]
    assert len(rows) == len(tables) > 40
    for function, file, test in rows:
        module, name = function.rsplit(".", 1)
        assert callable(getattr(import_module(module), name))
        assert f"def {test}(" in (PROJECT / file).read_text(), f"{file} has no {test}"


def test_importing_is_light(tmp_path: Path) -> None:
    """The heavy libraries are imported when first needed: torch alone takes seconds."""
    heavy = {"torch", "numba", "numpy", "scipy", "matplotlib", "pandas", "polars", "rich", "typer"}
    loaded = run(["-c", "import flatpc, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"], tmp_path)
    assert heavy & set(loaded.split()) == set()


def test_every_name_of_the_package_is_there() -> None:
    import flatpc

    assert all(hasattr(flatpc, name) for name in flatpc.__all__)


@pytest.mark.skipif(os.name != "posix", reason="make and bash")
def test_make_says_when_python_is_too_old(tmp_path: Path) -> None:
    """A stand-in for an old Python fails the version check; make stops there and says what to do."""
    old = tmp_path / "python-old"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.8.1"\nexit 1\n')
    old.chmod(0o755)
    command = ["make", "-C", str(PROJECT), f"PYTHON={old}", f"VENV={tmp_path}/venv", "lint"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stdout
    assert "Python 3.8.1" in done.stdout
    assert not (tmp_path / "venv").exists()
