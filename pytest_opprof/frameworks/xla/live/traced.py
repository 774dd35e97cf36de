"""Count the ops that JAX traced for each program, when XLA compiles it.

A program with the same work after XLA's optimisation may take many times longer to trace and to compile: diffrax'
solver went from 621 ops to 3,806, and from 0.8 s to 16 s, with equal optimised programs. The ops are counted when JAX
compiles, and read when the program runs, so that a window has the same number whichever test used the function first.
It takes 20 ms of the 6 s in which XLA compiles 3,003 ops.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from ..hlo_module import HloModule
from .programs import modules

# The function gets the program that JAX traced, and returns the executable.
_MODULE, _FUNCTION = "jax._src.compiler", "compile_or_get_cached"
_NO_OPS = frozenset(["builtin.module", "func.func", "func.return", "stablehlo.return"])


class Traced:
    """The number of ops by program, of all compiled since it listens."""

    def __init__(self) -> None:
        self._ops: dict[tuple[int, str], int] = {}
        self._listens = False

    def listen(self) -> None:
        """Count compilations from now on, or from the import of JAX on."""
        if not self._listens:
            self._listens = True
            if _MODULE in sys.modules:
                self._watch(sys.modules[_MODULE])
            else:
                sys.meta_path.insert(0, _AtImport(self._watch))

    def _watch(self, compiler: ModuleType) -> None:
        """Count compilations from now on; nothing in a version of JAX that compiles elsewhere."""
        compile_one: Any = getattr(compiler, _FUNCTION, None)
        if compile_one is None:
            return

        def counted(backend: Any, computation: Any, *arguments: Any, **options: Any) -> Any:
            number = _ops(computation)
            executable = compile_one(backend, computation, *arguments, **options)
            for module in modules(executable):
                self._ops[module.id, module.name] = number
            return executable

        setattr(compiler, _FUNCTION, counted)

    def ops(self, module: HloModule) -> int | None:
        """Return the number of ops that JAX traced for a program; None if it was compiled before."""
        return self._ops.get((module.id, module.name))


class _AtImport(MetaPathFinder):
    """Waits for the import of the module, and then removes itself."""

    def __init__(self, imported: Callable[[ModuleType], None]) -> None:
        self._imported = imported

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module as usual, and make its loader report when it is loaded."""
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        loader: Any = spec and spec.loader
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self._imported(module)

            loader.exec_module = exec_module
        return spec


def _ops(computation: Any) -> int:
    from jax._src.lib.mlir import ir

    found = 0

    def visit(op: Any) -> Any:
        nonlocal found
        found += op.name not in _NO_OPS
        return ir.WalkResult.ADVANCE

    computation.operation.walk(visit)
    return found
