"""Model files from strangers: mutated bytes, mutated structures with a checksum that fits, and files that ask for too much."""

import hashlib
import json
import os
import struct
import time

import numpy as np
import pytest
from safetensors.numpy import load as read_arrays
from safetensors.numpy import save as write_arrays

import flatpc as fp
from flatpc.circuit import limits
from flatpc.circuit.files import _ZEROS, save
from flatpc.errors import FileFormatError
from flatpc.estimator.model_files import load_model
from tests.hostile.tally import Tally, how_many

RNG = np.random.default_rng(0)
X = RNG.integers(0, 2, (50, 5)).astype(float)


def _models():
    """One of each kind of structure."""
    yield fp.structures.hclt(X, 3)
    yield fp.structures.rat_spn(4, depth=2, n_repetitions=2, n_sums=2, n_inputs=3, family="gaussian")
    yield fp.structures.factorized(X)
    yield fp.structures.chow_liu(X, smoothing=1.0)
    yield fp.Circuit(
        [
            fp.Input(0, fp.Indicator(3), 3), fp.Input(1, fp.Poisson(), 2), fp.Input(2, fp.Binomial(4), 3),
            fp.Input(2, fp.Binomial(4), 3, tie=2), fp.Mixture((2, 3)), fp.Product((0, 4)), fp.Sum((5,), 2),
            fp.Product((6, 1), "kronecker"), fp.Sum((7,)),
        ]
    )  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder, out = tmp_path_factory.mktemp("models"), []
    for i, circuit in enumerate(_models()):
        save(circuit, folder / str(i), {"about": {"n": i}})
        out.append((folder / str(i)).read_bytes())
    return out


def _taken_apart(data):
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return json.loads(header["__metadata__"]["flatpc"]), read_arrays(data)


def _sealed(description, arrays):
    """A file whose checksum fits whatever is in it."""
    text = json.dumps({**description, "sha256": _ZEROS}, separators=(",", ":"))
    blank = bytearray(write_arrays(arrays, {"flatpc": text}))
    start = blank.index(_ZEROS.encode())
    blank[start : start + 64] = hashlib.sha256(blank).hexdigest().encode()
    return bytes(blank)


def _mutated_bytes(data, rng):
    data = bytearray(data)
    for _ in range(1 + int(rng.integers(4))):
        at = int(rng.integers(len(data)))
        kind = rng.integers(4)
        if kind == 0:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del data[at : at + int(rng.integers(1, 60))]
        elif kind == 2:
            data[at:at] = rng.bytes(int(rng.integers(1, 20)))
        else:
            data[:8] = struct.pack("<Q", int(rng.integers(0, 2**62)) >> int(rng.integers(62)))
    return bytes(data)


STRANGE = [
    None,
    True,
    -1,
    0,
    1,
    2,
    3,
    7,
    2**24,
    2**31,
    10**30,
    0.5,
    -1e308,
    "",
    "gaussian",
    "sum",
    "\x1b[31m",
    [],
    [0],
    {},
    {"n": 3},
]


def _mutated_structure(description, arrays, rng):
    """One or two changes to nodes, their fields, their number and order, or the arrays."""
    nodes = description["nodes"]
    for _ in range(1 + int(rng.integers(2))):
        node = nodes[int(rng.integers(len(nodes)))]
        kind = rng.integers(9)
        key = sorted(node)[int(rng.integers(len(node)))]
        strange = STRANGE[int(rng.integers(len(STRANGE)))]
        if kind == 0:
            node[key] = strange
        elif kind == 1 and isinstance(node.get("children"), list) and node["children"]:
            children = node["children"]
            children[int(rng.integers(len(children)))] = int(rng.integers(-1, len(nodes) + 1))
        elif kind == 2 and isinstance(node.get("family"), dict):
            node["family"][["n", "name", "min_variance", "low"][int(rng.integers(4))]] = strange
        elif kind == 3:
            nodes.append(json.loads(json.dumps(node)))
        elif kind == 4 and len(nodes) > 1:
            nodes.remove(node)
        elif kind == 5:
            node["tie"] = int(rng.integers(-1, len(nodes)))
        elif kind == 6:
            node[["width", "variable"][int(rng.integers(2))]] = int(rng.integers(0, 9))
        elif arrays:
            name = sorted(arrays)[int(rng.integers(len(arrays)))]
            array = arrays[name] = arrays[name].copy()
            if kind == 7 and array.size and array.dtype == np.float64:
                array.flat[int(rng.integers(array.size))] = [np.nan, np.inf, -1.0, 0.0, 1e308, 5e-324][int(rng.integers(6))]
            else:
                others = [array.T.copy(), array.astype(np.int64), array[:1], np.zeros((0,)), array.ravel()]
                arrays[name] = others[int(rng.integers(5))]
    return _sealed(description, arrays)


def _use(path):
    """What loads must answer, and never with a NaN."""
    circuit = load_model(path).circuit
    rows = np.asarray(circuit.sample(4, seed=0))
    log_prob = np.asarray(circuit.log_prob(rows))
    if np.isnan(log_prob).any() or np.isnan(rows).any():
        raise AssertionError("a NaN")
    assert circuit.is_deterministic in (True, False)


def test_mutated_files(good, tmp_path):
    path, rng = tmp_path / "model", np.random.default_rng(21)
    with Tally("mutated model files") as tally:
        for number in range(how_many(300, 8000)):
            data = good[number % len(good)]
            with np.errstate(all="ignore"):
                other = _mutated_bytes(data, rng) if number % 4 == 0 else _mutated_structure(*_taken_apart(data), rng)
            path.write_bytes(other)
            with tally.case(f"file {number} of seed 21"), np.errstate(all="ignore"):
                _use(path)
    assert tally.counts["refused"] > tally.counts["answered"] > 0


# ---- files that ask for too much ------------------------------------------------------------------------------------


def _write(path, nodes, arrays):
    path.write_bytes(_sealed({"format": "flatpc circuit", "version": 1, "nodes": nodes}, arrays))
    return path


def _indicators(path, n, width):
    nodes = [
        {"kind": "input", "variable": 0, "width": width, "family": {"name": "indicator", "n": n}},
        {"kind": "sum", "children": [0], "width": 1},
    ]
    weights = np.full((1, width), 1 / width)
    return _write(path, nodes, {"0.value": np.arange(width, dtype=float), "1.weights": weights})


def test_tables_that_a_file_only_names(tmp_path, monkeypatch):
    path = _indicators(tmp_path / "model", 2**24, 64)
    assert path.stat().st_size < 5000
    began = time.perf_counter()
    with pytest.raises(FileFormatError, match=rf"tables would be too large: 8,589,934,592 bytes.*{limits.VARIABLE}"):
        fp.load(path)
    assert time.perf_counter() - began < 1
    monkeypatch.setenv(limits.VARIABLE, str(2**34))
    circuit = fp.load(path)
    began = time.perf_counter()
    assert circuit.is_deterministic is False  # it is, but looking would take gigabytes
    assert time.perf_counter() - began < 1
    small = fp.load(_indicators(tmp_path / "small", 2**10, 64))
    assert small.is_deterministic
    for wrong in ("0", "-5", "much", "1e9"):
        monkeypatch.setenv(limits.VARIABLE, wrong)
        with pytest.raises(FileFormatError, match=f"{limits.VARIABLE}="):
            fp.load(path)


def test_values_that_a_file_only_names(tmp_path):
    """A product of products of products: 64⁴ units from a few weights, and many of them."""
    nodes, arrays = [], {}
    for v in range(4):
        nodes.append({"kind": "input", "variable": v, "width": 64, "family": {"name": "bernoulli"}, **({"tie": 0} if v else {})})
    arrays["0.p"] = np.full(64, 0.5)
    nodes += [{"kind": "kronecker", "children": [0, 1, 2, 3]} for _ in range(17)]
    nodes.append({"kind": "mixture", "children": list(range(4, 21))})
    with pytest.raises(FileFormatError):
        fp.load(_write(tmp_path / "model", nodes, arrays))


def test_variables_beyond_all_nodes(tmp_path):
    nodes = [{"kind": "input", "variable": 2**24 - 1, "width": 1, "family": {"name": "bernoulli"}}] * 2000
    began = time.perf_counter()
    with pytest.raises(FileFormatError, match="variable 16777215, and there are inputs for 2000"):
        fp.load(_write(tmp_path / "model", nodes, {f"{i}.p": np.array([0.5]) for i in range(2000)}))
    assert time.perf_counter() - began < 5


def test_a_file_of_8_gigabytes_is_not_read(tmp_path):
    path = tmp_path / "model"
    with path.open("wb") as file:
        file.truncate(8 * 10**9)  # sparse: it takes no room
    began = time.perf_counter()
    with pytest.raises(FileFormatError, match="too large: 8,000,000,000 bytes"):
        fp.load(path)
    assert time.perf_counter() - began < 1


def test_what_load_would_refuse_is_not_saved(tmp_path, monkeypatch):
    circuit = fp.Circuit([fp.Input(0, fp.Indicator(1000), 64), fp.Sum((0,))])
    monkeypatch.setenv(limits.VARIABLE, "100000")
    with pytest.raises(FileFormatError, match="Can't save"):
        circuit.save(tmp_path / "model")
    assert os.listdir(tmp_path) == []
