"""The host's recording of a profiler session: kernels, calls of programs, lines, marks and fences.

XLA's CPU client writes an event for each kernel that runs (``hlo_op``). It ends when the kernel has been handed to
other threads; then ``end: <name>`` marks their end. Each execution on a device ends in a wait
(``ThunkExecutor::Execute``). A call of a program is an event in the thread that called, with names by version:

- jax 0.7, 0.8: ``PjRtCpuExecutable::Execute``, with an ``ExecuteHelper`` for each device;
- from 0.9 on: ``CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice``, or, over several devices,
  ``CommonPjRtLoadedExecutable::Execute (jit_f)`` with ``num_addressable_devices``.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ....errors import BackendError
from ....sites.chains import UNKNOWN
from ...files.protobuf import Broken
from ..xspace import Event, planes
from .fence import ANNOTATION, KNOWN, MODULE, Fence
from .programs import Program

# The events that end an interval, and that announce a line of the program, followed by a node of chains.
MARK, LINE = "opprof::mark", "opprof::line "
_HOST = "/host:CPU"
_STATS = ("hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal", "num_addressable_devices", "_p", "_c")
_END = "end: "
# Names of useful events; there are ten others for each call.
_WORTH = re.compile(rf"[\w.\-]+|{_END}.*|opprof::.*|\w+::Execute(?:Helper\w*)?(?: \(.*\))?")
_ON_ONE = re.compile(r"\w+Executable::ExecuteHelperOnSingleDevice")
_ON_SEVERAL = re.compile(r"\w+Executable::Execute \(.*\)")
_CALL = re.compile(r"\w+Executable::Execute")
_OF_CALL = re.compile(r"\w+Executable::ExecuteHelper")
_DONE = re.compile(r"ThunkExecutor::Execute \(.*\)")


class Execution(NamedTuple):
    """One run of a program, on one device."""

    program: Program
    run: str
    device: str


class Ran(NamedTuple):
    """A kernel that ran."""

    start: int
    """In ns, on the session's clock."""
    ns: int
    """Its time, without that of other kernels in the thread that finished it."""
    name: str
    """The name of an instruction of the program."""
    execution: Execution
    end: int = 0
    thread: int = 0
    """The thread in which it began."""


class Span(NamedTuple):
    """The time of an event, and its thread."""

    start: int
    end: int
    thread: int


class _Ended(NamedTuple):
    """The end of an execution, which has no time of its own."""

    start: int
    run: str
    device: str


class _Kernel(NamedTuple):
    span: Span
    """Until it was handed to other threads, or done."""
    name: str
    execution: Execution
    token: str


@dataclass
class Recording:
    """The recording, each list in order of time."""

    ran: list[Ran] = field(default_factory=list)
    calls: list[Span] = field(default_factory=list)
    """Each call of a program."""
    asked: list[int] = field(default_factory=list)
    """The start of each execution on a device."""
    done: list[_Ended] = field(default_factory=list)
    """The wait for each execution on a device."""
    lines: list[tuple[int, int, int]] = field(default_factory=list)
    """Thread, time and node of each line that the program came to."""
    marks: list[int] = field(default_factory=list)
    fences: list[Span] = field(default_factory=list)
    _runs: dict[str, Span] = field(default_factory=dict)
    """The calls with a run id, by that."""
    _kernels: list[_Kernel] = field(default_factory=list)
    _ends: dict[str, Span] = field(default_factory=dict)
    """The end of each kernel, by its token."""

    @classmethod
    def of(cls, data: bytes) -> Recording:
        """Return the content of an XSpace. Raises BackendError for invalid data, or an unknown kind."""
        found = cls()
        try:
            for plane in planes(data, _STATS):
                if plane.name != _HOST:
                    continue
                for number, line in enumerate(plane.lines(lambda name: bool(_WORTH.fullmatch(name)))):
                    for event in line.events:
                        found._add(event, number)
        except Broken as error:
            raise BackendError(
                f"JAX's profiler returned data that is not an XSpace ({error}). Install {KNOWN}"
            ) from None
        except KeyError as error:
            raise BackendError(f"JAX's profiler does not report the {error} of an op. Install {KNOWN}") from None
        found.ran = sorted(found._timed())
        for times in (found.calls, found.asked, found.done, found.lines, found.marks, found.fences):
            times.sort()
        return found

    def check(self, marks: int, fence: Fence) -> None:
        """Check completeness. Raises BackendError if an event was lost, or a program ran without a call.

        The fence ends the session, twice. Events before the last fence are checked; the last itself may still be
        incomplete.
        """
        calls = sum(self.is_in_fence(call) for call in self.calls)
        ran = {each.execution for each in self.ran if each.execution.program.name == MODULE}
        waits = len(self.fences)
        if (
            len(self.marks) != marks
            or waits < 2
            or calls != waits * fence.calls
            or len(ran) < (waits - 1) * fence.executions
        ):
            raise BackendError(
                f"JAX's profiler lost events: it recorded {len(self.marks)} of {marks} marks, {calls} of"
                f" {waits * fence.calls} calls and {len(ran)} of {waits * fence.executions} executions of opprof's own"
                f" programs. Run without another profiler, and with {KNOWN}"
            )
        end = self.fences[-1].start
        asked, done = bisect_left(self.asked, end), bisect_left(self.done, (end,))
        if asked > done:
            raise BackendError(
                f"{asked - done} of {asked - (waits - 1) * fence.executions} called programs did not end in the window:"
                " another thread did not wait for them, or the call raised an error. Call jax.block_until_ready there"
            )
        if asked < done:
            raise BackendError(
                f"{done - asked} programs ran that were not called in the window: another thread called them earlier."
                " Call jax.block_until_ready there before the window"
            )

    def is_in_fence(self, call: Span) -> bool:
        """Return True if a *call* is part of a fence."""
        before = bisect_left(self.fences, (call.start + 1,)) - 1
        return before >= 0 and call.end <= self.fences[before].end and call.thread == self.fences[before].thread

    def line_of(self, call: Span) -> int:
        """Return the node of the line that called a program; UNKNOWN in a thread whose lines are not traced."""
        before = bisect_left(self.lines, (call.thread, call.start)) - 1
        thread, _, node = self.lines[before] if before >= 0 else (-1, 0, UNKNOWN)
        return node if thread == call.thread else UNKNOWN

    @property
    def lacks_threads(self) -> bool:
        """Whether programs were called in threads whose lines are not traced."""
        traced = {thread for thread, _, _ in self.lines}
        return bool(traced) and any(each.thread not in traced for each in self.calls if not self.is_in_fence(each))

    def callers(self) -> dict[str, int]:
        """Return the calling line of each run of a program, if known.

        A call has its run id up to jax 0.8, and over several devices. Other runs are in the order of their calls if one
        thread called them all and one device ran them all; otherwise any call could be theirs.
        """
        ours = {each.execution.run for each in self.ran if each.execution.program.name == MODULE}
        told = set(self._runs.values())
        calls = [call for call in self.calls if call not in told and not self.is_in_fence(call)]
        ended = [each for each in self.done if each.run not in ours and each.run not in self._runs]
        threads, devices = {each.thread for each in calls}, {each.device for each in ended}
        runs = dict(self._runs)
        if len(calls) == len(ended) and max(len(threads), len(devices)) == 1:
            runs.update(zip((each.run for each in ended), calls))
        return {run: self.line_of(call) for run, call in runs.items()}

    def _add(self, event: Event, thread: int) -> None:
        name, stats = event.meaning.name, event.stats
        start, end = event.start, event.start + event.duration
        if op := stats.get("hlo_op"):
            program = Program(int(stats["program_id"]), stats["hlo_module"])
            execution = Execution(program, stats["run_id"], stats["device_ordinal"])
            self._kernels.append(_Kernel(Span(start, end, thread), op, execution, stats.get("_p", "")))
        elif name.startswith(_END):
            self._ends[stats.get("_c", "")] = Span(start, start, thread)
        elif name == MARK:
            self.marks.append(start)
        elif name.startswith(LINE):
            self.lines.append((thread, start, int(name[len(LINE) :])))
        elif name == ANNOTATION:
            self.fences.append(Span(start, end, thread))
        elif "Execute" in name:
            self._executes(name, Span(start, end, thread), stats)

    def _timed(self) -> Iterator[Ran]:
        by_thread: dict[int, list[_Kernel]] = {}
        for each in sorted(self._kernels):
            by_thread.setdefault(each.span.thread, []).append(each)
        for (start, handed_over, began_in), name, execution, token in self._kernels:
            done, _, thread = self._ends.get(token, Span(handed_over, handed_over, 0))
            # The thread that finished it ran dependent kernels before reporting the end.
            others, until = 0, handed_over
            if done > handed_over:
                kernels = by_thread.get(thread, [])
                for each in kernels[bisect_left(kernels, ((handed_over,),)) :]:
                    if each.span.start >= done:
                        break
                    if each.execution == execution and until <= each.span.start and each.span.end <= done:
                        others += each.span.end - each.span.start
                        until = each.span.end
            end = max(done, handed_over)
            yield Ran(start, end - start - others, name, execution, end, began_in)

    def _executes(self, name: str, span: Span, stats: Mapping[str, str]) -> None:
        devices, run = int(stats.get("num_addressable_devices", 0)), stats.get("run_id", "")
        if _DONE.fullmatch(name):
            self.done.append(_Ended(span.start, run, stats.get("device_ordinal", "")))
            return
        is_whole = _ON_ONE.fullmatch(name) or (devices and _ON_SEVERAL.fullmatch(name))
        if is_whole or _CALL.fullmatch(name):
            self.calls.append(span)
        if is_whole or _OF_CALL.fullmatch(name):
            self.asked += [span.start] * (devices or 1)
            if run:
                self._runs[run] = span
