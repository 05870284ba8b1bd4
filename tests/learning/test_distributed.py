"""Two processes give the model of one."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

import flatpc as fp

SCRIPT = """
import sys
import numpy as np
import torch.distributed as dist
import flatpc as fp

folder = sys.argv[1]
X = np.load(f"{folder}/X.npy")
Y = np.load(f"{folder}/Y.npy")
Laplace, Run, Stopping = fp.learning.Laplace, fp.learning.Run, fp.learning.Stopping
apart = {"epochs": 3, "dtype": "float64", "progress": False, "n_threads": 1}
common = {**apart, "run": Run(distributed=True)}
hclt, rat = fp.load(f"{folder}/hclt"), fp.load(f"{folder}/rat")
logged = Run(distributed=True, log=f"{folder}/log")
penalty = fp.Sharpness(mu=0.2)
em = fp.fit(hclt, X, valid=X[:5], batch_size=33, sharpness=penalty, regularizer=Laplace(0.1), run=logged, **apart)
flow = fp.fit(hclt, X, batch_size=None, sharpness=fp.Sharpness(mu="mean-flow"), **common)
adam = fp.fit(rat, Y, valid=Y[:5], method="adam", batch_size=33, sharpness=fp.Sharpness(mu="adaptive"), **common)
soft = fp.fit(hclt, X, batch_size=33, regularizer=fp.learning.Softening(0.9), method=fp.EM(momentum=0.5, anemone=True), **common)
entropy = fp.fit(hclt, X, batch_size=33, regularizer=fp.learning.Entropy(0.1, children=True), **common)
drawn = fp.fit(hclt, X, batch_size=33, regularizer=fp.learning.Softening(0.9, draws=2), **common)
dropped = fp.fit(hclt, X, batch_size=33, regularizer=fp.learning.Dropout(0.1, 0.1), **common)
quick = fp.fit(hclt, X, **{**common, "epochs": 10**6}, stopping=Stopping(time_budget=0.2 if dist.get_rank() else 10.0))
results = {"em": em, "flow": flow, "adam": adam, "soft": soft, "entropy": entropy, "drawn": drawn, "dropped": dropped}
for name, result in results.items():
    result.circuit.save(f"{folder}/{name}{dist.get_rank()}")
with open(f"{folder}/said{dist.get_rank()}", "w") as said:
    print(quick.stopped, len(quick.history), file=said)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distributed")
    rng = np.random.default_rng(0)
    np.save(folder / "X.npy", rng.integers(0, 2, (100, 6)).astype(float))
    np.save(folder / "Y.npy", fp.datasets.manifold("spiral", 100))
    fp.structures.hclt(np.load(folder / "X.npy"), 5).save(folder / "hclt")
    fp.structures.rat_spn(2, 1, 3, 4, 4).save(folder / "rat")
    (folder / "script.py").write_text(SCRIPT)
    (
        alone(folder, "em"),
        alone(folder, "adam"),
        alone(folder, "entropy"),
    )  # compiles what two processes would otherwise compile at once
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = ["--master-addr=127.0.0.1", f"--master-port={free.getsockname()[1]}"]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", *address, "script.py", str(folder)]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def alone(folder, name):
    X, Y = np.load(folder / "X.npy"), np.load(folder / "Y.npy")
    hclt, rat = fp.load(folder / "hclt"), fp.load(folder / "rat")
    common = {"epochs": 3, "dtype": "float64", "progress": False}
    if name == "em":
        return fp.fit(
            hclt, X, valid=X[:5], batch_size=33, sharpness=fp.Sharpness(mu=0.2), regularizer=fp.learning.Laplace(0.1), **common
        ).circuit
    if name == "flow":
        return fp.fit(hclt, X, batch_size=None, sharpness=fp.Sharpness(mu="mean-flow"), **common).circuit
    if name == "soft":
        return fp.fit(
            hclt, X, batch_size=33, regularizer=fp.learning.Softening(0.9), method=fp.EM(momentum=0.5, anemone=True), **common
        ).circuit
    if name == "entropy":
        return fp.fit(hclt, X, batch_size=33, regularizer=fp.learning.Entropy(0.1, children=True), **common).circuit
    return fp.fit(rat, Y, valid=Y[:5], method="adam", batch_size=33, sharpness=fp.Sharpness(mu="adaptive"), **common).circuit


@pytest.mark.parametrize("name", ["em", "flow", "adam", "soft", "entropy"])
def test_two_processes_give_the_model_of_one(folder, name):
    first, second, one = fp.load(folder / f"{name}0"), fp.load(folder / f"{name}1"), alone(folder, name)
    for i, value in one.parameters.items():
        np.testing.assert_equal(first.parameters[i], second.parameters[i])
        for a, b in (
            [(value[key], first.parameters[i][key]) for key in value]
            if isinstance(value, dict)
            else [(value, first.parameters[i])]
        ):
            np.testing.assert_allclose(b, a, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["drawn", "dropped"])
def test_processes_that_draw_agree(folder, name):
    """Each draws for rows of its own, and all end with the same model."""
    first, second = fp.load(folder / f"{name}0"), fp.load(folder / f"{name}1")
    for i, value in first.parameters.items():
        np.testing.assert_equal(second.parameters[i], value)


def test_processes_stop_together_and_one_writes_the_log(folder):
    lines = [(folder / f"said{rank}").read_text().strip() for rank in range(2)]
    # One process had the shorter budget, and both ended after the same epoch.
    assert {line.rsplit(" ", 1)[0] for line in lines} == {"time budget", "another process"}
    assert len({line.rsplit(" ", 1)[1] for line in lines}) == 1
    assert len((folder / "log").read_text().splitlines()) == 3
