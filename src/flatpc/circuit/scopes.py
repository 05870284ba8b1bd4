"""Scopes as sets of bits, and the checks that make a list of nodes a circuit.

Bit v of a scope is set when variable v is in it, so union, intersection and equality are one integer operation each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatpc.circuit.nodes import Input, Mixture, Node, Product, Sum, children_of
from flatpc.errors import DecomposabilityError, ShapeError, SmoothnessError, StructureError
from flatpc.families.base import Family

# Far more units than any memory holds; stopping here keeps widths from growing into numbers too long to print.
_MOST_UNITS = 1 << 40


def variables_in(scope: int) -> Iterator[int]:
    """The variables of a scope, smallest first."""
    while scope:
        low = scope & -scope
        yield low.bit_length() - 1
        scope ^= low


def describe(scope: int) -> str:
    """A scope as people write sets, shortened when long."""
    names: list[str] = []
    for v in variables_in(scope):
        if len(names) == 8:
            return "{" + ", ".join(names) + ", ...}" + f" ({scope.bit_count()} variables)"
        names.append(str(v))
    return "{" + ", ".join(names) + "}"


def check_order(nodes: Sequence[Node]) -> None:
    """Raise unless every child comes before its parent, which also rules out cycles."""
    if not nodes:
        raise StructureError("A circuit needs at least one node.")
    n_places = sum(len(node.variables) for node in nodes if isinstance(node, Input))
    for i, node in enumerate(nodes):
        if not isinstance(node, Input | Product | Sum | Mixture):
            raise StructureError(f"Node {i} is a {type(node).__name__}; nodes are Input, Product, Sum or Mixture.")
        children = children_of(node)
        if not isinstance(node, Input) and not children:
            raise StructureError(f"Node {i} ({type(node).__name__}) has no children.")
        for c in children:
            if not 0 <= c < i:
                raise StructureError(
                    f"Node {i} ({type(node).__name__}) has child {c}; children must come before their parents "
                    f"(indices 0 to {i - 1}), which also means that there can be no cycle."
                )
        if isinstance(node, Input) and max(node.variables) >= n_places:
            raise StructureError(
                f"Node {i}: variable {max(node.variables)}, but there are only inputs for {n_places}; "
                f"number the variables 0, 1, 2, ... without gaps."
            )


def check_used(nodes: Sequence[Node]) -> None:
    """Raise unless the root, which is the last node, uses every other one, be it through others."""
    used = [False] * len(nodes)
    used[-1] = True
    for i in reversed(range(len(nodes))):
        if not used[i]:
            raise StructureError(
                f"Node {i} ({type(nodes[i]).__name__}) is not below the root, node {len(nodes) - 1}; "
                f"give it a parent that leads to the root, or leave it out."
            )
        for c in children_of(nodes[i]):
            used[c] = True


def check_supports(nodes: Sequence[Node]) -> None:
    """Raise unless all inputs over a variable agree on the values it can take."""
    first: dict[int, tuple[int, Family]] = {}
    for i, node in enumerate(nodes):
        if isinstance(node, Input):
            for position, v in enumerate(node.variables):
                b = node.family.marginal_family(position)
                j, a = first.setdefault(v, (i, b))
                if (a.discrete, a.n_categories) != (b.discrete, b.n_categories):
                    raise StructureError(
                        f"Nodes {j} and {i} are inputs over variable {v} with the families {a} and {b}, which differ in the "
                        f"values they allow; give all inputs over a variable the same values."
                    )


def compute_widths(nodes: Sequence[Node]) -> list[int]:
    """Units per node; raises where children's widths don't fit together."""
    widths: list[int] = []
    for i, node in enumerate(nodes):
        if isinstance(node, Input | Sum):
            widths.append(node.width)
            continue
        w = [widths[c] for c in node.children]
        if isinstance(node, Product) and node.kind == "kronecker":
            total = 1
            for k in w:
                total *= k
                if total > _MOST_UNITS:
                    raise StructureError(
                        f"Node {i} (Product): a kronecker product of {len(node.children)} children has more than "
                        f"{_MOST_UNITS:,} units; put a Sum between, or use a hadamard product."
                    )
            widths.append(total)
            continue
        if len(set(w)) > 1:
            raise ShapeError(
                f"Node {i} ({type(node).__name__}) works entry by entry, but its children {node.children} "
                f"have widths {tuple(w)}; give them equal widths or use a kronecker product."
            )
        widths.append(w[0])
    return widths


def compute_scopes(nodes: Sequence[Node]) -> list[int]:
    """The scope of every node."""
    scopes: list[int] = []
    for node in nodes:
        scope = 0
        if isinstance(node, Input):
            for v in node.variables:
                scope |= 1 << v
        for c in children_of(node):
            scope |= scopes[c]
        scopes.append(scope)
    return scopes


def smoothness_error(nodes: Sequence[Node], scopes: Sequence[int]) -> SmoothnessError | None:
    """The first sum whose children differ in scope, as an error; None if the nodes are smooth."""
    for i, node in enumerate(nodes):
        if isinstance(node, Sum | Mixture):
            first = scopes[node.children[0]]
            for c in node.children[1:]:
                if scopes[c] != first:
                    return SmoothnessError(
                        f"Node {i} ({type(node).__name__}) sums over child {node.children[0]} with scope {describe(first)} "
                        f"and child {c} with scope {describe(scopes[c])}. Children of a sum must have the same scope: "
                        f"multiply the smaller one by inputs over the variables it lacks."
                    )
    return None


def decomposability_error(nodes: Sequence[Node], scopes: Sequence[int]) -> DecomposabilityError | None:
    """The first product whose children overlap in scope, as an error; None if the nodes are decomposable."""
    for i, node in enumerate(nodes):
        if isinstance(node, Product):
            seen = 0
            for c in node.children:
                if seen & scopes[c]:
                    return DecomposabilityError(
                        f"Node {i} (Product) multiplies children {node.children}, of which more than one has the variables "
                        f"{describe(seen & scopes[c])}. Children of a product must have disjoint scopes: "
                        f"let each variable occur below one child only."
                    )
                seen |= scopes[c]
    return None
