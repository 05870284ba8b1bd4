"""Hidden Chow-Liu trees: a Chow-Liu tree whose variables are replaced by latent ones that emit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, count, seed_number, whole_number
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.errors import OptionError
from flatpc.structures.blocks import Leaf, read_blocks
from flatpc.structures.options import FamilyLike, random_circuit, read_weighted_columns
from flatpc.structures.trees.chow_liu import table_sizes
from flatpc.structures.trees.initial_trees import Start, check_init
from flatpc.structures.trees.mutual_information import binned, count_pairs
from flatpc.structures.trees.spanning import RootedTree
from flatpc.structures.trees.tree_mixture import fit_tree_mixture
from flatpc.structures.trees.tree_models import TreeModel, best_tree, check_prior, tree_tables

TREES = ("halved", "clusters")


def hclt(
    X: Any,
    n_latents: int = 100,
    *,
    family: FamilyLike = "bernoulli",
    n_trees: int = 1,
    smoothing: float = 1.0,
    seed: int = 0,
    init: str = "random",
    noise: float = 0.1,
    trees: str = "halved",
    prior: str = "even",
    blocks: Any = None,
    bins: int | None = None,
    sample_weight: Any = None,
) -> Circuit:
    """A hidden Chow-Liu tree over the variables of X, or a mixture of several.

    >>> import flatpc as fp
    >>> circuit = fp.structures.hclt([[0, 0, 0], [0, 1, 1], [1, 1, 1]], n_latents=4)
    >>> circuit.n_variables, circuit.is_structured_decomposable
    (3, True)
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> X[:, 2] += X[:, 0]
    >>> blocks = fp.structures.hclt(X, n_latents=2, family="gaussian", blocks="auto")
    >>> sorted(node.variables for node in blocks.nodes if isinstance(node, fp.Input))
    [(0, 2), (1,), (3,)]

    Every variable v that has children in the Chow-Liu tree gets a latent z_v with `n_latents` states, and
    p(x, z) = p(z_r) Π p(z_v | z_parent(v)) Π p(x_v | z_v). A leaf of the tree depends on its parent's latent: one of its own
    would add weights but no distribution. With m inner variables and K states, one tree has `(m - 1) K² + K` weights.

    Up to 16,384 variables, of up to 1,048,576 values each; the tree is learnt within 1.5 GiB of memory beside the rows and the
    circuit itself. Where more than 2·10¹⁰ pairs of values would be counted one by one, such as those of 4,300 rows of 3,072
    variables, a random sample of the rows is. A start from the tree (`init`), and `trees="clusters"`, have the bounds of
    `chow_liu` and `tree_mixture`.

    Parameters
    ----------
    X
        Rows from which the tree is learnt, or a source of them: pairs of values are then counted over all rows, and bins and
        clusters are those of a sample of 100,000. With missing values (NaN), each pair of variables is counted over the rows that
        have both.
    n_latents
        Number of states of each latent variable: the width K of the nodes.
    family
        A family or its name, for all variables, or a list with one for each. `"categorical"` takes as many values as the
        column shows. To learn the tree, columns of other families are sorted into bins.
    n_trees
        Number of trees that a sum at the root mixes.
    smoothing
        Number of additional rows, spread evenly over the joint values of each pair of variables.
    seed
        Random seed of the parameters and of the clusters; halved trees don't depend on it.
    init
        `"random"` parameters; those of the `"chow-liu"` tree, every state of a latent standing for one value of its variable, so
        that learning starts from the tree's likelihood; or random weights over inputs with the `"marginals"` of the variables,
        so that it starts from that of independent variables.
    noise
        Share of random parameters in the last two; without any, states are alike and stay so.
    trees
        Where further trees come from. `"halved"`: the first one has the largest total mutual information; for every later one the
        mutual information of a pair is halved as many times as earlier trees have used it as an edge, which leaves strong
        edges in and makes room for others. `"clusters"`: they are those of `tree_mixture`, each learnt from the rows that it
        explains best.
    prior
        What smoothing adds to the tables with which learning starts; see `chow_liu`.
    blocks
        Columns that are leaves together: `"auto"`, those of `correlated_blocks` that are worth `n_latents` covariances each;
        `"all"`: all Gaussian columns. None: each column alone. Or a list of tuples of columns; those not listed stay alone.
        A block has the tree's edges that its columns would have had. Not with `trees="clusters"` or another `init` than random.
    bins
        Learn the tree from columns in so many bins, of about equally many rows each, also where the family is categorical with
        more values: faster with many values, such as shades of pixels. None takes categories as they are, and two to eight bins
        of numbers.
    sample_weight
        How often each row counts: one number of 0 or more per row. None counts each once.

    Returns
    -------
    Circuit
        Ready for `fp.fit`.

    Raises
    ------
    OptionError
        For an option out of its range, or an unknown name.
    DataError
        For rows that the families don't allow; `TooLargeError` for more variables or values than fit.
    """
    smoothing = count("smoothing", smoothing)
    check_prior(prior)
    check_init(init, noise)
    n_latents = whole_number("n_latents", n_latents, 1)
    n_trees, seed = whole_number("n_trees", n_trees, 1), seed_number(seed)
    choice("trees", trees, TREES)
    if bins is not None:
        bins = whole_number("bins", bins, 2)
        if init != "random":
            raise OptionError("A start from the tree needs the counts of all values; leave bins out, or choose init='random'.")
    rows, families, counted = read_weighted_columns(X, family, sample_weight)
    leaves = read_blocks(blocks, rows, families, n_latents, counted)
    if len(leaves) < len(families) and (init != "random" or (trees == "clusters" and n_trees > 1)):
        raise OptionError("Blocks of columns go with init='random' and trees='halved' alone; leave the other options out.")
    if init != "random":
        table_sizes(families, f"a hidden Chow-Liu tree with init={init!r}")
    # The tree is learnt from codes, in which numbers stand for their bins; the inputs are those of the families.
    if trees == "clusters" and n_trees > 1:
        codes, sizes = binned(rows, families, counted, bins)
        weights, models = fit_tree_mixture(codes, sizes, n_trees, smoothing, seed=seed, row_weights=counted)
        shapes = [model.tree for model in models]
    else:
        counts = count_pairs(X, rows, families, counted, bins)
        information = counts.mutual_information(smoothing if prior == "even" else 1.0)
        shapes = _halved(_between(information, [variables for variables, _ in leaves]), n_trees)
        weights = np.full(n_trees, 1 / n_trees)
        models = [] if init == "random" else [TreeModel(tree, tree_tables(tree, counts, smoothing, prior)) for tree in shapes]
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    roots = []
    rng = np.random.default_rng(seed)
    for place, tree in enumerate(shapes):
        start = None if init == "random" else Start(models[place], n_latents, init, noise, rng)
        _add_tree(nodes, parameters, tree, leaves, n_latents, start)
        roots.append(len(nodes) - 1)
    if n_trees > 1:
        nodes.append(Sum(tuple(roots)))
        parameters[len(nodes) - 1] = weights[None]
    return random_circuit(nodes, seed) if init == "random" else Circuit(nodes, parameters)


def _halved(information: NDArray[Any], n_trees: int) -> list[RootedTree]:
    """Trees by mutual information, which is halved along the edges of each."""
    out = []
    for _ in range(n_trees):
        out.append(best_tree(information))
        parent = np.array(out[-1].parent)
        v = np.flatnonzero(parent >= 0)
        information[v, parent[v]] /= 2
        information[parent[v], v] /= 2
    return out


def _between(information: NDArray[Any], blocks: Sequence[tuple[int, ...]]) -> NDArray[Any]:
    """Mutual information of blocks: the most that a column of one and a column of the other have."""
    if len(blocks) == len(information):
        return information
    order = np.concatenate(blocks)
    starts = np.cumsum([0, *(len(block) for block in blocks[:-1])])
    found = np.maximum.reduceat(information[np.ix_(order, order)], starts, axis=0)
    found = np.maximum.reduceat(found, starts, axis=1)
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)


def _add_tree(
    nodes: list[Node], parameters: dict[int, Any], tree: RootedTree, leaves: Sequence[Leaf], width: int, start: Start | None
) -> None:
    """Append the nodes of one tree, the last of which is its root of width 1, and their first parameters unless at random."""
    children = tree.children()
    message: dict[int, int] = {}
    for v in reversed(tree.order):
        variables, family = leaves[v]
        nodes.append(Input(family=family, width=width, variables=variables))
        if start is not None:
            parameters[len(nodes) - 1] = family.from_table(start.emissions(v, is_leaf=not children[v]))
        if children[v]:
            nodes.append(Product((len(nodes) - 1, *(message[c] for c in children[v]))))
        if v == tree.root or children[v]:
            nodes.append(Sum((len(nodes) - 1,), 1 if v == tree.root else width))
            if start is not None:
                parameters[len(nodes) - 1] = start.transitions(v)
        message[v] = len(nodes) - 1
