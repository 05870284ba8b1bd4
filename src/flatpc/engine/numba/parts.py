"""Parts of kernels: functions that are linked into a kernel and optimised there, and nowhere else.

Numba optimises every function by itself and translates it for the processor, and then once more with each function that calls
it. Only the last is of use for what Python never calls; without the others, compiling takes half the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen, compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.targetconfig import ConfigStack

_numba: Any = codegen.JITCodeLibrary, compiler.CompileResult, ConfigStack, global_compiler_lock
"""Numba has no types."""
Library, _CompileResult, _ConfigStack, _lock = _numba


class _NoPlace:
    """Where environments of parts go: they are set for the kernel that has linked them."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Do nothing."""


class Whole(Library):  # type: ignore[misc, valid-type]
    """Native code; functions that are only declared, most of them, are not optimised one by one as numba does."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)


class Part(Whole):
    """A function in LLVM's language with all it calls; it has no address."""

    @property
    def codegen(self) -> Any:
        """Through which numba sets environments."""
        return _NoPlace

    def finalize(self) -> None:
        """Link what it calls; after that nothing can be added."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Null."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> Any:
        """There is none: as LLVM's bitcode."""
        return self.serialize_using_bitcode()


@contextmanager
def compiling(target: Any) -> Iterator[None]:
    """Whatever numba compiles inside and doesn't wrap for Python is a part, its own helpers too."""
    with _lock:
        generator = target.codegen()
        if "create_library" in vars(generator):  # one kernel compiled on behalf of another
            yield
            return

        def create(name: str) -> Any:
            flags = _ConfigStack.top_or_none()
            return (Part if flags is not None and flags.no_cpython_wrapper else Whole)(generator, name)

        generator.create_library = create
        try:
            yield
        finally:
            del generator.create_library


@contextmanager
def _whole(generator: Any) -> Iterator[None]:
    """What is read from disk as native code keeps its address, whatever is being compiled meanwhile."""
    create = vars(generator).pop("create_library", None)
    try:
        yield
    finally:
        if create is not None:
            generator.create_library = create


def set_environments(compiled: Any) -> None:
    """Give a new kernel the environments of its parts."""
    for environment in compiled._find_referenced_environments():
        compiled.library.codegen.set_env(environment.env_name, environment)


def rebuild(target: Any, payload: Any) -> Any:
    """A compiled function from what its `_reduce()` gave."""
    (name, kind, data), fndesc, environment, signature, objectmode, lifted, annotation, reload_init, _ = payload
    if kind != "bitcode":
        with _whole(target.codegen()):
            return _CompileResult._rebuild(target, *payload)
    for function in reload_init:
        function()
    part = Part(target.codegen(), name)
    part._final_module = llvm.parse_bitcode(data)
    part._finalize_dynamic_globals()
    part._finalized = True
    return _CompileResult(
        target_context=target, typing_context=target.typing_context, library=part, environment=environment,
        entry_point=target.get_executable(part, fndesc, environment), fndesc=fndesc, type_annotation=annotation,
        signature=signature, objectmode=objectmode, lifted=lifted, typing_error=None, call_helper=None, metadata=None,
        reload_init=reload_init, referenced_envs=(),
    )  # fmt: skip
