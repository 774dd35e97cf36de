"""``opprof diff``: any two of saved profile, run (``--opprof-json``) and baseline file."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import TraceError, UsageError
from ...machine.ranks import MANY
from ...report.colours import TextLine, show
from ...report.tables import Style, Table, document, json, style_of
from ...units import plural
from ..inputs import reading
from ..inputs.reading import Asked
from ..inputs.remote import location
from . import whole

if TYPE_CHECKING:
    from ...results.judged_window import JudgedWindow
    from ...verdict.diff import Diff
    from .sides import Side

Windows = Mapping[tuple[str, str], "JudgedWindow"]
"""By test and name; two profiles have one."""
_RECORDED: Mapping[str, tuple[str, str]] = {
    "python": ("calls of Python functions", "--opprof-python"),
    "leaks": ("leaks", "--opprof-leaks"),
    "memory": ("sizes of allocations", "--opprof-memory"),
    "host memory": ("peaks of the host's memory", "--opprof-memory"),
}
"""The quantities of each extra recording, and the flag that asks for it."""
_WHAT = (
    "compare two saved profiles, runs (--opprof-json) or baseline files; exit 1 if the second is worse, 2 if opprof"
    " cannot judge it"
)


_SO_MAY_OPS = "ops and times may differ because of that, not because the program changed"


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser("diff", help=_WHAT, description=_WHAT)
    # Called files, not base and now: which is which follows from their number, and from --now.
    parser.add_argument(
        "files",
        type=location,
        nargs="+",
        metavar="FILE",
        help="the file before, and the file now; one alone: other steps of the same profile",
    )
    parser.add_argument(
        "--now",
        type=location,
        nargs="+",
        metavar="RUN.json",
        help="the shards of the run now, after the shards before",
    )
    reading.add_source(parser)
    reading.add_on(parser)
    add_argument = parser.add_argument
    add_argument("--base-steps", metavar="STEPS", help="other steps of the profile before")
    add_argument("--base-rank", "--against-rank", metavar="N", help="another rank of the profile before")
    add_argument("--base-stage", metavar="NAME", help="another stage of the graphs before")
    add_argument("--test", metavar="ID", help="which test of a run or baseline to compare with a profile")
    add_argument("--window", metavar="NAME", default="body", help="which of its windows (default: body)")
    add_argument("--tolerance", metavar="PERCENT", help="report slowdowns above PERCENT (default: 13%%, profiles 10%%)")
    add_argument("--op-tolerance", metavar="PERCENT", help="the same for a single op (default: 25%%, profiles 10%%)")
    add_argument("--floor", metavar="TIME", help="ignore changes below TIME (default: 2 us, profiles 20 us)")
    add_argument("--ignore-noise", action="store_true", help="also compare rounds that waited for a CPU")
    add_argument(
        "--by",
        choices=("type", "name", "dtype", "shape", "site"),
        default="type",
        help="which calls are one op (default: type)",
    )
    add_argument("-t", "--top", type=int, metavar="K", help="show K unchanged ops (default: 5, profiles 10)")
    add_argument("--format", choices=("table", "markdown", "json"), default="table")
    add_argument("-o", "--output", type=Path, metavar="FILE.html", help="write an HTML page instead")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    """Compare the two; return whether the second is worse."""
    # Imported here, with NumPy behind it: to show a profile needs none of it.
    from .windows import judged

    if arguments.output:
        reading.check_page(arguments)
    base, now = _sides(arguments)
    base, now = base.beside(now), now.beside(base)
    windows = judged(base, now, arguments)
    if "profile" in (base.kind, now.kind):
        (window,) = windows.values()
        shown: _OfProfiles | _OfRuns = _OfProfiles(base, now, window, arguments)
    else:
        shown = _OfRuns(base, now, windows, arguments)
    if arguments.output:
        shown.write_page(arguments.output)
    elif arguments.format == "json":
        print(document(shown.plain()))
    else:
        show(shown.lines(style_of(arguments.format)))
    return shown.is_worse()


def _sides(arguments: argparse.Namespace) -> tuple[Side, Side]:
    """Return the side before and the side now. Raises UsageError for options that they do not take."""
    from .sides import sides

    before, after = _files(arguments)
    alone = not after
    pairs = [(arguments.base_steps, arguments.steps), (arguments.base_rank, arguments.rank)]
    if alone and all(None in pair for pair in pairs) and arguments.base_stage is None:
        raise UsageError(
            f"{before[0]}: nothing to compare it with. Name another file, or two steps of this one, such as"
            " --base-steps 8 --steps 9, or two ranks: --base-rank 0 --rank 1, or two stages of a graph:"
            " --base-stage validate --stage execute"
        )
    asked = Asked.of(arguments, sites=arguments.by == "site", quiet=alone)
    rank, steps = arguments.base_rank or arguments.rank, arguments.base_steps or arguments.steps
    before_asked = replace(asked, rank=rank, steps=steps, stage=arguments.base_stage or arguments.stage, quiet=False)
    base, now = sides(before, before_asked, arguments.by), sides(after or before, asked, arguments.by)
    kinds = {base.kind, now.kind}
    if not kinds <= {"profile", "ranks"} and arguments.by != "type":
        raise UsageError(f"--by {arguments.by}: only profiles tell ops apart so; a run or a baseline has canonical ops")
    if "ranks" in kinds and len(kinds) > 1:
        raise UsageError("--rank all: each rank is compared with the same rank of another folder, or in other steps")
    for flag in ("steps", "rank", "stage", "base_steps", "base_rank", "base_stage", "on"):
        if kinds.isdisjoint(("profile", "ranks")) and getattr(arguments, flag) is not None:
            raise UsageError(f"--{flag.replace('_', '-')}: is for profiles, not for runs and baselines")
    return base, now


def _files(arguments: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    """Return the files of the side before, and of the side now. Raises UsageError where that is not clear."""
    if arguments.now or len(arguments.files) == 1:
        return arguments.files, arguments.now or []
    if len(arguments.files) > 2:
        raise UsageError(
            f"{len(arguments.files)} files: which were before? Of runs that are in several files, name the ones that"
            " are now by --now: opprof diff main-*.json --now run-*.json"
        )
    return arguments.files[:1], arguments.files[1:]


@dataclass(frozen=True, slots=True)
class _OfProfiles:
    """A profile beside another one, or beside a window of a run or baseline: one window, told whole."""

    base: Side
    now: Side
    window: JudgedWindow
    arguments: argparse.Namespace

    @property
    def diff(self) -> Diff:
        """The comparison of the window."""
        assert self.window.diff is not None
        return self.window.diff

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        sides = {"base": self.base, "now": self.now}
        both: dict[str, Any] = {
            name: {"source": side.told, "environment": self._environment(side)} for name, side in sides.items()
        }
        if self.base.whole and self.now.whole:
            for name, side in sides.items():
                if side.whole:
                    both[name] |= {"step": side.whole.step, "times": dict(side.whole.times)}
            both["why"] = self._whole()[1] or None
        return {**both, **_plain(self.diff)}

    def write_page(self, path: Path) -> None:
        """Write the page of the comparison."""
        from ...report.html import diff_page, page

        sides = [
            diff_page.Compared(
                str(side.path),
                side.told,
                numbers.environment.environment.full,
                numbers.environment.environment.device,
                numbers.rounds,
                side.whole.step if side.whole else "",
            )
            for side in (self.base, self.now)
            for numbers in (side.only(self.arguments.test, self.arguments.window).numbers,)
        ]
        cut = [
            f"{side.path}: was read in part (--partial): the rest is missing"
            for side in (self.base, self.now)
            if side.is_cut
        ]
        page.write(path, diff_page.html(sides[0], sides[1], self.diff, cut), "-o")

    def lines(self, style: Style) -> Iterator[TextLine]:
        """Yield the lines for people."""
        # Imported here, with NumPy behind it.
        from ...report.op_table import table

        before, after = self._environment(self.base), self._environment(self.now)
        yield TextLine(style.write(f"{self.base.told}  [{before}] -> {self.now.told}  [{after}]"))
        if before != after:
            yield TextLine(f"the environments differ: {_SO_MAY_OPS}")
        yield from (TextLine(style.write(f"  {finding}"), "worse") for finding in self.window.findings)
        yield from (TextLine(style.write(f"  {better}"), "better") for better in self.diff.improvements())
        times, why = self._whole()
        yield from [TextLine(""), *style.lines(times)] if times else []
        yield from [TextLine(why)] if why else []
        yield TextLine("")
        if max(side.rounds(self.arguments.test, self.arguments.window) for side in (self.base, self.now)) > 1:
            yield TextLine(
                "each op has the calls of the step with most, and the time of its fastest step (--steps chooses steps)"
            )
        top = 10 if self.arguments.top is None else self.arguments.top
        yield from table(self.window, top, every_op=top == 0, style=style, more="-t 0 shows them")
        yield TextLine(f"verdict: {self.diff.worst.word}")
        if self.diff.timing.base is None and self.diff.timing.now is None:
            yield TextLine("(the verdict is about calls: neither profile has times)")

    def is_worse(self) -> bool:
        """Tell whether the second is worse. Raises TraceError and UsageError where nobody can tell."""
        worse = bool(self.diff.worse)
        if self.base.is_cut or (self.now.is_cut and not worse):
            raise TraceError("a file was read in part, so opprof cannot tell whether the second profile is worse")
        if self.diff.times and not worse:
            raise UsageError(
                f"the times were not compared, so opprof cannot tell whether they are worse: {self.diff.times}"
            )
        return worse

    def _environment(self, side: Side) -> str:
        return side.only(self.arguments.test, self.arguments.window).numbers.environment.environment.full

    def _whole(self) -> tuple[Table | None, str]:
        """Return the times of a step as a whole on both sides, and why it takes longer, if it does."""
        if not self.base.whole or not self.now.whole:
            return None, ""
        total = self.diff.tolerances
        limits = total.floor_ns, total.tolerance
        return (
            whole.table(self.base.whole, self.now.whole, *limits),
            whole.reason(self.base.whole, self.now.whole, *limits),
        )


@dataclass(frozen=True, slots=True)
class _OfRuns:
    """Two runs or baselines, or the ranks of two folders: the windows that both have, as a run tells them."""

    base: Side
    now: Side
    windows: Windows
    arguments: argparse.Namespace

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        found = [
            {"test": test, "window": name, **_plain(window.diff)}
            for (test, name), window in self.windows.items()
            if window.diff
        ]
        only = {
            f"only_in_{name}": [{"test": test, "window": window} for test, window in keys]
            for name, (_, keys) in zip(("base", "now"), self._only())
        }
        environments = self._environments()
        across = {"environments": [list(each) for each in environments]} if environments else {}
        remarks = {"remarks": alone} if (alone := list(self._recorded_alone())) else {}
        return {"base": str(self.base.path), "now": str(self.now.path), **across, **remarks, "windows": found, **only}

    def write_page(self, path: Path) -> None:
        """Write the page of the comparison: the page of a run."""
        from ...report.html import page, run_page
        from ...results.run_result import run_of
        from ...results.test_result import TestRecord, status
        from ...results.window_result import titled

        tests: dict[str, list[JudgedWindow]] = {}
        for (test, _), window in self.windows.items():
            tests.setdefault(test, []).append(window)
        records = [
            TestRecord(
                id=test,
                outcome="failed" if any(window.findings for window in found) else "passed",
                status=status(found),
                windows=[
                    window.result(self.now.windows[test, window.name].machine, parallel=False, compared=True)
                    for window in found
                ],
            )
            for test, found in tests.items()
        ]
        only = [f"{titled(*key)} is only in {path}" for path, keys in self._only() for key in keys]
        doubts = [
            f"the environments differ: {before} -> {after}: {_SO_MAY_OPS}" for before, after in self._environments()
        ]
        doubts += self._recorded_alone()
        run = run_of(records, [], interrupted=False, against=str(self.base.path))
        page.write(path, run_page.html(run, only, doubts), "-o")

    def lines(self, style: Style) -> Iterator[TextLine]:
        """Yield the lines for people."""
        # Imported here, with NumPy behind them.
        from ...report.failure import Shown, failure
        from ...results.test_result import in_words, status
        from ...results.window_result import titled
        from ...verdict.verdicts import Status, Verdict

        for before, after in self._environments():
            yield TextLine(style.write(f"the environments differ: {before} -> {after}: {_SO_MAY_OPS}"))
        top = 5 if self.arguments.top is None else self.arguments.top
        shown = Shown(top=top, every_op=top == 0, more="-t 0 shows them", style=style)
        left_out = self._left_out(top)
        for (test, _), window in self.windows.items():
            title = titled(test, window.name)
            if test in left_out:
                continue
            if window.findings:
                yield from [*failure(test, [window], None, shown), TextLine("")]
            elif window.verdict is Verdict.NOISY:
                yield TextLine(style.write(f"{title}: {window.verdict.value}: {window.untimed}"))
            elif window.untimed:
                yield TextLine(style.write(f"{title}: times not compared: {window.untimed}"))
            yield from (TextLine(style.write(f"{title}: {line}")) for line in window.remarks)
        if left_out:
            names = ", ".join(left_out[:MANY]) + (", ..." if len(left_out) > MANY else "")
            yield TextLine(
                style.write(f"{plural(len(left_out), 'more rank')} with findings (-t 0 shows them): {names}")
            )
        for path, keys in self._only():
            yield from (TextLine(style.write(f"only in {path}: {titled(*key)}")) for key in keys)
        yield from (TextLine(style.write(line)) for line in self._recorded_alone())
        counts = Counter(status([window]) for window in self.windows.values())
        judged = sum(window.times_judged for window in self.windows.values())
        what = "rank" if self.now.kind == "ranks" else "window"
        total = f"{plural(len(self.windows), what)} compared, {judged} by time, {counts[Status.OK]} ok"
        yield TextLine(f"opprof: {', '.join([total, *in_words(counts)])}")

    def is_worse(self) -> bool:
        """Tell whether the second is worse. Raises TraceError and UsageError where nobody can tell."""
        from ...verdict.verdicts import Verdict

        windows = self.windows.values()
        worse = any(window.findings for window in windows)
        if self.base.is_cut or (self.now.is_cut and not worse):
            raise TraceError("a rank was not read, or in part, so opprof cannot tell whether the ranks are worse")
        untimed = [f"{test}: {window.untimed}" for (test, _), window in self.windows.items() if window.untimed]
        if self.now.kind == "ranks" and untimed and not worse:
            raise UsageError(f"{len(untimed)} ranks have no times that can be compared; the first is {untimed[0]}")
        if not worse and all(window.untimed and window.verdict is Verdict.INCOMPARABLE for window in windows):
            raise UsageError("no times could be compared, so opprof cannot tell whether the second run is slower")
        return worse

    def _left_out(self, top: int) -> list[str]:
        """Return the ranks that are worse, too, but of more than *top* are only named."""
        if self.now.kind != "ranks" or not top:
            return []
        return [test for (test, _), window in self.windows.items() if window.findings][top:]

    def _only(self) -> list[tuple[Path, list[tuple[str, str]]]]:
        """Return the windows that only one side has, of each side."""
        both = ((self.base, self.now), (self.now, self.base))
        return [(side.path, sorted(side.windows.keys() - other.windows.keys())) for side, other in both]

    def _recorded_alone(self) -> Iterator[str]:
        """Yield a line for the extra recordings that only one of two windows has, so that nothing compares them."""
        # Imported here, with NumPy behind them.
        from ...results.window_result import titled
        from ...verdict.quantities import FACTS

        alone: dict[tuple[Path, tuple[str, ...]], list[str]] = {}
        for key in self.windows:
            before, now = (
                {FACTS[name].needs for name in side.windows[key].entry.facts} - {""} for side in (self.base, self.now)
            )
            for path, needs in ((self.base.path, before - now), (self.now.path, now - before)):
                if needs:
                    alone.setdefault((path, tuple(sorted(needs))), []).append(titled(*key))
        for (path, recordings), titles in alone.items():
            more = f" and {plural(len(titles) - 1, 'more window')}" if len(titles) > 1 else ""
            quantities = ", ".join(_RECORDED[each][0] for each in recordings)
            flags = list(dict.fromkeys(_RECORDED[each][1] for each in recordings))
            records = f"{' and '.join(flags)} record{'s' if len(flags) == 1 else ''} them"
            yield f"{titles[0]}{more}: {quantities} not compared, only {path} has them ({records})"

    def _environments(self) -> list[tuple[str, str]]:
        """Return the environments of both sides where these differ, each pair once."""
        sides = [
            [side.windows[key].numbers.environment.environment.full for key in self.windows]
            for side in (self.base, self.now)
        ]
        return [pair for pair in dict.fromkeys(zip(*sides)) if pair[0] != pair[1]]


def _plain(diff: Diff) -> dict[str, Any]:
    # Imported here, with NumPy behind it.
    from ...report.op_table import changes

    return {
        "verdict": diff.worst.word,
        "times_not_judged": diff.times or None,
        "total": json(changes(diff, [diff.total]))[0],
        "rows": json(changes(diff, diff.rows)),
    }
