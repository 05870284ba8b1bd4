"""Every public function, class and method tells what it takes, gives and raises, and shows it by an example.

`pytest --doctest-modules` runs the examples; here they are read.

| of a | there must be |
|---|---|
| function | Parameters, Returns, Raises if it checks or raises, an example |
| class | Parameters, or a line below each field of a result; an example unless it is a result or an error |
| method | the same as of a function; the example may be its class's. What overrides a method of ours says only what differs |
| property, constant, error | a sentence |

Parameters are named exactly, in the order of the signature.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import re
import runpy
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import flatpc as fp

write_api = runpy.run_path(str(Path(__file__).parent.parent / "docs" / "write_api.py"))
PUBLIC: dict[str, Any] = write_api["public"]()

CHECKS = {
    "choice", "count", "flag", "instance", "number", "put", "seed_number", "several", "thread_count", "whole_number", "wrong",
}  # fmt: skip
"""Functions of `flatpc._options` that raise `OptionError`."""
SECTIONS = ("Parameters", "Returns", "Yields", "Raises", "Attributes", "Notes", "See Also", "References", "Examples")


def sections(text: str) -> dict[str, list[str]]:
    """Lines of each section; those before the first are called ""."""
    out: dict[str, list[str]] = {"": []}
    lines = text.splitlines()
    now = ""
    for i, line in enumerate(lines):
        below = lines[i + 1] if i + 1 < len(lines) else ""
        if re.fullmatch(r"-{3,}", below) and line.strip():
            assert line in SECTIONS, f"unknown section {line!r}"
            now = line
            out[now] = []
        elif not re.fullmatch(r"-{3,}", line):
            out[now].append(line)
    return out


def named(lines: list[str]) -> list[str]:
    """The names that a section describes: "a, b", or "a : type", before indented lines."""
    heads = [line.split(" : ")[0] for line in lines if line and not line.startswith(" ")]
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def examples(text: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(text)


def unknown_names(text: str) -> set[str]:
    """Names that the examples use and nothing in them defines or imports."""
    source = "".join(example.source for example in examples(text))
    tree = ast.parse(source)
    known = {*dir(builtins), "__name__"}
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            known |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else known).add(node.id)
    return used - known


def raises_errors(function: Any) -> bool:
    """Whether its own lines check options or raise an error by name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        called = node.exc if isinstance(node, ast.Raise) else node
        if isinstance(called, ast.Call) and isinstance(called.func, ast.Name):
            name = called.func.id
            if name in CHECKS or (isinstance(node, ast.Raise) and name.endswith("Error")):
                return True
    return False


def complaints_about_sections(thing: Any, parameters: list[str], returns: bool, raises: bool) -> Iterator[str]:
    found = sections(inspect.getdoc(thing) or "")
    if named(found.get("Parameters", [])) != parameters:
        yield f"Parameters name {named(found.get('Parameters', []))}, not {parameters}"
    if returns != bool({"Returns", "Yields"} & set(found)):
        yield "a section Returns is missing" if returns else "there is a section Returns, but nothing is returned"
    for name in ("Returns", "Yields"):
        if name in found and not any(line.startswith("    ") for line in found[name]):
            yield "Returns has the type on one line and, indented below it, what it is"
    if raises and "Raises" not in found:
        yield "a section Raises is missing"
    for error in named(found.get("Raises", [])):
        if not hasattr(fp.errors, error) and not hasattr(builtins, error):
            yield f"Raises names {error}, which is no error"


def complaints_about_examples(text: str, required: bool) -> Iterator[str]:
    if required and not examples(text):
        yield "an example is missing"
    for name, lines in sections(text).items():
        if name not in ("", "Examples") and any(line.lstrip().startswith(">>>") for line in lines):
            yield f"the example is part of the section {name}: put it before all sections"
    if unknown := unknown_names(text):
        yield f"the example uses {', '.join(sorted(unknown))} without importing it"


def parameters_of(function: Any, method: bool = False) -> list[str]:
    names = list(inspect.signature(function).parameters)
    return names[1:] if method else names


def gives_something(function: Any) -> bool:
    return inspect.signature(function).return_annotation not in (None, "None", "NoReturn")


def about_function(function: Any) -> Iterator[str]:
    yield from complaints_about_sections(function, parameters_of(function), gives_something(function), raises_errors(function))
    yield from complaints_about_examples(inspect.getdoc(function) or "", required=True)


def documented_fields(kind: type) -> set[str]:
    """Fields with a line below them, the class's own and those that it inherits."""
    out = set()
    for base in kind.__mro__:
        if base.__module__.startswith("flatpc"):
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            assert isinstance(body, ast.ClassDef)
            for field, below in zip(body.body, body.body[1:], strict=False):
                is_text = (
                    isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
                )
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
                    out.add(field.target.id)
    return out


def about_class(kind: type) -> Iterator[str]:
    text = inspect.getdoc(kind) or ""
    found = sections(text)
    parameters = [] if kind.__init__ in (object.__init__, list.__init__) else parameters_of(kind.__init__, method=True)
    is_result = is_dataclass(kind) and bool(parameters) and "Parameters" not in found
    if is_result:
        if bare := [name for name in parameters if name not in documented_fields(kind)]:
            yield f"the fields {', '.join(bare)} have no line below them (or write Parameters)"
    elif named(found.get("Parameters", [])) != parameters:
        yield f"Parameters name {named(found.get('Parameters', []))}, not {parameters}"
    checks = [kind.__dict__[name] for name in ("__init__", "__post_init__") if inspect.isfunction(kind.__dict__.get(name))]
    own = [function for function in checks if not function.__qualname__.startswith("__create_fn__") and has_source(function)]
    if any(raises_errors(function) for function in own) and "Raises" not in found:
        yield "a section Raises is missing"
    if twice := [name for name in named(found.get("Attributes", [])) if name in write_api["members"](kind)]:
        yield f"Attributes name {', '.join(twice)}, which have docstrings of their own: Sphinx would list them twice"
    yield from complaints_about_examples(text, required=not is_result)


def has_source(function: Any) -> bool:
    try:
        inspect.getsource(function)
    except (OSError, TypeError):
        return False
    return True


def overrides(kind: type, name: str) -> bool:
    homes = [base for base in kind.__mro__ if base.__module__.startswith("flatpc") and name in base.__dict__]
    return len(homes) > 1


def about_method(kind: type, name: str, thing: Any) -> Iterator[str]:
    if isinstance(thing, property) or hasattr(thing, "func"):  # cached_property has one
        if not inspect.getdoc(thing):
            yield "a docstring is missing"
        return
    function = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
    text = function.__doc__ or ""
    if not text:
        yield "a docstring is missing"
    yield from complaints_about_examples(inspect.cleandoc(text), required=False)
    if overrides(kind, name) or name.startswith("test_"):
        return
    parameters = parameters_of(function, method=not isinstance(thing, staticmethod))
    yield from complaints_about_sections(function, parameters, gives_something(function), raises_errors(function))
    if not re.search(rf"\b{name}\b", examples_of(kind)):
        yield f"no example of the class or of its methods uses {name}"


@cache
def examples_of(kind: type) -> str:
    """Those of the class and of its methods."""
    told = [kind, *(getattr(kind, name) for name in write_api["members"](kind) if hasattr(kind, name))]
    return "".join(example.source for each in told for example in examples(inspect.getdoc(each) or ""))


def methods() -> Iterator[tuple[str, type, str, Any]]:
    for written, kind in PUBLIC.items():
        if inspect.isclass(kind) and not issubclass(kind, Exception):
            for name, thing in write_api["members"](kind).items():
                is_code = (
                    inspect.isfunction(thing)
                    or isinstance(thing, property | classmethod | staticmethod)
                    or hasattr(thing, "func")
                )
                if is_code:
                    yield f"{written}.{name}", kind, name, thing


FUNCTIONS = {name: thing for name, thing in PUBLIC.items() if inspect.isfunction(thing)}
CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing) and not issubclass(thing, Exception)}
METHODS = {name: (kind, method, thing) for name, kind, method, thing in methods()}
TOLD = {
    **{name: lambda thing=thing: about_function(thing) for name, thing in FUNCTIONS.items()},
    **{name: lambda thing=thing: about_class(thing) for name, thing in CLASSES.items()},
    **{name: lambda parts=parts: about_method(*parts) for name, parts in METHODS.items()},
}


@pytest.mark.parametrize("name", TOLD)
def test_docstring_tells_all(name: str) -> None:
    assert list(TOLD[name]()) == []


def test_errors_say_what_they_are() -> None:
    kinds = [thing for thing in PUBLIC.values() if inspect.isclass(thing) and issubclass(thing, Exception)]
    assert len(kinds) > 10
    assert all("__doc__" in kind.__dict__ and kind.__doc__ for kind in kinds)


def test_reference_lists_every_public_name_and_nothing_else() -> None:
    """`python docs/write_api.py` writes it."""
    pages = write_api["pages"]()
    assert {file: file.read_text() for file in pages} == pages
    assert set(write_api["FOLDER"].iterdir()) <= set(pages)


PRIVATE = re.compile(r"`\w+\.py`|\w+/\w+\.py|(?:flatpc|fp)\.\w+\.\w+(?:\.\w+)*")


def private_places(text: str) -> list[str]:
    """Files, and names that no room exports, in what a docstring says; its examples may import what they like."""
    said = [line for line in text.splitlines() if not line.lstrip().startswith((">>>", "..."))]
    found = []
    for place in PRIVATE.findall("\n".join(said)):
        _, room, *rest = place.split(".")
        exported = rest and inspect.ismodule(getattr(fp, room, None)) and rest[0] in getattr(fp, room).__all__
        short = room in fp.__all__ and inspect.isclass(getattr(fp, room))
        if not exported and not short:
            found.append(place)
    return found


def test_docstrings_point_to_public_places() -> None:
    found = []
    for name, thing in PUBLIC.items():
        found += [f"{name}: {place}" for place in private_places(inspect.getdoc(thing) or "")]
        for method, of in vars(thing).items() if inspect.isclass(thing) else ():
            if not method.startswith("_"):
                found += [f"{name}.{method}: {place}" for place in private_places(getattr(of, "__doc__", None) or "")]
    assert found == []


def test_private_places_are_found() -> None:
    said = "`one_step.py`, engine/inputs.py, `flatpc.curvature.layout.Layout`, `fp.queries.log_prob`, `fp.Circuit.log_prob`"
    assert private_places(said) == ["`one_step.py`", "engine/inputs.py", "flatpc.curvature.layout.Layout"]
