"""The source lines of an op, lines with more calls than in the baseline first: the text below a failing table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from ..ops.names import canonical_ops
from ..profile.memory import IN_USE
from ..profile.site_calls import SiteCalls, SourceLine
from ..results.judged_window import JudgedWindow
from ..results.window_result import amount, amount_of
from ..sites.match import Grown
from ..sites.places import Amount, Calls
from ..units import plural
from ..verdict.diff import Row
from ..verdict.quantities import FACTS, called
from ..verdict.verdicts import Verdict
from .colours import TextLine
from .tables import PLAIN

_LINES = 5
"""So many lines are shown, unless all are."""
_SINGLE_OPS = 3
"""Of more ops than these there is one list, line by line."""
_BLANK = TextLine("")
_UNKNOWN = "no line of the program, or none that is known"


class _Line(NamedTuple):
    """A source line, and the function of a package that it called."""

    line: SourceLine | None
    via: str

    def __str__(self) -> str:
        return str(self.line or _UNKNOWN) + (f"  via {self.via}" if self.via else "")


def where(window: JudgedWindow, *, every_line: bool, more: str) -> list[TextLine]:
    """Return the source lines of each op that fails a *window*; *more* says how to see the lines left out."""
    unknown = list(map(TextLine, window.unknown_lines))
    if unknown and window.sites_lost:
        return [_BLANK, *unknown]
    grown = window.grown_lines
    rows, consequences = {row.op: row for row in (window.diff.rows if window.diff else ())}, window.consequences
    ops = [
        _Op(
            op,
            sites,
            rows.get(op),
            *grown.of(op),
            max(window.numbers.ops[op].calls) if op in canonical_ops() and op in window.numbers.ops else None,
        )
        for op in window.asked
        if op not in consequences and (sites := window.numbers.sites.get(op))
    ]
    ops = [op for op in ops if not _is_as_before(op.name, window)] or ops
    lines: list[TextLine] = []
    if len(ops) > _SINGLE_OPS and not every_line:
        lines += [_BLANK, *_together(ops, grown.is_changed, more)]
    else:
        then = window.diff.then if window.diff else ""
        alike = defaultdict[tuple[str, tuple[TextLine, ...]], list[_Op]](list)
        for op in ops:
            alike[op.calls(then), tuple(op.text(None if every_line else _LINES, more))].append(op)
        for (calls, text), same in alike.items():
            lines += [_BLANK, _title(same, calls), *text]
    return [*lines, *(unknown if ops else [])]


def _is_as_before(op: str, window: JudgedWindow) -> bool:
    """Return True if lines of a fact are those of the base: memory that stays has the lines of all allocations."""
    return op in FACTS and window.grown_lines.knows_base(op) and not window.grown_lines.of(op)[1]


class _Op:
    """An op that the user will ask about, and the lines that ask for it."""

    def __init__(
        self,
        op: str,
        sites: Sequence[SiteCalls],
        row: Row | None,
        by: Amount,
        more: Sequence[Grown],
        failed_with: int | None,
    ) -> None:
        """*more* are the lines that ask for more of it than before, of calls, FLOPs or bytes (*by*).

        *failed_with* are the calls with which the test failed; None if that is not their number alone.
        """
        self.name = op
        self._sites = sites
        self._row = row
        self._failed_with = row.now.calls.most if row and row.now else failed_with
        self.by_line = defaultdict[_Line, list[SiteCalls]](list)
        for site in sites:
            self.by_line[_Line(site.lines[0] if site.lines else None, site.via)].append(site)
        self._at = {line.place: line for site in sites for line in site.lines}
        at = {line.line.place: line for line in self.by_line if line.line}  # of lines that say the same, the last
        self.by = by
        self.grown = {at[each.place]: each for each in more}

    @property
    def culprits(self) -> Collection[_Line]:
        """The lines with more calls than before, else the lines with other dtypes; all lines if neither tells."""
        row = self._row
        dtypes = row.now.grown_dtypes(row.base) if row and row.base and row.now else ()
        found = [line for line, sites in self.by_line.items() if any(each.dtypes in dtypes for each in sites)]
        return self.grown or found or list(self.by_line)

    @property
    def is_fact(self) -> bool:
        """Whether it is no op."""
        return self.name in FACTS and not (self._row and self._row.is_op)

    @property
    def is_plural(self) -> bool:
        """Whether its name is a plural: ``allocations``."""
        return self.is_fact and self.name not in IN_USE

    def amount(self, sites: Sequence[SiteCalls]) -> str:
        """Return the calls of *sites*, or the bytes of memory in use."""
        return amount_of(self.name, sites)

    def calls(self, then: str) -> str:
        """Return its calls in the lines, and in the base."""
        calls, row = sum(site.calls for site in self._sites), self._row
        if self.is_fact:
            return self.amount(self._sites)
        base = f", {then}: {row.calls[0] or 0}" if row and row.calls[0] != row.calls[1] else ""
        again = f"; {self._failed_with} when it failed" if self._failed_with not in (None, calls) else ""
        return f"{plural(calls, 'call')}{base}{again}"

    def text(self, left: int | None, more: str) -> Iterator[TextLine]:
        """Yield the lines, *left* of them: lines that grew, lines of other dtypes, then by calls."""
        for line, each in [*self.grown.items()][:left]:
            yield from self._more(line, each)
        told = {each.place for each in self.grown.values()}  # lines that say the same are one
        culprits = set(self.culprits)
        others = [line for line in self.by_line if line.line is None or line.line.place not in told]
        others.sort(key=lambda line: (line not in culprits, *self._size(self.by_line[line])))
        shown = others if left is None else others[: max(left - len(self.grown), 0)]
        for line in shown:
            here = self.by_line[line]
            notes = self._notes(here)
            said = f"{self.amount(here):>6}  {line}"
            yield TextLine(said + (f"  ({'; '.join(notes)})" if notes else ""))
        missing = len(others) - len(shown) + (0 if left is None else max(len(self.grown) - left, 0))
        yield from map(TextLine, PLAIN.left_out(missing, "line", more))

    def _size(self, sites: Sequence[SiteCalls]) -> tuple[int, ...]:
        """Return a key that orders lines by FLOPs, then bytes, where they grew; then by calls."""
        does_more_work = self.name in IN_USE or (self._row is not None and self._row.verdict is Verdict.MORE_WORK)
        work = [(site.flops or 0, site.bytes or 0) for site in sites] if does_more_work else []
        return (*(-sum(column) for column in zip(*work)), -sum(site.calls for site in sites))

    def _more(self, line: _Line, each: Grown) -> Iterator[TextLine]:
        change = "(new)" if each.is_new else f"{self._amount(each.before)} -> {self._amount(each.now)}"
        backward = each.backward_before, each.backward_now
        if backward[1].most and self.by == "calls":
            change += f" (backward {backward[1]})" if each.is_new else f" (backward {backward[0]} -> {backward[1]})"
        notes = self._notes([site for site in self._sites if site.lines[:1] == (line.line,)], backward=False)
        said = f"{self.more(each):>6}  {line}  {change}" + (f"  ({'; '.join(notes)})" if notes else "")
        yield TextLine(said, "worse")
        for caller in each.callers:
            said = f"{'':8}{self.more(caller):>6} from {self._at[caller.place]}" + ("  (new)" if caller.is_new else "")
            yield TextLine(said, "worse")

    def more(self, each: Grown) -> str:
        """Return how much more a line does."""
        return f"+{amount(each.more, self.by)}"

    def _amount(self, calls: Calls) -> str:
        return str(calls) if self.by == "calls" else amount(calls.most, self.by)

    def _notes(self, sites: Sequence[SiteCalls], *, backward: bool = True) -> list[str]:
        notes = []
        if len({site.dtypes for site in self._sites}) > 1:
            notes.append(", ".join(dict.fromkeys(site.dtypes for site in sites if site.dtypes)))
        number = sum(site.calls for site in sites if site.is_backward)
        if backward and number:
            notes.append("backward" if all(site.is_backward for site in sites) else f"{number} of them backward")
        return [note for note in notes if note]


def _together(ops: Sequence[_Op], is_changed: Callable[[SourceLine], bool], more: str) -> Iterator[TextLine]:
    """Yield the lines to blame, each with its ops: changed lines first, then the line with most more calls, then as in
    the program.
    """
    by_line = defaultdict[_Line, list[str]](list)
    order: dict[_Line, list[int]] = {}
    grew = Counter[_Line]()
    for op in ops:
        for line in op.culprits:
            here = op.by_line[line]
            calls = op.more(op.grown[line]) if line in op.grown else op.amount(here)
            by_line[line].append(f"{called(op.name)} {calls}")
            numbers = min([each.line for each in reversed(site.lines)] for site in here)
            order[line] = min(order.get(line, numbers), numbers)
            if not op.grown and op.name not in IN_USE:  # the base's lines are unknown
                grew[line] += sum(site.calls for site in here)
            elif line in op.grown and op.by == "calls":
                grew[line] += op.grown[line].more
    new = {line for op in ops for line, grown in op.grown.items() if grown.is_new}
    yield TextLine("where they come from:", "title")
    is_old = {line: line.line is None or not is_changed(line.line) for line in by_line}
    for line in sorted(by_line, key=lambda line: (is_old[line], -grew[line], order[line]))[:_LINES]:
        yield TextLine(f"  {line}" + ("  (new)" if line in new else ""), "worse")
        yield TextLine(f"      {', '.join(by_line[line])}")
    yield from map(TextLine, PLAIN.left_out(len(by_line) - _LINES, "line", more))


def _title(ops: Sequence[_Op], calls: str) -> TextLine:
    """Return the title of the lines of *ops* that have the same lines, and the same *calls* each."""
    *others, last = [called(op.name) for op in ops]
    verb = "come" if others or ops[0].is_plural else "comes"
    each, said = ("each ", f"{', '.join(others)} and {last}") if others else ("", last)
    return TextLine(f"where {said} {verb} from ({each}{calls}):", "title")
