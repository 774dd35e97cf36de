"""Which lines ask for an op, those that ask for more than in the baseline first: the text below a failing table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..profile.site_calls import SiteCalls, SourceLine
from ..results.judged_window import JudgedWindow
from ..units import plural
from ..verdict.compare import Row
from ..verdict.facts import FACTS

_LINES = 5
"""So many lines are shown, unless all are."""
_SINGLE_OPS = 3
"""Of more ops than these there is one list, line by line."""
_UNKNOWN = "no line of the program, or none that is known"


class _Place(NamedTuple):
    """A line, and what it called where that is a package's."""

    line: SourceLine | None
    via: str

    def __str__(self) -> str:
        return str(self.line or _UNKNOWN) + (f"  via {self.via}" if self.via else "")


def where(window: JudgedWindow, every_line: bool, more: str) -> list[str]:
    """Return the lines that asked for each op that fails a *window*; *more* says how to see those left out."""
    if window.asked and window.sites_lost:
        return ["", f"which lines ask for {', '.join(map(_called, window.asked))} is not known: {window.sites_lost}"]
    rows = {row.op: row for row in (window.diff.rows if window.diff else ())}
    asked = {op: sites for op in window.asked if (sites := window.numbers.sites.get(op))}
    if len(asked) > _SINGLE_OPS and not every_line:
        return ["", *_of_all({op: _grown(sites, rows.get(op)) for op, sites in asked.items()}, more)]
    return [line for op, sites in asked.items() for line in ("", *_of_op(op, sites, rows.get(op), every_line, more))]


def _of_all(asked: Mapping[str, Sequence[SiteCalls]], more: str) -> Iterator[str]:
    """Yield each line with the ops that it asks for, in the order of the program as far as their order tells."""
    by_place = defaultdict[_Place, Counter[str]](Counter)
    for op, sites in asked.items():
        for place, here in _by_place(sites).items():
            by_place[place][op] += sum(site.calls for site in here)
    found = sorted(by_place.items(), key=lambda item: -len(item[1]))
    yield "where they come from:"
    for place, ops in found[:_LINES]:
        yield f"  {place}"
        yield f"      {', '.join(f'{_called(op)} {calls}' for op, calls in ops.items())}"
    if len(found) > _LINES:
        yield f"... and {plural(len(found) - _LINES, 'more line')} ({more})"


def _of_op(op: str, sites: Sequence[SiteCalls], row: Row | None, every_line: bool, more: str) -> Iterator[str]:
    calls = sum(site.calls for site in sites)
    if op in FACTS:
        yield f"where {_called(op)} come from ({calls}):"
    else:
        base = f", {row.base_calls or 'none'} in the baseline" if row and row.base_calls != row.now_calls else ""
        again = f"; {row.now_calls} when it failed" if row and row.now_calls and row.now_calls.most != calls else ""
        yield f"where {op} comes from ({plural(calls, 'call')}{base}{again}):"
    grown = set(_by_place(_grown(sites, row)))
    by_place = _by_place(sites)
    number = {place: sum(site.calls for site in here) for place, here in by_place.items()}
    found = sorted(by_place, key=lambda place: (place not in grown, -number[place]))
    shown = found if every_line else found[:_LINES]
    shows_dtypes = len({site.dtypes for site in sites}) > 1
    for place in shown:
        backward = sum(site.calls for site in by_place[place] if site.is_backward)
        notes = [f"{backward} of them backward" if backward < number[place] else "backward"] if backward else []
        if shows_dtypes:
            dtypes = dict.fromkeys(site.dtypes for site in by_place[place] if site.dtypes)
            notes.insert(0, ", ".join(dtypes))
        yield f"{number[place]:6}  {place}" + (f"  ({'; '.join(notes)})" if notes else "")
    if len(shown) < len(found):
        yield f"... and {plural(len(found) - len(shown), 'more line')} ({more})"


def _called(op: str) -> str:
    return FACTS[op].text if op in FACTS else op


def _by_place(sites: Sequence[SiteCalls]) -> dict[_Place, list[SiteCalls]]:
    found = defaultdict[_Place, list[SiteCalls]](list)
    for site in sites:
        found[_Place(site.lines[0] if site.lines else None, site.via)].append(site)
    return found


def _grown(sites: Sequence[SiteCalls], row: Row | None) -> Sequence[SiteCalls]:
    """Return those of dtypes of which the op has more calls than in the baseline; all where that tells nothing."""
    dtypes = _grown_dtypes(row)
    return [site for site in sites if site.dtypes in dtypes] or sites


def _grown_dtypes(row: Row | None) -> Collection[str]:
    if row is None or row.base_calls is None or row.now_calls is None:
        return ()
    before = row.base_calls.dtypes
    return {
        dtypes
        for dtypes, calls in row.now_calls.dtypes.items()
        if dtypes not in before or calls.most > before[dtypes].most
    }
