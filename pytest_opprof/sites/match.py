"""Find the lines with more calls of an op than in a baseline, though code was edited, moved and renamed since.

The lines of both sides are paired, the surest first: lines with the same text, then the most similar ones of each
function. If one line of a function has more calls and another fewer, the calls were moved (a line split in two), and
are not reported; neither are extra calls of one function on a line like one on which another function has fewer.
`benchmarks/site_matching.py` measures it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TypeVar

from .places import Amount, Calls, Chain, OpSites, Place, Site, WindowSites, near

# The most pairs of words that are compared for one op of one window, 150 for a pair of usual lines: 0.6 s at worst.
# Edited lines beyond this are reported as new.
MOST_COMPARED = 3_000_000
# The least similarity of two lines (0 to 1, plus the bonuses below) that are one, within a function and across two.
_LEAST_WITHIN, _LEAST_ACROSS = 0.3, 0.7
# The bonus for lines that begin with the same word (the name assigned to), of one file, and of functions of one name.
# These five were chosen on ten projects, and are as good on nine others.
_SAME_START, _SAME_FILE, _SAME_NAME = 0.2, 0.1, 0.1
# The part of a line that is read: difflib takes the square of it.
_MOST_LETTERS, _MOST_WORDS = 400, 50
_Function = tuple[str, str]
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Grown:
    """A line with more calls than before, or with more FLOPs or bytes in their place."""

    chain: Chain
    """The line, and the path to it of most of the extra calls."""
    before: Calls
    now: Calls
    backward_before: Calls
    """The calls of *before* by backward ops."""
    backward_now: Calls
    is_new: bool
    """Whether no line of the baseline matches it."""
    callers: tuple[Grown, ...] = ()
    """The lines that call this one's function more often than before; for a function that ran no op before, the line of
    one that did.
    """

    @property
    def place(self) -> Place:
        """The line."""
        return self.chain[0]

    @property
    def more(self) -> int:
        """The number of extra calls."""
        return self.now.most - self.before.most

    def through(self, place: Place) -> int:
        """Return the number of extra calls that come by a line."""
        if place == self.place or not self.callers:
            return self.more if place in self.chain else 0
        return sum(caller.through(place) for caller in self.callers)

    @property
    def places(self) -> set[Place]:
        """The line, and all lines by which its extra calls come."""
        return {*self.chain}.union(*(caller.places for caller in self.callers))


def grown(before: OpSites, now: OpSites, by: Amount = "calls") -> tuple[Grown, ...]:
    """Return the lines with more calls of an op than *before*, or more FLOPs or bytes: the largest increase first.

    There is one if the op has more calls, all of them on known lines. If rounds differ, the maximum counts. There is
    none if an amount is unknown for some line.
    """
    old, new = _amounts(near(before), by), _amounts(near(now), by)
    return () if old is None or new is None else _Comparison().grown(old, new)


def with_callers(lines: Sequence[Grown], now: OpSites, base: WindowSites) -> tuple[Grown, ...]:
    """Return *lines*, each new one of a function that ran no op in *base* with the line of one that did as its caller.

    That line is the cause: code that was there before begins to call new code.
    """
    if not any(line.is_new for line in lines):
        return tuple(lines)
    known = {place for sites in base.values() for site in sites for place in site.chain}
    functions, none = {place[:2] for place in known}, Calls(0, 0)
    found = []
    for line in lines:
        at = next((number for number, place in enumerate(line.chain) if place[:2] in functions), 0)
        if line.is_new and at:
            caller = line.chain[at]
            through = [
                calls for site, calls in now.items() if site.chain[:1] == line.chain[:1] and caller in site.chain
            ]
            of_it = Grown(line.chain[at:], none, Calls.total(through), none, none, caller not in known)
            line = replace(line, callers=(of_it,))
        found.append(line)
    return tuple(found)


def leading_to_all(grown: Mapping[str, Sequence[Grown]]) -> tuple[Place, Mapping[str, int]] | None:
    """Return the innermost line that leads to nearly all extra calls of many ops in many functions, with its calls by
    op; None if there is none. *grown* has the lines of each op.

    jax_cosmo's lost cache: 19 ops in five functions of an integrand, all by one call of `odeint`. A line of the test
    itself, which leads to all, says nothing.
    """
    functions = {line.place[:2] for lines in grown.values() for line in lines}
    if len(grown) < _MANY_OPS or len(functions) < _MANY_FUNCTIONS:
        return None
    through: dict[Place, dict[str, int]] = defaultdict(dict)
    depth: dict[Place, int] = {}

    def note_depth(line: Grown) -> None:
        for at, place in enumerate(line.chain[:-1]):
            depth[place] = max(depth.get(place, 0), len(line.chain) - at)
        for caller in line.callers:
            note_depth(caller)

    for op, lines in grown.items():
        for line in lines:
            note_depth(line)
            for place in line.places - {line.place}:
                through[place][op] = through[place].get(op, 0) + line.through(place)
    total = sum(line.more for lines in grown.values() for line in lines)
    leading = [place for place, ops in through.items() if place in depth and sum(ops.values()) >= _LEADS_TO * total]
    innermost = max(leading, key=lambda place: depth[place], default=None)
    return None if innermost is None else (innermost, through[innermost])


def repeated(grown: Mapping[str, Sequence[Grown]]) -> tuple[tuple[str, str], Mapping[str, int], float] | None:
    """Return the innermost function that makes nearly all extra calls of many ops because its lines run several times
    as often, with its calls by op and that number; None if there is none. *grown* has the lines of each op.

    e3nn's lost cache: each of ten lines in three functions ran 30 times as often. A test says nothing.
    """
    lines = [line for of_op in grown.values() for line in of_op]
    if len(grown) < _MANY_OPS or len({line.place[:2] for line in lines}) < _MANY_FUNCTIONS:
        return None
    total = sum(line.more for line in lines)
    factors = Counter[float]()
    for line in lines:
        factors[round(line.now.most / max(line.before.most, 1), 1) if line.before.most else 0] += line.more
    times, calls = factors.most_common(1)[0]
    if not times or calls < _LEADS_TO * total:
        return None
    tests = {line.chain[-1][:2] for line in lines}
    depth = {place[:2]: len(line.chain) - at for line in lines for at, place in enumerate(line.chain)}
    through: dict[_Function, dict[str, int]] = defaultdict(dict)

    def climb(op: str, line: Grown, below: frozenset[_Function]) -> None:
        functions = {place[:2] for place in (line.chain[:1] if line.callers else line.chain)}
        for function in functions - below:
            through[function][op] = through[function].get(op, 0) + line.more
        for caller in line.callers:
            climb(op, caller, below | functions)

    for op, of_op in grown.items():
        for line in of_op:
            climb(op, line, frozenset())
    for function in sorted(through.keys() - tests, key=lambda each: (-depth.get(each, 0), each)):
        if sum(through[function].values()) >= _LEADS_TO * total:
            return function, through[function], times
    return None


# Of so many ops at lines of so many functions, the line that leads to this share of the extra calls is the cause.
_MANY_OPS, _MANY_FUNCTIONS, _LEADS_TO = 5, 3, 0.9


def _amounts(sites: OpSites, by: Amount) -> OpSites | None:
    found = {site: calls.of(by) for site, calls in sites.items()}
    known = {site: amount for site, amount in found.items() if amount is not None}
    return known if len(known) == len(found) else None


@dataclass(slots=True)
class _Line:
    """A line of one side."""

    place: Place
    function: _Function
    """Its current name."""
    text: str
    words: list[str]
    sites: dict[Site, Calls] = field(default_factory=dict)
    calls: int = 0

    @property
    def callers(self) -> set[_Function]:
        return {site.chain[1][:2] for site in self.sites if len(site.chain) > 1}

    def total(self, backward: bool = False) -> Calls:
        """Return its calls, or only those of *backward* ops."""
        return Calls.total(calls for site, calls in self.sites.items() if site.is_backward or not backward)

    def outside(self, inner: int) -> OpSites:
        """Return its sites without their *inner* innermost frames."""
        return {
            Site(site.chain[inner:], site.is_backward): calls
            for site, calls in self.sites.items()
            if len(site.chain) > inner
        }


@dataclass(slots=True)
class _Change:
    """A line of the baseline and its counterpart now; None if it is gone or new."""

    old: _Line | None
    new: _Line | None
    function: _Function
    more: int
    """The number of extra calls that were not moved; below 0: fewer."""


# The keys by which lines of the same text are paired, the surest first.
_KEYS: tuple[Callable[[_Line], Hashable], ...] = (
    lambda line: line.place,
    lambda line: (line.place.function, line.text),
    lambda line: (line.place.file, line.text),
    lambda line: line.text,
    lambda line: (line.function, line.text),
)


class _Comparison:
    """One use of `grown`, with a bound on its work."""

    def __init__(self) -> None:
        self._left = MOST_COMPARED

    def grown(self, before: OpSites, now: OpSites) -> tuple[Grown, ...]:
        """Return the lines with more calls, with their callers, which are found in the same way."""
        changes = self._changes(_lines(before), _lines(now))
        of_function: dict[_Function, list[_Change]] = defaultdict(list)
        for change in changes:
            of_function[change.function].append(change)
        for those in of_function.values():
            _move(those, those)
        self._move_across(changes)
        found = [self._told(change.old, change.new) for change in changes if change.new and change.more > 0]
        return tuple(sorted(found, key=lambda each: (-each.more, each.chain)))

    def _changes(self, old: dict[Place, _Line], new: dict[Place, _Line]) -> list[_Change]:
        """Pair the lines of two sides, and return the change of each one's calls."""
        renamed = _renamed({line.function for line in old.values()}, {line.function for line in new.values()})
        for line in old.values():
            line.function = renamed.get(line.function, line.function)
        found = []

        def pair(lines: Iterable[tuple[_Line, _Line]]) -> None:
            for before, now in lines:
                if before.place in old and now.place in new:
                    del old[before.place], new[now.place]
                    found.append(_Change(before, now, now.function, now.calls - before.calls))

        for key in _KEYS:
            pair(_alone(old.values(), new.values(), key))
        of_function: dict[_Function, list[_Line]] = defaultdict(list)
        for line in old.values():
            of_function[line.function].append(line)
        candidates = ((line, of_function[line.function]) for line in new.values())
        pair(self._likest(candidates, lambda *_: 0, _LEAST_WITHIN))
        found += [_Change(line, None, line.function, -line.calls) for line in old.values()]
        return found + [_Change(None, line, line.function, line.calls) for line in new.values()]

    def _move_across(self, changes: Sequence[_Change]) -> None:
        """Subtract the extra calls of new lines from the missing calls of similar lines, in any function."""
        less = {change.old.place: change for change in changes if change.old and change.more < 0}
        more = {change.new.place: change for change in changes if change.new and not change.old and change.more > 0}
        lost = [change.old for change in less.values() if change.old]
        come = [change.new for change in more.values() if change.new]

        def bonus(old: _Line, new: _Line) -> float:
            same_name = _last(old.place.function) == _last(new.place.function)
            return _SAME_FILE * (old.place.file == new.place.file) + _SAME_NAME * same_name

        for old, new in self._likest(((line, lost) for line in come), bonus, _LEAST_ACROSS):
            gone, here = less[old.place], more[new.place]
            if gone.more < 0 < here.more:
                if not here.old and old.calls == -gone.more <= here.more:
                    here.old = old  # the whole of it, because the one replaces the other
                _move([gone], [here])

    def _likest(
        self,
        candidates: Iterable[tuple[_Line, Sequence[_Line]]],
        bonus: Callable[[_Line, _Line], float],
        least: float,
    ) -> Iterator[tuple[_Line, _Line]]:
        """Yield the earlier lines that a line may correspond to, with it: the most similar first."""
        found = []
        # Words instead of letters: `y = x.float()` and `z = x.float()` share six of seven.
        matcher = SequenceMatcher[str](autojunk=False)
        for new, lines in candidates:
            matcher.set_seq2(new.words)  # the second sequence is cached
            for old in lines:
                self._left -= len(old.words) * len(new.words) + 1
                if self._left < 0:
                    break
                matcher.set_seq1(old.words)
                alike = matcher.ratio() + _SAME_START * (old.words[:1] == new.words[:1]) + bonus(old, new)
                if alike >= least:
                    found.append(((-alike, old.calls != new.calls, old.place, new.place), old, new))
        yield from ((old, new) for _, old, new in sorted(found, key=lambda each: each[0]))

    def _told(self, old: _Line | None, new: _Line) -> Grown:
        callers = self._callers(old, new) if old else ()
        most = max(new.sites, key=lambda site: (new.sites[site].most, site))
        return Grown(
            (new.place, *callers[0].chain) if callers else most.chain,
            old.total() if old else Calls(0, 0),
            new.total(),
            old.total(backward=True) if old else Calls(0, 0),
            new.total(backward=True),
            old is None,
            callers,
        )

    def _callers(self, old: _Line, new: _Line) -> tuple[Grown, ...]:
        """Return the lines that call the function of a line more often than before."""
        inner = 1
        if old.function != new.function:
            # If it was extracted from its present caller, the line was its own caller. The other way round: inlined.
            inner = 0 if old.function in new.callers else 2 if new.function in old.callers else 1
        return self.grown(old.outside(inner), new.outside(1))


def _lines(sites: OpSites) -> dict[Place, _Line]:
    """Return the lines of the op, by their place."""
    found: dict[Place, _Line] = {}
    for site, calls in sites.items():
        if site.chain:
            place = site.chain[0]
            if place not in found:
                text = _plain(place.text)
                found[place] = _Line(place, place[:2], text, re.findall(r"\w+|[^\w\s]", text)[:_MOST_WORDS])
            found[place].sites[site] = calls
            found[place].calls += calls.most
    return dict(sorted(found.items()))


def _plain(text: str) -> str:
    """Return a line without the parts that a formatter may change: spaces, comment, last comma, kind of quotes."""
    text = " ".join(text[:_MOST_LETTERS].split())
    return re.sub(r" #.*$", "", text).rstrip(",").replace("'", '"')


def _alone(
    old: Iterable[_Kind],
    new: Iterable[_Kind],
    key: Callable[[_Kind], Hashable],
) -> list[tuple[_Kind, _Kind]]:
    """Return the pairs whose key only one item of each side has."""
    before: dict[Hashable, list[_Kind]] = defaultdict(list)
    now: dict[Hashable, list[_Kind]] = defaultdict(list)
    for each in old:
        before[key(each)].append(each)
    for each in new:
        now[key(each)].append(each)
    return [(before[key][0], those[0]) for key, those in now.items() if len(those) == 1 == len(before.get(key, ()))]


def _renamed(old: set[_Function], new: set[_Function]) -> dict[_Function, _Function]:
    """Return the new names of functions that moved to another file or class, and are the only ones of their name."""
    gone, come = old - new, new - old
    files = dict(_alone(gone, come, lambda function: function[1]))
    gone, come = gone - files.keys(), come - set(files.values())
    return {**files, **dict(_alone(gone, come, lambda function: (function[0], _last(function[1]))))}


def _last(function: str) -> str:
    """Return the name of a function in its class."""
    return function.rpartition(".")[2]


def _move(less: Iterable[_Change], more: Iterable[_Change]) -> None:
    """Subtract extra calls of some lines from missing calls of others: new lines first, unchanged text last."""

    def order(change: _Change) -> tuple[bool, bool, int]:
        old, new = change.old, change.new
        return old is not None, old is not None and new is not None and old.text == new.text, change.more

    lost = [change for change in less if change.more < 0]
    for change in sorted((change for change in more if change.more > 0), key=order):
        while lost and change.more:
            moved = min(-lost[-1].more, change.more)
            lost[-1].more += moved
            change.more -= moved
            if not lost[-1].more:
                lost.pop()
