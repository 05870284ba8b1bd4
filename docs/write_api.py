"""Write the reference, `docs/api.md` and `docs/api/`, from what flatpc and its public rooms export: `python docs/write_api.py`.

The public rooms are the modules among `flatpc.__all__`. What flatpc exports beside them is listed under its short name, in the
section of its room if one of them exports it too.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import flatpc

PAGE = Path(__file__).parent / "api.md"
FOLDER = Path(__file__).parent / "api"
TITLES = {
    "families": "Families of inputs",
    "structures": "Structures",
    "queries": "Queries",
    "curvature": "Curvature",
    "learning": "Learning",
    "search": "Search",
    "tables": "Tables",
    "datasets": "Data sets",
    "adapters": "Other libraries",
    "testing": "Testing a family",
    "errors": "Errors",
}
INTRODUCTION = """<!-- Written by docs/write_api.py, as all pages of api/ are. -->

# Reference

What `import flatpc as fp` gives, by what it is about. What has a short name (`fp.fit`) is listed under it.
"""


def rooms() -> dict[str, ModuleType]:
    """The public rooms, in the order of the page."""
    found = {name: getattr(flatpc, name) for name in flatpc.__all__}
    modules = {name: value for name, value in found.items() if inspect.ismodule(value)}
    assert set(modules) == set(TITLES), f"give a title to {sorted(set(modules) ^ set(TITLES))}"
    return {name: modules[name] for name in TITLES}


def sections() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Title, first paragraph, and the names as one writes them with the things that they mean."""
    short = {name: getattr(flatpc, name) for name in flatpc.__all__ if name not in TITLES}
    placed: dict[str, dict[str, Any]] = {}
    for room, module in rooms().items():
        things = {name: getattr(module, name) for name in module.__all__}
        is_short = {name: name in short and short[name] is thing for name, thing in things.items()}
        placed[room] = {f"flatpc.{name}" if is_short[name] else f"flatpc.{room}.{name}": thing for name, thing in things.items()}
    in_rooms = {name for names in placed.values() for name in names}
    rest = {f"flatpc.{name}": thing for name, thing in short.items() if f"flatpc.{name}" not in in_rooms}
    yield "Models", "", rest
    for room, module in rooms().items():
        yield TITLES[room], first_paragraph(module), placed[room]


def public() -> dict[str, Any]:
    """Every public name, once, with what it means."""
    return {name: thing for _, _, names in sections() for name, thing in names.items()}


def first_paragraph(module: ModuleType) -> str:
    """Of the module's docstring."""
    return inspect.cleandoc(module.__doc__ or "").split("\n\n")[0]


def directive(name: str, thing: Any) -> str:
    """How Sphinx is told to document it."""
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return f".. autoexception:: {name}"
    if inspect.isclass(thing):
        left_out, others = sorted(told_elsewhere(thing)), [base.__name__ for base in thing.__mro__ if base not in parts(thing)]
        inherited = f"\n   :inherited-members: {', '.join(others)}" if len(parts(thing)) > 1 else ""
        excluded = f"\n   :exclude-members: {', '.join(left_out)}" if left_out else ""
        return f".. autoclass:: {name}\n   :members:{inherited}{excluded}"
    if inspect.isfunction(thing):
        return f".. autofunction:: {name}"
    text = "\n".join(f"   {line}".rstrip() for line in text_below(name).splitlines())
    return f".. py:data:: {name}\n\n{text}"


@cache
def parts(kind: type) -> tuple[type, ...]:
    """The class, and those of our bases that it is made of: no other public class has them, unless from it."""
    others = [thing for thing in public().values() if inspect.isclass(thing) and not issubclass(thing, kind)]
    bases = (base for base in kind.__mro__[1:] if base.__module__.startswith("flatpc.") and base not in public().values())
    return (kind, *(base for base in bases if not any(issubclass(other, base) for other in others)))


def members(kind: type) -> dict[str, Any]:
    """Public members that the class's reference tells."""
    found = {name: value for part in reversed(parts(kind)) for name, value in vars(part).items() if not name.startswith("_")}
    return {name: getattr(value, "fn", value) for name, value in found.items()}  # scikit-learn's available_if keeps it there


def told_elsewhere(kind: type) -> set[str]:
    """Members that override one of our own, which its class describes, and those that scikit-learn adds to its estimators."""
    own = members(kind)
    bases = [base for base in kind.__mro__ if base.__module__.startswith("flatpc.") and base not in parts(kind)]
    overriding = {name for name in own if any(name in vars(base) or name in base.__annotations__ for base in bases)}
    return overriding | {name for name, value in own.items() if type(value).__module__.startswith("sklearn.")}


def text_below(name: str) -> str:
    """The text below the assignment of a constant, in the module that its room imports it from."""
    room, short = name.rsplit(".", 1)
    for node in ast.walk(ast.parse(inspect.getsource(import_module(room)))):
        if isinstance(node, ast.ImportFrom) and node.module and short in {alias.asname or alias.name for alias in node.names}:
            return text_below(f"{node.module}.{short}")
    body = ast.parse(inspect.getsource(import_module(room))).body
    for node, below in pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if [target.id for target in targets if isinstance(target, ast.Name)] == [short]:
            assert isinstance(below, ast.Expr), f"write what {name} is, below it"
            assert isinstance(below.value, ast.Constant), f"write what {name} is, below it"
            return inspect.cleandoc(str(below.value.value))
    raise LookupError(f"{room} doesn't define {short}")


def sentence(name: str, thing: Any) -> str:
    """The first sentence about it, as a cell of a table."""
    is_code = inspect.isclass(thing) or inspect.isfunction(thing)
    text = " ".join((inspect.getdoc(thing) if is_code else text_below(name)).split("\n\n")[0].split())
    return re.split(r"(?<=[.:;])\s", text)[0].rstrip(".:;").replace("|", "\\|")


def pages() -> dict[Path, str]:
    """The text of every page, as Markdown."""
    contents, out = [INTRODUCTION], {}
    for title, paragraph, names in sections():
        file = FOLDER / f"{title.lower().replace(' ', '-')}.md"
        ordered = sorted(names.items(), key=lambda item: item[0].rsplit(".")[-1].lower())
        introduction = [paragraph, ""] if paragraph else []
        listed = "\n\n".join(directive(name, thing) for name, thing in ordered)
        out[file] = "\n".join([f"# {title}", "", *introduction, "```{eval-rst}", listed, "```", ""])
        table = [f"| {{py:obj}}`{written(name)} <{name}>` | {sentence(name, thing)} |" for name, thing in ordered]
        contents.append(
            "\n".join([f"## [{title}](api/{file.name})", "", *introduction, "| name | what it is |", "|---|---|", *table, ""])
        )
    order = "\n".join(f"api/{file.stem}" for file in out)
    contents.append(f"```{{toctree}}\n:hidden:\n\n{order}\n```\n")
    return {PAGE: "\n".join(contents), **out}


def written(name: str) -> str:
    """As one writes it after `import flatpc as fp`."""
    return name.replace("flatpc.", "fp.", 1)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        old.unlink()
    for file, text in pages().items():
        file.write_text(text)
