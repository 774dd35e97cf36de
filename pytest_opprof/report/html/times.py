"""The part of a profile's page about times: an overview, the time of the devices, the ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...profile.saved import OUTSIDE, SavedProfile
from ...timeline.breakdown import BETWEEN, IDLE, Breakdown, added, breakdown
from ...timeline.chrome import of_steps
from ...timeline.peak import Peak, peak
from ...timeline.ranges import RangeTimes, ranges
from ...timeline.spans import Kind, Timeline
from ...timeline.tree import Node, tree
from ...units import format_ns, format_share
from . import marks
from .overview import Overview, overview

_ROWS: Final = 200
_RANGES: Final = 100
_BRANCHES: Final = 10
_LEAST_BRANCH: Final = 0.005
"""Of the whole tree: smaller nodes are left out, and counted."""
PARTS: Final = (
    ("computing_ns", "computing", marks.SORTS["computes"][0]),
    ("communication_ns", "communication", marks.SORTS["communicates"][0]),
    ("copying_ns", "copying", marks.SORTS["moves"][0]),
)
"""Of the time of a device that it worked in, with their colours."""
CAUSES: Final = (
    ("not_asked_ns", IDLE["not_asked_ns"], marks.FILLS["mute"]),
    ("not_begun_ns", IDLE["not_begun_ns"], marks.PALE),
    ("unexplained_ns", IDLE["unexplained_ns"], marks.SORTS["unknown"][0]),
)


@dataclass(frozen=True, slots=True)
class Row:
    """The time of a device in a step."""

    times: Breakdown
    bars: list[tuple[float, float, str]]
    """Where each part begins and how wide it is, as shares of the longest row, and its colour."""

    @property
    def label(self) -> str:
        """The bar in words."""
        total = self.times.total_ns or 1
        parts = [*PARTS, ("idle_ns", "idle", "")]
        return ", ".join(f"{what} {getattr(self.times, name) / total:.0%}" for name, what, _ in parts)


@dataclass(frozen=True, slots=True)
class Whole:
    """The time of the busiest device over all steps."""

    times: Breakdown
    steps: int
    """How many there are; 0 for a recording without steps."""
    device: str
    """Its name, where there are several."""

    @property
    def headline(self) -> tuple[str, str]:
        """The longest activity of the device, and its share of a whole: ``the 810 ms step``."""
        parts = [*PARTS, ("idle_ns", "idle time", "")]
        most, what, _ = max(parts, key=lambda part: getattr(self.times, part[0]))
        share = format_share(getattr(self.times, most) / (self.times.total_ns or 1), 2)
        return what.capitalize(), f"{share} of {self.length}"

    @property
    def length(self) -> str:
        """Its length and its whole."""
        total = format_ns(self.times.total_ns)
        one, several = f"the {total} step", f"the {total} of {self.steps} steps"
        of = one if self.steps == 1 else several if self.steps else f"the {total} recorded"
        return of + (f" on {self.device}" if self.device else "")


@dataclass(frozen=True, slots=True)
class Branch:
    """A node of the tree that is shown."""

    node: Node
    share: float
    inside: list[Branch]
    left_out: int
    """How many others are inside."""
    left_ns: int


@dataclass(frozen=True, slots=True)
class Times:
    """The figures that follow from the times of a profile."""

    drawn: Overview | None
    whole: Whole | None
    """None where no device worked."""
    peaks: list[Peak]
    """Of each device, who holds its memory when most is in use."""
    rows: list[Row]
    rows_left_out: int
    columns: list[tuple[str, str, str]]
    """Of the rows: the field, its name, and its colour or "" where it is no part of the bar."""
    has_devices: bool
    """Whether there are several."""
    has_steps: bool
    every_range: list[RangeTimes]
    ranges: list[RangeTimes]
    """The first of them."""
    ranges_left_out: int
    has_launched: bool
    has_idle: bool
    tree: Branch | None
    """None where no range has any time."""
    tree_on_device: bool

    @property
    def drawn_columns(self) -> list[tuple[str, str, str]]:
        """The columns that are part of some bar."""
        return [each for each in self.columns if each[2] and any(getattr(row.times, each[0]) for row in self.rows)]


def of(saved: SavedProfile, timeline: Timeline, *, is_chosen: bool) -> Times:
    """Return the figures of a profile's *timeline*; where *is_chosen*, only of the steps that the profile has."""
    # Of iterations without a file there are times, and nothing else.
    steps = [step for step in saved.steps if step not in ("", OUTSIDE)] or None
    chosen = steps if is_chosen else None
    begin, end = timeline.begin_ns, timeline.end_ns
    if chosen is not None:
        begin, end = timeline.extent(chosen)
    # Where there are too many steps for records, the profile is shown as one.
    in_one = timeline if steps else (span for span in timeline if span.kind is not Kind.STEP)
    by_step = breakdown(in_one, steps)
    devices = list(dict.fromkeys(row.device for row in by_step))
    rows: list[Breakdown] = []
    wholes: list[Breakdown] = []
    for device in devices:
        every = [row for row in by_step if row.device == device]
        rows += [added(every), *every] if len(every) > 1 else every
        wholes.append(added(every) if len(every) > 1 else every[0])
    busiest = max(wholes, key=lambda each: each.total_ns - each.idle_ns, default=None)
    marked = ranges(timeline, chosen)
    found = tree(timeline, chosen)
    has_causes = any(row.not_asked_ns is not None for row in rows)
    longest = max((row.total_ns for row in by_step), default=0)
    return Times(
        whole=None
        if busiest is None
        else Whole(
            busiest,
            len({row.step for row in by_step if row.step not in ("", BETWEEN)}),
            busiest.device if len(devices) > 1 else "",
        ),
        peaks=[
            most
            for device, memory in timeline.memory.items()
            if (most := peak(device, memory.between(begin, end), timeline))
        ],
        drawn=overview(of_steps(timeline, chosen) if chosen else timeline, begin, end, timeline.memory),
        rows=[Row(row, _bars(row, row.total_ns if row.step == "all" else longest)) for row in rows[:_ROWS]],
        rows_left_out=len(rows) - _ROWS,
        columns=[*PARTS, ("idle_ns", "idle", ""), *(CAUSES if has_causes else ()), ("overlapped_ns", "overlapped", "")],
        has_devices=len(devices) > 1,
        has_steps=any(row.step for row in by_step),
        every_range=marked,
        ranges=marked[:_RANGES],
        ranges_left_out=len(marked) - _RANGES,
        has_launched=any(row.device_ns is not None for row in marked),
        has_idle=any(row.idle_ns is not None for row in marked),
        tree=_branch(found.root, found.root.ns) if found.root.has_ranges else None,
        tree_on_device=found.on_device,
    )


def _branch(node: Node, whole_ns: int) -> Branch:
    """Return the branch to show for a node of the tree: its most expensive children, if not too small."""
    inside = sorted(node.children.values(), key=lambda child: (-child.ns, child.name))
    shown = [child for child in inside[:_BRANCHES] if child.ns >= _LEAST_BRANCH * whole_ns and child.ns]
    others = inside[len(shown) :]
    branches = [_branch(child, whole_ns) for child in shown]
    return Branch(node, node.ns / whole_ns, branches, len(others), sum(child.ns for child in others))


def _bars(row: Breakdown, longest_ns: int) -> list[tuple[float, float, str]]:
    found, at = [], 0
    for name, _, fill in (*PARTS, *CAUSES):
        ns = getattr(row, name) or 0
        if ns and longest_ns:
            found.append((at / longest_ns, ns / longest_ns, fill))
        at += ns
    return found
