"""The last lines of a run, beside the messages of failing tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..measure.plan import Settings
from ..profile.op_counts import listed
from ..results.causes import causes_of
from ..results.run_result import Stale
from ..results.test_result import TestRecord, counted
from ..units import plural
from ..verdict.quantities import FACTS
from ..verdict.verdicts import OF_MORE_CALLS, Status
from .accepting import Accepting

_MANY, _CAUSES = 3, 8
"""Summarise causes from so many failing tests on; at most so many causes."""
_NAMED = 5
"""A command that updates more tests names none."""
_ALIKE = 3
"""Show so many remarks that differ in their numbers alone."""
_NUMBER = re.compile(r"(?<![\w.])x?\d[\d.,]*( (ns|us|ms|s|B|[KMG]iB)\b)?")
_INTERRUPTED = "opprof: interrupted before a test was judged"
_UNMARKED = (
    "opprof: nothing was measured: no test has an op_budget or opprof mark or uses the opprof fixture"
    " (--opprof-all measures every test)"
)
_UNFINISHED = "opprof: nothing was measured: no test that is to be measured ran to its end"
_NO_TEST = "opprof: nothing was measured: no test ran"


@dataclass(slots=True)
class Summary:
    """The results of the run so far."""

    records: dict[str, TestRecord] = field(default_factory=dict)
    """By test; of one that ran again, the last."""
    lines: list[str] = field(default_factory=list)
    """Lines beside the tests' own remarks."""
    errors: list[str] = field(default_factory=list)
    """Errors that fail the run, even if no test failed; each is printed once."""
    stale: list[Stale] = field(default_factory=list)
    """Baselines whose test or window is gone."""
    accept: str = ""
    """The lines of a commit message that accept the changes that failed the run."""
    marked: bool = False
    """Whether any test was collected that is to be measured."""
    elsewhere: list[str] = field(default_factory=list)
    """Failures of other ranks, in a few words: this one may have passed."""
    ran: bool = False
    """Whether any test ran."""
    is_cut: bool = False
    """Whether the run ended before its last test."""

    def told(self, settings: Settings, verbosity: int) -> Iterator[str]:
        """Yield the lines, the one that counts the tests last."""
        records, accepting = list(self.records.values()), Accepting.of_settings(settings)
        if verbosity >= 0:
            for record in records:
                yield from ["", *f"would fail: {record.reported}".split("\n")] if record.reported else []
            yield from _remarks(records, verbosity)
            better = [record.id for record in records if record.status is Status.IMPROVED]
            if better and not settings.update and not settings.against:
                # An update of all tests would accept the changes of others, too.
                named = better if len(better) <= _NAMED else ()
                then = ", once no test fails" if not named and any(record.fails for record in records) else ""
                yield f"keep what became cheaper{then}: {accepting.update(*named)}"
        if verbosity == -1:
            yield from _grouped([each for record in records for each in _unseen(record)], verbosity)
        if verbosity >= -1:
            yield from _grouped([each for record in records for each in record.untimed.items()], verbosity)
        if verbosity >= 0:
            if any(record.status is Status.TOO_NOISY for record in records) and not settings.against:
                yield "for a verdict in spite of noise, let two versions take turns: pytest --opprof-against=REV"
            yield from _grouped([each for record in records for each in record.missing.items()], verbosity)
            if any({*record.missing} - {*record.unreadable} for record in records) and not settings.against:
                yield f"record them: {accepting.update(new=True)} (-vv shows the ops of each test)"
            yield from _worse(records)
        yield from self.lines
        if self.accept:
            lines = self.accept.split("\n")
            these = "this line" if len(lines) == 1 else "these lines, or some of them,"
            yield f"To accept these changes, add {these} to a commit message (git commit --allow-empty makes one):"
            yield from (f"  {line}" for line in lines)
        if self.stale and (verbosity >= 0 or settings.strict):
            stale = plural(len(self.stale), "stale baseline")
            yield f"{stale} (opprof baselines prune removes tests, --opprof-update windows):"
            yield from (f"  {line}" for line in self.stale)
        yield from (f"opprof: error: {error}" for error in self.errors)
        if records:
            said = _counted(records, settings, verbosity)
        elif self.is_cut:
            said = _INTERRUPTED
        else:
            said = (_UNFINISHED if self.ran else _NO_TEST) if self.marked else _UNMARKED
        errors = [plural(len(self.errors), "error")] if self.errors else []
        yield ", ".join([said, *self.elsewhere, *errors])


def _worse(records: Sequence[TestRecord]) -> Iterator[str]:
    """Yield the causes where many tests fail: they are often one or two."""
    if (failing := sum(record.fails for record in records)) < _MANY:
        return
    worse = [cause for cause in causes_of(records) if cause.is_worse]
    yield f"{failing} failing tests, by cause:"
    for cause in worse[:_CAUSES]:
        what = [f"{'+' * (cause.calls > 0)}{plural(cause.calls, 'call')}"] if cause.calls else []
        what += [each for each in cause.changes if not (what and each in OF_MORE_CALLS)]
        most = "" if cause.has_one_line else "most "
        for line in [each.line for each in cause.lines[:1]]:
            what.append(f"{most}from {line.location}" + (f" in {line.function}" if line.function else ""))
        yield f"  {cause.title} in {plural(len(cause.tests), 'test')}: {', '.join(what)}"
    if len(worse) > _CAUSES:
        yield f"  ... and {plural(len(worse) - _CAUSES, 'more cause')}"


def _counted(records: Sequence[TestRecord], settings: Settings, verbosity: int) -> str:
    """Return the line that counts the tests by status, and says if all that was compared are counts."""
    ok = sum(record.status is Status.OK for record in records)
    parts = [f"{plural(len(records), 'test')} measured", f"{ok} ok", *counted(records, settings.against)]
    if timed := sum(map(_has_only_time, records)):
        python = "" if settings.python else "--opprof-python compares Python calls; "
        hint = f" ({python}opprof backends: which ops are seen)" if timed == len(records) else ""
        parts.append(f"{timed} by time alone{hint}")
    if would_fail := sum(bool(record.reported) for record in records):
        parts.append(f"{would_fail} would fail without --opprof-report-only")
    judged = {window.times_judged for record in records for window in record.windows}
    if False in judged and True not in judged:
        coarsely = any(window.coarsely for record in records for window in record.windows)
        parts.append("times judged coarsely" if coarsely else "no times judged")
    shown = [_unseen(record) if verbosity == -1 else [] for record in records]
    remarked = sum(len(record.each_remark) > len(told) for record, told in zip(records, shown))
    if verbosity < 0 and remarked:
        parts.append(f"remarks on {plural(remarked, 'test')} (shown without -q)")
    return f"opprof: {', '.join(parts)}"


def _unseen(record: TestRecord) -> list[tuple[str, str]]:
    """Return the remarks on processes whose ops are not seen, with the titles of their windows."""
    texts = {each.text for window in record.windows for each in window.remarks if each.about == "processes"}
    return [(title, text) for title, text in record.each_remark if text in texts]


def _has_only_time(record: TestRecord) -> bool:
    """Return True if no op ran, and nothing else was counted that a round of its own counts."""
    counted = any(
        FACTS[name].needs in ("python", "leaks", "host memory") for window in record.windows for name in window.facts
    )
    return bool(record.windows) and not counted and not any(window.ops for window in record.windows)


def _remarks(records: Sequence[TestRecord], verbosity: int) -> Iterator[str]:
    """Yield the tables and remarks of tests; those that several share once, of a backend or of the same change.

    Of remarks that differ in their numbers alone, the first few and the number of the others; all with *verbosity*.
    """
    of_test = [{text for _, text in record.each_remark} for record in records]
    shared = {text for text, tests in Counter(text for texts in of_test for text in texts).items() if tests > 1}
    alike = Counter[str]()
    for record in records:
        if record.table:
            yield from ["", record.id, *record.table]
        for title, text in record.each_remark:
            if text not in shared:
                kind = _NUMBER.sub("", text)
                alike[kind] += 1
                if verbosity > 0 or alike[kind] <= _ALIKE:
                    yield f"{title}: {text}"
    if more := sum(max(remarks - _ALIKE, 0) for remarks in alike.values() if verbosity <= 0):
        yield f"... and {plural(more, 'more remark')} like the ones above, with other numbers (-v shows all)"
    yield from _grouped([each for record in records for each in record.each_remark if each[1] in shared], verbosity)


def _grouped(reasons: Iterable[tuple[str, str]], verbosity: int) -> Iterator[str]:
    """Yield a line for each reason, with the titles of the windows it holds for; with *verbosity*, each on a line."""
    by_reason: dict[str, list[str]] = {}
    for title, reason in reasons:
        by_reason.setdefault(reason, []).append(title)
    for reason, titles in by_reason.items():
        if verbosity > 0 and len(titles) > 3:
            yield f"{reason}:"
            yield from (f"  {title}" for title in titles)
        else:
            yield f"{reason}: {listed(titles)}"
