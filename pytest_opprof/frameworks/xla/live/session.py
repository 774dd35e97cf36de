"""An in-memory session of JAX's profiler.

`jax.profiler.start_trace` would write two files, which takes 11 ms; this takes 0.01 ms to begin and to end. A process
has one session at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ....errors import BackendError
from .fence import KNOWN

# The level at which XLA records its kernels.
_HOST_EVENTS = 2
_OURS = (
    "opprof measures this test with JAX's profiler, which has one session per process. Leave the test out with"
    " @pytest.mark.opprof(False), or profile without opprof"
)


class Session:
    """The profiler, recording."""

    def __init__(self) -> None:
        """Start. Raises BackendError if this version of JAX has no session in memory."""
        import jax

        options: Any = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        options.host_tracer_level = _HOST_EVENTS
        options.enable_hlo_proto = False  # all programs of the process, 0.1 ms each: see `programs`
        try:
            from jax._src.lib import _profiler

            self._session = _profiler.ProfilerSession(options)
        except (ImportError, AttributeError) as error:
            raise BackendError(
                f"opprof does not know the profiler of jax {jax.__version__} ({error}). Install {KNOWN}"
            ) from None

    def stop(self) -> bytes:
        """Stop, and return the recording, an XSpace. Raises BackendError if another session ran all the time."""
        import jax

        try:
            return bytes(self._session.stop())
        except jax.errors.JaxRuntimeError as error:
            if "ALREADY_EXISTS" not in str(error):
                raise
            raise BackendError(
                "a session of JAX's profiler was already running. Stop it before this test (jax.profiler.stop_trace),"
                " or leave the test out with @pytest.mark.opprof(False)"
            ) from None


@contextmanager
def others_refused() -> Iterator[None]:
    """Make `jax.profiler.start_trace` and `jax.profiler.trace` name the recorder, in place of an error of XLA's."""
    import jax

    def refuse(*arguments: object, **options: object) -> NoReturn:
        __tracebackhide__ = True
        raise BackendError(_OURS)

    modules = [jax.profiler, sys.modules["jax._src.profiler"]]
    originals = [getattr(module, "start_trace", None) for module in modules]
    for module in modules:
        module.start_trace = refuse
    try:
        yield
    finally:
        for module, original in zip(modules, originals):
            module.start_trace = original
