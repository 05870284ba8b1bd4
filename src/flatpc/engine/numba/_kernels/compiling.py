"""How kernels and what they call are compiled: in a third of the time that `njit` would take.

Numba gives every function two wrappers, for calls from Python and from C, which take long since arguments are dozens of arrays;
it compiles a function again for every mixture of 32-bit, 64-bit and literal integers that it is called with; and it makes native
code of what nobody calls (`parts.py`).
"""

from typing import Any

import numpy as np
from numba import types
from numba.core import compiler
from numba.core.registry import CPUDispatcher

from flatpc.engine.numba import parts

KERNEL = {"nopython": True, "nogil": True, "boundscheck": False, "no_cfunc_wrapper": True}
whole: Any = np.int64
"""A number without what is behind the point; numba would compile `int` as a function of its own."""
_INNER = {"nopython": True, "boundscheck": False, "no_cfunc_wrapper": True, "no_cpython_wrapper": True}


class Kernel(CPUDispatcher):
    """A function that Python calls."""

    def compile(self, sig: Any) -> Any:
        """Compile it, or find it on disk, for these types of arguments."""
        with parts.compiling(self.targetctx):
            known = set(self.overloads)
            entry_point = super().compile(sig)
            made: Any = self.overloads
            for arguments, compiled in made.items():
                if arguments not in known and compiled.metadata is not None:  # None where it comes from disk
                    parts.set_environments(compiled)
            return entry_point


class Inner(Kernel):
    """A function that takes every signed integer as one of 64 bits."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(widened, args)), {name: widened(t) for name, t in kws.items()})


class _ByAddress(compiler.Compiler):
    """Makes native code also of what has no wrapper."""

    def define_pipelines(self) -> Any:
        self.state.library = parts.Whole(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


def widened(argument: Any) -> Any:
    """The type in which an inner function takes an argument."""
    plain = types.unliteral(argument)
    return types.int64 if plain in types.signed_domain else plain


def kernel(function: Any = None, **options: Any) -> Any:
    """Compile what Python calls."""
    return made(Kernel, function, {**KERNEL, **options})


def inner(function: Any = None, **options: Any) -> Any:
    """Compile what kernels alone call: a call from Python would crash the process."""
    return made(Inner, function, {**_INNER, **options})


def loop(function: Any = None, **options: Any) -> Any:
    """Compile what kernels call by its address: `loops.py`."""
    return made(Inner, function, {**_INNER, **options}, pipeline_class=_ByAddress)


def made(dispatcher: Any, function: Any, options: dict[str, Any], **more: Any) -> Any:
    """A function that a dispatcher compiles when it is first called, kept on disk; without a function, a decorator."""
    if function is None:
        return lambda wanted: made(dispatcher, wanted, options, **more)
    compiled = dispatcher(py_func=function, targetoptions=options, **more)
    compiled.enable_caching()
    return compiled
