"""Hidden Markov models of a fixed length."""

from __future__ import annotations

from flatpc._options import flag, whole_number
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.errors import OptionError
from flatpc.structures.options import FamilyLike, random_circuit, resolve_families


def hmm(
    length: int,
    n_latents: int,
    *,
    family: FamilyLike = "bernoulli",
    homogeneous: bool = False,
    seed: int = 0,
) -> Circuit:
    """A hidden Markov model of a fixed length, with random parameters; variable t is step t.

    p(x, z) = p(z_0) p(x_0 | z_0) Π p(z_t | z_{t-1}) p(x_t | z_t)

    >>> import flatpc as fp
    >>> fp.structures.hmm(5, n_latents=3).n_parameters  # initial 3, four transitions of 9, five emissions of 3
    54
    >>> fp.structures.hmm(5, n_latents=3, homogeneous=True).n_parameters  # initial 3, one transition, one emission
    15

    Parameters
    ----------
    length
        Number of steps.
    n_latents
        Number of states of the latent variable.
    family
        Family of the emissions, or its name; a list gives each step its own.
    homogeneous
        Whether all steps share (tie) the transition and the emission.
    seed
        Random seed of the parameters.

    Returns
    -------
    Circuit
        Over `length` variables.

    Raises
    ------
    OptionError
        For an option out of its range, or a homogeneous model with several families.
    """
    length, n_latents = whole_number("length", length, 1), whole_number("n_latents", n_latents, 1)
    families = resolve_families(family, length)
    if flag("homogeneous", homogeneous) and len(set(families)) > 1:
        raise OptionError("A homogeneous HMM shares its emissions, so all steps must have the same family.")
    nodes: list[Node] = []
    emission: int | None = None
    transition: int | None = None
    for t in reversed(range(length)):
        # The circuit grows from the last step to the first: the node before this one sums over the future.
        future = len(nodes) - 1
        nodes.append(Input(t, families[t], n_latents, tie=emission))
        if homogeneous and emission is None:
            emission = len(nodes) - 1
        if t < length - 1:
            nodes.append(Product((len(nodes) - 1, future)))
        if t > 0:
            nodes.append(Sum((len(nodes) - 1,), n_latents, tie=transition))
            if homogeneous and transition is None:
                transition = len(nodes) - 1
    nodes.append(Sum((len(nodes) - 1,)))
    return random_circuit(nodes, seed)
