"""How functions that only kernels call are compiled: in half the time that `njit` would take.

Numba gives every function two wrappers, for calls from Python and from C, which take long since arguments are dozens of arrays;
and it compiles a function again for every mixture of 32-bit, 64-bit and literal integers that it is called with.
"""

from typing import Any

from numba import types
from numba.core.registry import CPUDispatcher

_OPTIONS = {"nopython": True, "boundscheck": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class _Inner(CPUDispatcher):
    """A function that takes every signed integer as one of 64 bits."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(_widened, args)), {name: _widened(t) for name, t in kws.items()})


def _widened(argument: Any) -> Any:
    plain = types.unliteral(argument)
    return types.int64 if plain in types.signed_domain else plain


def inner(function: Any = None, **options: Any) -> Any:
    """Compile what kernels alone call: a call from Python would crash the process, unless `no_cpython_wrapper=False`."""
    if function is None:
        return lambda wanted: inner(wanted, **options)
    compiled = _Inner(py_func=function, targetoptions={**_OPTIONS, **options})
    compiled.enable_caching()
    return compiled
