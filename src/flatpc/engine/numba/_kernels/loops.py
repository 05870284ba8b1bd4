"""Loops that passes call by their addresses: each is compiled when a circuit first has steps for it.

A pass that named them would be compiled with all of them. By address, a call takes no longer, and is for dozens of rows.

An address says nothing of types. So there is one list of them, by the names of parameters: passes and loops are compiled for
these and no others, and a call inside a pass is compared with them, too.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numpy.typing import NDArray

from flatpc.engine.numba._kernels.columns import Batch, Owners, Rule, Structure
from flatpc.engine.numba._kernels.compiling import KERNEL, Kernel, made, widened

_INTS, _LONGS, _DOUBLES = types.int32, types.int64, types.float64
_FIXED = {
    "P": types.NamedTuple((_INTS[:, ::1], _INTS[::1], _INTS[:, ::1]), Structure),
    "B": types.NamedTuple((types.Array(_DOUBLES, 2, "C", readonly=True), _LONGS[::1], _INTS[:, :, ::1], _INTS[:, ::1]), Batch),
    "owners": types.NamedUniTuple(_LONGS[::1], 4, Owners),
    "rule": types.NamedTuple((_LONGS, _DOUBLES[::1], _DOUBLES, _DOUBLES, types.uint8[::1], _LONGS), Rule),
    **dict.fromkeys(("T", "E", "L", "ST", "root_flow"), _DOUBLES[::1]),
    "index": _INTS[::1],
    "item": _INTS[:, ::1],
    "shared": types.boolean,
    "mu": _DOUBLES,
    **dict.fromkeys(("s", "p", "position", "lo", "hi", "i", "last", "f_at", "k", "kind"), _LONGS),
}
_REAL = "W", "V", "A", "FL", "F"
"""Parameters that are arrays of the numbers in which a pass computes."""


def _declared(dtype: Any) -> dict[str, Any]:
    """Type of every parameter, by name."""
    return _FIXED | dict.fromkeys(_REAL, from_dtype(np.dtype(dtype))[::1])


class Pass(Kernel):
    """A kernel that calls loops, for the types that these have."""

    def compile(self, sig: Any) -> Any:
        """Compile it unless loops would take its arguments for something else."""
        given = dict(zip(inspect.signature(self.py_func).parameters, sig, strict=True))
        _check(given, given["V"].dtype)
        return super().compile(sig)


def pass_(function: Any) -> Any:
    """Compile a pass."""
    return made(Pass, function, KERNEL)


def _check(given: Mapping[str, Any], dtype: Any) -> None:
    declared = _declared(str(dtype))
    for name, its_type in given.items():
        if name in declared and declared[name] != its_type:
            raise TypingError(f"{name} is {its_type}, and loops are compiled for {declared[name]}")


class Loops:
    """Loops by number."""

    def __init__(self, loops: Mapping[int, Any]) -> None:
        self._loops = dict(loops)
        self._tables: dict[tuple[frozenset[int], str], NDArray[np.int64]] = {}

    def table(self, needed: frozenset[int], dtype: str) -> NDArray[np.int64]:
        """Addresses by number, compiled where they are needed; 0 elsewhere."""
        if (needed, dtype) not in self._tables:
            table = np.zeros(max(self._loops) + 1, np.int64)
            for number in needed:
                table[number] = _address(self._loops[number], dtype)
            self._tables[needed, dtype] = table
        return self._tables[needed, dtype]


def _address(loop: Any, dtype: str) -> int:
    declared = _declared(dtype)
    signature = tuple(declared[name] for name in inspect.signature(loop.py_func).parameters)
    loop.compile(signature)
    compiled = loop.overloads[signature]
    address = int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))
    if address == 0:  # a call would crash the process
        raise RuntimeError(f"the loop {loop.py_func.__name__} has no address")
    return address


def _call(address: Any, returns: Any, dtype: Any, **arguments: Any) -> Any:
    """Signature and code of a call; arguments by the names of the loop's parameters, in their order."""
    wanted = {name: widened(argument) for name, argument in arguments.items()}
    _check(wanted, dtype)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        convention = context.call_conv
        function = convention.get_function_type(returns, tuple(wanted.values()))
        pointer = builder.inttoptr(values[0], function.as_pointer())
        status, value = convention.call_function(builder, pointer, returns, tuple(wanted.values()), values[1:])
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value() if returns == types.none else value

    return returns(types.int64, *wanted.values()), generate


@intrinsic
def evaluate(typing_context, address, P, B, W, T, V, E, L, s, lo, hi):
    """Values of rows lo:hi of step s."""
    return _call(address, types.none, V.dtype, P=P, B=B, W=W, T=T, V=V, E=E, L=L, s=s, lo=lo, hi=hi)


@intrinsic
def evaluate_run(typing_context, address, P, B, W, T, V, E, L, index, item, i, last):
    """Values of a run of items; returns the first that is not done."""
    return _call(
        address, types.int64, V.dtype, P=P, B=B, W=W, T=T, V=V, E=E, L=L, index=index, item=item, i=i, last=last
    )  # fmt: skip


@intrinsic
def pull_from(typing_context, address, P, B, W, V, E, A, shared, s, p, position, lo, hi):
    """Add to the adjoints of step s what comes from its parent p."""
    return _call(
        address, types.none, V.dtype, P=P, B=B, W=W, V=V, E=E, A=A, shared=shared, s=s, p=p, position=position, lo=lo, hi=hi
    )  # fmt: skip


@intrinsic
def descend_run(typing_context, address, P, B, W, V, A, index, item, i, last):
    """Adjoints of a run of items; returns the first that is not done."""
    return _call(address, types.int64, V.dtype, P=P, B=B, W=W, V=V, A=A, index=index, item=item, i=i, last=last)


@intrinsic
def collect_run(typing_context, address, P, B, owners, V, A, FL, ST, item, i, last):
    """Statistics and gradients of a run of items; returns the first that is not done."""
    return _call(
        address, types.int64, V.dtype, P=P, B=B, owners=owners, V=V, A=A, FL=FL, ST=ST, item=item, i=i, last=last
    )  # fmt: skip


@intrinsic
def collect(typing_context, address, P, B, V, E, A, FL, s):
    """Gradients of the weights of step s."""
    return _call(address, types.none, V.dtype, P=P, B=B, V=V, E=E, A=A, FL=FL, s=s)


@intrinsic
def solve(typing_context, address, F, f_at, k, kind, mu):
    """Flows F[f_at : f_at + k] to what new weights are proportional to; returns its sum."""
    return _call(address, F.dtype, F.dtype, F=F, f_at=f_at, k=k, kind=kind, mu=mu)
