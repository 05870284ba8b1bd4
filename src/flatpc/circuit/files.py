"""Circuits on disk: one safetensors file whose metadata holds the structure as JSON.

    circuit.save("model.safetensors")
    circuit = flatpc.load("model.safetensors")

A safetensors file is a length, a JSON header and raw arrays; reading one runs no code. Here

- `__metadata__["flatpc"]` is JSON text: `format`, `version`, `sha256`, `nodes` (children first, as in `Circuit.nodes`),
  `extra` if something was to be kept beside the circuit, and `copies`, names of further circuits of the same nodes, if there are;
- arrays are named by node: `"7.weights"`, `"7.mask"`, `"0.p"`; a node that is tied has none of its own. Those of a copy have its
  name before that: `"tuned 3/7.weights"`;
- `sha256` is the digest of the whole file with its own 64 digits written as zeros, so that no byte can change unseen.

One file and not two, because one file can be replaced in a single step: it is written beside its destination, flushed to
the disk and renamed, and whatever happens the destination holds the old model or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence, Set
from reprlib import repr as show
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as read_arrays
from safetensors.numpy import save as write_arrays

from flatpc._options import file_path
from flatpc._writing import replace_file
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.limits import check_bytes, check_memory
from flatpc.circuit.nodes import Input, Mixture, Node, Product, Sum
from flatpc.errors import FileFormatError, FlatpcError, OptionError
from flatpc.families import registry
from flatpc.families.base import Family

FORMAT = "flatpc circuit"
VERSIONS = (1, 2, 3, 4)
"""Version 2 has `max_variance` of a Gaussian, and families of the user's own; version 3, inputs over several variables; version
4, copies. A file names the first version that has all it needs, so that older releases read what they can."""
# Sizes beyond this are refused before anything is allocated: a few bytes can name a width of 10^18.
LARGEST = 1 << 24
# What safetensors itself is willing to read.
LARGEST_HEADER = 100_000_000
_ZEROS = "0" * 64
_AGAIN = "Restore the file from a copy, or save the model again."


def save(
    circuit: Circuit,
    path: str | os.PathLike[str],
    extra: Mapping[str, Any] | None = None,
    copies: Mapping[str, Circuit] | None = None,
) -> None:
    """Write `circuit` to the file `path`, replacing in one step what was there.

    Structures that `load` would refuse are refused here already. `extra` is anything else to keep in the file, such as the names
    of columns: a JSON object. `copies` are circuits of the same nodes with other parameters. `load_all` gives both back.
    """
    path = file_path("path", path)
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder; give the name of a file, such as {path / 'model.safetensors'}.")
    if not path.parent.is_dir():
        raise FileFormatError(f"There is no folder {path.parent} to save into; create it first.")
    circuit.check_structure()
    try:
        replace_file(path, _encode(circuit, extra, copies or {}))
    except (_Refused, FileFormatError) as error:
        raise FileFormatError(f"Can't save to {path}: {error}") from error


def load(path: str | os.PathLike[str]) -> Circuit:
    """The circuit that `Circuit.save` wrote to a file, with the same bits.

    >>> import tempfile
    >>> import flatpc as fp
    >>> circuit = fp.structures.hmm(3, n_latents=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     circuit.save(f"{folder}/hmm.safetensors")
    ...     again = fp.load(f"{folder}/hmm.safetensors")
    >>> again.nodes == circuit.nodes
    True

    Parameters
    ----------
    path
        The file. Reading it runs no code.

    Returns
    -------
    Circuit
        Checked as if it had been made anew.

    Raises
    ------
    FileFormatError
        For a file that is damaged, of an unknown version, or no circuit.
    """
    return load_all(path).circuit


class Saved(NamedTuple):
    """What a file holds."""

    circuit: Circuit
    extra: dict[str, Any]
    """What was kept beside the circuit; empty if nothing was."""
    copies: dict[str, Circuit]
    """Circuits of the same nodes, by name."""


def load_all(path: str | os.PathLike[str]) -> Saved:
    """The circuit, and all that was kept beside it."""
    path = file_path("path", path)
    if not path.exists():
        raise FileFormatError(f"There is no file {path}; check the name and the folder you are in.")
    if not path.is_file():
        raise FileFormatError(f"{path} is not a file; give the name of a file that Circuit.save or flatpc fit wrote.")
    try:
        check_bytes(path.stat().st_size, "it is too large")
        return _decode(path.read_bytes())
    except OSError as error:
        raise FileFormatError(f"{path} can't be read: {error.strerror}.") from error
    except FlatpcError as error:
        raise FileFormatError(f"{path}: {error}") from error


class _Refused(FlatpcError):
    """What is wrong with a file; `load` and `save` add which file."""


# ---- bytes --------------------------------------------------------------------------------------------------------


def _encode(circuit: Circuit, extra: Mapping[str, Any] | None, copies: Mapping[str, Circuit]) -> bytes:
    arrays = {
        f"{i}.mask": np.ascontiguousarray(node.mask)
        for i, node in enumerate(circuit.nodes)
        if isinstance(node, Sum) and node.mask is not None
    }
    arrays |= _parameters(circuit)
    _check_sizes(circuit)
    nodes = [_node_to_json(node) for node in circuit.nodes]
    version = max(VERSIONS[-1] if copies else 1, *(_version(node) for node in nodes))
    description: dict[str, Any] = {"format": FORMAT, "version": version, "sha256": _ZEROS, "nodes": nodes}
    if extra:
        description["extra"] = dict(extra)
    for name, copy in copies.items():
        if [_node_to_json(node) for node in copy.nodes] != nodes:
            raise _Refused(f"the copy {name!r} has other nodes than the circuit.")
        arrays |= {f"{name}/{place}": array for place, array in _parameters(copy).items()}
    if copies:
        description["copies"] = list(copies)
    try:
        text = json.dumps(description, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _Refused(f"what is to be kept beside the circuit is not JSON ({error}).") from None
    blank = bytearray(write_arrays(arrays, {"flatpc": text}))
    if int.from_bytes(blank[:8], "little") > LARGEST_HEADER:
        raise _Refused(f"the description of {len(nodes):,} nodes is larger than a safetensors file can hold.")
    digest = hashlib.sha256(blank).hexdigest().encode()
    start = blank.index(_ZEROS.encode())
    blank[start : start + 64] = digest
    return bytes(blank)


def _parameters(circuit: Circuit) -> dict[str, NDArray[Any]]:
    """By node and name."""
    out: dict[str, NDArray[Any]] = {}
    for i, value in circuit.parameters.items():
        if circuit.owners[i] == i:
            named = value.items() if isinstance(value, dict) else [("weights", value)]
            out |= {f"{i}.{name}": np.ascontiguousarray(array) for name, array in named}
    return out


def _decode(data: bytes) -> Saved:
    header = _header(data)
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or set(metadata) != {"flatpc"} or not isinstance(metadata["flatpc"], str):
        raise _Refused("this is a safetensors file, but not one that Circuit.save or flatpc fit wrote.")
    description = _mapping(_parse(metadata["flatpc"]), "the description")
    if description.get("format") != FORMAT:
        raise _Refused("this is a safetensors file, but not one that Circuit.save or flatpc fit wrote.")
    version = description.get("version")
    if type(version) is not int or version not in VERSIONS:
        raise _Refused(
            f"its format version is {show(version)} and this flatpc reads versions {VERSIONS[0]} to {VERSIONS[-1]}. "
            f"Upgrade flatpc if the file is newer, or save the model again."
        )
    _keys(description, {"format", "version", "sha256", "nodes"}, "the description", {"extra", "copies"})
    _check_digest(data, description["sha256"])
    try:
        arrays = read_arrays(data)
    except (SafetensorError, TypeError, ValueError, KeyError) as error:
        raise _Refused(f"its arrays can't be read ({error}). {_AGAIN}") from None
    described = _list(description["nodes"], "nodes")
    nodes = [_node_from_json(i, node, arrays) for i, node in enumerate(described)]
    _check_variables(nodes)
    copies = {name: _build(nodes, _arrays_of(name, arrays)) for name in _copies(description.get("copies", []))}
    return Saved(_build(nodes, arrays), dict(_mapping(description.get("extra", {}), "extra")), copies)


def _copies(given: object) -> list[str]:
    names = _list(given, "copies")
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise _Refused(f"its copies are not different names. {_AGAIN}")
    return list(names)


def _arrays_of(name: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Those of a copy, taken out of all others."""
    places = [place for place in arrays if place.startswith(f"{name}/")]
    return {place.removeprefix(f"{name}/"): arrays.pop(place) for place in places}


def _header(data: bytes) -> Mapping[str, Any]:
    """The JSON header of a safetensors file."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 10 or data[8:9] != b"{" or length > LARGEST_HEADER:
        raise _Refused("this is not a model file; give the name of a file that Circuit.save or flatpc fit wrote.")
    if 8 + length > len(data):
        raise _Refused(f"it ends too early: {len(data):,} bytes, with a header of {length:,}. {_AGAIN}")
    try:
        text = data[8 : 8 + length].decode("utf-8")
    except UnicodeDecodeError:
        raise _Refused(f"its header is not text. {_AGAIN}") from None
    return _mapping(_parse(text), "the header")


def _check_digest(data: bytes, digest: object) -> None:
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise _Refused(f"its checksum is not 64 hexadecimal digits. {_AGAIN}")
    start = data.find(digest.encode(), 0, 8 + int.from_bytes(data[:8], "little"))
    view = memoryview(data)
    found = hashlib.sha256(view[: max(start, 0)])
    found.update(_ZEROS.encode())
    found.update(view[start + 64 :])
    if start < 0 or found.hexdigest() != digest:
        raise _Refused(f"it is damaged or cut off: the checksum doesn't fit. {_AGAIN}")


# ---- nodes --------------------------------------------------------------------------------------------------------


def _node_to_json(node: Node) -> dict[str, Any]:
    if isinstance(node, Input):
        single = len(node.variables) == 1
        which = {"variable": node.variables[0]} if single else {"variables": list(node.variables)}
        out: dict[str, Any] = {"kind": "input", **which, "width": node.width, "family": _family_to_json(node.family)}
    elif isinstance(node, Product):
        return {"kind": node.kind, "children": list(node.children)}
    elif isinstance(node, Sum):
        out = {"kind": "sum", "children": list(node.children), "width": node.width}
        if node.mask is not None:
            out["mask"] = True
    else:
        out = {"kind": "mixture", "children": list(node.children)}
    if node.tie is not None:
        out["tie"] = node.tie
    return out


def _node_from_json(i: int, given: object, arrays: dict[str, NDArray[Any]]) -> Node:
    where = f"node {i}"
    node = _mapping(given, where)
    kind = node.get("kind")
    if kind == "input":
        key = "variables" if "variables" in node else "variable"
        _keys(node, {"kind", key, "width", "family"}, where, {"tie"})
        which = _list(node[key], f"{where}: variables") if key == "variables" else [node[key]]
        variables = [_int({key: v}, key, where) for v in which]
        return Input(
            family=_family_from_json(node["family"], where), width=_int(node, "width", where), tie=_tie(node), variables=variables
        )
    if kind == "hadamard" or kind == "kronecker":
        _keys(node, {"kind", "children"}, where)
        return Product(_children(node, where), kind)
    if kind == "mixture":
        _keys(node, {"kind", "children"}, where, {"tie"})
        return Mixture(_children(node, where), _tie(node))
    if kind == "sum":
        _keys(node, {"kind", "children", "width"}, where, {"tie", "mask"})
        mask = None
        if "mask" in node:
            mask = arrays.pop(f"{i}.mask", None)
            if node["mask"] is not True or mask is None or mask.dtype != np.bool_:
                raise _Refused(f"{where}: its mask is missing or not of booleans. {_AGAIN}")
        return Sum(_children(node, where), _int(node, "width", where), mask, _tie(node))
    raise _Refused(f"{where} is of the unknown kind {show(kind)}; kinds are input, hadamard, kronecker, sum and mixture.")


def _family_to_json(of: Family) -> dict[str, Any]:
    try:
        return registry.to_json(of)
    except OptionError as error:
        raise _Refused(str(error)) from None


_FIRST = {
    "bernoulli": set(), "binomial": {"n"}, "categorical": {"n"}, "gaussian": {"min_variance"}, "indicator": {"n"},
    "poisson": {"min_rate"},
}  # fmt: skip
"""Families of version 1, and their options."""


def _version(node: Mapping[str, Any]) -> int:
    """The first version that has such a node."""
    if "variables" in node:
        return 3
    family = node.get("family", {"name": "bernoulli"})
    return 1 if set(family) == {"name"} | _FIRST.get(family["name"], {""}) else 2


def _family_from_json(given: object, where: str) -> Family:
    try:
        return registry.from_json(_mapping(given, f"{where}: family"))
    except OptionError as error:
        raise _Refused(f"{where}: {error}") from None


def _build(nodes: Sequence[Node], arrays: dict[str, NDArray[Any]]) -> Circuit:
    """The circuit of `nodes`, whose own checks are those of any circuit, with every array used once."""
    parameters: dict[int, Any] = {}
    for i, node in enumerate(nodes):
        if isinstance(node, Product) or node.tie is not None:
            continue
        names = node.family.names if isinstance(node, Input) else ("weights",)
        own = {}
        for name in names:
            array = arrays.pop(f"{i}.{name}", None)
            if array is None or array.dtype != np.float64:
                raise _Refused(f"node {i}: the array {i}.{name} is missing or not of float64. {_AGAIN}")
            own[name] = array
        parameters[i] = own if isinstance(node, Input) else own["weights"]
    if arrays:
        raise _Refused(f"it holds the array {show(next(iter(arrays)))}, which belongs to no node. {_AGAIN}")
    circuit = Circuit(nodes, parameters)
    _check_sizes(circuit)
    return circuit


def _check_variables(nodes: Sequence[Node]) -> None:
    """Each variable has an input of its own; sets of variables take as much memory as the largest number among them."""
    n_places = sum(len(node.variables) for node in nodes if isinstance(node, Input))
    for i, node in enumerate(nodes):
        if isinstance(node, Input) and max(node.variables) >= n_places:
            raise _Refused(
                f"node {i} has variable {max(node.variables)}, and there are inputs for {n_places}; they are 0, 1, 2, ... "
                f"without gaps."
            )


def _check_sizes(circuit: Circuit) -> None:
    for i, (node, width) in enumerate(zip(circuit.nodes, circuit.widths, strict=True)):
        categories = node.family.n_categories if isinstance(node, Input) else None
        if max(width, categories or 0) > LARGEST:
            raise _Refused(f"node {i}: a size of {max(width, categories or 0)} is beyond what files may name ({LARGEST:,}).")
    check_memory(circuit.nodes, circuit.widths)


# ---- JSON of the right types --------------------------------------------------------------------------------------


def _parse(text: str) -> object:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs):
            raise _Refused(f"its JSON repeats a key. {_AGAIN}")
        return out

    def no_constant(name: str) -> None:
        raise _Refused(f"its JSON holds {name}. {_AGAIN}")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=no_constant)
    except _Refused:
        raise
    except ValueError:
        raise _Refused(f"its JSON can't be read. {_AGAIN}") from None
    except RecursionError:
        raise _Refused("its JSON is nested too deeply to be a model's.") from None


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _Refused(f"{where} is missing or not a JSON object. {_AGAIN}")
    return value


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Refused(f"{where} is missing or not a JSON list. {_AGAIN}")
    return value


def _keys(value: Mapping[str, Any], required: set[str], where: str, optional: Set[str] = frozenset()) -> None:
    if not required <= set(value) <= required | optional:
        raise _Refused(f"{where} should have the keys {', '.join(sorted(required))}, not {show(sorted(value))}. {_AGAIN}")


def _int(value: Mapping[str, Any], key: str, where: str) -> int:
    number = value[key]
    if type(number) is not int or not 0 <= number <= LARGEST:
        raise _Refused(f"{where}: {key} is {show(number)}, not a whole number from 0 to {LARGEST:,}.")
    return number


def _tie(node: Mapping[str, Any]) -> int | None:
    return _int(node, "tie", "a tied node") if "tie" in node else None


def _children(node: Mapping[str, Any], where: str) -> tuple[int, ...]:
    children = _list(node["children"], f"{where}: children")
    if not all(type(c) is int for c in children):
        raise _Refused(f"{where}: its children are not all whole numbers. {_AGAIN}")
    return tuple(children)
