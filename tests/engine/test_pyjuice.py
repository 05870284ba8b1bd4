"""Circuits built with PyJuice have the same probabilities here as when PyJuice's own nodes are evaluated one by one."""

import itertools
import random
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import norm

import flatpc as fp
from flatpc.adapters import from_pyjuice
from flatpc.errors import OptionError, ParameterError, StructureError

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyJuice compiles on import, and torch's compiler warns of itself.
        import pyjuice as juice
        from pyjuice.nodes import distributions as dists
except ImportError as error:
    pytest.skip(f"needs PyJuice (pip install --no-deps pyjuice triton tqdm): {error}", allow_module_level=True)


def probabilities(root, X):
    """`[N]`: the root's value, from PyJuice's nodes, edges and float32 parameters; weights are divided by their sum."""
    values = {}
    for ns in root:
        if ns.is_input():
            values[ns] = input_values(ns, X[:, ns.scope.to_list()[0]])
        elif ns.is_prod():
            out = np.ones((len(X), ns.num_nodes))
            for n in range(ns.num_nodes):
                block, offset = divmod(n, ns.block_size)
                for j, cs in enumerate(ns.chs):
                    unit = int(ns.edge_ids[n, j]) if ns.is_sparse() else int(ns.edge_ids[block, j]) * ns.block_size + offset
                    out[:, n] *= values[cs][:, unit]
            values[ns] = out
        else:
            below = np.concatenate([values[cs] for cs in ns.chs], axis=1)
            out, total = np.zeros((len(X), ns.num_nodes)), np.zeros(ns.num_nodes)
            for (i, j), weights in zip(ns.edge_ids.T.tolist(), ns.get_source_ns().get_params().double().numpy(), strict=True):
                units = slice(i * ns.block_size, (i + 1) * ns.block_size)
                children = slice(j * ns.ch_block_size, (j + 1) * ns.ch_block_size)
                out[:, units] += below[:, children] @ weights.T
                total[units] += weights.sum(axis=1)
            values[ns] = out / total
    return values[root][:, 0]


def input_values(ns, x):
    parameters = ns.get_source_ns().get_params().double().numpy()
    if isinstance(ns.dist, dists.Categorical):
        table = parameters.reshape(ns.num_nodes, -1)
        return (table / table.sum(axis=1, keepdims=True))[:, x.astype(int)].T
    if isinstance(ns.dist, dists.Bernoulli):
        return np.where(x[:, None] == 1, parameters, 1 - parameters)
    if isinstance(ns.dist, dists.Gaussian):
        return norm.pdf(x[:, None], parameters[0::2], parameters[1::2])
    return np.repeat((x == ns.dist.lit)[:, None].astype(float), ns.num_nodes, axis=1)


def rows_for_trees():
    return torch.from_numpy(np.random.default_rng(0).integers(0, 3, (60, 6))).float()


def permuted_products():
    """Products whose units meet in another order than they come, and only some of them."""
    a = juice.inputs(0, num_node_blocks=4, dist=dists.Categorical(num_cats=3))
    b = juice.inputs(1, num_node_blocks=3, dist=dists.Categorical(num_cats=3))
    product = juice.multiply(a, b, edge_ids=torch.tensor([[3, 0], [1, 2], [1, 1]]))
    return juice.summate(product, num_node_blocks=1)


def all_pairs():
    a = juice.inputs(0, num_node_blocks=2, dist=dists.Bernoulli())
    b = juice.inputs(1, num_node_blocks=3, dist=dists.Bernoulli())
    product = juice.multiply(a, b, edge_ids=torch.tensor(list(itertools.product(range(2), range(3)))))
    return juice.summate(product, num_node_blocks=1)


def literals():
    pairs = []
    for value in (0, 1, 2):
        chosen = juice.inputs(0, num_node_blocks=1, dist=dists.Literal(value))
        pairs.append(juice.multiply(chosen, juice.inputs(1, num_node_blocks=1, dist=dists.Categorical(num_cats=3))))
    return juice.summate(*pairs, num_node_blocks=1)


CATEGORICAL = {"input_node_params": {"num_cats": 3}}
STRUCTURES = {
    "hclt": lambda: juice.structures.HCLT(rows_for_trees(), num_latents=4, **CATEGORICAL),
    "hclt, several blocks": lambda: juice.structures.HCLT(rows_for_trees(), num_latents=6, block_size=2, **CATEGORICAL),
    "hclt, tied inputs": lambda: juice.structures.HCLT(rows_for_trees(), num_latents=4, tie_input_params=True, **CATEGORICAL),
    "hclt, bernoulli": lambda: juice.structures.HCLT(rows_for_trees(), num_latents=4, input_dist=dists.Bernoulli()),
    "rat_spn": lambda: juice.structures.RAT_SPN(5, num_latents=4, depth=2, num_repetitions=3, **CATEGORICAL),
    "pd": lambda: juice.structures.PD((2, 3), num_latents=4, split_intervals=1, **CATEGORICAL),
    "pd, few blocks": lambda: juice.structures.PD(
        (2, 3), num_latents=4, split_intervals=1, max_prod_block_conns=1, block_size=2, **CATEGORICAL
    ),
    "pd, products": lambda: juice.structures.PD(
        (6,), num_latents=2, split_intervals=2, structure_type="prod_dominated", **CATEGORICAL
    ),
    "pd, tied": lambda: juice.structures.PD((5,), num_latents=2, split_intervals=1, tie_homogeneous_params=True, **CATEGORICAL),
    "hmm": lambda: juice.structures.HMM(5, num_latents=4, num_emits=3, homogeneous=True),
    "hmm, not homogeneous": lambda: juice.structures.HMM(5, num_latents=4, num_emits=3, homogeneous=False),
    "permuted products": permuted_products,
    "all pairs": all_pairs,
    "literals": literals,
}


def build(make):
    torch.manual_seed(0)
    random.seed(0)
    root = make()
    root.init_parameters(perturbation=4.0)
    return root


@pytest.mark.parametrize("name", STRUCTURES)
def test_same_probability_of_every_assignment(name):
    root = build(STRUCTURES[name])
    circuit = from_pyjuice(root)
    X = np.array(list(itertools.product(*(range(f.n_categories) for f in circuit.families))), dtype=float)
    expected = probabilities(root, X)
    assert abs(expected.sum() - 1) < 1e-6  # Bernoulli probabilities are float32
    np.testing.assert_allclose(circuit.log_prob(X), np.log(expected), rtol=0, atol=1e-10)


def test_same_density_with_gaussian_inputs():
    gaussian = dists.Gaussian(mu=0.5, sigma=2.0)
    root = build(lambda: juice.structures.RAT_SPN(4, num_latents=4, depth=2, num_repetitions=2, input_dist=gaussian))
    X = np.random.default_rng(0).normal(0, 3, (50, 4))
    np.testing.assert_allclose(from_pyjuice(root).log_prob(X), np.log(probabilities(root, X)), rtol=0, atol=1e-10)


def test_structure_is_kept():
    """6 emissions x 4 states shared by 5 inputs, 4 x 4 transitions shared by 4 sums, 4 initial weights."""
    circuit = from_pyjuice(build(lambda: juice.structures.HMM(5, num_latents=4, num_emits=6)))
    assert circuit.has_tied_parameters
    assert circuit.n_parameters == 6 * 4 + 4 * 4 + 4
    assert from_pyjuice(build(all_pairs)).nodes[2] == fp.Product((0, 1), "kronecker")
    assert any(isinstance(n, fp.Sum) and n.mask is not None for n in from_pyjuice(build(STRUCTURES["pd, few blocks"])).nodes)


def test_a_long_chain_is_not_too_deep():
    assert from_pyjuice(build_long_chain(400)).n_variables == 400


def build_long_chain(length):
    """Without `init_parameters`, which recurses in PyJuice."""
    uniform = torch.full((2, 2), 0.5)
    root = juice.structures.HMM(length, num_latents=2, num_emits=2, alpha=uniform, beta=uniform.clone(), gamma=uniform[0])
    return root


def test_what_cannot_be_carried_over_is_refused_by_name():
    with pytest.raises(OptionError, match="not a list"):
        from_pyjuice([])
    with pytest.raises(ParameterError, match="init_parameters"):
        from_pyjuice(juice.structures.HMM(3, num_latents=2, num_emits=2))
    logistic = juice.inputs(0, num_node_blocks=2, dist=dists.DiscreteLogistic(val_range=[0, 1], num_cats=4))
    with pytest.raises(StructureError, match="DiscreteLogistic"):
        from_pyjuice(juice.summate(logistic, num_node_blocks=1))
