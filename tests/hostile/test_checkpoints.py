"""Mutated checkpoints: a run is never resumed from anything but what was written, whichever byte or word was changed."""

import json
import shutil

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

import flatpc as fp
from flatpc.errors import FileFormatError, FlatpcError
from flatpc.learning.run import checkpoint
from tests.hostile.tally import Tally, how_many

RNG = np.random.default_rng(3)
X = (RNG.random((40, 4)) < RNG.choice([0.2, 0.8], (40, 1))).astype(float)
CIRCUIT = fp.structures.hclt(X, 3)
KEY = checkpoint._KEY


def _fit(path, epochs, **options):
    return fp.fit(CIRCUIT, X, valid=X[:10], batch_size=15, epochs=epochs, run=path, progress=False, n_threads=1, **options)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run of three epochs, and what it should have become after six."""
    folder = tmp_path_factory.mktemp("runs")
    _fit(folder / "run", 3)
    shutil.copy(folder / "run", folder / "copy")
    return (folder / "run").read_bytes(), _fit(folder / "copy", 6)


def _opened(path):
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()[KEY]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _same(result, whole):
    return all(
        np.array_equal(a[name], b[name]) if isinstance(a, dict) else np.array_equal(a, b)
        for a, b in ((result.circuit.parameters[i], whole.circuit.parameters[i]) for i in whole.circuit.parameters)
        for name in (a if isinstance(a, dict) else [None])
    ) and np.array_equal(result.history["valid_nll"], whole.history["valid_nll"])


def test_mutated_bytes(written, tmp_path):
    good, whole = written
    path, rng = tmp_path / "run", np.random.default_rng(11)
    with Tally("checkpoints, mutated bytes") as tally:
        for number in range(how_many(60, 1500)):
            data = bytearray(good)
            for _ in range(1 + int(rng.integers(3))):
                at = int(rng.integers(len(data)))
                # Half of all changes in the JSON in front, of which the file has little.
                at = int(rng.integers(min(len(data), 3000))) if rng.random() < 0.5 else at
                kind = rng.integers(4)
                if kind == 0:
                    data[at] ^= 1 << int(rng.integers(8))
                elif kind == 1:
                    data[at] = int(rng.choice(list(b'0123456789"{}[],: ')))
                elif kind == 2:
                    del data[at : at + int(rng.integers(1, 40))]
                else:
                    data[at:at] = rng.bytes(int(rng.integers(1, 9)))
            path.write_bytes(bytes(data))
            with tally.case(f"bytes {number} of seed 11"):
                if not _same(_fit(path, 6), whole):
                    raise AssertionError("resumed to something else")


def _places(value, at=()):
    """The paths of all values inside a JSON value."""
    yield at
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from _places(value[key], (*at, key))


def _changed(text, rng):
    """The JSON with one value changed, or one key renamed or removed."""
    places = [place for place in _places(text) if place]
    *path, last = places[int(rng.integers(len(places)))]
    inside = text
    for key in path:
        inside = inside[key]
    kind = int(rng.integers(4)) if isinstance(inside, dict) else 3
    if kind == 0:
        inside[f"{last}_"] = inside.pop(last)
    elif kind == 1:
        del inside[last]
    else:
        old = inside[last]
        others = [None, [], {}, "text", True, -1, 10**30, 1e308, old + 1 if type(old) in (int, float) else 7]
        new = others[int(rng.integers(len(others)))]
        inside[last] = new if new != old else "other"
    return text


def test_changed_json_is_noticed(written, tmp_path):
    good, _ = written
    path, rng = tmp_path / "run", np.random.default_rng(12)
    path.write_bytes(good)
    with Tally("checkpoints, changed JSON") as tally:
        for number in range(how_many(100, 1500)):
            path.write_bytes(good)
            text, arrays = _opened(path)
            path.write_bytes(save(arrays, {KEY: json.dumps(_changed(text, rng))}))
            with tally.case(f"JSON {number} of seed 12"):
                _fit(path, 6)
                raise AssertionError("a change went unnoticed")


@pytest.mark.parametrize("epoch", [1, 6])
def test_another_epoch_is_noticed(epoch, written, tmp_path):
    path = tmp_path / "run"
    path.write_bytes(written[0])
    text, arrays = _opened(path)
    assert text["epoch"] == 3
    path.write_bytes(save(arrays, {KEY: json.dumps({**text, "epoch": epoch})}))
    with pytest.raises(FileFormatError, match="checksum"):
        _fit(path, 6)


def test_forged_checksums_lead_to_no_foreign_exception(written, tmp_path):
    """Whoever can write the file can make the checksum fit; even so, what can't be a state is refused."""
    good, _ = written
    path, rng = tmp_path / "run", np.random.default_rng(13)
    with Tally("checkpoints, forged checksums") as tally:
        for number in range(how_many(60, 600)):
            path.write_bytes(good)
            text, arrays = _opened(path)
            if rng.random() < 0.7:
                text = _changed(text, rng)
            else:
                name = sorted(arrays)[int(rng.integers(len(arrays)))]
                array = arrays.pop(name)
                kind = rng.integers(4)
                if kind == 0:
                    arrays[f"{name}_"] = array
                elif kind == 1:
                    arrays[name] = np.repeat(array, 2)
                elif kind == 2:
                    arrays[name] = array.astype(np.float32 if array.dtype == np.float64 else np.float64)
            text.pop("sha256", None)
            text["sha256"] = checkpoint._digest_of(arrays, text)
            path.write_bytes(save(arrays, {KEY: json.dumps(text)}))
            with tally.case(f"forgery {number} of seed 13"):
                _fit(path, 6)


def test_refusals_are_flatpcs_own(tmp_path):
    for content in (b"", b"\0" * 100, b"{}", b"\xff" * 9, (10**9).to_bytes(8, "little") + b"{}"):
        (tmp_path / "run").write_bytes(content)
        with pytest.raises(FlatpcError, match="run"):
            _fit(tmp_path / "run", 6)
