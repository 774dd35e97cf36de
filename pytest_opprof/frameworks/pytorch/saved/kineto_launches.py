"""The launches of a Kineto trace: the op that launched each work of a device."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....ops.cuda_calls import starts_device_work, without_api_version
from ....ops.cuda_kernels import moved
from .nesting import Spans, Tree

if TYPE_CHECKING:
    from .kineto_events import Events, Steps

SYNCHRONIZE = "Synchronize"
# The step, tree and event of a launch; None for the tree: outside of all ops.
Home = tuple[int, "Tree | None", int]


@dataclass(slots=True)
class Work:
    """Equal activities of a device, or equal calls that wait for it."""

    first_ns: int
    least_ns: int
    most_ns: int = 0
    total_ns: int = 0
    count: int = 0
    nbytes: int = 0

    def add(self, start: int, ns: int, nbytes: int) -> None:
        """Add an activity or wait; *nbytes* below zero are unknown."""
        # Called up to a million times; `min` and `max` would take four times as long.
        self.count += 1
        self.total_ns += ns
        if start < self.first_ns:
            self.first_ns = start
        if ns < self.least_ns:
            self.least_ns = ns
        if ns > self.most_ns:
            self.most_ns = ns
        if nbytes > 0:
            self.nbytes += nbytes


class Launches:
    """The work of the devices, by the op that launched it. `link` fills it, once the ops of all threads are in
    *spans*.
    """

    def __init__(self, events: Events, steps: Steps) -> None:
        self.spans = {thread: Spans() for thread in set(events.launches.columns()[3])}
        """The ops of each thread that called the driver."""
        self.calls = Counter[tuple[int, str]]()
        """The number of calls of the driver that start device work, by step and name."""
        self.waits: dict[tuple[int, str], Work] = {}
        """Calls of the driver that wait, by step and name."""
        self.activities: dict[tuple[Home | int, int], Work] = {}
        """By home (only the step if the launch is unknown) and index of the kernel."""
        self.copies: defaultdict[tuple[Tree, int], dict[int, int]] = defaultdict(dict)
        """For an event that copies: the occurrences in which the device made the copy, and the index of the memcpy."""
        self.outside = False
        """Whether the recording contains work that was launched before it."""
        self.lost = 0
        """The number of kernel launches without a kernel."""
        self.left_out = 0
        """The number of activities that torch.compile launched."""
        self.driver_types = [_driver_type(name) for name in events.launch_names]
        self._events = events
        self._steps = steps
        self._compiling: set[int] = set()
        """The correlations of torch.compile's launches."""

    def start_device_work(self) -> bool:
        """Return True if calls of the driver started device work, recorded or not."""
        return any(type_ not in ("", SYNCHRONIZE) for type_ in self.driver_types)

    def link(self) -> None:
        """Find the op around the launch of each activity, and add the device time to it."""
        calls = self._driver_calls()
        _, starts, durations, threads, _ = self._events.launches.columns()
        moves = [moved(kernel.name) for kernel in self._events.kernels]
        begin = min(calls, default=0)
        outside = max(len(self._steps.labels), 1)
        for correlation, start, duration, number, nbytes in zip(*self._events.activities.columns()):
            if correlation in self._compiling:
                self.left_out += 1
                continue
            home: Home | int
            index = calls.get(correlation, -1)
            if index >= 0:
                step, tree, event, occurrence = self._home(starts[index], durations[index], threads[index])
                home = step, tree, event
                if tree and not moves[number]:
                    tree.launch(event, occurrence, duration)
                elif tree and self._events.calls[tree.counted_call(event)].is_made_by(moves[number]):
                    self.copies[tree, tree.owners[event]][occurrence] = number
            elif 0 < correlation < begin:
                self.outside = True
                home = outside
            else:
                home = self._steps.at(start)
            work = self.activities.get((home, number))
            if work is None:
                work = self.activities[home, number] = Work(start, duration)
            work.add(start, duration, nbytes)

    def _driver_calls(self) -> dict[int, int]:
        """Count the calls of the driver that start device work or wait; return the index of each by its correlation.

        The file may have a call twice, one library's inside another's; only the outer one counts.
        """
        correlations, starts, durations, threads, numbers = self._events.launches.columns()
        outer: dict[int, int] = {}
        for index, correlation in enumerate(correlations):
            if correlation and starts[index] < starts[outer.setdefault(correlation, index)]:
                outer[correlation] = index
        did = set(self._events.activities.columns()[0])
        for index, (correlation, number) in enumerate(zip(correlations, numbers)):
            first = outer.get(correlation, index)
            if first != index and starts[index] <= starts[first] + durations[first]:
                continue
            if self.spans[threads[index]].compiler.ran_at(starts[index]):
                self._compiling.add(correlation)
                continue
            type_ = self.driver_types[number]
            if type_ == SYNCHRONIZE:
                self._wait(self._events.launch_names[number], starts[index], durations[index], threads[index])
            elif type_:
                self.calls[self._steps.at(starts[index]), type_] += 1
                self.lost += "LaunchKernel" in type_ and correlation not in did
        self._compiling.discard(0)  # calls without a correlation have 0
        return outer

    def _wait(self, name: str, start: int, ns: int, thread: int) -> None:
        """Add a waiting call. Waiting is no work of the op around it, and is subtracted from its self time."""
        step, tree, event, occurrence = self._home(start, ns, thread)
        if tree:
            tree.took(event, occurrence, ns)
        self.waits.setdefault((step, name), Work(start, ns)).add(start, ns, 0)

    def _home(self, start: int, ns: int, thread: int) -> tuple[int, Tree | None, int, int]:
        """Return the step, tree, event and occurrence of a call of the driver."""
        tree, event, occurrence = self.spans[thread].innermost(start, start + ns) or (None, 0, 0)
        return (tree.step if tree else self._steps.at(start)), tree, event, occurrence


def _driver_type(name: str) -> str:
    """Return the type of a call of the driver that starts device work or waits; "" for others."""
    plain = without_api_version(name)
    if plain.endswith(SYNCHRONIZE):
        return SYNCHRONIZE
    return plain if starts_device_work(plain) else ""
