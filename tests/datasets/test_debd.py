"""The loader of the binary benchmarks: a small registry served by a local server, and the real folder if there is one."""

import hashlib
import json
import os
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from flatpc.datasets import DEBD, DEBD_EXTRA, debd, download, load_debd, local_files
from flatpc.datasets.debd import Benchmark, Registry, registry
from flatpc.datasets.download import DownloadError
from flatpc.errors import DataError, OptionError


def text_of(rows):
    return "".join(",".join(str(value) for value in row) + "\n" for row in rows).encode()


@pytest.fixture
def small():
    """A benchmark called dna with 11 variables, and its rows."""
    rng = np.random.default_rng(0)
    splits = {name: rng.integers(0, 2, (n, 11), dtype=np.uint8) for name, n in (("train", 7), ("valid", 3), ("test", 2))}
    known = Benchmark(
        "dna", "debd", 11, {name: len(rows) for name, rows in splits.items()},
        {name: hashlib.sha256(rows.tobytes()).hexdigest() for name, rows in splits.items()},
        {name: hashlib.sha256(text_of(rows)).hexdigest() for name, rows in splits.items()},
    )  # fmt: skip
    return known, splits


@pytest.fixture
def folder(tmp_path, small, monkeypatch):
    known, splits = small
    monkeypatch.setattr(debd, "registry", lambda: Registry("http://127.0.0.1:9", {"dna": known, "nltcs": known}))
    monkeypatch.delenv("FLATPC_DATA", raising=False)
    home = tmp_path / "debd"
    home.mkdir()
    np.savez(home / "dna.npz", num_vars=11, **{name: np.packbits(rows, axis=1) for name, rows in splits.items()})
    return tmp_path, splits


def test_rows_come_back(folder, monkeypatch):
    home, splits = folder
    loaded = load_debd("dna", home)
    for name, rows in splits.items():
        np.testing.assert_array_equal(getattr(loaded, name), rows)
    monkeypatch.setenv("FLATPC_DATA", str(home))
    np.testing.assert_array_equal(load_debd("dna").fraction(0.5).train, splits["train"][:3])


def test_a_changed_file_is_noticed(folder):
    home, splits = folder
    other = {name: np.packbits(1 - rows if name == "valid" else rows, axis=1) for name, rows in splits.items()}
    np.savez(home / "debd" / "dna.npz", num_vars=11, **other)
    with pytest.raises(DataError, match="valid rows"):
        load_debd("dna", home)
    (home / "debd" / "dna.npz").write_bytes(b"PK, but no archive")
    with pytest.raises(DataError, match="can't be read"):
        load_debd("dna", home)


def test_what_is_not_there(folder, monkeypatch, tmp_path):
    home, _ = folder
    with pytest.raises(OptionError, match=r"name='mnist'; choose .*'nltcs'"):
        load_debd("mnist", home)
    with pytest.raises(DataError, match=r"FLATPC_DATA"):
        load_debd("nltcs", tmp_path / "elsewhere")
    monkeypatch.setenv("FLATPC_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataError, match="FLATPC_DATA"):
        load_debd("dna", download=False)


# ---- download --------------------------------------------------------------------------------------------------------


@contextmanager
def served(files, cut=()):
    """A local server of `files`; those in `cut` end halfway."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = files.get(self.path)
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            if body:
                self.wfile.write(body[: len(body) // 2] if self.path in cut else body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FLATPC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FLATPC_DATA", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "fetch", partial(download.fetch, retries=0))
    return tmp_path / "cache"


def use(monkeypatch, url, known):
    monkeypatch.setattr(debd, "registry", lambda: Registry(url, {"dna": known}))


def files_of(splits):
    return {f"/dna/dna.{name}.data": text_of(rows) for name, rows in splits.items()}


def test_a_download_is_parsed_packed_and_kept(small, cache, monkeypatch):
    known, splits = small
    with served(files_of(splits)) as (url, asked):
        use(monkeypatch, url, known)
        assert not local_files.is_local(known.file)
        first = load_debd("dna")
        assert local_files.is_local(known.file)
        again = load_debd("dna")
    assert len(asked) == 3
    for name, rows in splits.items():
        np.testing.assert_array_equal(getattr(first, name), rows)
        np.testing.assert_array_equal(getattr(again, name), rows)
    assert [path.name for path in (cache / "debd").iterdir()] == ["dna.npz"]


def test_other_text_is_refused(small, cache, monkeypatch):
    known, splits = small
    files = files_of(splits)
    files["/dna/dna.test.data"] = text_of(1 - splits["test"])
    with served(files) as (url, _):
        use(monkeypatch, url, known)
        with pytest.raises(DownloadError, match=r"dna\.test\.data is not the test split of dna: wrong SHA-256.*FLATPC_DATA"):
            load_debd("dna")
    assert list((cache / "debd").iterdir()) == []


def test_a_download_cut_off_leaves_nothing(small, cache, monkeypatch):
    known, splits = small
    with served(files_of(splits), cut={"/dna/dna.valid.data"}) as (url, _):
        use(monkeypatch, url, known)
        with pytest.raises(DownloadError, match=r"dna\.valid\.data"):
            load_debd("dna")
    assert list((cache / "debd").iterdir()) == []


def test_no_network_and_no_file_name_the_address_and_the_remedy(small, cache, monkeypatch):
    known, _ = small
    with served({}) as (url, _):
        use(monkeypatch, url, known)
        with pytest.raises(DownloadError, match=rf"{url}/dna/dna\.train\.data .*404.*FLATPC_DATA"):
            load_debd("dna")
    # Nobody listens there any more.
    with pytest.raises(DownloadError, match=rf"{url}/dna/dna\.train\.data .no connection.*FLATPC_DATA"):
        load_debd("dna")


def test_the_cached_rows_are_checked_too(small, cache, monkeypatch):
    known, splits = small
    with served(files_of(splits)) as (url, _):
        use(monkeypatch, url, known)
        load_debd("dna")
    use(monkeypatch, url, replace(known, sha256={**known.sha256, "train": "0" * 64}))
    with pytest.raises(DataError, match="train rows are not those of dna"):
        load_debd("dna")


# ---- the real ones ---------------------------------------------------------------------------------------------------


def test_the_registry_lists_twenty_five():
    sets = registry().sets
    assert list(sets) == [*DEBD, *DEBD_EXTRA]
    assert {name for name, known in sets.items() if known.folder == "debd_extra"} == set(DEBD_EXTRA)
    assert all(len(digest) == 64 for known in sets.values() for digest in [*known.sha256.values(), *known.text_sha256.values()])


FOLDER = os.environ.get("FLATPC_DATA", "")  # as it is before a test changes it
needs_data = pytest.mark.skipif(not FOLDER, reason="FLATPC_DATA is not set")


@pytest.mark.data
@needs_data
def test_the_real_dna():
    dna = load_debd("dna")
    assert (dna.train.shape, dna.valid.shape, dna.test.shape) == ((1600, 180), (400, 180), (1186, 180))
    assert dna.train.mean() == pytest.approx(0.253469, abs=1e-6)


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", ["nltcs", "mushrooms"])
def test_originals_rebuilt_from_the_folder_pass_for_a_download(name, cache, monkeypatch):
    """The text that a real download would bring, made from rows already here, has the digests the project holds."""
    known = registry().sets[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLATPC_DATA", FOLDER)
        here = load_debd(name)
    files = {f"/{name}/{name}.{split}.data": text_of(getattr(here, split).astype(int)) for split in ("train", "valid", "test")}
    with served(files) as (url, _):
        monkeypatch.setattr(debd, "registry", lambda: Registry(url, {name: known}))
        downloaded = load_debd(name)
    np.testing.assert_array_equal(downloaded.train, here.train)


@pytest.mark.data
@needs_data
def test_digests_are_those_of_the_manifest():
    for folder in ("debd", "debd_extra"):
        with open(os.path.join(FOLDER, folder, "manifest.json")) as file:
            manifest = json.load(file)["datasets"]
        for name, entry in manifest.items():
            known = registry().sets[name]
            assert (known.sha256, known.rows, known.n_variables) == (entry["sha256"], entry["rows"], entry["num_vars"])
