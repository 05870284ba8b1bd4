"""One step of the CPU engine against the libraries that run on a CPU too: libcirkit and spflow, both on PyTorch.

Ours is an EM step: planning the batch, both passes, the quadratic update of every weight, and the statistics of the inputs,
which are not updated. A peer's gradient step is its log-likelihood and the backward pass, without an optimizer; spflow's EM
step is that and the update of weights and inputs. Learning the tree, building the circuit and, on our side, numbering the
data set's sub-rows come before and aren't timed.

Weights are those of sums. libcirkit's `cp-t` gives no latent to a leaf of the Chow-Liu tree, as `structures.hclt` doesn't;
spflow gives one to every variable. libcirkit meets both kinds, spflow only the larger one, so that weights are equal in number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import torch
from rich.table import Table

import flatpc as fp
from benchmarks.binary_data import folder, train_rows
from benchmarks.clock import best
from benchmarks.engine import BATCH, LATENTS, Numbers, Rows, console, prepare, prepare_machine, quadratic
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.structures.options import random_circuit

Step = Callable[[], float]  # returns the mean log-likelihood before the step


@dataclass(frozen=True)
class Theirs:
    """A peer's circuit: how many weights its sums have, and what it can be timed at."""

    n_weights: int
    steps: dict[str, Step]


@dataclass(frozen=True)
class Peer:
    """A package on PyPI, what it needs besides our own dependencies, and the circuits of ours that it meets."""

    package: str
    release: str
    needs: tuple[str, ...]
    build: Callable[[Rows], Theirs]
    meets: tuple[Callable[[Rows], Circuit], ...]

    @property
    def install(self) -> str:
        # Without --no-deps pip may replace torch or scipy by what the peer would rather have.
        return " ".join(["pip install --no-deps", f"{self.package}=={self.release}", *self.needs])


def generated_rows(n_variables: int, n_rows: int = 2000, seed: int = 0) -> Rows:
    """Bits of a random tree: each variable repeats an earlier one, but for 5 to 20% of the rows."""
    rng = np.random.default_rng(seed)
    X = np.empty((n_rows, n_variables), dtype=bool)
    X[:, 0] = rng.random(n_rows) < 0.5
    for v in range(1, n_variables):
        X[:, v] = X[:, rng.integers(v)] ^ (rng.random(n_rows) < rng.uniform(0.05, 0.2))
    return X.astype(np.float64)


def data_sets() -> dict[str, Rows]:
    """Rows of 16 and of 100 variables."""
    if folder() is None:
        return {"generated, 16": generated_rows(16), "generated, 100": generated_rows(100)}
    return {name: train_rows(name) for name in ("nltcs", "baudio")}


def leaves_without_latents(X: Rows) -> Circuit:
    return fp.structures.hclt(X, LATENTS)


def leaves_with_latents(X: Rows) -> Circuit:
    """The same tree, and a sum above each of its leaves: (variables - 1) K² + K weights."""
    given = fp.structures.hclt(X, LATENTS).nodes
    nodes: list[Node] = []
    at: dict[int, int] = {}
    for i, node in enumerate(given):
        if isinstance(node, Product):
            # The first child is the variable's own input; any other input is a leaf of the tree.
            children = [at[node.children[0]]]
            for c in node.children[1:]:
                if isinstance(given[c], Input):
                    nodes.append(Sum((at[c],), LATENTS))
                    children.append(len(nodes) - 1)
                else:
                    children.append(at[c])
            node = Product(tuple(children))
        elif isinstance(node, Sum):
            node = Sum(tuple(at[c] for c in node.children), node.width)
        nodes.append(node)
        at[i] = len(nodes) - 1
    return random_circuit(nodes, seed=0)


def n_sum_weights(circuit: Circuit) -> int:
    return sum(int(np.prod(circuit.weight_shape(i))) for i, node in enumerate(circuit.nodes) if isinstance(node, Sum))


def our_step(circuit: Circuit, X: Rows) -> Step:
    evaluator, evidence = prepare(circuit, X)
    rule, rows = quadratic(evaluator), np.arange(BATCH)
    return lambda: evaluator.em_step(evidence, rows, rule)[0]


def gradient_step(module: torch.nn.Module, log_likelihood: Callable[[], torch.Tensor]) -> Step:
    def step() -> float:
        module.zero_grad()
        mean = log_likelihood().mean()
        mean.backward()
        return mean.item()

    return step


def libcirkit(X: Rows) -> Theirs:
    """Its Chow-Liu circuit with CP-transposed layers, folded and optimized, in eager mode."""
    from cirkit.backend.torch.layers import TorchInputLayer
    from cirkit.pipeline import PipelineContext
    from cirkit.templates import data_modalities

    rows = torch.from_numpy(X.astype(np.int64))
    symbolic = data_modalities.tabular_data(
        "chow-liu-tree",
        data=rows,
        input_layers={"name": "categorical", "args": {"num_categories": 2}},
        num_input_units=LATENTS,
        sum_product_layer="cp-t",
        num_sum_units=LATENTS,
    )
    circuit = PipelineContext(backend="torch", semiring="lse-sum", fold=True, optimize=True).compile(symbolic)
    inner = [layer for layer in circuit.layers if not isinstance(layer, TorchInputLayer)]
    n_weights = sum(parameter.numel() for layer in inner for parameter in layer.parameters())
    batch = rows[:BATCH]
    return Theirs(n_weights, {"gradient": gradient_step(circuit, lambda: circuit(batch))})


def spflow(X: Rows) -> Theirs:
    """Its hidden Chow-Liu tree."""
    from spflow.learn.expectation_maximization import expectation_maximization
    from spflow.modules.sums import Sum as SpflowSum
    from spflow.zoo.hclt import learn_hclt_binary

    rows = torch.from_numpy(X.astype(np.float32))
    # With init="random" every sum would have a single unit instead of one per latent state.
    circuit = learn_hclt_binary(rows, num_hidden_cats=LATENTS, init="uniform")
    n_weights = sum(module.logits.numel() for module in circuit.modules() if isinstance(module, SpflowSum))
    expected = (X.shape[1] - 1) * LATENTS**2 + LATENTS
    if n_weights != expected:
        raise ValueError(f"its circuit has {n_weights:,} weights where {expected:,} would be equal to ours")
    batch = rows[:BATCH]
    start = {name: value.clone() for name, value in circuit.state_dict().items()}

    def em_step() -> float:
        # Its EM runs into nan after a few steps on one batch, so every step is a first one. The copy takes below 1% of it.
        circuit.load_state_dict(start)
        return float(expectation_maximization(circuit, batch, max_steps=1)[0])

    return Theirs(n_weights, {"gradient": gradient_step(circuit, lambda: circuit.log_likelihood(batch)), "EM": em_step})


PEERS = (
    Peer("libcirkit", "0.3.1", ("einops", "opt_einsum", "graphviz"), libcirkit, (leaves_without_latents, leaves_with_latents)),
    Peer("spflow", "1.1.0", ("einops", "fast_pytorch_kmeans", "pydot", "psutil"), spflow, (leaves_with_latents,)),
)


def compare(peer: Peer, X: Rows) -> list[tuple[str, ...]]:
    """Rows of the table: each of the peer's steps with each circuit of ours that it meets, all timed in turns."""
    theirs = peer.build(X)
    circuits = [build(X) for build in peer.meets]
    steps = [*(our_step(circuit, X) for circuit in circuits), *theirs.steps.values()]
    seconds = best(*steps)
    if not np.isfinite(values := [step() for step in steps]).all():
        raise FloatingPointError(f"mean log-likelihoods {values} after the timed steps, ours first")
    our_times, their_times = seconds[: len(circuits)], seconds[len(circuits) :]
    return [
        (
            name,
            f"{theirs.n_weights:,}",
            f"{n_sum_weights(circuit):,}",
            f"{their_time * 1e3:.1f}",
            f"{our_time * 1e3:.2f}",
            f"{their_time / our_time:.0f}",
        )
        for name, their_time in zip(theirs.steps, their_times, strict=True)
        for circuit, our_time in zip(circuits, our_times, strict=True)
    ]


def steps() -> Numbers | None:
    """Every peer that is installed."""
    found = {}
    table = Table(title=f"One step, {LATENTS} latents, batch {BATCH}, float32, one thread on either side", title_justify="left")
    for column in ("peer", "data", "variables", "its step", "its weights", "our weights", "its ms", "our ms", "times as fast"):
        table.add_column(column, justify="right")
    for peer in PEERS:
        try:
            label = f"{peer.package} {version(peer.package)}"
        except PackageNotFoundError:
            console.print(f"{peer.package} is not installed: {peer.install}", soft_wrap=True, markup=False)
            continue
        for name, X in data_sets().items():
            try:
                rows = compare(peer, X)
            except Exception as error:  # whatever happens in another library must not stop the rest
                reason = f"{label} on {name}: not measured, {type(error).__name__}: {error} (known to work: {peer.install})"
                console.print(reason, soft_wrap=True, markup=False)
                continue
            for row in rows:
                table.add_row(label, name, str(X.shape[1]), *row)
                found[f"{label}, {name}, {row[0]}, {row[2]} weights"] = float(row[-1])
        table.add_section()
    if table.row_count:
        console.print(table)
    return {"times as fast": found} if found else None


PIECES = {"steps": steps}
__all__ = ["PIECES", "prepare_machine"]
