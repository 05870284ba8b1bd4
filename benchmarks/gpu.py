"""Steps of EM by the torch engine: compiled and with shared sub-rows beside plain on the CPU, and on CUDA beside PyJuice.

python -m benchmarks gpu
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from unittest import mock

import numpy as np
import torch

import flatpc as fp
from benchmarks.binary_data import train_rows
from benchmarks.clock import best
from benchmarks.engine import BATCH, LATENTS, Numbers, Rows, console, has_data, quadratic
from benchmarks.peers import data_sets, generated_rows
from flatpc.engine.contract import Arithmetic, get_evaluator
from flatpc.engine.torch.evaluator import TorchEvaluator

SHARED = ("plants", "jester", "kosarek")
PYJUICE = "pip install --no-deps pyjuice==2.6.3 triton"


def _our_step(X: Rows, latents: int, device: str, dtype: Arithmetic = "float32") -> Callable[[], float]:
    """An EM step over the first rows, parameters staying on the device."""
    circuit = fp.structures.hclt(X, latents)
    evaluator = get_evaluator(circuit, engine="torch", device=device, dtype=dtype)
    evidence, rule, rows = evaluator.evidence(X[:BATCH]), quadratic(evaluator), np.arange(min(BATCH, len(X)))

    def step() -> float:
        mean = evaluator.em_step(evidence, rows, rule)[0]
        if device != "cpu":
            torch.cuda.synchronize()
        return mean

    return step


def compiled(n_variables: int = 16, latents: int = LATENTS) -> Numbers:
    """What `FLATPC_COMPILE=1` saves of a step on one thread of the CPU, and what compiling takes."""
    torch.set_num_threads(1)
    X = generated_rows(n_variables)
    plain = _our_step(X, latents, "cpu")
    with (
        tempfile.TemporaryDirectory() as place,
        mock.patch.dict(
            os.environ,
            {"FLATPC_COMPILE": "1", "TORCHINDUCTOR_CACHE_DIR": place},  # nothing compiled is there
        ),
    ):
        other = _our_step(X, latents, "cpu")
        started = time.process_time()
        other()
        seconds = time.process_time() - started
    by_plain, by_compiled = best(plain, other, clock=time.thread_time)
    print(f"A step of EM by torch, {n_variables} variables, {latents} latents, one thread of the CPU: {1e3 * by_plain:.2f} ms, "
          f"compiled {1e3 * by_compiled:.2f} ms; compiling takes {seconds:.0f} s of the processor.")  # fmt: skip
    return {"times as fast": by_plain / by_compiled, "seconds of compiling": seconds}


def shared(names: tuple[str, ...] = SHARED, batches: tuple[int, ...] = (500, 2000)) -> Numbers | None:
    """What it saves of a step on one thread of the CPU to work once on sub-rows that are alike, level by level."""
    if not has_data():
        return None
    torch.set_num_threads(1)
    found: Numbers = {}
    for name in names:
        X = train_rows(name)
        circuit = fp.structures.hclt(X, LATENTS)
        for batch in batches:
            steps, rows = [], np.arange(min(batch, len(X)))
            for share in (False, True):
                evaluator = TorchEvaluator(circuit, "float32")
                evaluator.run.sharing.may_pay &= share
                evidence, rule = evaluator.evidence(X[:batch]), quadratic(evaluator)
                steps.append(lambda e=evaluator, v=evidence, rule=rule, rows=rows: e.em_step(v, rows, rule))
            plan = evaluator.run.sharing.plan(evidence.rows.unique(dim=0))
            by_rows, by_sub_rows = best(*steps, clock=time.thread_time)
            print(f"A step of EM by torch, {name}, {LATENTS} latents, batch {batch}, one thread of the CPU: {1e3 * by_rows:.1f} "
                  f"ms, with shared sub-rows {1e3 * by_sub_rows:.1f} ms, {by_rows / by_sub_rows:.2f} times as fast "
                  f"({'chosen' if plan else 'not chosen: the same step'}).")  # fmt: skip
            found.setdefault(name, {})[batch] = by_rows / by_sub_rows
    return found


def cuda() -> Numbers | None:
    """Our step on CUDA, also with products in bfloat16, beside PyJuice's if it is installed."""
    if not torch.cuda.is_available():
        print("Steps on CUDA, ours and PyJuice's: not measured, since there is no CUDA device on this machine.")
        return None
    found: Numbers = {}
    for name, X in data_sets().items():
        steps = {"flatpc": _our_step(X, LATENTS, "cuda"), "in bfloat16": _our_step(X, LATENTS, "cuda", "bfloat16")}
        if find_spec("pyjuice") is None:
            print(f"PyJuice is not installed: {PYJUICE}")
        else:
            try:
                steps["PyJuice"] = _juice_step(X)
                steps["PyJuice"]()
            except Exception as error:  # whatever happens in another library must not stop the rest
                console.print(f"PyJuice on {name}: not measured, {type(error).__name__}: {error}", soft_wrap=True, markup=False)
                steps.pop("PyJuice", None)
        seconds = dict(zip(steps, best(*steps.values()), strict=True))
        print(f"{name}, {LATENTS} latents, batch {BATCH}, on {torch.cuda.get_device_name()}: "
              + ", ".join(f"{whose} {1e3 * taken:.2f} ms" for whose, taken in seconds.items()))  # fmt: skip
        found[name] = {whose: 1e3 * taken for whose, taken in seconds.items()}
    return found


def _juice_step(X: Rows) -> Callable[[], float]:
    """PyJuice's hidden Chow-Liu tree: a forward and a backward pass, and its mini-batch EM."""
    import pyjuice as juice

    rows = torch.from_numpy(X.astype(np.int64)).cuda()
    tree = juice.structures.HCLT(rows, num_latents=LATENTS, input_dist=juice.distributions.Categorical(num_cats=2))
    circuit = juice.TensorCircuit(tree).cuda()
    batch = rows[:BATCH]

    def step() -> float:
        log_prob = circuit(batch)
        circuit.backward(batch, allow_modify_flows=False)
        circuit.mini_batch_em(step_size=0.1, pseudocount=0.1)
        torch.cuda.synchronize()
        return float(log_prob.mean())

    return step


PIECES = {"compiled": compiled, "shared": shared, "cuda": cuda}
