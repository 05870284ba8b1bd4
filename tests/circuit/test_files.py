"""Files: every model comes back bit for bit, every bad file is refused with a `FileFormatError`, and a crash loses nothing."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as read_arrays
from safetensors.numpy import save as write_arrays
from safetensors.numpy import save_file

import flatpc as fp
from flatpc.circuit import files
from flatpc.errors import DecomposabilityError, FileFormatError, SmoothnessError

FIXTURE = Path(__file__).parent / "fixtures" / "version-1.safetensors"
Description = dict[str, Any]
Arrays = dict[str, np.ndarray]


def every_kind() -> fp.Circuit:
    """A circuit with every kind of node and family, a mask, and ties of inputs, sums and mixtures."""
    families = [
        fp.Bernoulli(),
        fp.Categorical(3),
        fp.Gaussian(min_variance=0.1),
        fp.Binomial(4),
        fp.Poisson(min_rate=1e-3),
        fp.Indicator(2),
    ]
    nodes: list[fp.Node] = [fp.Input(v, family, 2) for v, family in enumerate(families)]  # 0 to 5
    nodes += [
        fp.Input(6, fp.Bernoulli(), 2, tie=0),  # 6
        fp.Product((0, 1), "kronecker"),  # 7: width 4
        fp.Sum((7,), 2, mask=np.array([[1, 0, 1, 0], [0, 1, 1, 1]], dtype=bool)),  # 8
        fp.Product((0, 1), "kronecker"),  # 9
        fp.Sum((9,), 2, mask=np.array([[1, 0, 1, 0], [0, 1, 1, 1]], dtype=bool), tie=8),  # 10
        fp.Mixture((8, 10)),  # 11
        fp.Mixture((10, 8), tie=11),  # 12
        fp.Mixture((11, 12)),  # 13
        fp.Product((13, 2, 3, 4, 5, 6)),  # 14
        fp.Sum((14,)),  # 15
    ]
    return fp.Circuit(nodes).randomize(seed=3, scheme="dirichlet")


def small() -> fp.Circuit:
    """P(x, y) = Σ_k w_k p_k(x) q_k(y), with a masked sum on the way."""
    nodes = [
        fp.Input(0, fp.Bernoulli(), 2),
        fp.Input(1, fp.Gaussian(), 2),
        fp.Product((0, 1)),
        fp.Sum((2,), 2, mask=np.array([[True, False], [True, True]])),
        fp.Sum((3,)),
    ]
    return fp.Circuit(nodes).randomize(seed=1)


def assert_identical(a: fp.Circuit, b: fp.Circuit) -> None:
    assert a.nodes == b.nodes
    assert a.owners == b.owners
    assert a.parameters.keys() == b.parameters.keys()
    for i, value in a.parameters.items():
        other = b.parameters[i]
        pairs = [(value[k], other[k]) for k in value] if isinstance(value, dict) else [(value, other)]
        for left, right in pairs:
            assert left.dtype == right.dtype == np.float64
            assert left.shape == right.shape
            assert left.tobytes() == right.tobytes()


# ---- round trips ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [every_kind, small])
def test_round_trip_keeps_every_bit(tmp_path: Path, make: Callable[[], fp.Circuit]) -> None:
    circuit = make()
    circuit.save(tmp_path / "model")
    loaded = fp.load(str(tmp_path / "model"))
    assert_identical(circuit, loaded)
    assert loaded.has_tied_parameters == circuit.has_tied_parameters


def test_round_trip_keeps_awkward_numbers(tmp_path: Path) -> None:
    tiny, negative_zero = 5e-324, -0.0
    nodes = [fp.Input(0, fp.Gaussian(min_variance=tiny), 2), fp.Sum((0,))]
    values = {0: {"mean": [negative_zero, -1.7e308], "variance": [tiny, 1.7e308]}, 1: [[tiny, 1.0]]}
    circuit = fp.Circuit(nodes, values)
    circuit.save(tmp_path / "model")
    loaded = fp.load(tmp_path / "model")
    assert_identical(circuit, loaded)
    assert np.signbit(loaded.parameters[0]["mean"][0])


def test_numbers_from_numpy_are_saved(tmp_path: Path) -> None:
    nodes = [fp.Input(np.int64(0), fp.Categorical(np.int64(3)), np.int32(2)), fp.Sum((np.int64(0),), np.int64(1))]
    circuit = fp.Circuit(nodes)
    circuit.save(tmp_path / "model")
    assert_identical(circuit, fp.load(tmp_path / "model"))


def test_ties_stay_ties(tmp_path: Path) -> None:
    every_kind().save(tmp_path / "model")
    loaded = fp.load(tmp_path / "model")
    assert loaded.parameters[6] is loaded.parameters[0]
    assert loaded.parameters[10] is loaded.parameters[8]
    assert "6.p" not in read_arrays((tmp_path / "model").read_bytes())


def test_same_circuit_same_bytes(tmp_path: Path) -> None:
    every_kind().save(tmp_path / "a")
    every_kind().save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_files_of_version_1_stay_loadable() -> None:
    """The fixture was written by the first release; if this fails, users' models are lost."""
    circuit = fp.load(FIXTURE)
    assert [type(node).__name__ for node in circuit.nodes] == ["Input", "Input", "Input", "Product", "Sum", "Sum"]
    assert circuit.nodes[0] == fp.Input(0, fp.Bernoulli(), 2)
    assert circuit.nodes[1] == fp.Input(1, fp.Gaussian(min_variance=0.01), 2)
    assert circuit.nodes[2] == fp.Input(2, fp.Bernoulli(), 2, tie=0)
    assert circuit.nodes[3] == fp.Product((0, 1, 2))
    assert circuit.nodes[4] == fp.Sum((3,), 2, mask=np.array([[True, False], [True, True]]))
    np.testing.assert_array_equal(circuit.parameters[0]["p"], [0.25, 0.75])
    np.testing.assert_array_equal(circuit.parameters[1]["mean"], [-1.5, 2.0])
    np.testing.assert_array_equal(circuit.parameters[1]["variance"], [0.5, 4.0])
    np.testing.assert_array_equal(circuit.parameters[4], [[1.0, 0.0], [0.125, 0.875]])
    np.testing.assert_array_equal(circuit.parameters[5], [[0.5, 0.5]])


def test_files_of_version_2_stay_loadable() -> None:
    """Written by the first release with bounded variances."""
    circuit = fp.load(FIXTURE.with_name("version-2.safetensors"))
    assert circuit.nodes == (fp.Input(0, fp.Gaussian(0.01, 10.0), 2), fp.Sum((0,)))
    np.testing.assert_array_equal(circuit.parameters[0]["mean"], [-1.5, 2.0])
    np.testing.assert_array_equal(circuit.parameters[0]["variance"], [0.5, 4.0])
    np.testing.assert_array_equal(circuit.parameters[1], [[0.25, 0.75]])


def test_files_of_version_3_stay_loadable() -> None:
    """Written by the first release with inputs over several variables."""
    circuit = fp.load(FIXTURE.with_name("version-3.safetensors"))
    blocks = [fp.Input(variables=(2, 0), family=fp.MultivariateGaussian(2, (0.01, 0.5)), width=2), fp.Input(1, fp.Bernoulli(), 2)]
    assert circuit.nodes == (*blocks, fp.Product((0, 1)), fp.Sum((2,)))
    np.testing.assert_array_equal(circuit.parameters[0]["mean"], [[-1.5, 2.0], [0.25, 0.0]])
    np.testing.assert_array_equal(circuit.parameters[0]["covariance"], [[[1.0, 0.5], [0.5, 2.0]], [[4.0, -1.0], [-1.0, 1.0]]])
    np.testing.assert_array_equal(circuit.parameters[3], [[0.25, 0.75]])


def test_an_input_over_several_variables_names_version_3(tmp_path: Path) -> None:
    circuit = fp.Circuit([fp.Input(variables=(1, 0), family=fp.MultivariateGaussian(2))])
    circuit.save(tmp_path / "model")
    assert b'\\"version\\":3,' in (tmp_path / "model").read_bytes()
    assert_identical(circuit, fp.load(tmp_path / "model"))


@pytest.mark.parametrize(("family", "version"), [(fp.Gaussian(0.1), 1), (fp.Gaussian(0.1, 10.0), 2)])
def test_a_file_names_the_first_version_that_has_all_it_needs(tmp_path: Path, family: fp.Gaussian, version: int) -> None:
    circuit = fp.Circuit([fp.Input(0, family, 2), fp.Sum((0,))])
    circuit.save(tmp_path / "model")
    assert f'\\"version\\":{version},'.encode() in (tmp_path / "model").read_bytes()
    assert_identical(circuit, fp.load(tmp_path / "model"))


def test_what_is_kept_beside_the_circuit_comes_back(tmp_path: Path) -> None:
    extra = {"columns": [{"name": "größe", "categories": [1, 2.5, "a", True, None]}], "zeros": "0" * 64}
    files.save(small(), tmp_path / "model", extra)
    circuit, found, _ = files.load_all(tmp_path / "model")
    assert_identical(small(), circuit)
    assert found == extra
    assert_identical(small(), fp.load(tmp_path / "model"))
    small().save(tmp_path / "plain")
    assert files.load_all(tmp_path / "plain")[1] == {}


def test_copies_of_the_same_nodes_come_back(tmp_path: Path) -> None:
    circuit = small()
    copy = fp.Circuit(circuit.nodes, {**circuit.parameters, 4: circuit.parameters[4][:, ::-1].copy()})
    files.save(circuit, tmp_path / "model", copies={"tuned 0": copy, "tuned 1": circuit})
    found = files.load_all(tmp_path / "model")
    assert_identical(circuit, found.circuit)
    assert list(found.copies) == ["tuned 0", "tuned 1"]
    assert_identical(copy, found.copies["tuned 0"])
    assert_identical(circuit, fp.load(tmp_path / "model"))
    assert b'\\"version\\":4,' in (tmp_path / "model").read_bytes()
    other = fp.structures.hmm(2, n_latents=2)
    with pytest.raises(FileFormatError, match="'tuned 0' has other nodes"):
        files.save(circuit, tmp_path / "other", copies={"tuned 0": other})
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("value", [np.arange(3), {1, 2}, float("nan"), float("inf")])
def test_only_json_is_kept_beside_a_circuit(tmp_path: Path, value: object) -> None:
    with pytest.raises(FileFormatError, match="not JSON"):
        files.save(small(), tmp_path / "model", {"value": value})
    assert list(tmp_path.iterdir()) == []


def test_arrays_can_be_read_without_flatpc(tmp_path: Path) -> None:
    circuit = small()
    circuit.save(tmp_path / "model")
    arrays = read_arrays((tmp_path / "model").read_bytes())
    np.testing.assert_array_equal(arrays["4.weights"], circuit.parameters[4])
    assert set(arrays) == {"0.p", "1.mean", "1.variance", "3.mask", "3.weights", "4.weights"}


# ---- saving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_crash_while_saving_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    path = tmp_path / "model"
    small().save(path)
    before = path.read_bytes()

    def crash(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, fails, crash)
    with pytest.raises(OSError, match="no space left"):
        small().randomize(seed=9).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


def test_save_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "model"
    small().save(path)
    other = small().randomize(seed=9)
    other.save(path)
    assert_identical(fp.load(path), other)
    assert os.listdir(tmp_path) == ["model"]


def test_save_into_a_folder_or_nowhere(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="is a folder"):
        small().save(tmp_path)
    with pytest.raises(FileFormatError, match=r"no folder .*create it first"):
        small().save(tmp_path / "absent" / "model")


def test_save_refuses_what_load_would(tmp_path: Path) -> None:
    a, b = fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli())
    with pytest.raises(SmoothnessError):
        fp.Circuit([a, b, fp.Sum((0, 1))], strict=False).save(tmp_path / "model")
    with pytest.raises(DecomposabilityError):
        fp.Circuit([a, a, fp.Product((0, 1))], strict=False).save(tmp_path / "model")
    with pytest.raises(FileFormatError, match="beyond what files may name"):
        fp.Circuit([fp.Input(0, fp.Indicator(1 << 30))]).save(tmp_path / "model")

    class Coin(fp.Bernoulli):
        pass

    with pytest.raises(FileFormatError, match=r"Coin.* is not registered"):
        fp.Circuit([fp.Input(0, Coin())]).save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


# ---- what is not a model --------------------------------------------------------------------------------------------


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"no file .*check the name"):
        fp.load(tmp_path / "absent")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="not a file"):
        fp.load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"hello, world; this is text", bytes(1000), b"\xff" * 100, pickle.dumps({"a": 1}), b"PK\x03\x04" + bytes(50)],
)
def test_not_a_model_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(FileFormatError, match="not a model file"):
        fp.load(tmp_path / "model")


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}, {"flatpc": '{"format": "something else"}'}])
def test_safetensors_of_somebody_else(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    save_file({"a": np.zeros(3)}, tmp_path / "model", metadata)
    with pytest.raises(FileFormatError, match=r"not one that Circuit\.save or flatpc fit wrote"):
        fp.load(tmp_path / "model")


def test_no_code_runs(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, (f"touch {tmp_path / 'exploded'}",)

    (tmp_path / "model").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FileFormatError):
        fp.load(tmp_path / "model")
    assert not (tmp_path / "exploded").exists()


# ---- damage ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "model"
    small().save(path)
    return path.read_bytes()


def refused(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(FileFormatError) as caught:
        fp.load(path)
    return str(caught.value)


def test_every_truncation_is_refused(tmp_path: Path, good: bytes) -> None:
    for length in range(len(good)):
        refused(tmp_path, good[:length])


def test_truncation_says_so(tmp_path: Path, good: bytes) -> None:
    assert "damaged or cut off" in refused(tmp_path, good[:-1])
    assert "ends too early" in refused(tmp_path, good[:100])


def test_every_flipped_bit_is_refused(tmp_path: Path, good: bytes) -> None:
    for position in range(len(good)):
        content = bytearray(good)
        content[position] ^= 1 << (position % 8)
        refused(tmp_path, bytes(content))


def test_appended_bytes_are_refused(tmp_path: Path, good: bytes) -> None:
    assert "damaged" in refused(tmp_path, good + b"\0")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_damage_is_refused(tmp_path: Path, good: bytes, data: st.DataObject) -> None:
    content = bytearray(good)
    start = data.draw(st.integers(0, len(content) - 1))
    stop = data.draw(st.integers(start, len(content)))
    content[start:stop] = data.draw(st.binary(max_size=40))
    if bytes(content) != good:
        refused(tmp_path, bytes(content))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0), bit=st.integers(0, 7))
def test_damage_with_a_valid_checksum_never_crashes(tmp_path: Path, good: bytes, position: int, bit: int) -> None:
    """With the checksum made to fit again a flip may go unseen, but what loads is a circuit and what doesn't is an error."""
    content = bytearray(good)
    content[position % len(content)] ^= 1 << bit
    (tmp_path / "model").write_bytes(resealed(bytes(content)))
    try:
        circuit = fp.load(tmp_path / "model")
    except FileFormatError:
        return
    assert circuit.is_smooth
    assert circuit.is_decomposable


def resealed(content: bytes) -> bytes:
    """The file with a checksum that fits what it holds now."""
    marker = b'\\"sha256\\":\\"'
    start = content.find(marker)
    if start < 0:
        return content
    start += len(marker)
    blank = content[:start] + b"0" * 64 + content[start + 64 :]
    return blank[:start] + hashlib.sha256(blank).hexdigest().encode() + blank[start + 64 :]


# ---- hostile: well-formed, with a valid checksum ---------------------------------------------------------------------


def forged(change: Callable[[Description, Arrays], object]) -> bytes:
    """The small model with its description and arrays changed and sealed again."""
    arrays: Arrays = {
        "0.p": np.array([0.25, 0.75]),
        "1.mean": np.array([0.0, 1.0]),
        "1.variance": np.array([1.0, 2.0]),
        "3.mask": np.array([[True, False], [True, True]]),
        "3.weights": np.array([[1.0, 0.0], [0.5, 0.5]]),
        "4.weights": np.array([[0.5, 0.5]]),
    }
    description: Description = {
        "format": "flatpc circuit",
        "version": 1,
        "sha256": "0" * 64,
        "nodes": [
            {"kind": "input", "variable": 0, "width": 2, "family": {"name": "bernoulli"}},
            {"kind": "input", "variable": 1, "width": 2, "family": {"name": "gaussian", "min_variance": 0.01}},
            {"kind": "hadamard", "children": [0, 1]},
            {"kind": "sum", "children": [2], "width": 2, "mask": True},
            {"kind": "sum", "children": [3], "width": 1},
        ],
    }
    changed = change(description, arrays)
    text = changed if isinstance(changed, str) else json.dumps(description, separators=(",", ":"))
    return resealed(write_arrays(arrays, {"flatpc": text}))


def put(*path: str | int, value: object) -> Callable[[Description, Arrays], object]:
    """Set one entry of the description."""

    def change(description: Description, _: Arrays) -> None:
        target: Any = description
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return change


def drop(*path: str | int) -> Callable[[Description, Arrays], object]:
    def change(description: Description, _: Arrays) -> None:
        target: Any = description
        for key in path[:-1]:
            target = target[key]
        del target[path[-1]]

    return change


def array(name: str, value: object, dtype: str = "float64") -> Callable[[Description, Arrays], object]:
    def change(_: Description, arrays: Arrays) -> None:
        arrays[name] = np.array(value, dtype=dtype)

    return change


def test_the_unchanged_forgery_loads(tmp_path: Path) -> None:
    """So that every refusal below is because of its change."""
    (tmp_path / "model").write_bytes(forged(lambda *_: None))
    assert fp.load(tmp_path / "model").n_variables == 2


HUGE = 10**18
HOSTILE: dict[str, tuple[Callable[[Description, Arrays], object], str]] = {
    "newer version": (put("version", value=5), "format version is 5.*Upgrade flatpc"),
    "copies that are no names": (put("copies", value=[1]), "copies are not different names"),
    "a copy twice": (put("copies", value=["a", "a"]), "copies are not different names"),
    "a copy without arrays": (put("copies", value=["a"]), "is missing or not of float64"),
    "version as text": (put("version", value="1"), "format version is '1'"),
    "version true": (put("version", value=True), "format version is True"),
    "no version": (drop("version"), "format version is None"),
    "no nodes": (drop("nodes"), "should have the keys"),
    "extra is a list": (put("extra", value=[1]), "extra is missing or not a JSON object"),
    "additional key": (put("surprise", value=1), "should have the keys"),
    "checksum of wrong type": (lambda d, a: json.dumps(d | {"sha256": 5}), "64 hexadecimal digits"),
    "description is a list": (lambda *_: "[]", "not a JSON object"),
    "description is not JSON": (lambda *_: "{", "JSON can't be read"),
    "nodes are an object": (put("nodes", value={}), "not a JSON list"),
    "no node": (put("nodes", value=[]), "belongs to no node"),
    "node is a number": (put("nodes", 0, value=7), "node 0 is missing or not a JSON object"),
    "unknown kind": (put("nodes", 2, "kind", value="integral"), "node 2 is of the unknown kind 'integral'"),
    "kind is a list": (put("nodes", 2, "kind", value=[1]), "unknown kind"),
    "unknown family": (put("nodes", 0, "family", "name", value="os.system"), "unknown family 'os.system'"),
    "family is a list": (put("nodes", 0, "family", value=[]), "not a JSON object"),
    "family without a name": (put("nodes", 0, "family", value={}), "unknown family None"),
    "family with another's option": (put("nodes", 0, "family", "n", value=3), "should have the keys"),
    "family lacks an option": (put("nodes", 1, "family", value={"name": "gaussian"}), "should have the keys"),
    "option of wrong type": (put("nodes", 1, "family", "min_variance", value="0.1"), "'0.1', not a number"),
    "option out of range": (put("nodes", 1, "family", "min_variance", value=-1), "floor is positive"),
    "bound of wrong type": (put("nodes", 1, "family", "max_variance", value="10"), "largest variance is finite"),
    "bound is null": (put("nodes", 1, "family", "max_variance", value=None), "None, not left out"),
    "bound below the floor": (put("nodes", 1, "family", "max_variance", value=0.001), "largest variance is finite"),
    "option overflows": (
        lambda d, a: json.dumps(d, separators=(",", ":")).replace("0.01", "1e999"),
        "floor is positive and finite",
    ),
    "number of values is text": (put("nodes", 0, "family", value={"name": "categorical", "n": "2"}), "n is '2', not a whole"),
    "number of values is huge": (put("nodes", 0, "family", value={"name": "indicator", "n": HUGE}), r"n=1000"),
    "width is text": (put("nodes", 0, "width", value="2"), "width is '2', not a whole number"),
    "width is true": (put("nodes", 4, "width", value=True), "width is True, not a whole number"),
    "width is a fraction": (put("nodes", 0, "width", value=2.0), "width is 2.0, not a whole number"),
    "width is zero": (put("nodes", 0, "width", value=0), r"width=0\); give a whole number of at least 1"),
    "width is negative": (put("nodes", 0, "width", value=-2), "not a whole number"),
    "input of huge width": (put("nodes", 0, "width", value=HUGE), "width is 1000"),
    "sum of huge width": (put("nodes", 3, "width", value=HUGE), "width is 1000"),
    "huge variable": (put("nodes", 0, "variable", value=HUGE), "variable is 1000"),
    "large variable": (put("nodes", 0, "variable", value=10**7), "without gaps"),
    "negative variable": (put("nodes", 0, "variable", value=-1), "not a whole number"),
    "variables of one": (put("nodes", 0, "variables", value=[0]), "should have the keys"),
    "variables with a gap": (put("nodes", 0, "variable", value=2), "without gaps"),
    "children are text": (put("nodes", 2, "children", value="01"), "not a JSON list"),
    "a child is text": (put("nodes", 2, "children", value=["0", 1]), "not all whole numbers"),
    "a child is huge": (put("nodes", 2, "children", value=[0, HUGE]), "give a tuple of indices of nodes"),
    "a child is negative": (put("nodes", 2, "children", value=[0, -4]), "give a tuple of indices of nodes"),
    "no children": (put("nodes", 2, "children", value=[]), "has no children"),
    "a cycle": (put("nodes", 2, "children", value=[0, 3]), "no cycle"),
    "its own child": (put("nodes", 2, "children", value=[0, 2]), "no cycle"),
    "not decomposable": (put("nodes", 2, "children", value=[0, 0]), "disjoint scopes"),
    "not smooth": (put("nodes", 4, "children", value=[3, 0]), "same scope"),
    "families that disagree": (put("nodes", 1, "variable", value=0), "differ in the values they allow"),
    "a root of width 2": (lambda d, a: (d["nodes"].pop(), a.pop("4.weights")), "must have width 1"),
    "tied to a later node": (
        lambda d, a: (d["nodes"][0].update(tie=1), a.pop("0.p")),
        "can only share the parameters of an earlier node",
    ),
    "tied to another family": (
        lambda d, a: (d["nodes"][1].update(tie=0), a.pop("1.mean"), a.pop("1.variance")),
        "which has other parameters",
    ),
    "tied to nothing": (put("nodes", 0, "tie", value=None), "tie is None"),
    "tied, with parameters of its own": (put("nodes", 1, "tie", value=0), "belongs to no node"),
    "weights off the simplex": (array("4.weights", [[0.5, 0.4]]), "sum to 0.9, not 1"),
    "negative weights": (array("4.weights", [[1.5, -0.5]]), "hold -0.5"),
    "NaN weights": (array("4.weights", [[np.nan, 1.0]]), "hold nan"),
    "infinite weights": (array("4.weights", [[np.inf, 1.0]]), "hold inf"),
    "weights against the mask": (array("3.weights", [[0.5, 0.5], [0.5, 0.5]]), "an edge that the mask removes has a weight"),
    "weights of another shape": (array("4.weights", [[1.0]]), r"have shape \(1, 1\)"),
    "weights of another type": (array("4.weights", [[0.5, 0.5]], "float32"), "4.weights is missing or not of float64"),
    "weights missing": (lambda d, a: a.pop("4.weights"), "4.weights is missing"),
    "an array too many": (array("9.weights", [[1.0]]), "'9.weights', which belongs to no node"),
    "an array named as a path": (array("../../etc/passwd", [1.0]), "which belongs to no node"),
    "probability above 1": (array("0.p", [0.5, 1.5]), "p holds 1.5"),
    "probability NaN": (array("0.p", [0.5, np.nan]), "p holds nan"),
    "parameter of another shape": (array("0.p", [0.5]), "p has shape"),
    "mean infinite": (array("1.mean", [0.0, np.inf]), "every mean must be a finite"),
    "variance zero": (array("1.variance", [1.0, 0.0]), "every variance must be finite and positive"),
    "mask of another type": (array("3.mask", [[1, 0], [1, 1]], "uint8"), "mask is missing or not of booleans"),
    "mask of another shape": (array("3.mask", [[True], [True]], "bool"), "the mask has shape"),
    "mask removes a unit": (array("3.mask", [[False, False], [True, True]], "bool"), "removes all edges of unit 0"),
    "mask missing": (lambda d, a: a.pop("3.mask"), "mask is missing"),
    "mask false": (put("nodes", 3, "mask", value=False), "mask is missing"),
    "NaN in JSON": (put("nodes", 1, "family", "min_variance", value=float("nan")), "JSON holds NaN"),
    "repeated key": (
        lambda d, a: json.dumps(d, separators=(",", ":")).replace('"version":1', '"version":1,"version":1'),
        "repeats a key",
    ),
    "nested deeply": (
        lambda d, a: json.dumps(d, separators=(",", ":")).replace('"bernoulli"', "[" * 100_000 + "]" * 100_000),
        "nested too deeply",
    ),
    "number of 10,000 digits": (
        lambda d, a: json.dumps(d, separators=(",", ":")).replace('"version":1', '"version":' + "9" * 10_000),
        "JSON can't be read",
    ),
    "kronecker of 2^1000 units": (
        lambda d, a: (
            d.update(
                nodes=[{"kind": "input", "variable": v, "width": 2, "family": {"name": "bernoulli"}} for v in range(1000)]
                + [{"kind": "kronecker", "children": list(range(1000))}]
            )
            or (a.clear(), a.update({f"{v}.p": np.array([0.5, 0.5]) for v in range(1000)}))
        ),
        "more than .* units",
    ),
    "kronecker of 2^30 units": (
        lambda d, a: (
            d.update(
                nodes=[{"kind": "input", "variable": v, "width": 2, "family": {"name": "bernoulli"}} for v in range(30)]
                + [{"kind": "kronecker", "children": list(range(30))}]
                + [{"kind": "sum", "children": [30], "width": 1}]
            )
            or (a.clear(), a.update({f"{v}.p": np.array([0.5, 0.5]) for v in range(30)} | {"31.weights": np.ones((1, 1))}))
        ),
        r"the weights have shape \(1, 1\); they should have \(1, 1073741824\)",
    ),
    "a node that the root does not use": (
        lambda d, a: (
            d.update(
                nodes=[{"kind": "input", "variable": v, "width": 1, "family": {"name": "bernoulli"}} for v in range(2)]
                + [{"kind": "sum", "children": [0], "width": 1}]
            )
            or (a.clear(), a.update({"0.p": np.array([0.5]), "1.p": np.array([0.5]), "2.weights": np.ones((1, 1))}))
        ),
        r"Node 1 \(Input\) is not below the root",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_file_is_refused(tmp_path: Path, case: str) -> None:
    change, message = HOSTILE[case]
    (tmp_path / "model").write_bytes(forged(change))
    with pytest.raises(FileFormatError, match=message) as caught:
        fp.load(tmp_path / "model")
    assert str(tmp_path / "model") in str(caught.value)


def with_header(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('{"a":1,"a":2}', "repeats a key"),
        ("{" * 50_000, "can't be read|nested too deeply"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested too deeply"),
        ('{"a":', "can't be read"),
        ('{"__metadata__":7}', "not one that Circuit.save or flatpc fit wrote"),
        ('{"__metadata__":{"flatpc":7}}', "not one that Circuit.save or flatpc fit wrote"),
    ],
)
def test_hostile_header_is_refused(tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "model").write_bytes(with_header(header))
    with pytest.raises(FileFormatError, match=message):
        fp.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"dtype": "F64", "shape": [HUGE], "data_offsets": [0, 8 * HUGE]}, "huge array"),
        ({"dtype": "F64", "shape": [2], "data_offsets": [-8, 8]}, "negative offset"),
        ({"dtype": "F64", "shape": [1], "data_offsets": [8, 16]}, "hole before the data"),
        ({"dtype": "F64", "shape": [2**40, 2**40], "data_offsets": [0, 0]}, "overflowing shape"),
        ({"dtype": "PY", "shape": [1], "data_offsets": [0, 8]}, "unknown type"),
        ({"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}, "type that NumPy lacks"),
        ("text", "not an object"),
    ],
)
def test_hostile_array_table_is_refused(tmp_path: Path, entry: object, field: str) -> None:
    nodes = [{"kind": "input", "variable": 0, "width": 1, "family": {"name": "bernoulli"}}]
    text = json.dumps({"format": "flatpc circuit", "version": 1, "sha256": "0" * 64, "nodes": nodes}, separators=(",", ":"))
    header = json.dumps({"__metadata__": {"flatpc": text}, "0.p": entry}, separators=(",", ":"))
    (tmp_path / "model").write_bytes(resealed(with_header(header, np.array([0.5]).tobytes())))
    with pytest.raises(FileFormatError, match=r"arrays can't be read|0\.p is missing or not of float64"):
        fp.load(tmp_path / "model")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small().save(tmp_path / "model")

    def forbidden(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with pytest.raises(FileFormatError, match="can't be read: Permission denied"):
        fp.load(tmp_path / "model")


def test_a_header_too_large_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_HEADER", 100)
    with pytest.raises(FileFormatError, match="larger than a safetensors file can hold"):
        small().save(tmp_path / "model")
    assert os.listdir(tmp_path) == []
