"""Find the calling functions of ops in a Kineto trace that was recorded with stacks (with_stack=True).

Events of the category ``python_function`` are calls of Python functions, nested in time with the ops of their thread:
``nets.py(12): as_float`` is a function and the line where it begins; no line inside it is in the file. Calls of
built-in functions and ``nn.Module: Linear_0`` are left out. Files are without the folder of `sys.path` they are in.

An op in a backward pass belongs to the caller of its forward op: the event around it,
``autograd::engine::evaluate_function: ...``, has a ``Sequence number``, and the last op outside of such events with the
same number made the node. If this is unknown, or ops of two threads have the number, the op belongs to the caller of
``backward()``. Tested with PyTorch 2.13, CPU.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ....profile.op_key import CallSite
from ....sites.chains import UNKNOWN, frames_of
from ....sites.recorded import recorded
from .kineto_events import Event, Events
from .rows import Rows

REMARK = "each line is the first of its function: PyTorch's traces do not have the line of a call"
_FUNCTION = re.compile(r"(.*)\((\d+)\): (.*)", re.DOTALL)
_NODE = "autograd::engine::evaluate_function"
_NO_FUNCTION, _UNTOLD = -1, -1


class _Backward(NamedTuple):
    """A running node of autograd."""

    end: int
    sequence: int
    chain: int
    """The chain of calls in which it began."""


class SitedEvents(Events):
    """The columns of a file, with the calls of Python functions. Takes twice the memory and time of `Events`."""

    def __init__(self) -> None:
        super().__init__()
        self._functions: list[tuple[str, str, int]] = []
        self._function_numbers: dict[str, int] = {}
        self._python: defaultdict[int, Rows] = defaultdict(lambda: Rows(3))
        """Start, duration and index of the function, by thread."""
        self._sequences: dict[int, int] = {}
        """The sequence numbers of autograd, by serial."""
        self._chains = [(UNKNOWN, "", "", 0)]
        """In the form that `frames_of` takes."""
        self._chain_numbers: dict[tuple[int, int], int] = {}

    def take(self, events: Iterable[Event]) -> None:
        """Add events, including Python functions."""
        events = list(events)
        calls: defaultdict[int, list[int]] = defaultdict(list)
        for event in events:
            if event.cat == "cpu_op" and event.args.sequence >= 0:
                self._sequences[event.args.serial] = event.args.sequence
            elif event.cat == "python_function" and event.dur >= 0:
                function = self._function_numbers.get(event.name)
                function = self._function(event.name) if function is None else function
                if function != _NO_FUNCTION:
                    start, duration = round((event.ts - self.base_of(event)) * 1000), round(event.dur * 1000)
                    calls[self._thread(event.pid, event.tid)] += (start, duration, function)
        for thread, rows in calls.items():
            self._python[thread].add(rows)
        super().take(events)

    def tell_sites(self) -> bool:
        """Set the calling functions of the calls; return whether there is any function."""
        forward = _Forward()
        told = [self._told(number, forward) for number in range(len(self.threads))]
        sites: dict[tuple[int, bool], CallSite | None] = {(UNKNOWN, False): None}
        numbers: dict[tuple[int, int, bool], int] = {}
        for thread, (chains, backward) in zip(self.threads, told):
            column = thread.columns()[3]
            for row, call in enumerate(column):
                if self.calls[call].annotates:
                    continue
                made = forward.chain(backward[row])
                key = (chains[row] if made is None else made), made is not None
                if key not in sites:
                    sites[key] = CallSite(recorded(frames_of(self._chains, key[0])), key[1])
                number = numbers.setdefault((call, *key), len(self.calls))
                if number == len(self.calls):
                    self.calls.append(replace(self.calls[call], site=sites[key]))
                column[row] = number
        return bool(self._python)

    def _told(self, number: int, forward: _Forward) -> tuple[array[int], array[int]]:
        """Return for each op of a thread the chain of calls around it, and the number of the node that it is part of.

        The number is -1 outside of backward passes, and for ops called by Python functions inside one.
        """
        starts, _, serials, calls = self.threads[number].columns()
        chains, backward = (array("q", [value]) * len(starts) for value in (UNKNOWN, _UNTOLD))
        running: list[tuple[int, int]] = []  # the end of each function, and the chain that it is the innermost of
        nodes: list[_Backward] = []
        for start, duration, function, row in self._in_order(number):
            end = start + duration
            while running and running[-1][0] <= start:
                running.pop()
            while nodes and nodes[-1].end <= start:
                nodes.pop()
            chain = running[-1][1] if running else UNKNOWN
            if function != _NO_FUNCTION:
                running.append((end, self._chain(chain, function)))
                continue
            chains[row] = chain
            sequence = self._sequences.get(serials[row], _UNTOLD)
            if self.calls[calls[row]].name.startswith(_NODE):
                nodes.append(_Backward(end, sequence, chain))
            elif not nodes and sequence != _UNTOLD:
                forward.made(sequence, chain, number)
            if nodes and nodes[-1].chain == chain:
                backward[row] = nodes[-1].sequence
        return chains, backward

    def _in_order(self, number: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield start, duration, function and row of the functions and ops of a thread, each before those inside."""
        starts, durations, serials, _ = self.threads[number].columns()
        ops = ((starts[row], -durations[row], 1, serials[row], row) for row in range(len(starts)))
        python = self._python[number].columns() if number in self._python else ((), (), ())
        functions = ((start, -duration, 0, 0, function) for start, duration, function in zip(*python))
        for start, duration, is_op, _, index in sorted([*ops, *functions]):
            yield start, -duration, _NO_FUNCTION if is_op else index, index

    def _function(self, name: str) -> int:
        match = _FUNCTION.fullmatch(name)
        number = self._function_numbers[name] = len(self._functions) if match else _NO_FUNCTION
        if match:
            self._functions.append((match[1], match[3], int(match[2][:9])))
        return number

    def _chain(self, caller: int, function: int) -> int:
        number = self._chain_numbers.setdefault((caller, function), len(self._chains))
        if number == len(self._chains):
            self._chains.append((caller, *self._functions[function]))
        return number


class _Forward:
    """The chains of calls that made the nodes of autograd, by sequence number."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[int, int]] = {}
        self._ambiguous: set[int] = set()

    def made(self, sequence: int, chain: int, thread: int) -> None:
        """Note that an op with this number ran; the last one makes the node."""
        if self._made.setdefault(sequence, (chain, thread))[1] != thread:
            self._ambiguous.add(sequence)
        self._made[sequence] = chain, thread

    def chain(self, sequence: int) -> int | None:
        """Return the chain that made a node; None if unknown."""
        chain, _ = self._made.get(sequence, (UNKNOWN, 0))
        return None if sequence in self._ambiguous or chain == UNKNOWN else chain
