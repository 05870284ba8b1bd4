"""Builds and loads circuits that look valid, and asks them everything: run by `test_memory_safety` in a process of its own.

    python -m tests.hostile.memory_child FIRST_SEED COUNT FOLDER

Prints the seed before each case and the outcome after it, so that whoever survives a crash knows the case.
"""

import json
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.numpy import load as read_arrays
from safetensors.numpy import save as write_arrays

import flatpc as fp
from flatpc.errors import DataError, FlatpcError
from tests.circuit.test_files import resealed
from tests.hostile import extreme_circuits


def changed_nodes(made, rng):
    """Nodes with a few of their numbers changed: children, variables, widths, ties, and nodes that nothing uses."""
    nodes, parameters = list(made.nodes), {i: made.parameters[i] for i in made.parameters if made.owners[i] == i}
    for _ in range(int(rng.choice([0, 0, 0, 1, 2]))):
        i = int(rng.integers(len(nodes)))
        node, kind = nodes[i], rng.integers(6)
        if kind == 0:
            nodes.insert(len(nodes) - 1, fp.Input(int(rng.integers(len(nodes))), fp.Bernoulli()))
            parameters[len(nodes) - 1] = parameters.pop(len(nodes) - 2, None)
            parameters[len(nodes) - 2] = {"p": [0.5]}
        elif isinstance(node, fp.Input):
            change = {"variable": int(rng.integers(-1, 6))} if kind < 4 else {"width": int(rng.integers(0, 70))}
            nodes[i] = replace(node, **change)
        elif kind < 4:
            children = list(node.children)
            children[int(rng.integers(len(children)))] = int(rng.integers(-1, len(nodes)))
            nodes[i] = replace(node, children=tuple(children))
        elif isinstance(node, fp.Sum):
            change = {"tie": int(rng.integers(len(nodes)))} if kind == 4 else {"width": int(rng.integers(0, 9))}
            nodes[i] = replace(node, **change)
    return nodes, {i: value for i, value in parameters.items() if value is not None}


def changed_file(made, path, rng):
    """A file of the circuit with one number of its structure changed, and a checksum that fits."""
    made.save(path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    text = json.loads(content[8 : 8 + size])["__metadata__"]["flatpc"]
    description = json.loads(text)
    node = description["nodes"][int(rng.integers(len(description["nodes"])))]
    numbers = [key for key in ("variable", "width", "tie", "children") if key in node]
    if numbers and rng.random() < 0.4:
        key = str(rng.choice(numbers))
        if key == "children":
            node[key][int(rng.integers(len(node[key])))] = int(rng.integers(-1, len(description["nodes"])))
        else:
            node[key] = int(rng.integers(-1, 70))
    description["sha256"] = "0" * 64
    arrays = read_arrays(content)
    path.write_bytes(resealed(write_arrays(arrays, {"flatpc": json.dumps(description, separators=(",", ":"))})))
    return path


def ask_everything(made, rng):
    """All queries over enough rows for a wrong index to leave the heap's page, complete and with missing entries."""
    few = extreme_circuits.rows(made, rng)
    many = few[rng.integers(0, len(few), 3000)]
    for dtype in ("float64", "float32"):
        made.log_prob(many, missing="marginalize", dtype=dtype)
        made.flows(many, missing="marginalize", dtype=dtype)
    made.log_prob(few, missing="marginalize", engine="torch")
    made.sample(3, seed=0)
    for ask in (made.mpe, made.expectation):
        with suppress(DataError):  # what is known may be impossible
            ask(few)


def outcome(seed, folder):
    rng = np.random.default_rng(seed)
    try:
        made = extreme_circuits.circuit(rng)
        made = fp.load(changed_file(made, folder / "model", rng)) if seed % 2 else fp.Circuit(*changed_nodes(made, rng))
        ask_everything(made, rng)
    except FlatpcError:
        return "refused"
    return "answered"


def main(first, count, folder):
    for seed in range(first, first + count):
        print("seed", seed, flush=True)
        print(outcome(seed, folder), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
