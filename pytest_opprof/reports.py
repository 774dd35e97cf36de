"""What people read: a failing test's message and table, and the lines at the end of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .baselines import OUTSIDE, Calls
from .budgets import Finding
from .compare import Diff, Row
from .environment import Environment
from .judge import LEAST_ROUNDS, Verdict
from .kernels import KernelStats
from .model import ALWAYS, OpProfile
from .samples import Run
from .units import format_ns, format_share, plural

BODY = "body"
"""The name of the window that is a test's whole body."""
_COLD = "measured once, cold; with opprof(rounds=10) the fastest round counts, after a warm-up"
_RAISE = "raise the limit in its op_budget mark"
DEPENDS = "so that depends on what ran before"
_CAUSES = 3
_ROUNDED = 0.05
"""Below this share of a change, what no op explains is left out."""


@dataclass(frozen=True, slots=True)
class WindowReport:
    """One measured window: what it did, which limits it broke, and what changed since its baseline."""

    name: str
    profile: OpProfile
    budget: Sequence[Finding] = ()
    diff: Diff | None = None
    no_baseline: str = ""
    """Why there is nothing to compare with; empty where there is, or where nobody asked."""
    runs: tuple[Run, ...] = ()
    """What each process timed: this one, and others if the test was measured again."""
    accepted: bool = False
    """Whether this run takes what it measured as the baseline: then no change is a regression."""
    unseen: str = ""
    """Why fewer calls than in the baseline may be calls that were not seen."""
    looked: str = ""
    """What a fresh process says of more calls than in the baseline, where it was asked."""
    excused: str = ""
    """Why more calls than in the baseline are no regression."""

    @property
    def verdict(self) -> Verdict:
        """The verdict against the baseline."""
        if self.diff is None:
            return Verdict.NO_BASELINE if self.no_baseline else Verdict.OK
        # Nobody expects the times of a few rounds to be compared: there equal calls are all there is to be right.
        few = self.diff.verdict is Verdict.INCOMPARABLE and not self.untimed
        if self.unseen and not self.accepted:
            return Verdict.UNSEEN
        return Verdict.OK if self.accepted or self.excused or few else self.diff.verdict

    @property
    def more_calls(self) -> list[str]:
        """The ops with more calls than in the baseline, where that was neither accepted nor excused."""
        return self.diff.more_calls if self.diff and not (self.accepted or self.excused) else []

    @property
    def regressions(self) -> list[Finding]:
        """What is worse than the baseline, and was not accepted."""
        if self.diff is None or self.accepted:
            return []
        lost = [Finding(Verdict.UNSEEN.value, None, self.unseen, Verdict.UNSEEN.value)] if self.unseen else []
        return [*lost, *([] if self.excused else self.diff.findings())]

    @property
    def remarks(self) -> list[str]:
        """What to say of a test that passes: the backend's words, improvements, and changes that were accepted."""
        of_rounds = list(_of_rounds(self.profile))
        if self.diff is None:
            return of_rounds
        if self.excused:
            said = "; ".join(map(str, self.diff.findings()))
            return [*of_rounds, f"{said}; but {self.excused}, {DEPENDS}"]
        return [*of_rounds, *map(str, self.diff.findings() if self.accepted else ()), *self.diff.improvements()]

    @property
    def untimed(self) -> str:
        """Why times were not judged though there were enough rounds; empty where they were, or nobody expects it."""
        if self.diff is None or self.profile.steps < LEAST_ROUNDS:
            return ""
        if self.excused:
            return "its calls changed"
        if self.diff.verdict.is_regression:
            return ""
        return "; ".join(filter(None, [self.diff.times, self.diff.seen]))

    @property
    def times_judged(self) -> bool:
        """Whether times were compared with a baseline's."""
        return self.diff is not None and not self.diff.times

    @property
    def findings(self) -> list[Finding]:
        """Everything that fails the test."""
        return [*self.budget, *self.regressions]


def failure(
    test: str, windows: Sequence[WindowReport], top: int, every_op: bool, accept: str, more: str = "-v shows them"
) -> str:
    """Return the message of a failing test: what broke, then the table of each window that did.

    *top* ops are shown beside those that broke something, or *every_op*; *accept* is the command that takes the new
    state as the baseline, empty for a profile that was not measured here.
    """
    broken = [window for window in windows if window.findings]
    lines = []
    for window in broken:
        what = "op budget exceeded" if window.budget else "op regression"
        lines.append(f"{what}: {titled(test, window.name)}  [{window.profile.environment}]")
        lines += [f"  {finding}" for finding in window.findings]
        lines += [f"  ({window.looked})"] if window.looked else []
        if accept and window.profile.steps == 1 and any(finding.is_about_time for finding in window.budget):
            lines.append(f"  ({_COLD})")
    for window in broken:
        lines += ["", *table(window, top, every_op, more=more)]
    if accept and broken:
        steps = [_RAISE] if any(window.budget for window in broken) else []
        steps += [accept] if any(window.regressions for window in broken) else []
        lines += ["", f"if this is meant: {', then '.join(steps)}"]
    return "\n".join(lines)


def cause(windows: Iterable[WindowReport]) -> str:
    """Return in a few words why a test fails."""
    causes = list(dict.fromkeys(each.cause for window in windows for each in window.findings if each.cause))
    more = f" and {len(causes) - _CAUSES} more" if len(causes) > _CAUSES else ""
    return ", ".join(causes[:_CAUSES]) + more


def table(
    window: WindowReport, top: int, every_op: bool, style: str = "simple", more: str = "-v shows them"
) -> list[str]:
    """Return the op table of a window, the most damaging first, with its total below.

    *style* is one of tabulate's; *more* says how to see the ops that are left out.
    """
    rows = _rows(window)
    shown = [cells for index, (cells, told) in enumerate(rows) if every_op or index < top or told]
    lines = [f"window {window.name}, {plural(window.profile.steps, 'round')}:"] if window.name != BODY else []
    lines += _text(_headers(window), shown, style).splitlines()
    if len(shown) < len(rows):
        lines.append(f"... and {len(rows) - len(shown)} more ops ({more})")
    return [*lines, *_total(window)]


def kernels(found: Sequence[KernelStats], top: int) -> list[str]:
    """Return the table of what ran on devices, the *top* most expensive rows; nothing where nothing did."""
    # Imported here, with all questions to saved profiles behind it: only this table needs it.
    from .listing import shapes_text, short

    several = len({stats.device for stats in found}) > 1
    rows = [
        [
            short(stats.kernel),
            stats.op,
            str(Calls(stats.fewest_calls, stats.most_calls)),
            _time(stats.fastest_ns),
            " x ".join(shapes_text([shape]) for shape in (stats.grid, stats.block) if shape) or "-",
            (f"GPU {stats.device}: " if several else "") + (", ".join(map(str, stats.streams)) or "-"),
        ]
        for stats in found[:top]
    ]
    if not rows:
        return []
    lines = _text(["kernel", "op", "calls", "device time", "grid x block", "stream"], rows, "simple").splitlines()
    left_out = len(found) - len(rows)
    return ["", *lines, *([f"... and {left_out} more kernels (--opprof-json has them)"] if left_out else [])]


def _headers(window: WindowReport) -> list[str]:
    if window.diff is None:
        return ["op", "calls", "device time", "share", "verdict"]
    if window.diff.total.base_ns is None:
        return ["op", "calls (base -> now)", "device time", "verdict"]
    return ["op", "calls (base -> now)", "device time (base -> now)", "change", "verdict"]


def _rows(window: WindowReport) -> list[tuple[list[str], bool]]:
    """Return the cells of each row, and whether something became of its op."""
    over = {finding.op for finding in window.budget}
    if window.diff:
        diff_rows = sorted(window.diff.rows, key=lambda row: row.op not in over)
        timed = window.diff.total.base_ns is not None
        return [(_diff_row(row, row.op in over, timed), row.op in over or row.verdict.is_change) for row in diff_rows]
    total = window.profile.total.fastest_ns
    ops = sorted(window.profile.ops, key=lambda stats: stats.op not in over)
    return [
        (
            [
                stats.op,
                str(Calls(stats.fewest_calls, stats.most_calls)),
                _time(stats.fastest_ns if stats.device_ns else None),
                format_share(stats.fastest_ns / total) if total and stats.device_ns else "-",
                "over budget" if stats.op in over else "",
            ],
            stats.op in over,
        )
        for stats in ops
    ]


def _diff_row(row: Row, over: bool, timed: bool) -> list[str]:
    """Return the cells of a row; *timed*: whether there are times to compare with."""
    became = row.verdict.value if row.verdict.is_change else row.why
    said = ", ".join(filter(None, ["over budget" if over else "", became]))
    times = [_arrow(_time(row.base_ns), _time(row.now_ns)), row.change] if timed else [_time(row.now_ns)]
    return [
        row.op,
        "-" if row.op == OUTSIDE else _arrow(_calls(row.base_calls), _calls(row.now_calls)),
        *times,
        said or (Verdict.OK.value if row.verdict is Verdict.OK else ""),
    ]


def _total(window: WindowReport) -> list[str]:
    """Return the lines about the whole window, with its change split into more calls and slower calls."""
    if not window.diff or window.diff.total.base_ns is None or window.diff.total.now_ns is None:
        lines = [
            f"total device time: {_time(window.profile.total.fastest_ns if window.profile.total.device_ns else None)}"
        ]
    else:
        total = window.diff.total
        what = "total time" if window.diff.wall else "total device time"
        lines = [f"{what}: {total.times}{_split(window.diff, total.change_ns)}"]
    lines += _busy(window.profile)
    if window.diff and window.diff.times:
        lines.append(f"times are shown, not judged: {window.diff.times}")
    if window.diff and window.diff.top_change:
        lines.append(window.diff.top_change)
    return lines


def _busy(profile: OpProfile) -> list[str]:
    """Return the line about the fastest round of a device that did several things at once."""
    if not profile.busy_ns or not profile.total.device_ns:
        return []
    total_ns, busy_ns = min(zip(profile.total.device_ns, profile.busy_ns))
    return [f"busy time: {format_ns(busy_ns)}, ops overlap"] if busy_ns < (1 - _ROUNDED) * total_ns else []


def _split(diff: Diff, change_ns: int) -> str:
    if diff.calls_vary:
        return ", not split into more and slower calls: their number varies"
    ops = [row for row in diff.rows if row.op != OUTSIDE]
    in_ops, by_calls = sum(row.change_ns for row in ops), sum(row.from_calls_ns for row in ops)
    by_speed = in_ops - by_calls
    outside = sum(row.change_ns for row in diff.rows) - in_ops
    # Each op was fastest in a round of its own.
    rest = change_ns - in_ops - outside
    parts = [
        (by_calls, "more calls", "fewer calls"),
        (by_speed, "slower calls", "faster calls"),
        (outside, "outside ops", "outside ops"),
        (rest if abs(rest) > _ROUNDED * abs(change_ns) else 0, "all the rest", "all the rest"),
    ]
    said = [_signed(*part) for part in parts if part[0]]
    return f": {', '.join(said)}" if said else ""


def _signed(ns: int, costs: str, saves: str) -> str:
    return f"{'+' if ns >= 0 else '-'}{format_ns(abs(ns))} from {costs if ns >= 0 else saves}"


def _text(headers: Sequence[str], rows: Iterable[Sequence[str]], style: str) -> str:
    # Imported here: 20 ms that only a printed table should pay.
    from tabulate import tabulate

    return tabulate(rows, headers=headers, tablefmt=style, disable_numparse=True)


def _arrow(before: str, now: str) -> str:
    return now if before == now else f"{before} -> {now}"


def _calls(calls: Calls | None) -> str:
    return str(calls) if calls else "0"


def _time(ns: int | None) -> str:
    return "-" if ns is None else format_ns(ns)


def titled(test: str, window: str) -> str:
    """Return how to name a window of a test."""
    return test if window == BODY else f"{test} window {window}"


def no_baseline(environment: Environment, others: Sequence[str]) -> str:
    """Return the reason for `Verdict.NO_BASELINE`, naming the environments that do have one."""
    there = f" (there is one for {'; '.join(others)})" if others else ""
    return f"no baseline for {environment.full}{there}"


def _of_rounds(profile: OpProfile) -> Iterator[str]:
    """Yield what the backend said; of rounds only where there are several: one, cold, may be anything."""
    yield from dict.fromkeys(text for step, text in profile.remarks if step == ALWAYS)
    rounds = defaultdict[str, list[int]](list)
    for step, text in profile.remarks if profile.steps > 1 else ():
        if step != ALWAYS:
            rounds[text].append(step + 1)
    for text, numbers in rounds.items():
        yield f"in {len(numbers)} of {profile.steps} rounds (first in round {min(numbers)}) {text}"
