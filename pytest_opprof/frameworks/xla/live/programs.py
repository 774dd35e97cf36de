"""The programs of this process by their number in profiles, and their compilations.

XLA's client has its executables, and each has its optimised program. A test often compiles a function and drops it
before its window closes, so executables are held while a window is open: the existing ones, and each new one.

An executable that was loaded from a file (JAX's cache on disk, `jax.experimental.serialize_executable`) has the number
of its program in the process which compiled it. It is found by the names of the program and its instructions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from ....errors import BackendError
from ..hlo_module import HloModule
from ..kernels import kernel

# JAX's event in `jax.monitoring` for a new executable: XLA compiled it, or JAX found it in its cache on disk.
_COMPILED = "/jax/core/compile/backend_compile_duration"
# The beginning of the name of the function that makes an executable, unless it is loaded from a file.
_COMPILES = "backend_compile"
# The number of executables to examine after one was made, because other threads may have made some at the same time.
_NEWEST = 8
# Called with the ns for an executable, and its function: ``jit(f)``.
Made = Callable[[int, str], None]


class Program(NamedTuple):
    """The identity of a program in a profile. Only together they identify it, if some are loaded from files."""

    number: int
    name: str


class Known(NamedTuple):
    """A compiled program, and facts from its executable."""

    module: HloModule
    stack: tuple[tuple[str, str], ...]
    """The files and functions that ran when it was compiled, the innermost first."""
    temporary: int
    """The bytes that it needs besides its operands and results, while it runs."""


class Programs:
    """The programs of a client. Programs found once are known as long as the process runs."""

    def __init__(self) -> None:
        self._compiled: dict[int, Known] = {}
        self._held: list[Any] = []

    @contextmanager
    def held(self, made: Made) -> Iterator[None]:
        """Hold all executables until the context ends; call *made* for each new one."""

        def hold(ns: int, function: str) -> None:
            self._held[:0] = _client().live_executables()[:_NEWEST]  # the newest is the first
            made(ns, function)

        self._held = _client().live_executables() if is_started() else []
        try:
            with compiling(hold):
                yield
        finally:
            self._held = []

    def find(self, ran: Mapping[Program, Collection[str]]) -> dict[Program, Known]:
        """Return each program that *ran*, given its instructions; they have to be `held`.

        Raises BackendError for a missing or ambiguous one.
        """
        self._look_for({program.number for program in ran})
        loaded = self._loaded()
        found = {}
        for program, names in ran.items():
            by_number = self._compiled.get(program.number)
            candidates = [*([by_number] if by_number else []), *loaded.get(program.name, ())]
            fitting = [each for each in candidates if _fits(each.module, program, names)]
            if not fitting:
                raise BackendError(
                    f"the program {program.name} ran, but JAX has dropped it. Keep the result of jax.jit until the test"
                    " is over"
                )
            first = fitting[0].module
            if any(_contents(each.module, names) != _contents(first, names) for each in fitting[1:]):
                raise BackendError(
                    f"several programs {program.name} were loaded from JAX's cache on disk, and its profiler does not"
                    " name the one that ran. Disable the cache: JAX_ENABLE_COMPILATION_CACHE=false"
                )
            found[program] = fitting[0]
        return found

    def _look_for(self, numbers: Collection[int]) -> None:
        for executable in self._held:
            if self._compiled.keys() >= {*numbers}:
                return
            if not _is_loaded(executable):
                for each in _of(executable):
                    self._compiled.setdefault(each.module.id, each)

    def _loaded(self) -> dict[str, list[Known]]:
        """Return the programs that were loaded from files, by name."""
        import jax

        found: dict[str, dict[int, Known]] = {}
        if jax.config.jax_compilation_cache_dir or "jax.experimental.serialize_executable" in sys.modules:
            for executable in filter(_is_loaded, self._held):
                for each in _of(executable):
                    found.setdefault(each.module.name, {})[each.module.id] = each
        return {name: list(modules.values()) for name, modules in found.items()}


@contextmanager
def compiling(made: Made) -> Iterator[None]:
    """Call *made* for each new executable until the context ends."""
    import jax

    def listen(event: str, duration_secs: float, **about: object) -> None:
        if event == _COMPILED:
            made(round(duration_secs * 1e9), str(about.get("fun_name", "a program")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield
    finally:
        unregister = getattr(jax.monitoring, "unregister_event_duration_listener", None)
        if unregister is None:  # jax 0.7
            unregister = sys.modules["jax._src.monitoring"]._unregister_event_duration_listener_by_callback
        unregister(listen)


def is_started() -> bool:
    """Return True if JAX has a client: importing it starts none, and asking for its devices would."""
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(bridge.backends_are_initialized())


def _client() -> Any:
    import jax

    return jax.local_devices()[0].client


def _of(executable: Any) -> list[Known]:
    calls = executable.traceback.frames if executable.traceback else ()
    stack = tuple((each.file_name, each.function_name) for each in calls)
    temporary = int(executable.get_compiled_memory_stats().temp_size_in_bytes)
    return [Known(each, stack, temporary) for each in modules(executable)]


def modules(executable: Any) -> list[HloModule]:
    """Return the optimised programs of an executable, one as a rule."""
    return [HloModule(each.as_serialized_hlo_module_proto()) for each in executable.hlo_modules()]


def _fits(module: HloModule, program: Program, names: Collection[str]) -> bool:
    return module.name == program.name and module.by_name.keys() >= {*names}


def _is_loaded(executable: Any) -> bool:
    """Return True if an executable was loaded from a file, which only its traceback tells."""
    calls = executable.traceback.frames if executable.traceback else ()
    return not any(call.function_name.startswith(_COMPILES) for call in calls[:3])


def _contents(module: HloModule, names: Collection[str]) -> list[object]:
    """Return the content of instructions, without their sources."""
    found: list[object] = []
    for name in sorted(names):
        each = kernel(module, name, names)
        found.append(each and each._replace(frames=(), ops=tuple(op._replace(frames=()) for op in each.ops)))
    return found
