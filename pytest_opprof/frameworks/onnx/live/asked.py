"""Find the source line of a session's nodes: in the calling program, and in the model, if its nodes have lines.

The profile of a session has the nodes of all its runs, with times. A run belongs to the line that called it; so do its
nodes, by their times and threads.
"""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from threading import get_native_id
from time import time_ns
from typing import Any

from ....sites.chains import UNKNOWN, Chains, Frame
from ....sites.recorded import recorded
from ....sites.stack import here
from ..stack_traces import Line, of_node, stack_traces


@dataclass(eq=False, slots=True)
class Call:
    """A run of a session, called by the program."""

    site: int
    """The calling line: a node of chains."""
    thread: int
    """The thread that runs it, as the system and ONNX Runtime's profile number it; 0: one of ONNX Runtime's."""
    begin_ns: int
    """Since 1970."""
    end_ns: float = inf

    @classmethod
    def begun(cls, chains: Chains | None, is_async: bool) -> Call:
        """Return a call that begins now, from the caller of the caller."""
        site = UNKNOWN if chains is None else here(chains, sys._getframe(2))
        return cls(site, 0 if is_async else get_native_id(), time_ns())


class Asked:
    """The calls of one session."""

    def __init__(self, session: Any) -> None:
        """*session* has to keep the path or the bytes of its model; otherwise its nodes have no lines of their own."""
        self.calls: list[Call] = []
        self._traces = _stack_traces(getattr(session, "_model_path", None), getattr(session, "_model_bytes", None))
        self._sites: dict[tuple[str, int], int] = {}

    def caller(self, at_ns: int, thread: int) -> int | None:
        """Return the line that called the work at a time, in a *thread*; None if two candidates exist."""
        begins, states = self._states
        place = bisect_right(begins, at_ns) - 1
        calls = states[place] if place >= 0 else ()
        # A thread that runs none of them helps one that does.
        sites = {call.site for call in calls if call.thread == thread} or {call.site for call in calls}
        return sites.pop() if len(sites) == 1 else None

    def site(self, chains: Chains, node: str, caller: int) -> int:
        """Return the line of a *node*: its line in the model, called by *caller*, or else *caller*."""
        if (node, caller) not in self._sites:
            frames = recorded(Frame(*line) for line in of_node(self._traces, node))
            self._sites[node, caller] = chains.of_lines(frames, caller)
        return self._sites[node, caller]

    @cached_property
    def _states(self) -> tuple[list[float], list[tuple[Call, ...]]]:
        """The times of changes, and the calls that run from each of them on."""
        changes = [(call.begin_ns, call) for call in self.calls] + [(call.end_ns, call) for call in self.calls]
        running: dict[Call, None] = {}
        begins, states = list[float](), list[tuple[Call, ...]]()
        for at, call in sorted(changes, key=lambda change: change[0]):
            if running.pop(call, self) is self:
                running[call] = None
            begins.append(at)
            states.append(tuple(running))
        return begins, states


def _stack_traces(path: str | None, content: bytes | None) -> Mapping[str, tuple[Line, ...]]:
    if not path:
        return stack_traces(content or b"")
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as model:
            return stack_traces(model)
    except (OSError, ValueError):
        return {}  # without the file there is no copy, which is an error
