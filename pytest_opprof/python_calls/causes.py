"""Find the functions with more calls than before, and the line that causes them: consequences of one line appear
once.
"""

from __future__ import annotations

import builtins
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..graphs import reached
from ..units import plural, plural_times
from .growth import (
    NOTABLE,
    NOTHING,
    TOLERANCE,
    Before,
    Growth,
    grown,
    grown_at_all,
    line_and_function,
    place_of,
)
from .names import CACHED, LOOP

if TYPE_CHECKING:
    from ..profile.site_calls import SourceLine
    from .counted import CallingLine, PythonCalls

# Fewer Python calls than this take less time than the margin of a coarse limit.
MANY_CALLS = 1_000
# The most lines that are reported.
_LINES = 3
# The calls of two sides at a line, if they are estimated from every seventh or so, differ by less than this share.
_ESTIMATED = 0.02


class Cause(NamedTuple):
    """Why Python functions are called more often."""

    text: str
    line: SourceLine | None = None
    """The line that causes it, unless it is none of the project's."""


_BUILTINS = frozenset(["builtins", *vars(builtins)])
# What a line that calls one of these leads to is the event loop's work: it follows from the lines of coroutines.
_EVENT_LOOPS = frozenset(
    """asyncio.runners.run asyncio.runners.Runner.run asyncio.base_events.BaseEventLoop.run_until_complete
    asyncio.base_events.BaseEventLoop.run_forever anyio._core._eventloop.run trio._core._run.run""".split()
)
SLEEP = "time.sleep"


def to_look_up(before: Before | None, now: Mapping[str, int]) -> set[str]:
    """Return the functions whose calling lines explain growth: the ones that grew, and the ones that may be new."""
    before = before or NOTHING
    return {*grown(before, now), *filter(before.may_lack, now)}


def of_calls(
    before: Before | None, now: PythonCalls, is_changed: Callable[[SourceLine], bool] = lambda _: False
) -> list[Cause]:
    """Return the functions that grew, the project's own calling line first; *before*: the baseline's.

    A line that the change *is_changed* comes before unchanged ones around and below it.

    None for *before* if the baseline's functions are unknown: the functions with most calls are then named.
    """
    known = before or NOTHING
    more = grown(known, now.functions)
    every = _every(known, now, more, is_changed)
    calling = known.extra(now.lines)
    lines, every = _leading(calling, now, every)
    if not any(each.function in more for each in lines):
        return [Cause(_without_line(name, before, now)) for name in _most(more, now)[:_LINES]]
    growth = Growth(known, now, calling, every)
    told, found = _Told(before, now, more, every, growth), list[Cause]()
    for edges in growth.roots(lines, {*now.own}, is_changed)[:_LINES]:
        if cause := told.cause(edges, is_first=not found):
            found.append(cause)
    return found


def _every(
    before: Before, now: PythonCalls, more: Mapping[str, int], is_changed: Callable[[SourceLine], bool]
) -> dict[str, int]:
    """Return by how much each function grew that may be a cause: also by few calls, if it may explain *more*."""
    # One more call of 1,202 explains no more than a thousandth of what grew below it (babel).
    every = {
        name: grew
        for name, grew in grown_at_all(before, now.functions).items()
        if name in more or grew > TOLERANCE * before.of(name)
    }
    # A function that a changed line calls is new if the baseline may lack it.
    changed = {each.function for each in now.lines if is_changed(each.line)}
    return every | {name: now.functions[name] for name in filter(before.may_lack, changed & now.functions.keys())}


def _leading(
    calling: Sequence[CallingLine], now: PythonCalls, every: dict[str, int]
) -> tuple[list[CallingLine], dict[str, int]]:
    """Return the lines of *calling* that may lead to calls of functions that grew, and these of *every* function."""
    # One more call of a function may be the cause of all that grew in it.
    lines = [each for each in calling if each.function in every and not _is_callback(each.function)]
    event_loops = {place_of(each) for each in now.lines if each.direct and each.function in _EVENT_LOOPS}
    lines = [each for each in lines if each.direct or place_of(each) not in event_loops] or lines
    # A line that only consumes a generator expression of another function does not cause what that does.
    elsewhere = {
        each.function
        for each in lines
        if _is_inside(each.function) and not each.function.startswith(f"{each.caller}.<locals>.")
    }
    if inside := [each for each in lines if each.function not in elsewhere]:
        lines, every = inside, {name: grew for name, grew in every.items() if name not in elsewhere}
    if now.looked_up:  # of some calls alone: a line that makes few of these, and of all, proves nothing
        lines = [each for each in lines if each.calls >= NOTABLE * min(now.looked_up, every[each.function])]
        estimated = {line_and_function(each): each.calls for each in now.lines}
        lines = [each for each in lines if each.calls >= _ESTIMATED * estimated[line_and_function(each)]]
    return lines, every


class _Told:
    """The causes of a window in words."""

    def __init__(
        self,
        before: Before | None,
        now: PythonCalls,
        more: Mapping[str, int],
        every: Mapping[str, int],
        growth: Growth,
    ) -> None:
        self._before = before
        self._now = now
        self._more = more
        self._every = every
        self._growth = growth
        self._own = {*now.own}
        self._called_at = Counter(each.function for each in now.lines)

    def cause(self, edges: Sequence[CallingLine], *, is_first: bool) -> Cause | None:
        """Return what a line, with its *edges* to functions that grew, leads to; None if other causes say it."""
        now, before, more, every = self._now, self._before, self._more, self._every
        here = [each for each in now.lines if place_of(each) == place_of(edges[0]) and each.function != LOOP]
        # What follows from a function of the project has a line in it.
        at = [each for each in here if each.function in every or each.function not in self._own] or here
        blamed = {each.function for each in edges}
        at = [each for each in at if each.function in blamed or each.function not in every] or at
        first = min(at, key=self._last)
        if not is_first and _is_inside(first.function):
            return None  # a part of the line, which names no call of it
        uncached = first.function.removesuffix(CACHED)
        if uncached in self._own and first.function not in every and (other := _leads_to(at, more)):
            # A function that has no file, since it was generated, is called at the same line: cattrs.
            leads = _reaches(uncached, other, now.lines)
            first = first if leads else next(each for each in at if each.function == other)
        alone = self._called_at[first.function] == 1
        # Not every call's line is looked up.
        calls = now.functions.get(first.function, first.calls) if alone and first.function in every else first.calls
        verb = "calls" if first.direct else "leads to"
        known = before if first.function in every else None
        in_all = now.functions.get(first.function, calls)
        times = _times(first.function, calls, known, in_all, is_cut=now.looked_up > 0)
        said = f"`{_function(first)}` at {first.line.location} {verb} {times}"
        led = "" if first.function in every else _leads_to(at, more)
        if led:
            from_here, in_all = sum(each.calls for each in at if each.function == led), now.functions.get(led, 0)
            said += f", which leads to {_times(led, from_here, before, in_all, is_cut=now.looked_up > 0)}"
        if not is_first and before is not None and first.function not in every and not led:
            return None  # it calls builtins, of which other lines make the extra calls
        if is_first and before is not None:  # without a baseline nothing is known to be more
            follow = self._growth.following(edges)
            told = {first.function, led}
            rise = now.total - sum(before.calls.values()) - sum(more[name] for name in told & more.keys())
            elsewhere = [each for each in now.lines if place_of(each) != place_of(first)]
            said += _beside({name: follow[name] for name in follow.keys() & more.keys() - told}, rise, elsewhere)
            said += _of_first(now)
        return Cause(said, first.line if first.caller in self._own else None)

    def _last(self, each: CallingLine) -> tuple[object, ...]:
        """Return a key that is low for the call of a line to name: direct, of the project, with most calls."""
        function = each.function
        return (
            not each.direct,
            self._is_bystander(each),
            function not in self._own or _is_inside(function),
            _is_builtin(function) or _is_inside(function),
            function not in self._more,
            function not in self._own and _is_private(function),
            -each.calls,
        )

    def _is_bystander(self, each: CallingLine) -> bool:
        """Return True if a line makes few of the extra calls of a function: one `len` beside 6,000 in a package."""
        return each.function not in self._every or (
            self._called_at[each.function] > 1 and each.calls < NOTABLE * self._every[each.function]
        )


def that_grew(before: Before, now: PythonCalls) -> list[Cause]:
    """Return the first cause of more calls than *before*; none if they are too few to take the time of a slow test."""
    more = now.total - sum(before.calls.values())
    return of_calls(before, now)[:1] if more >= MANY_CALLS else []


def most_called(now: PythonCalls) -> list[Cause]:
    """Return the function that is called most often, with the line that makes most of its calls, if known; none of a
    few calls.

    A function of the project comes first.
    """
    every = {name: calls for name, calls in now.functions.items() if calls >= MANY_CALLS and not _is_inside(name)}
    at_least = NOTABLE * max(every.values(), default=0)
    own = [name for name in now.own if every.get(name, -1) >= at_least]
    most = max(own or every, key=every.__getitem__, default=None)
    if most is None:
        return []
    edges = [each for each in now.lines if each.function == most and each.direct]
    edge = max(edges, key=lambda each: each.calls, default=None)
    if edge is None or 2 * edge.calls < every[most]:
        return [Cause(_without_line(most, None, now))]
    return [Cause(f"`{_function(edge)}` at {edge.line.location} calls {_times(most, edge.calls, None)}", edge.line)]


def of_loops(before: Before | None, now: PythonCalls) -> list[Cause]:
    """Return the loops with more iterations: by line if known, else by function."""
    more = grown(before or NOTHING, now.loops or {})
    edges = sorted((each for each in now.lines if each.function == LOOP and each.caller in more), key=_size)
    found: list[Cause] = []
    for each in edges[:_LINES]:
        if found and each.calls < NOTABLE * more[each.caller]:
            continue  # it may run as often as before
        base = "" if before is None else f" ({before.then}: {before.said(each.caller)} in this function)"
        said = f"the loop in `{each.line.function}` at {each.line.location} runs {each.calls:,} times{base}"
        found.append(Cause(said, each.line))
    return found or [
        Cause(f"loops in `{name}` run {(now.loops or {})[name]:,} times{_base(name, before)}")
        for name in sorted(more, key=lambda name: -more[name])[:_LINES]
    ]


def sleeps_more(before: Before | None, now: PythonCalls | None) -> bool:
    """Return True if the code sleeps more often than before, which makes it slower on any machine."""
    return before is not None and now is not None and now.functions.get(SLEEP, 0) > before.of(SLEEP)


def _most(more: Mapping[str, int], now: PythonCalls) -> list[str]:
    own = set(now.own)
    return sorted(more, key=lambda name: (name not in own, -more[name]))


def _size(edge: CallingLine) -> int:
    return -edge.calls


def _function(edge: CallingLine) -> str:
    """Return the function of a line: for a comprehension the one around it, if known."""
    inside, name = edge.line.function, edge.caller.partition(".<locals>.<")[0].rpartition(".")[2]
    return name if inside.startswith("<") and name and not name.startswith("<") else inside


def _is_builtin(name: str) -> bool:
    """Return True if a function is Python's own and calls no other, so that it cannot cause other calls."""
    return name.partition(".")[0] in _BUILTINS


def _is_inside(name: str) -> bool:
    """Return True if a function is a comprehension, or a generator expression: part of the line itself."""
    return name.endswith(("<genexpr>", "comp>"))


def _is_callback(name: str) -> bool:
    """Return True if a function runs where an object dies: no line calls it (glom's lost cache: 302 times)."""
    return name.startswith(("weakref.", "_weakrefset.")) and ".<locals>." in name


def _is_private(name: str) -> bool:
    """Return True if the last part of a function's name begins with one underscore, as of NumPy's dispatchers."""
    return name.rpartition(".")[2].startswith("_") and not name.endswith("__")


def _reaches(function: str, other: str, lines: Iterable[CallingLine]) -> bool:
    """Return True if *lines* of a function, or of those that it calls, call the *other*."""
    called = defaultdict[str, set[str]](set)
    for each in lines:
        called[each.caller].add(each.function)
    return other in reached([function], called)


def _leads_to(edges: Sequence[CallingLine], more: Mapping[str, int]) -> str:
    """Return the function with the largest growth of calls from one line, not a builtin; empty if none grew."""
    grew = [each.function for each in edges if each.function in more and not _is_builtin(each.function)]
    return min(grew, key=lambda name: (-more[name], name), default="")


def _times(name: str, calls: int, before: Before | None, in_all: int | None = None, *, is_cut: bool = False) -> str:
    """Return the *calls* of a function from one line in words; a baseline has the calls *in_all*, from every line.

    *is_cut*: whether the lines are estimated from some of the calls.
    """
    # Lines are found in a later run, in which a leak may have grown.
    calls = calls if in_all is None else min(calls, in_all)
    if before is not None and in_all not in (None, calls):
        often = f"about {float(f'{calls:.2g}'):,.0f} times" if is_cut else plural_times(calls)
        return f"`{name}` {often} ({in_all:,} in all, {before.then}: {before.said(name)})"
    return f"`{name}` {plural_times(calls)}{_base(name, before)}"


def _base(name: str, before: Before | None) -> str:
    return "" if before is None else f" ({before.then}: {before.said(name)})"


def _without_line(name: str, before: Before | None, now: PythonCalls) -> str:
    return f"`{name}` is called {plural_times(now.functions[name])}{_base(name, before)}"


def _beside(more: Mapping[str, float], rise: int, lines: Iterable[CallingLine]) -> str:
    """Return that functions follow, with their extra calls: unless other functions make fewer, so that the whole
    *rise* is less. If one has most of many, return its line, too.
    """
    follow, calls = "follows from it" if len(more) == 1 else "follow from it", round(sum(more.values()))
    said = f" (+{calls:,} {'call' if calls == 1 else 'calls'})" if calls <= rise else ""
    most = max(more, key=more.__getitem__, default="")
    edges = [each for each in lines if each.function == most and each.direct]
    edge = max(edges, key=lambda each: each.calls, default=None)
    is_most = edge is not None and more[most] >= max(MANY_CALLS, calls / 2) and 2 * edge.calls > more[most]
    of = ":" if len(more) == 1 else ", most of them"
    where = f"{of} `{most}` at {edge.line.location}" if edge and is_most else ""
    return f"; {plural(len(more), 'more function')}{said} {follow}{where}" if calls else ""


def _of_first(now: PythonCalls) -> str:
    if not now.looked_up:
        return ""
    # Counting ended with the calls whose lines are known.
    first = f"looked up for the first {now.looked_up:,} calls only"
    return f"; lines were {first if now.uncounted else f'estimated from {now.looked_up:,} calls'}"


def lines_of(names: Collection[str], now: PythonCalls) -> Iterator[Cause]:
    """Yield the lines that call functions with a limit in a budget, the line with most calls first."""
    for each in sorted((each for each in now.lines if each.function in names), key=_size)[:_LINES]:
        verb = "calls" if each.direct else "leads to"
        times = f"{plural_times(each.calls)}{_of_first(now)}"
        said = f"`{each.line.function}` at {each.line.location} {verb} `{each.function}` {times}"
        yield Cause(said, each.line if each.caller in now.own else None)
