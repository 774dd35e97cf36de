"""Find the functions with more calls than before, and the line that causes them: consequences of one line appear
once.
"""

from __future__ import annotations

import builtins
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from ..graphs import components
from ..units import plural
from .names import CACHED, LOOP

if TYPE_CHECKING:
    from ..profile.site_calls import SourceLine
    from .counted import CallingLine, PythonCalls

# A smaller growth of a function is not reported beside a larger one.
TOLERANCE, FLOOR = 0.01, 10
# Fewer Python calls than this take less time than the margin of a coarse limit.
MANY_CALLS = 1_000
# The most lines that are compared: each asks for what follows from it, of up to 50,000 calls.
_MOST_ROOTS = 20
# The most lines that are reported.
_LINES = 3
# A function that grew by more than this many times as much as its caller does not follow from it.
_FAR_MORE = 2
# Callers that grew explain a function's growth if they make this share of it.
_EXPLAINED = 0.9
# A line that calls less than this share of the first one's calls, or of a function's growth, is not reported.
_NOTABLE = 0.1
# The calls of two sides at a line, if they are estimated from every seventh or so, differ by less than this share.
_ESTIMATED = 0.02


class Cause(NamedTuple):
    """Why Python functions are called more often."""

    text: str
    line: SourceLine | None = None
    """The line that causes it, unless it is none of the project's."""


class Before(NamedTuple):
    """The calls of each function in the baseline, or its loop iterations."""

    calls: Mapping[str, int] = {}
    above: int = 0
    """Functions called no more often than this are not stored."""
    then: str = "baseline"
    """The name of the base: ``baseline``, ``HEAD~1``."""
    lines: Sequence[CallingLine] = ()
    """The lines that call, of another revision; empty if they are unknown."""
    has_own: bool = False
    """Whether the project's functions are stored even if called less often."""

    def of(self, name: str) -> int:
        """Return the most possible calls of a function."""
        return self.calls.get(name, self.above)

    def with_own(self, names: Iterable[str]) -> Before:
        """Return the calls also of the project's functions that were never called: of these *names*, none."""
        return self._replace(calls={**dict.fromkeys(names, 0), **self.calls}) if self.has_own else self

    def may_lack(self, name: str) -> bool:
        """Return True if a function may be uncalled there: its calls are too few to be stored."""
        return bool(self.above) and name not in self.calls

    def extra(self, lines: Sequence[CallingLine]) -> Sequence[CallingLine]:
        """Return *lines* with their extra calls alone, and none without such; all if the base's lines are unknown.

        Lines are the same if their text is; then calls of one function by another are, since a comment may differ.
        """
        if not self.lines:
            return lines
        known: Sequence[CallingLine] = self.lines
        for identity in (_line, _call):
            lines, known = _without(lines, known, identity), _without(known, lines, identity)
        return lines

    def said(self, name: str) -> str:
        """Return them in words."""
        most = "at most " if self.may_lack(name) else ""
        of_cache = self.calls.get(name + CACHED, 0)
        from_cache = f"; its cache was called {plural_times(of_cache)}" if of_cache > self.of(name) else ""
        return f"{most}{self.of(name):,}{from_cache}"


def _line(edge: CallingLine) -> object:
    return edge.line.place, edge.function, edge.direct


def _call(edge: CallingLine) -> object:
    return edge.line.file, edge.caller, edge.function, edge.direct


def _without(
    lines: Sequence[CallingLine], others: Sequence[CallingLine], identity: Callable[[CallingLine], object]
) -> list[CallingLine]:
    """Return the calls of *lines* that the *others* of the same *identity* do not make."""
    left = Counter[object]()
    for each in others:
        left[identity(each)] += each.calls
    found = []
    for each in lines:
        same = min(left[identity(each)], each.calls)
        left[identity(each)] -= same
        if each.calls > same:
            found.append(structs.replace(each, calls=each.calls - same))
    return found


NOTHING = Before()
_BUILTINS = frozenset(["builtins", *vars(builtins)])
# What a line that calls one of these leads to is the event loop's work: it follows from the lines of coroutines.
_EVENT_LOOPS = frozenset(
    """asyncio.runners.run asyncio.runners.Runner.run asyncio.base_events.BaseEventLoop.run_until_complete
    asyncio.base_events.BaseEventLoop.run_forever anyio._core._eventloop.run trio._core._run.run""".split()
)
SLEEP = "time.sleep"


def grown(before: Before, now: Mapping[str, int]) -> dict[str, int]:
    """Return the extra calls *now*, by function: those beyond 1 % and 10 calls, or all if none is."""
    more = _grown_at_all(before, now)
    notable = {name: grew for name, grew in more.items() if grew > FLOOR and grew > TOLERANCE * before.of(name)}
    return notable or more


def _grown_at_all(before: Before, now: Mapping[str, int]) -> dict[str, int]:
    return {name: calls - before.of(name) for name, calls in now.items() if calls > before.of(name)}


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
    growth = _Growth(known, now, calling, every)
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
        for name, grew in _grown_at_all(before, now.functions).items()
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
    event_loops = {_place(each) for each in now.lines if each.direct and each.function in _EVENT_LOOPS}
    lines = [each for each in lines if each.direct or _place(each) not in event_loops] or lines
    # A line that only consumes a generator expression of another function does not cause what that does.
    elsewhere = {
        each.function
        for each in lines
        if _is_inside(each.function) and not each.function.startswith(f"{each.caller}.<locals>.")
    }
    if inside := [each for each in lines if each.function not in elsewhere]:
        lines, every = inside, {name: grew for name, grew in every.items() if name not in elsewhere}
    if now.looked_up:  # of some calls alone: a line that makes few of these, and of all, proves nothing
        lines = [each for each in lines if each.calls >= _NOTABLE * min(now.looked_up, every[each.function])]
        estimated = {_line(each): each.calls for each in now.lines}
        lines = [each for each in lines if each.calls >= _ESTIMATED * estimated[_line(each)]]
    return lines, every


class _Told:
    """The causes of a window in words."""

    def __init__(
        self,
        before: Before | None,
        now: PythonCalls,
        more: Mapping[str, int],
        every: Mapping[str, int],
        growth: _Growth,
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
        here = [each for each in now.lines if _place(each) == _place(edges[0]) and each.function != LOOP]
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
            elsewhere = [each for each in now.lines if _place(each) != _place(first)]
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
            self._called_at[each.function] > 1 and each.calls < _NOTABLE * self._every[each.function]
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
    at_least = _NOTABLE * max(every.values(), default=0)
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
        if found and each.calls < _NOTABLE * more[each.caller]:
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


class _Growth:
    """The extra calls *more* in the graph of the functions that grew: of a function with those that follow from it."""

    def __init__(self, before: Before, now: PythonCalls, lines: Iterable[CallingLine], more: Mapping[str, int]) -> None:
        """*lines* call functions; they have their extra calls alone if the base's lines are known."""
        self._before = before
        self._now = now
        self._more = more
        edges = [each for each in lines if each.function in more]
        self._called: dict[str, Counter[str]] = {name: Counter() for name in more}
        """By function that grew, those that it calls, and how often."""
        for each in edges:
            if each.caller in more:
                self._called[each.caller][each.function] += each.calls
        self._cycles = components(self._called)
        self._cycle = {name: number for number, cycle in enumerate(self._cycles) for name in cycle}
        """By function, the functions that call each other to which it belongs, by number."""
        self._by_grown = defaultdict[str, float](float)
        """By function, the extra calls that follow from those of its callers if each makes as many as before."""
        for caller, called in self._called.items():
            share = more[caller] / now.functions[caller]
            for name, calls in called.items():
                self._by_grown[name] += 0 if self._in_one_cycle(caller, name) else calls * share
        self._times = Counter[tuple[str, bool]]()
        """The calls of each function from all lines that are known: from inside of its cycle, and from outside."""
        for each in edges:
            self._times[each.function, self._in_one_cycle(each.caller, each.function)] += each.calls
        self._extra: dict[str, float] = {}
        for cycle in self._cycles:  # those that it calls come before it
            below = [(name, *edge) for name in cycle for edge in self._called[name].items()]
            outside = [edge for edge in below if not self._in_one_cycle(edge[0], edge[1])]
            self._extra |= dict.fromkeys(cycle, sum(map(more.__getitem__, cycle)) + self._of_edges(outside))

    def below(self, functions: Iterable[str]) -> set[str]:
        """Return *functions* that grew, and the ones that grew below them."""
        return _reached((name for name in functions if name in self._more), self._called)

    def following(self, edges: Iterable[CallingLine]) -> dict[str, float]:
        """Return the functions that grew below the calls of a line, with the extra calls that follow from these.

        Other lines may call them, too, and have their share.
        """
        calls, found = defaultdict[int, float](float), dict[str, float]()
        for each in edges:
            if each.function in self._more:
                is_inside = self._in_one_cycle(each.caller, each.function)  # then all of the cycle follows from it
                calls[self._cycle[each.function]] += math.inf if is_inside else each.calls
        for number in reversed(range(len(self._cycles))):  # callers come first
            cycle = self._cycles[number]
            if calls[number]:
                share = min(calls[number] / max(sum(map(self._entered, cycle)), 1), 1)
                for name in cycle:
                    found[name] = share * self._more[name]
                    # Without the base's lines a function makes as many calls in each of its own as before.
                    part = 1 if self._before.lines else self._more[name] / self._now.functions[name]
                    for function, often in self._called[name].items():
                        calls[self._cycle[function]] += share * often * part
        return found

    def _entered(self, function: str) -> int:
        """Return the extra calls of a function from outside of its cycle, whose lines have no others if known."""
        times = self._times[function, False]
        return times if self._before.lines else min(times, self._more[function])

    def _in_one_cycle(self, caller: str, function: str) -> bool:
        return caller in self._cycle and self._cycle[caller] == self._cycle[function]

    def _of_edges(self, edges: Iterable[tuple[str, str, int]]) -> float:
        """Return the extra calls that follow from calls: each of a caller, a function, and how often."""
        return sum(
            self._extra[function] * calls / self._times[function, self._in_one_cycle(caller, function)]
            for caller, function, calls in edges
        )

    def _grew_alone(self, edge: CallingLine) -> bool:
        """Return True if a function grew by far more than its caller, which therefore does not explain it."""
        if edge.caller not in self._more:
            # Unless functions that grew make all of the extra calls (beancount: 18,000 of `Position.__new__`).
            known = bool(self._before.lines)
            return known or self._by_grown[edge.function] < _EXPLAINED * self._more[edge.function]
        if edge.caller == edge.function:
            return False  # the call that enters the recursion causes these
        calls, of_called = self._now.functions[edge.caller], self._before.of(edge.function)
        of_caller = self._before.of(edge.caller) if self._more[edge.caller] < calls else 0
        grown_by = calls / of_caller if of_caller else math.inf
        return self._now.functions[edge.function] > _FAR_MORE * grown_by * of_called if of_caller else False

    def roots(
        self, lines: Sequence[CallingLine], own: Collection[str], is_changed: Callable[[SourceLine], bool]
    ) -> list[list[CallingLine]]:
        """Return the lines to blame, with their calls, the innermost line that most extra calls follow from first.

        Calls by a function that grew as much follow from the line that calls it. Lines outside the project, as in a
        thread, only if none is the project's. A line that *is_changed* is to blame for what follows from it.
        """
        by_line: defaultdict[tuple[str, int], list[CallingLine]] = defaultdict(list)
        for each in lines:
            by_line[_place(each)].append(each)
        # Of a line whose calls a function that grew explains in part only the others count (isort: a line of unchanged
        # `Path(...)` beside a new function that makes as many).
        alone = [[each for each in edges if self._grew_alone(each)] for edges in by_line.values()]
        roots = [edges for edges in alone if edges] or list(by_line.values())
        roots = [edges for edges in roots if edges[0].caller in own] or roots
        changed = [edges for edges in by_line.values() if edges[0].caller in own and is_changed(edges[0].line)]
        # Of a new function the line that calls it is to blame, which changed, too.
        known = [edges for edges in changed if self._before.of(edges[0].caller) or edges[0].caller not in self._more]
        changed = known or changed
        in_all = sum(self._more.values())  # functions that call each other count several times below their lines
        extra = {
            _place(edges[0]): min(in_all, self._of_edges((each.caller, each.function, each.calls) for each in edges))
            for edges in [*roots, *changed]
        }
        roots = sorted(roots, key=lambda edges: -extra[_place(edges[0])])[:_MOST_ROOTS]
        if not roots:
            return []
        most = extra[_place(roots[0][0])]
        many, changed = (
            [edges for edges in lines if extra[_place(edges[0])] >= most / 2]
            for lines in (roots, sorted(changed, key=lambda edges: -extra[_place(edges[0])])[:_MOST_ROOTS])
        )
        first = (changed or many)[0]
        for edges in changed or many:
            if self._is_below(edges, first):
                first = edges
        others = [
            edges
            for edges in roots
            if extra[_place(edges[0])] >= _NOTABLE * most
            and _place(edges[0]) != _place(first[0])
            and not self._is_below(edges, first)
            and not self._is_below(first, edges)
            # Without the base's lines all calls of a line count as extra: an unchanged line is no cause beside a
            # changed one (Markdown: 600 of 1,500 calls at a line that made as many before).
            and (self._before.lines or not changed or is_changed(edges[0].line))
        ]
        return [first, *others]

    def _is_below(self, inner: Sequence[CallingLine], outer: Sequence[CallingLine]) -> bool:
        """Return True if a line is in a function that another line leads to."""
        return inner[0].caller in self.below(each.function for each in outer)


def _most(more: Mapping[str, int], now: PythonCalls) -> list[str]:
    own = set(now.own)
    return sorted(more, key=lambda name: (name not in own, -more[name]))


def _size(edge: CallingLine) -> int:
    return -edge.calls


def _place(edge: CallingLine) -> tuple[str, int]:
    return edge.line.file, edge.line.line


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
    return other in _reached([function], called)


def _reached(functions: Iterable[str], called: Mapping[str, Collection[str]]) -> set[str]:
    """Return *functions*, and the ones that these call, and so on."""
    found, left = set[str](), [*functions]
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += called[name]
    return found


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


def plural_times(calls: int) -> str:
    """Write a number of times: ``once``, ``120,412 times``."""
    return "once" if calls == 1 else f"{calls:,} times"


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
