"""Detect functions that JAX traces again, with the reason from JAX's own log (`jax_explain_cache_misses`).

Only functions traced before in the same test count, because the first test to use one depends on the order of tests.
Otherwise a weak type, a new shape or a lambda made anew would compile in each call, and no op would show it.
"""

from __future__ import annotations

import logging
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ....sites.code import relative
from .fence import NAME

# The loggers of explanations: JAX 0.7.2 to 0.10, and before.
_LOGGERS = ("jax._src.interpreters.partial_eval", "jax._src.pjit")
_MISS = "TRACING CACHE MISS"
_FUNCTION = re.compile(r"^\s+(?:for )?(\S.*?)(?: id=\d+)? defined at (\S+:\d+)", re.MULTILINE)
_BEFORE = "For the closest previous key:"
_MADE_ANEW = "another function is defined there each time"
# Where JAX compares the arguments and finds nothing.
_UNEXPLAINED = "cache miss explanation unavailable"
_SAME_TYPES = "its arguments have the types and the structure of before, and JAX does not tell what differs"
# Characters of a reason: the types of a model's parameters were 9,500.
_LONGEST = 300
# Addresses of objects would make one reason many.
_NOISE = re.compile(r"https?://\S+| at 0x[0-9a-f]+")
# Called with a function and its line in words, its file and line, and the reason.
Missed = Callable[[str, str, str], None]


class Misses(logging.Filter):
    """Receives each explanation, and removes those that the program did not request from its log."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()
        self._missed: Missed | None = None
        self._is_ours = False

    def forget(self) -> None:
        """Forget what an earlier test traced."""
        self._seen.clear()

    def listen(self) -> None:
        """Make JAX explain from now on."""
        import jax

        if not self._is_ours:
            self._is_ours = not jax.config.jax_explain_cache_misses
            for name in _LOGGERS:
                logging.getLogger(name).addFilter(self)
        if self._is_ours and not jax.config.jax_explain_cache_misses:
            jax.config.update("jax_explain_cache_misses", True)  # not part of JAX's cache keys

    @contextmanager
    def told(self, missed: Missed) -> Iterator[None]:
        """Call *missed* for each function that is traced again until the context ends."""
        self._missed = missed
        try:
            yield
        finally:
            self._missed = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Handle an explanation; let all other records pass."""
        text = record.getMessage() if _MISS in str(record.msg) else ""
        if not text:
            return True
        # A function that another one traces is a part of it: a branch of `lax.cond` is compiled with that.
        if (found := _FUNCTION.search(text)) and found[1] != NAME and not _is_inside_another():
            function = f"{found[1]} ({found[2]})"
            if function in self._seen and self._missed is not None:
                self._missed(f"{found[1]} ({relative(found[2])})", found[2], reason(text))
            self._seen.add(function)
        return not self._is_ours


def _is_inside_another() -> bool:
    """Return True while JAX traces a function to compile it; not while it differentiates or vectorises alone."""
    context = getattr(sys.modules.get("jax._src.core"), "trace_ctx", None)
    trace = getattr(context, "trace", None)
    while trace is not None:
        if type(trace).__name__ == "DynamicJaxprTrace":
            return True
        trace = getattr(trace, "parent_trace", None)
    return False


def reason(text: str) -> str:
    """Return the reason for tracing again in one line, from an explanation of several."""
    _, before, why = text.partition(_BEFORE)
    if not before:
        return _MADE_ANEW
    if _UNEXPLAINED in why:
        return _SAME_TYPES
    lines = filter(None, map(str.strip, _NOISE.sub("", why).splitlines()))
    text = " ".join(lines).removeprefix("* ").replace(": * ", ": ").replace(" * ", "; ")
    return textwrap.shorten(text, _LONGEST, placeholder=" ...")
