"""Random circuits with extreme parameters, and rows for them, by seed.

Weights of 0, subnormal ones, 1e-300 and 1e-160; variances from 1e-300 to 1e300; means of 1e150; counts of 1e15; deep chains,
wide hubs, masks, ties, every family, every kind of node, widths from 1 to 64.
"""

import numpy as np

import flatpc as fp

WIDTHS = (1, 2, 3, 7, 8, 9, 16, 17, 33, 64)
TINY = (0.0, 0.0, 5e-324, 1e-310, 1e-300, 1e-160, 1e-60, 1e-40, 1e-20)
FAMILIES = (fp.Bernoulli(), fp.Categorical(4), fp.Indicator(3), fp.Binomial(5), fp.Gaussian(1e-300), fp.Poisson())


def circuit(rng):
    """A circuit of any shape."""
    shape = rng.choice(["tree", "tree", "tree", "chain", "hub", "wide product", "hmm"])
    families = [FAMILIES[k] for k in rng.integers(0, len(FAMILIES), 8)]
    made = {"tree": _tree, "chain": _chain, "hub": _hub, "wide product": _wide_product, "hmm": _hmm}[shape](rng, families)
    return made.with_parameters(_parameters(made, rng))


def rows(made, rng, n=6):
    """Rows in the supports: near the parameters, far away, and with missing entries; the last one has nothing but those."""
    X = np.empty((n, made.n_variables))
    for v, family in enumerate(made.families):
        inputs = [i for i, node in enumerate(made.nodes) if isinstance(node, fp.Input) and node.variable == v]
        i = int(rng.choice(inputs))
        for r in range(n):
            unit = int(rng.integers(made.nodes[i].width))
            X[r, v] = _value(family, made.parameters[i], unit, rng)
    X[rng.random(X.shape) < 0.15] = np.nan
    X[-1] = np.nan
    return X


def _value(family, parameters, unit, rng):
    if isinstance(family, fp.Gaussian):
        mean, deviation = parameters["mean"][unit], np.sqrt(parameters["variance"][unit])
        if rng.random() < 0.2:
            return float(rng.choice([0.0, -1e150, 1e9, 3.7e9, 1e100, -1e-300]))
        return float(np.clip(mean + deviation * rng.standard_normal(), -1e300, 1e300))
    if isinstance(family, fp.Poisson):
        rate = parameters["rate"][unit]
        return float(rng.choice([0.0, 3.0, 1e15, np.floor(rate), np.floor(rate + np.sqrt(rate))]))
    return float(rng.integers(family.n_categories))


# ---- shapes ----------------------------------------------------------------------------------------------------------------


def _tree(rng, families):
    """Regions split in two, with every kind of node; sums over one or several children, some tied or masked."""
    nodes, widths = [], []
    width = int(rng.choice(WIDTHS[:7]))

    def add(node, k):
        nodes.append(node)
        widths.append(k)
        return len(nodes) - 1

    def total(k, below):
        shape = (k, sum(widths[c] for c in below))
        ties = [i for i, node in enumerate(nodes) if isinstance(node, fp.Sum) and _shape(nodes, widths, i) == shape]
        if ties and rng.random() < 0.3:
            tie = int(rng.choice(ties))
            return add(fp.Sum(below, k, nodes[tie].mask, tie=tie), k)
        mask = None
        if rng.random() < 0.3:
            mask = rng.random(shape) < 0.6
            mask[np.arange(k), rng.integers(0, shape[1], k)] = True
        return add(fp.Sum(below, k, mask), k)

    def region(variables, k, depth):
        if len(variables) == 1:
            leaf = add(fp.Input(variables[0], families[variables[0]], k), k)
            return total(k, (leaf,)) if rng.random() < 0.5 else leaf
        cut = int(rng.integers(1, len(variables)))
        parts = []
        for _ in range(int(rng.integers(1, 3)) if depth < 2 else 1):
            sides = region(variables[:cut], k, depth + 1), region(variables[cut:], k, depth + 1)
            if k <= 4 and rng.random() < 0.4:
                parts.append(total(k, (add(fp.Product(sides, "kronecker"), k * k),)))
            else:
                parts.append(add(fp.Product(sides), k))
        if len(parts) > 1 and rng.random() < 0.4:
            return add(fp.Mixture(tuple(parts)), k)
        return total(k, tuple(parts))

    total(1, (region(list(range(int(rng.integers(1, 5)))), width, 0),))
    return fp.Circuit(nodes)


def _shape(nodes, widths, i):
    return widths[i], sum(widths[c] for c in nodes[i].children)


def _chain(rng, families):
    width, depth = int(rng.choice(WIDTHS)), int(rng.integers(20, 80))
    sums = [fp.Sum((i,), width) for i in range(depth)]
    return fp.Circuit([fp.Input(0, families[0], width), *sums, fp.Sum((depth,))])


def _hub(rng, families):
    """A sum of many inputs."""
    width, n = int(rng.choice(WIDTHS[:4])), int(rng.integers(20, 60))
    return fp.Circuit([*(fp.Input(0, families[0], width) for _ in range(n)), fp.Sum(tuple(range(n)))])


def _wide_product(rng, families):
    width, n = int(rng.choice(WIDTHS)), int(rng.integers(10, 40))
    inputs = [fp.Input(v, families[v % 3], width) for v in range(n)]
    return fp.Circuit([*inputs, fp.Product(tuple(range(n))), fp.Sum((n,))])


def _hmm(rng, families):
    length, width = int(rng.integers(2, 12)), int(rng.choice(WIDTHS[:6]))
    return fp.structures.hmm(length, width, family=families[0], homogeneous=bool(rng.integers(2)))


# ---- parameters ------------------------------------------------------------------------------------------------------------


def _parameters(made, rng):
    out = {}
    for i, node in enumerate(made.nodes):
        if isinstance(node, fp.Product) or made.owners[i] != i:
            continue
        if not isinstance(node, fp.Input):
            out[i] = _simplex(made.weight_shape(i), rng, node.mask if isinstance(node, fp.Sum) else None)
        elif isinstance(node.family, fp.Bernoulli | fp.Binomial):
            out[i] = {"p": np.where(rng.random(node.width) < 0.4, rng.choice([*TINY, 1.0], node.width), rng.random(node.width))}
        elif isinstance(node.family, fp.Categorical):
            out[i] = {"p": _simplex((node.width, node.family.n), rng)}
        elif isinstance(node.family, fp.Indicator):
            out[i] = {"value": rng.integers(0, node.family.n, node.width).astype(float)}
        elif isinstance(node.family, fp.Gaussian):
            mean = rng.choice([0.0, 1.0, -50.0, 1e9, 1e150, -1e150], node.width)
            variance = rng.choice([1.0, 1.0, 1e-4, 1e-300, 1e300, 1e18], node.width)
            out[i] = {"mean": mean, "variance": variance}
        else:
            out[i] = {"rate": rng.choice([1e-6, 0.5, 20.0, 1e6, 1e15], node.width)}
    return out


def _simplex(shape, rng, mask=None):
    """Rows on the simplex, many entries of which are tiny or zero."""
    kept = np.ones(shape, bool) if mask is None else mask
    weights = rng.standard_exponential(shape) + 1e-3
    weights = np.where(rng.random(shape) < rng.choice([0.0, 0.3, 0.8]), 0.0, weights) * kept
    for row, allowed in zip(weights, kept, strict=True):
        if not row.any():
            row[rng.choice(np.flatnonzero(allowed))] = 1.0
    weights /= weights.sum(axis=1, keepdims=True)
    return np.where((weights == 0) & kept, rng.choice(TINY, shape), weights)
