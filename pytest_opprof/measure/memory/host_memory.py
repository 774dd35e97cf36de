"""The peak of a body's memory on the host: Python's objects and NumPy's arrays, as `tracemalloc` counts them.

`tracemalloc` makes allocating code 2 to 12 times slower, so it has runs of its own. Memory that libraries allocate
without it (pandas' hash tables, Arrow, PyTorch) does not count; prints and logs that pytest captures do.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import NamedTuple

from ...errors import UsageError
from ...machine.garbage import uncollected
from ...sites.chains import UNKNOWN, Chains
from ...sites.code import relative
from ...sites.shown import Shown
from ...sites.tracer import Tracer
from ...units import format_bytes, plural
from ...verdict.quantities import NOTABLE_KEPT
from .traced import AMOUNT, LINE_NUMBER, Where, amount, line_of, parts, traced

_FRAMES = 8
# The lines of a peak are looked up when these parts of it are reached, each millisecond: the runs differ, most under
# coverage, whose data is then there (1.19 and 1.03 MiB), and a peak may be over before the next look.
_NEARLY, _LOOK_S = (0.4, 0.8), 0.001
# The most lines that are reported, and their least share of the peak: of each one, and of the first. Lines with 7 of
# 109 KiB said nothing about the cause (python-qrcode).
_LINES, _NOTABLE, _MUCH = 3, 0.05, 0.1
# Lines of the test alone that hold less are not the cause: of werkzeug's 10.2 MiB 4 were a payload of the test.
_MOST = 0.5
LOOKER = "opprof-memory"
# Before the line that changed, of a line that it leads to.
BELOW = ", below the changed line "


class HostMemory(NamedTuple):
    """The memory of a run of a body on the host, in bytes above its beginning."""

    peak: int
    kept: int
    """After its end, when garbage is collected."""


def memory_of(call: Callable[[], object], ran_again: Callable[[], bool]) -> HostMemory:
    """Run the body as a *call*, and return its memory. *ran_again* runs it once more, if it can, and says so.

    Raises UsageError if the program uses `tracemalloc` itself.
    """
    gc.collect(1)
    with uncollected(), traced(1) as is_ours, _changes_noted() as used:
        call()
        if not is_ours or used:
            raise UsageError("the program uses tracemalloc itself")
        peak, kept = tracemalloc.get_traced_memory()[1], _kept()
        # It may replace memory of an earlier call, which was not traced, or move a list that grows.
        if kept >= NOTABLE_KEPT and ran_again():
            kept = max(min(kept, _kept() - kept), 0)
        return HostMemory(peak, kept)


def _kept() -> int:
    gc.collect(1)  # all that a call made is young
    return tracemalloc.get_traced_memory()[0]


@contextmanager
def _changes_noted() -> Iterator[list[str]]:
    """Yield the list of the functions of tracemalloc called in the context that change its knowledge."""
    called: list[str] = []
    before = {name: getattr(tracemalloc, name) for name in ("start", "stop", "clear_traces", "reset_peak")}

    def noting(name: str) -> Callable[..., object]:
        def function(*arguments: object) -> object:
            called.append(name)
            return before[name](*arguments)

        return function

    try:
        for name in before:
            setattr(tracemalloc, name, noting(name))
        yield called
    finally:
        for name, function in before.items():
            setattr(tracemalloc, name, function)


def lines_at(peak: int, call: Callable[[], object], shown: Shown | None = None) -> Sequence[Where]:
    """Run the body as a *call*, and return in words the lines that hold most of the memory near its *peak*.

    *shown* tells the program's files from those of packages that it calls, and the lines that changed. Memory below
    these comes first, that of lines of the test last.
    """
    snapshots: list[tracemalloc.Snapshot] = []
    is_over = Event()

    def look() -> None:
        for part in _NEARLY:
            while tracemalloc.get_traced_memory()[0] < part * peak:
                if is_over.wait(_LOOK_S):
                    return
            snapshots.append(tracemalloc.take_snapshot())

    gc.collect(1)
    with uncollected(), traced(_FRAMES) as is_ours:
        if is_ours:
            looker = Thread(target=look, name=LOOKER, daemon=True)
            looker.start()
            interval = sys.getswitchinterval()
            sys.setswitchinterval(_LOOK_S / 2)  # a body that never waits keeps another thread out for 5 ms
            ours = sys.getswitchinterval()
            try:
                call()
            finally:
                if sys.getswitchinterval() == ours:
                    sys.setswitchinterval(interval)
                is_over.set()
                looker.join()
    if not is_ours:
        return []
    found = Counter[_Line]()
    if len(snapshots) < len(_NEARLY):  # an earlier moment holds other things: of 1.42 MiB the three lines of 0.9 MiB
        found = _at_peak(peak, call, shown)
    if not found and snapshots:
        found = _held(snapshots[-1], shown)
    if not found:
        return [] if snapshots else [Where("its lines are unknown: the peak is over within a millisecond")]
    return _told(found, peak, shown)


def lines_kept(call: Callable[[], object], shown: Shown | None = None) -> Sequence[Where]:
    """Run the body as a *call*, and return in words the lines that hold most of the memory that it keeps."""
    gc.collect(1)
    with uncollected(), traced(_FRAMES) as is_ours:
        if not is_ours:
            return []
        call()
        kept = _kept()
        found = _held(tracemalloc.take_snapshot(), shown)
    return _told(found, kept, shown) if found else []


def _told(found: Counter[_Line], nbytes: int, shown: Shown | None) -> Sequence[Where]:
    """Return in words the lines that hold most of *nbytes*: changed lines first, lines of the test last."""
    [(largest, most)] = found.most_common(1)
    if _NOTABLE * nbytes <= most < _MUCH * nbytes:
        return [
            Where(f"it is spread over {plural(len(found), 'line')}; the largest holds {_held_at(largest, most).text}")
        ]
    changed = [(line, size) for line, size in found.most_common() if line.changed]
    notable = [(line, size) for line, size in changed if size >= _NOTABLE * nbytes][: _LINES - 1]
    # Of many changed lines that hold a part of it together, one.
    together = [] if notable or sum(size for _, size in changed) < _NOTABLE * nbytes else changed[:1]
    others = [(line, size) for line, size in found.most_common(_LINES) if size >= _NOTABLE * nbytes]
    # Data that the test makes itself are the same as before, as a rule.
    test = f"{relative(shown.test)}:" if shown and shown.test else ":"
    others.sort(key=lambda each: each[0].place.startswith(test))
    first = [*notable, *(each for each in others if each not in notable)][: _LINES - len(together)]
    of_test = sum(size for line, size in first if line.place.startswith(test))
    if not together and of_test == sum(size for _, size in first) < _MOST * nbytes:
        return []  # what the code under test holds was not seen, and these lines are none of the cause
    return [_held_at(line, size) for line, size in [*first, *together]]


class _Line(NamedTuple):
    place: str
    changed: str
    """The changed line that led to it, or itself; empty without one."""


def _line_of(frames: Sequence[tracemalloc.Frame], shown: Shown | None) -> _Line | None:
    """Return the innermost line of the program in the *frames* of an allocation, oldest first; None without one."""
    if not (line := line_of(frames, shown.is_shown if shown else bool)):
        return None
    changed = [each for each in frames if shown and shown.is_changed(each.filename, each.lineno)]
    return _Line(line, f"{relative(changed[-1].filename)}:{changed[-1].lineno}" if changed else "")


def _held_at(line: _Line, nbytes: int) -> Where:
    below = f"{BELOW}{line.changed}" if line.changed not in ("", line.place) else ""
    return Where(f"{format_bytes(nbytes)} at {line.place}{below}", line.changed or line.place)


def _held(snapshot: tracemalloc.Snapshot, shown: Shown | None) -> Counter[_Line]:
    """Return the memory of a snapshot by line of the program."""
    found = Counter[_Line]()
    for trace in snapshot.statistics("traceback"):
        if line := _line_of(trace.traceback, shown):
            found[line] += trace.size
    return found


def _at_peak(peak: int, call: Callable[[], object], shown: Shown | None) -> Counter[_Line]:
    """Run the body as a *call*, line by line, and return the memory by line at its *peak*: of the line that allocates
    most, and of those before it whose memory is still there.

    Empty if none allocates much of it, or if lines cannot be traced.
    """
    chains, at, begun = Chains(), UNKNOWN, 0
    line, more, before = UNKNOWN, 0, 0
    snapshots: list[tracemalloc.Snapshot] = []

    def noted(node: int) -> None:  # pragma: no cover  # called by trace functions, where coverage is put aside
        nonlocal at, begun, line, more, before
        now, highest = tracemalloc.get_traced_memory()
        # Later lines keep what one allocated, and may reach a little more.
        if highest >= _NEARLY[1] * peak and highest - begun > more:
            line, more, before = at, highest - begun, begun
        tracemalloc.reset_peak()
        at, begun = node, now

    def looked(node: int) -> None:  # pragma: no cover  # called by trace functions, too
        if node == line and not snapshots and tracemalloc.get_traced_memory()[0] >= _NEARLY[1] * before:
            snapshots.append(tracemalloc.take_snapshot())

    def by_line(moved: Callable[[int], None], frames: int) -> None:
        gc.collect(1)
        with uncollected(), traced(frames) as is_ours:
            if not is_ours or Tracer.unavailable():
                return
            tracer = Tracer(chains, moved)
            tracer.start(sys._getframe())
            try:
                call()
            finally:
                tracer.stop()
            moved(UNKNOWN)

    by_line(noted, 1)
    largest = _line_of(tracemalloc.Traceback([(each.file, each.line) for each in chains.frames(line)]), shown)
    if not largest:
        return Counter()
    if before >= _NOTABLE * peak:
        by_line(looked, _FRAMES)
    if not snapshots and more < _NEARLY[0] * peak:
        return Counter()
    return (_held(snapshots[0], shown) if snapshots else Counter()) + Counter({largest: more})


# What holds less than this many times as much as at the base does not explain a peak.
_AS_MUCH = 1.1


def without(said: Where, known: Where) -> Where:
    """Return the part of *said* that the base lacks: lines and cycles that hold as much there explain no peak."""
    of_this = parts(said.text)
    here, there = {*map(_holder, of_this)}, {_holder(part): amount(part) for part in parts(known.text)}
    moved = {LINE_NUMBER.sub("", holder): nbytes for holder, nbytes in there.items() if holder not in here}

    def held_there(part: str) -> bool:
        holder, nbytes = _holder(part), amount(part)
        if holder in there:
            return nbytes <= _AS_MUCH * there[holder]
        # A line moves with those above it. It held about as much.
        as_much = moved.get(LINE_NUMBER.sub("", holder))
        return as_much is not None and max(nbytes, as_much) <= _AS_MUCH * min(nbytes, as_much)

    new = [part for part in of_this if not held_there(part)]
    if not new or new == of_this:
        return said if new else Where("")
    place = new[0].rpartition(" ")[2]
    line = said.line if said.line in new[0] else place if LINE_NUMBER.search(place) else ""
    return Where("; ".join(new), line)


def _holder(said: str) -> str:
    return AMOUNT.sub("", said).partition(BELOW)[0]  # at the base no line changed
