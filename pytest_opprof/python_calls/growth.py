"""Which functions are called more often than before, and the lines from which most of these calls follow."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from ..graphs import components, reached
from ..units import plural_times
from .names import CACHED

if TYPE_CHECKING:
    from ..profile.site_calls import SourceLine
    from .counted import CallingLine, PythonCalls

# A smaller growth of a function is not reported beside a larger one.
TOLERANCE, FLOOR = 0.01, 10
# A line that calls less than this share of the first one's calls, or of a function's growth, is not reported.
NOTABLE = 0.1
# The most lines that are compared: each asks for what follows from it, of up to 50,000 calls.
_MOST_ROOTS = 20
# A function that grew by more than this many times as much as its caller does not follow from it.
_FAR_MORE = 2
# Callers that grew explain a function's growth if they make this share of it.
_EXPLAINED = 0.9


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
        for identity in (line_and_function, _call):
            lines, known = _without(lines, known, identity), _without(known, lines, identity)
        return lines

    def said(self, name: str) -> str:
        """Return them in words."""
        most = "at most " if self.may_lack(name) else ""
        of_cache = self.calls.get(name + CACHED, 0)
        from_cache = f"; its cache was called {plural_times(of_cache)}" if of_cache > self.of(name) else ""
        return f"{most}{self.of(name):,}{from_cache}"


NOTHING = Before()


def grown(before: Before, now: Mapping[str, int]) -> dict[str, int]:
    """Return the extra calls *now*, by function: those beyond 1 % and 10 calls, or all if none is."""
    more = grown_at_all(before, now)
    notable = {name: grew for name, grew in more.items() if grew > FLOOR and grew > TOLERANCE * before.of(name)}
    return notable or more


def grown_at_all(before: Before, now: Mapping[str, int]) -> dict[str, int]:
    """Return the extra calls *now*, by function."""
    return {name: calls - before.of(name) for name, calls in now.items() if calls > before.of(name)}


class Growth:
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
        return reached((name for name in functions if name in self._more), self._called)

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
            by_line[place_of(each)].append(each)
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
            place_of(edges[0]): min(in_all, self._of_edges((each.caller, each.function, each.calls) for each in edges))
            for edges in [*roots, *changed]
        }
        roots = sorted(roots, key=lambda edges: -extra[place_of(edges[0])])[:_MOST_ROOTS]
        if not roots:
            return []
        most = extra[place_of(roots[0][0])]
        many, changed = (
            [edges for edges in lines if extra[place_of(edges[0])] >= most / 2]
            for lines in (roots, sorted(changed, key=lambda edges: -extra[place_of(edges[0])])[:_MOST_ROOTS])
        )
        first = (changed or many)[0]
        for edges in changed or many:
            if self._is_below(edges, first):
                first = edges
        others = [
            edges
            for edges in roots
            if extra[place_of(edges[0])] >= NOTABLE * most
            and place_of(edges[0]) != place_of(first[0])
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


def line_and_function(edge: CallingLine) -> object:
    """Return what tells the calls of one function at a line from others."""
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


def place_of(edge: CallingLine) -> tuple[str, int]:
    """Return the file and line that calls."""
    return edge.line.file, edge.line.line
