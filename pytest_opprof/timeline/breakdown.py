"""Break down each step's time by the work of devices: computing, communication, copying, or idle, and why idle.

The parts are those of torch_npu's ``step_trace_time.csv`` (msprof-analyze) and of HolisticTraceAnalysis, which both
make the time of a device a sum: overlapping work counts once, for the first category of computing, communication and
copying. docs/saved-profiles.md defines each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from .intervals import Interval, length, union, within, without
from .spans import WORK, Kind, Span

BETWEEN = "(between steps)"
"""The label of the time between steps."""
_ORDER = (Kind.OP, Kind.COMMUNICATION, Kind.COPY)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The time of one device in one step. *computing*, *communication*, *copying* and *idle* add up to *total*."""

    device: str
    step: str
    """Its label; `BETWEEN` for the time between steps, "" if the recording has no steps."""
    total_ns: int
    """The time of the step on the host; without steps, from the first work of the device to the last."""
    computing_ns: int
    communication_ns: int
    """While nothing was computed."""
    copying_ns: int
    """While nothing else was done."""
    idle_ns: int
    overlapped_ns: int
    """Communication while something was computed: a part of *computing*."""
    not_asked_ns: int | None
    """The part of *idle* before the host launched the next work; None if launches are unknown."""
    not_begun_ns: int | None
    """The part in which it was launched and had not started: the launch itself, or a wait for another stream."""
    unexplained_ns: int | None
    """The rest: the launch of the next work is not in the recording, or no work followed."""


IDLE: Mapping[str, str] = {
    "not_asked_ns": "idle: host had launched nothing",
    "not_begun_ns": "idle: launched, not started",
    "unexplained_ns": "idle: unknown",
}
"""The names of the parts of *idle*, by field."""
TIMES = tuple(field.name for field in fields(Breakdown) if field.name.endswith("_ns"))


def breakdown(spans: Iterable[Span], steps: Container[str] | None = None) -> list[Breakdown]:
    """Return a row for each device and step, in the order of time; only for *steps* if given.

    Empty if no device worked. Device work is cut at the ends of a step, as the host saw them. After the steps of a
    device comes a row `BETWEEN`, where there is time between a step and the next.
    """
    work: defaultdict[str, dict[Kind, list[Interval]]] = defaultdict(lambda: {kind: [] for kind in _ORDER})
    launches: defaultdict[str, dict[int, int]] = defaultdict(dict)
    """The launch time of work, by device and start of the work."""
    windows: list[tuple[int, int, str]] = []
    for span in spans:
        if span.kind is Kind.STEP:
            windows.append((span.start_ns, span.end_ns, span.name))
        elif span.lane.on_device and span.kind in WORK and span.duration_ns > 0:
            device, start, launched = span.lane.process, span.start_ns, span.launched_ns
            work[device][span.kind].append((start, span.end_ns))
            if launched is not None:
                launches[device][start] = min(launched, launches[device].get(start, launched))
    windows = _once(windows)
    gaps = _gaps(windows, steps)
    windows = [window for window in windows if steps is None or window[2] in steps]
    found: list[Breakdown] = []
    for device, by_kind in work.items():
        done = {kind: union(intervals) for kind, intervals in by_kind.items()}
        busy = union(interval for intervals in done.values() for interval in intervals)
        reasons = _reasons(busy, launches[device]) if device in launches else None
        spanning = windows or [(busy[0][0], busy[-1][1], "")]
        found += [_row(device, window, done, busy, reasons) for window in spanning]
        if gaps:
            found.append(_sum(BETWEEN, [_row(device, gap, done, busy, reasons) for gap in gaps]))
    return found


def _once(windows: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the steps in the order of time; of a step that several threads marked, the first."""
    first: dict[str, tuple[int, int, str]] = {}
    for window in sorted(windows):
        first.setdefault(window[2], window)
    return list(first.values())


def _gaps(windows: Sequence[tuple[int, int, str]], steps: Container[str] | None) -> list[tuple[int, int, str]]:
    """Return the times from the end of a step to the start of the next one, where both are in *steps*, if given."""
    found: list[tuple[int, int, str]] = []
    until, before = 0, None
    for start, end, step in windows:
        if before is not None and until < start and (steps is None or (before in steps and step in steps)):
            found.append((until, start, BETWEEN))
        # A step can contain the next ones.
        if before is None or end > until:
            until, before = end, step
    return found


def _reasons(busy: Sequence[Interval], launches: Mapping[int, int]) -> tuple[list[Interval], list[Interval]]:
    """Return the idle times before the launch of the next work, and the idle times between its launch and its start."""
    not_asked: list[Interval] = []
    not_begun: list[Interval] = []
    until: int | None = None
    for begin, end in busy:
        launched = launches.get(begin)
        if launched is not None:
            # Before the first work there is no end to count from; clocks of host and device may differ a little.
            since = min(launched, begin) if until is None else until
            asked = min(max(launched, since), begin)
            not_asked.append((since, asked))
            not_begun.append((asked, begin))
        until = end
    return union(not_asked), union(not_begun)


def _row(
    device: str,
    window: tuple[int, int, str],
    done: Mapping[Kind, Sequence[Interval]],
    busy: Sequence[Interval],
    reasons: tuple[list[Interval], list[Interval]] | None,
) -> Breakdown:
    start, end, step = window
    inside = {kind: within(intervals, start, end) for kind, intervals in done.items()}
    computing, communication, copying = (inside[kind] for kind in _ORDER)
    exposed = without(communication, computing)
    only_copying = without(without(copying, computing), communication)
    idle = end - start - length(within(busy, start, end))
    # Both reasons lie in the gaps of the device's work.
    times = [length(within(reason, start, end)) for reason in reasons] if reasons else []
    return Breakdown(
        device,
        step,
        total_ns=end - start,
        computing_ns=length(computing),
        communication_ns=length(exposed),
        copying_ns=length(only_copying),
        idle_ns=idle,
        overlapped_ns=length(communication) - length(exposed),
        not_asked_ns=times[0] if times else None,
        not_begun_ns=times[1] if times else None,
        unexplained_ns=idle - sum(times) if times else None,
    )


def added(rows: Sequence[Breakdown]) -> Breakdown:
    """Return the sum of the steps of one device, without the time between them."""
    return _sum("all", [row for row in rows if row.step != BETWEEN])


def _sum(step: str, rows: Sequence[Breakdown]) -> Breakdown:
    def sum_of(name: str) -> int | None:
        values = [getattr(row, name) for row in rows]
        return None if None in values else sum(values)

    return Breakdown(rows[0].device, step, **{name: sum_of(name) for name in TIMES})  # type: ignore[arg-type]
