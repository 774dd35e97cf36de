"""The source lines of a window, and the ones that ask for more than at its base: the findings name them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from ..profile.memory import IN_USE
from ..profile.range import Range
from ..profile.site_calls import SourceLine, kept_sites
from ..sites.match import Grown, grown, leading_to_all, repeated, with_callers
from ..sites.places import Amount, Place, WindowSites
from ..units import format_bytes, plural
from ..verdict.diff import Row
from ..verdict.findings import Finding
from ..verdict.quantities import FACTS, with_lines
from ..verdict.verdicts import OF_MORE_CALLS, Verdict
from .window_result import GrownLine, WindowNumbers

# If FLOPs exceed the tolerance, bytes that grew by less than this are not looked up by line, and vice versa.
_WORK_GREW = 1.01
# From this number on, ops of one line are joined into one finding.
_SHARED_OPS = 3
# A line that makes less than this share of the extra calls of its ops joins none.
_MOST_CALLS = 0.5
# Less than this share of them says little about the cause.
_FEW_CALLS = 0.1
# A line that changed, in `GrownLines._nearness`.
_CHANGED = 2


@dataclass(frozen=True, slots=True)
class GrownLines:
    """The source lines of a window, compared with its base's."""

    numbers: WindowNumbers
    rows: dict[str, Row]
    """By op, its comparison with the base."""
    base_sites: WindowSites | None
    """The lines that called ops in the base; None if unknown."""
    uncompared: Collection[str]
    """The facts whose lines in the base are unknown all the same."""
    changed: Mapping[str, Sequence[range]]
    """The lines that differ from the base's, by file; empty if unknown."""

    def knows_base(self, op: str) -> bool:
        """Return True if the lines in the base of an op, or of a fact, are known."""
        return self.base_sites is not None and op not in self.uncompared

    def of(self, op: str) -> tuple[Amount, tuple[Grown, ...]]:
        """Return the lines that ask for more of an op, by which amount: calls, or FLOPs or bytes if its work grew."""
        if self.base_sites is None or not self.knows_base(op):
            return "calls", ()
        row = next((row for row in self.rows.values() if with_lines(row.op) == op), None)
        before, now = self.base_sites.get(op, {}), kept_sites({op: self.numbers.sites.get(op, ())})[op]
        for by in _amounts_of(row):
            if found := grown(before, now, by):
                return by, with_callers(found, now, self.base_sites) if by == "calls" else found
        return "calls", ()

    def grown(self, ops: Sequence[str]) -> dict[str, tuple[GrownLine, ...]]:
        """Return the lines with extra calls or work of each of the *ops* that has some."""
        found: dict[str, tuple[GrownLine, ...]] = {}
        for op in ops:
            by, more = self.of(op)
            if more:
                found[op] = tuple(GrownLine(self._line(op, each.place), each.more, each.is_new, by) for each in more)
        return found

    def named(self, findings: Sequence[Finding], ops: Sequence[str]) -> list[Finding]:
        """Return *findings* with the lines that ask for more of their *ops*; several ops of one line are joined."""
        grown = {op: self.of(op) for op in ops}
        nearness = self._nearness()
        lines = {
            op: (self._line(op, _changed_place(more[0], nearness)), _share(self.rows.get(op), op, by, more, nearness))
            for op, (by, more) in grown.items()
            if more and self._explains(op, more)
        }
        lines = self._holders(ops) | lines
        of_calls = {op: more for op, (by, more) in grown.items() if by == "calls" and op not in FACTS}
        found = [*findings]
        if joint := self._joint(of_calls, nearness):
            found = self._joined(found, *joint, {op: sum(line.more for line in more) for op, more in of_calls.items()})
        lines_of = self.numbers.lines_of
        return self._changed_first(
            [
                each if each.adds or each.line else _at(each, *lines.get(lines_of(each.op or each.rule), (None, "")))
                for each in found
            ]
        )

    def is_changed(self, line: SourceLine) -> bool:
        """Return True if a line differs from the base's."""
        return any(line.line in each for each in self.changed.get(line.file, ()))

    def _holders(self, ops: Collection[str]) -> dict[str, tuple[SourceLine, str]]:
        """The line that holds more of a failing amount of memory than all did before, with how much, where the base's
        lines are unknown.
        """
        found, rows = {}, self.rows
        for name in rows.keys() & {*IN_USE}:
            if name not in ops or self.knows_base(name) or name in self.numbers.explained:
                continue
            held, at = Counter[Place](), dict[Place, SourceLine]()
            for site in self.numbers.sites.get(name, ()):
                for line in site.lines[:1]:
                    held[line.place] += site.bytes or 0
                    at[line.place] = line
            for place, nbytes in held.most_common(1):
                if nbytes > max(self.numbers.facts.get(name, (0,))) / rows[name].work.growth:
                    found[name] = at[place], f"{format_bytes(nbytes)} of it"
        return found

    def _explains(self, op: str, more: Sequence[Grown]) -> bool:
        """Return True unless lines hold a small part of the memory that is more: they are of one framework of two."""
        row, amounts = self.rows.get(op), self.numbers.facts.get(op)
        if op not in IN_USE or row is None or not amounts:
            return True
        return sum(line.more for line in more) >= _MOST_CALLS * row.work.rise(max(amounts))

    def _joint(
        self, grown: Mapping[str, Sequence[Grown]], nearness: Callable[[Place], int]
    ) -> tuple[Place, Mapping[str, int], float] | None:
        """Return the line that asks for more calls of most ops, with its calls by op; None without one.

        Or the first line of a function whose lines do, and how many times as often these run. *grown* has the lines of
        each op.
        """
        shared: dict[Place, dict[str, int]] = defaultdict(dict)
        for op, more in grown.items():
            for line in more:
                changed = {_changed_place(line, nearness)} if self.changed else set()
                changed |= {place for place in line.places if nearness(place) == _CHANGED}
                for place in dict.fromkeys([*_causes(line), *sorted(changed)]):
                    shared[place][op] = shared[place].get(op, 0) + line.through(place)
        in_all = {op: sum(line.more for line in more) for op, more in grown.items()}
        # A line that makes a few of the extra calls is not the cause. Of lines that ask for equally many ops, one that
        # changed is it, or one in a file that did, else the innermost, which comes first.
        leading = [
            place for place, ops in shared.items() if sum(ops.values()) >= _MOST_CALLS * sum(in_all[op] for op in ops)
        ]
        most = max(leading, key=lambda place: (len(shared[place]), nearness(place)), default=None)
        if most is not None and sum(shared[most].values()) >= _MOST_CALLS * sum(in_all.values()):
            return most, shared[most], 1
        if to_all := leading_to_all(grown):
            return *to_all, 1
        if often := repeated(grown):
            function, calls, times = often
            lines = [line for line in self.numbers.source_lines if line.place[:2] == function]
            return min(lines, key=lambda line: line.line).place, calls, times
        return None if most is None else (most, shared[most], 1)

    def _joined(
        self,
        findings: Sequence[Finding],
        place: Place,
        more: Mapping[str, int],
        times: float,
        in_all: Mapping[str, int],
    ) -> list[Finding]:
        """Return *findings*, with *more* calls from the line at *place* joined if they are of `_SHARED_OPS` ops or
        more; *in_all*: the extra calls of each op from all lines; *times*: how many times as often the lines of its
        function run.
        """
        ops = [each.op for each in findings if each.op in more and not each.adds and each.rule in OF_MORE_CALLS]
        if len(ops) < _SHARED_OPS:
            return [*findings]
        others: list[Finding] = []
        together: list[Finding] = []
        is_member = False
        for each in findings:
            is_member = is_member if each.adds else each.op in ops and each.rule in OF_MORE_CALLS
            below = structs.replace(each, text=f"  {each.text}", short="", line=None)
            (together if is_member else others).append(below if is_member else each)
        line = self._line(ops[0] or "", place)
        calls, total = (sum(of[op or ""] for op in ops) for of in (more, in_all))
        rows = self.rows
        if total != sum(rows[op].more_calls for op in ops if op in rows):
            total = calls  # other lines make fewer calls than before
        of_all, here = (f"{calls} of ", f", {calls} of them") if calls < total else ("", "")
        where = f"from {line}"
        if times > 1:
            where = f"in `{line.function}` at {line.location}, whose lines run {times:g} times as often"
        first = Finding(
            together[0].rule,
            ops[0],
            f"{plural(len(ops), 'op')}, {of_all}{plural(total, 'call')} more {where}",
            f"{len(ops)} ops +{total} calls{here} at {line.location}",
            tuple(op for op in ops if op),
            line,
            over_budget=any(each.over_budget for each in together),
        )
        at = next(number for number, each in enumerate(findings) if each.op == ops[0] and each.rule in OF_MORE_CALLS)
        return [*others[:at], first, *together, *others[at:]]

    def _changed_first(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return *findings* of ops in another order: first the ones of a line that changed, with what follows them.

        Unless these are few calls: of s2fft's 573 more calls one comparison was named.
        """
        together: list[list[Finding]] = []
        for each in findings:
            if each.adds and together:
                together[-1].append(each)
            else:
                together.append([each])
        ops = [each for each in together if each[0].op and each[0].op not in FACTS]
        rows = self.rows
        more = {id(of_line): sum(rows[each.op].more_calls for each in of_line if each.op in rows) for of_line in ops}
        few = _FEW_CALLS * max(more.values(), default=0)

        def is_last(of_line: Sequence[Finding]) -> bool:
            line = of_line[0].line
            return line is None or not self.is_changed(line) or 0 < more[id(of_line)] < few

        ordered = iter(sorted(ops, key=is_last))
        return [finding for each in together for finding in (next(ordered) if each in ops else each)]

    def _line(self, op: str, place: Place) -> SourceLine:
        """Return the line at *place* that calls *op*, or another; of duplicates, the last."""
        of_op = [line for site in self.numbers.sites[op] for line in site.lines if line.place == place]
        return (of_op or [line for line in self.numbers.source_lines if line.place == place])[-1]

    def _nearness(self) -> Callable[[Place], int]:
        """Return how near a line is to the change: `_CHANGED`, 1 if its file did, else 0."""
        changed = {line.place for line in self.numbers.source_lines if self.is_changed(line)}
        return lambda place: _CHANGED if place in changed else int(place.file in self.changed)


def _at(finding: Finding, line: SourceLine | None, share: str = "") -> Finding:
    """Return *finding* with the source line that causes it, or this *share* of its extra calls."""
    where = f", {share}{at_line(line)}" if share else at_line(line)
    return structs.replace(finding, text=finding.text + where, short=finding.short + where, line=line)


def _causes(line: Grown) -> Iterator[Place]:
    """Yield the line and each new line that calls it: if a helper is newly called, the caller is the cause."""
    yield line.place
    for caller in line.callers:
        if caller.is_new:
            yield from _causes(caller)


def _amounts_of(row: Row | None) -> Iterator[Amount]:
    """Yield the amounts by which lines explain a *row*; FLOPs are more telling than bytes."""
    if row is not None and with_lines(row.op) in IN_USE:
        yield "bytes"
        return
    if row is None or row.verdict is not Verdict.MORE_WORK or row.base is None or row.now is None:
        yield "calls"
        return
    base, now = row.base, row.now
    amounts: tuple[tuple[Amount, Range | None, Range | None], ...] = (
        ("flops", base.flops, now.flops),
        ("bytes", base.bytes, now.bytes),
    )
    for by, before, after in amounts:
        if before is not None and after is not None and after.most > before.most * _WORK_GREW:
            yield by


def _changed_place(line: Grown, nearness: Callable[[Place], int]) -> Place:
    """Return the line to name in a finding: of a function that ran no op before, the one that calls it.

    If lines around it are nearer to the change, the innermost of the nearest.
    """
    found = line.callers[0].place if line.is_new and line.callers else line.place
    return max(found, *line.chain, key=nearness)


def _share(row: Row | None, op: str, by: Amount, more: Sequence[Grown], nearness: Callable[[Place], int]) -> str:
    """Return how many of the extra calls the first changed line makes; "" for all, or if they are not of calls.

    Not of how many, if other lines make fewer calls than before.
    """
    places = [_changed_place(line, nearness) for line in more]
    first = sum(line.through(places[0]) for line in more if places[0] in line.places)
    total = sum(line.more for line in more)
    of_all = f"{first} of the {total} extra calls" if row is None or row.more_calls == total else f"{first} more"
    return of_all if by == "calls" and op not in FACTS and first < total else ""


def at_line(line: SourceLine | None) -> str:
    """Return the place of a line as a finding ends with it; empty without one."""
    return f" at {line.location}" if line else ""
