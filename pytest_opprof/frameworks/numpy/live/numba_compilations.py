"""The functions that Numba compiles again in one test: an inner function that each call defines, or another type."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....profile.events.event_log import EventLog
from ....sites.code import first_part, place

# The most characters of the types of a function's arguments.
_LONG = 80


class NumbaCompilations:
    """Knows the functions that Numba compiled in this test, by their place."""

    def __init__(self) -> None:
        self._types: dict[str, str] = {}
        """The types for which each was compiled last."""

    def forget(self) -> None:
        """Begin another test."""
        self._types.clear()

    @contextmanager
    def counted(self, log: EventLog) -> Iterator[None]:
        """Record in *log* the functions that Numba compiles again until the context ends, if it is imported by now."""
        event: Any = sys.modules.get("numba.core.event")
        if event is None:
            yield
            return

        def compiled(_: object, ended: Any) -> None:
            function = ended.data["dispatcher"].py_func
            if first_part(str(function.__module__)) == "numba":
                return  # a part of another function, as of `sum`
            code, types = function.__code__, ", ".join(map(str, ended.data["args"]))[:_LONG]
            at = place(code)
            before, self._types[at] = self._types.get(at), types
            if before is None:
                return
            is_other = before == types
            why = "another function is defined there each time" if is_other else f"for {types} (before: {before})"
            log.compiled_again(
                f"Numba compiled {code.co_name} ({at}) again, in the same test: {why}",
                f"{code.co_filename}:{code.co_firstlineno}",
            )

        methods = {"on_start": lambda *_: None, "on_end": compiled}
        listener = type("CompiledAgain", (event.Listener,), methods)()
        event.register("numba:compile", listener)
        try:
            yield
        finally:
            event.unregister("numba:compile", listener)
        log.count_compiled_again()
