"""``opprof diff``: any two of saved profile, run (``--opprof-json``) and baseline file."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TraceError, UsageError
from ..escaping import terminal, writer
from ..python_calls.names import other_versions
from ..report import listing
from ..report.colours import painted
from ..units import parse_duration, parse_share, plural
from . import diff_whole, reading
from .remote import location

if TYPE_CHECKING:
    from ..results.judged_window import JudgedWindow
    from ..verdict.compare import Diff
    from ..verdict.stored_rule import Rule
    from ..verdict.verdicts import TimingVerdict
    from .diff_sides import Kept, Side

_WHAT = (
    "compare two of saved profiles, runs (--opprof-json) and baseline files; exit 1 when the second is worse, 2 when"
    " nobody can tell"
)


_SO_MAY_OPS = "so may ops and times, for no fault of the program"


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser("diff", help=_WHAT, description=_WHAT)
    # Called files, not base and now: which is which follows from their number, and from --now.
    parser.add_argument(
        "files",
        type=location,
        nargs="+",
        metavar="FILE",
        help="what was before, and what is now; one alone: other steps of the same profile",
    )
    parser.add_argument(
        "--now",
        type=location,
        nargs="+",
        metavar="RUN.json",
        help="the shards of the run that is now, after those before",
    )
    reading.add_source(parser)
    add_argument = parser.add_argument
    add_argument("--base-steps", metavar="STEPS", help="other steps of the profile before")
    add_argument("--base-rank", "--against-rank", metavar="N", help="another rank of the profile before")
    add_argument("--base-stage", metavar="NAME", help="another stage of the graphs before")
    add_argument("--test", metavar="ID", help="which test of a run or baseline to compare with a profile")
    add_argument("--window", metavar="NAME", default="body", help="which of its windows (default: body)")
    add_argument("--tolerance", metavar="PERCENT", help="how much slower is slower (default: 13%%, profiles 10%%)")
    add_argument("--op-tolerance", metavar="PERCENT", help="the same of a single op (default: 25%%, profiles 10%%)")
    add_argument("--floor", metavar="TIME", help="a smaller change is none (default: 2 us, profiles 20 us)")
    add_argument("--ignore-noise", action="store_true", help="let rounds of a run that waited for a CPU count, too")
    add_argument(
        "--by",
        choices=("type", "name", "dtype", "shape", "site"),
        default="type",
        help="what an op is (default: type)",
    )
    add_argument("-t", "--top", type=int, metavar="K", help="unchanged ops to show (default: 5, profiles 10)")
    add_argument("--format", choices=("table", "markdown", "json"), default="table")
    add_argument("-o", "--output", type=Path, metavar="FILE.html", help="write a page to read in a browser instead")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    """Compare the two; return whether the second is worse."""
    # Imported here, with NumPy behind it: to show a profile needs none of it.
    from .diff_sides import sides

    if arguments.output:
        from ..report.html import page

        page.check_name(arguments.output, "-o")
        if arguments.format != "table" or arguments.top is not None:
            raise UsageError(f"-o {arguments.output}: the page has all ops: leave out --format and --top")
    before, after = _files(arguments)
    rank, steps = arguments.base_rank or arguments.rank, arguments.base_steps or arguments.steps
    alone = not after
    pairs = [(arguments.base_steps, arguments.steps), (arguments.base_rank, arguments.rank)]
    if alone and all(None in pair for pair in pairs) and arguments.base_stage is None:
        raise UsageError(
            f"{before[0]}: compare it with what? Name another file, or two steps of this one, such as"
            " --base-steps 8 --steps 9, or two ranks: --base-rank 0 --rank 1, or two stages of a graph:"
            " --base-stage validate --stage execute"
        )
    base = sides(arguments, before, rank, steps, stage=arguments.base_stage)
    now = sides(arguments, after or before, arguments.rank, arguments.steps, quiet=alone)
    kinds = {base.kind, now.kind}
    if kinds != {"profile"} and arguments.by != "type":
        raise UsageError(f"--by {arguments.by}: only profiles tell ops apart so; a run or a baseline has canonical ops")
    if "profile" in kinds:
        return _profiles(arguments, base, now)
    for flag in ("steps", "rank", "stage", "base_steps", "base_rank", "base_stage"):
        if getattr(arguments, flag) is not None:
            raise UsageError(f"--{flag.replace('_', '-')}: is for profiles, not for runs and baselines")
    return _windows(arguments, base, now)


def _files(arguments: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    """Return the files of what was before, and of what is now. Raises UsageError where nobody can tell."""
    if arguments.now or len(arguments.files) == 1:
        return arguments.files, arguments.now or []
    if len(arguments.files) > 2:
        raise UsageError(
            f"{len(arguments.files)} files: which were before? Of runs that are in several files, name the ones that"
            " are now by --now: opprof diff main-*.json --now run-*.json"
        )
    return arguments.files[:1], arguments.files[1:]


def _profiles(arguments: argparse.Namespace, base: Side, now: Side) -> bool:
    """Compare a profile with another one, or with a window of a run or baseline."""
    from ..results.judged_window import JudgedWindow
    from ..verdict.compare import compare
    from ..verdict.stored_rule import Rule, judge, unjudged
    from ..verdict.tolerances import Tolerances
    from ..verdict.verdicts import TimingVerdict, Verdict

    before, after = (each.only(arguments.test, arguments.window) for each in (base, now))
    floor_ns = parse_duration(arguments.floor or "20 us", "--floor")
    tolerance = parse_share(arguments.tolerance or "10%", "--tolerance")
    op_tolerance = parse_share(arguments.op_tolerance, "--op-tolerance") if arguments.op_tolerance else tolerance
    tolerances = Tolerances(tolerance, floor_ns, op_tolerance, floor_ns, 0.0025)
    old, new = before.of_ops, after.of_ops
    if not old and not new:
        timing = TimingVerdict(Verdict.OK)  # there are calls alone, and they are compared
    elif not old or not new:
        side, kept = (now, after) if old else (base, before)
        timing = unjudged(
            kept.without_times or f"the {side.kind} {'after' if old else 'before'} has no times", new, old
        )
    elif old[0].rounds != new[0].rounds:
        why = f"the fastest of {old[0].rounds} steps is not that of {new[0].rounds}"
        timing = unjudged(f"{why}; --base-steps and --steps choose as many of each", new, old)
    else:
        timing = judge(old, new, Rule(tolerances, 1, 1, 1))
    facts = before.entry.all_facts, after.entry.all_facts
    diff = compare(before.entry.ops, after.entry.ops, timing, tolerances, facts=facts, then=base.then(now))
    both: dict[str, Any] = {
        key: {"source": side.source or str(side.path), "environment": kept.numbers.environment.environment.full}
        for key, side, kept in (("base", base, before), ("now", now, after))
    }
    whole: list[str] = []
    if base.whole and now.whole:
        for key, side_whole in (("base", base.whole), ("now", now.whole)):
            both[key] |= {"step": side_whole.step, "times": dict(side_whole.times)}
        both["why"] = diff_whole.reason(base.whole, now.whole, floor_ns, tolerance) or None
    if arguments.output:
        _page(arguments.output, (base, before), (now, after), diff)
    elif arguments.format == "json":
        print(listing.document({**both, **_plain(diff)}))
    else:
        style = "github" if arguments.format == "markdown" else "simple"
        top = 10 if arguments.top is None else arguments.top
        steps = max(before.numbers.rounds, after.numbers.rounds)
        if base.whole and now.whole:
            whole = list(diff_whole.text(base.whole, now.whole, floor_ns, tolerance, style))
        for line in _text(both, JudgedWindow(after.numbers, diff=diff), diff, steps, top, style, whole):
            print(painted(terminal(line)))
    worse = any(row.verdict.is_regression for row in (*diff.rows, diff.total))
    if base.is_cut or (now.is_cut and not worse):
        raise TraceError("a file was read in part, so that nobody can tell whether the second profile is worse")
    if diff.times and not worse:
        raise UsageError(f"the times were not compared, so that nobody can tell whether they are worse: {diff.times}")
    return worse


def _page(path: Path, base: tuple[Side, Kept], now: tuple[Side, Kept], diff: Diff) -> None:
    """Write the page of the comparison of two profiles."""
    from ..report.html import diff_page, page

    sides = [
        diff_page.Compared(
            str(side.path),
            side.source or str(side.path),
            environment.full,
            environment.device,
            kept.numbers.rounds,
            side.whole.step if side.whole else "",
        )
        for side, kept in (base, now)
        for environment in (kept.numbers.environment.environment,)
    ]
    cut = [
        f"{side.path}: was read in part (--partial): this is what is there" for side, _ in (base, now) if side.is_cut
    ]
    page.write(path, diff_page.html(sides[0], sides[1], diff, cut), "-o")


def _run_page(
    path: Path,
    base: Side,
    now: Side,
    windows: dict[tuple[str, str], JudgedWindow],
    environments: Sequence[tuple[str, str]],
) -> None:
    """Write the page of the comparison of two runs or baselines: that of a run."""
    from ..report.html import page, run_page
    from ..results.run_result import TestRecord, run_of, status
    from ..results.window_result import titled

    tests: dict[str, list[JudgedWindow]] = {}
    for (test, _), window in windows.items():
        tests.setdefault(test, []).append(window)
    records = [
        TestRecord(
            id=test,
            outcome="failed" if any(window.findings for window in found) else "passed",
            status=status(found),
            windows=[window.result(now.windows[test, window.name].machine, False, True) for window in found],
        )
        for test, found in tests.items()
    ]
    only = [
        f"{titled(*key)} is only in {side.path}"
        for side, other in ((base, now), (now, base))
        for key in sorted(side.windows.keys() - other.windows.keys())
    ]
    doubts = [f"the environments differ: {before} -> {after}: {_SO_MAY_OPS}" for before, after in environments]
    page.write(path, run_page.html(run_of(records, [], False, against=str(base.path)), only, doubts), "-o")


def _text(
    both: dict[str, Any], window: JudgedWindow, diff: Diff, steps: int, top: int, style: str, whole: Sequence[str]
) -> Iterator[str]:
    from ..report.op_table import table

    base, now = both["base"], both["now"]
    write = writer(style)
    yield write(f"{base['source']}  [{base['environment']}] -> {now['source']}  [{now['environment']}]")
    if base["environment"] != now["environment"]:
        yield f"the environments differ: {_SO_MAY_OPS}"
    yield from (write(f"  {finding}") for finding in window.regressions)
    yield from (write(f"  {improvement}") for improvement in diff.improvements())
    yield from whole
    yield ""
    if steps > 1:
        yield "calls are of the step with most, times of the fastest step, each row's own (--steps chooses some)"
    yield from "\n".join(table(window, top, top == 0, style, "-t 0 shows them")).splitlines()
    yield f"verdict: {diff.worst.word}"
    if diff.timing.base is None and diff.timing.now is None:
        yield "(of calls: neither profile has times)"


def _windows(arguments: argparse.Namespace, base: Side, now: Side) -> bool:
    """Compare the windows that two runs or baselines have in common."""
    from ..results.judged_window import JudgedWindow
    from ..results.run_result import WORDS, status
    from ..results.window_result import titled
    from ..verdict.compare import compare_counts_first
    from ..verdict.stored_rule import Rule
    from ..verdict.tolerances import STORED
    from ..verdict.verdicts import Verdict

    top = 5 if arguments.top is None else arguments.top
    tolerances = STORED.with_given(vars(arguments), lambda key: f"--{key.replace('_', '-')}")
    base, now = base.beside(now), now.beside(base)
    windows: dict[tuple[str, str], JudgedWindow] = {}
    diffs: dict[tuple[str, str], Diff] = {}
    for key in (key for key in now.windows if key in base.windows):
        before, after = base.windows[key], now.windows[key]
        timing = _timing(before, after, Rule(tolerances, base=base.called), arguments.ignore_noise)
        diffs[key] = compare_counts_first(
            before.entry.ops,
            after.entry.ops,
            timing,
            tolerances,
            top,
            (before.entry.comparable(after.entry.python).all_facts, after.entry.all_facts),
            base.then(now),
        )
        windows[key] = JudgedWindow(after.numbers, diff=diffs[key])
        if why := other_versions(before.entry.python, after.entry.python):
            windows[key] = windows[key].with_remark(f"calls of Python functions not compared: {why}")
    if not windows:
        raise UsageError(f"{base.path} and {now.path}: have no window of any test in common")
    environments = _other_environments(base, now, windows)
    if arguments.output:
        _run_page(arguments.output, base, now, windows, environments)
    elif arguments.format == "json":
        found = [{"test": test, "window": name, **_plain(diff)} for (test, name), diff in diffs.items()]
        only = {
            f"only_in_{name}": [{"test": test, "window": window} for test, window in sorted(one.keys() - other)]
            for name, one, other in (("base", base.windows, now.windows), ("now", now.windows, base.windows))
        }
        across = {"environments": [list(each) for each in environments]} if environments else {}
        print(listing.document({"base": str(base.path), "now": str(now.path), **across, "windows": found, **only}))
    else:
        style = "github" if arguments.format == "markdown" else "simple"
        for before_in, now_in in environments:
            print(painted(terminal(writer(style)(f"the environments differ: {before_in} -> {now_in}: {_SO_MAY_OPS}"))))
        for line in _report(windows, top, style):
            print(painted(terminal(line)))
        for side, others in ((base, base.windows.keys() - now.windows), (now, now.windows.keys() - base.windows)):
            for key in sorted(others):
                print(writer(style)(f"only in {side.path}: {titled(*key)}"))
        words = [status([window]) for window in windows.values()]
        counted = [f"{words.count(word)} {said}" for word, said in WORDS.items() if word in words]
        judged = sum(window.times_judged for window in windows.values())
        total = f"{plural(len(windows), 'window')} compared, {judged} by time, {words.count('ok')} ok"
        print(f"opprof: {', '.join([total, *counted])}")
    worse = any(window.findings for window in windows.values())
    if not worse and all(window.untimed and window.verdict is Verdict.INCOMPARABLE for window in windows.values()):
        raise UsageError("no times could be compared, so that nobody can tell whether the second run is slower")
    return worse


def _other_environments(base: Side, now: Side, keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the environments of both sides where these differ, each pair once."""
    sides = [[side.windows[key].numbers.environment.environment.full for key in keys] for side in (base, now)]
    return [pair for pair in dict.fromkeys(zip(*sides)) if pair[0] != pair[1]]


def _timing(before: Kept, after: Kept, rule: Rule, ignore_noise: bool) -> TimingVerdict:
    from ..profile.timings import without_noise
    from ..verdict.stored_rule import judge, unjudged
    from ..verdict.tolerances import MOST_PROCESSES, PROCESSES
    from ..verdict.verdicts import Verdict, undecided

    common = next((machine for machine in after.machines if machine in before.machines), None)
    environments = [kept.numbers.environment.environment for kept in (before, after)]
    # Other versions of the same frameworks are what was asked for: both are named, and the machine is the same.
    alike = [replace(each, frameworks=tuple((name, "") for name, _ in each.frameworks)) for each in environments]
    differ = {"environment": [each.full for each in environments]} if alike[0] != alike[1] else {}
    if common is None and before.machines and after.machines:
        differ = differ or {"machine": [before.machines[0], after.machines[0]]}
    for what, (one, other) in differ.items():
        why = f"the runs differ in their {what}: {one}, then {other}"
        return unjudged(why, after.runs(after.machines[0]) if after.machines else [])
    old, new = (kept.runs(common or next(iter(kept.machines), "")) for kept in (before, after))
    if ignore_noise:
        old, new = list(map(without_noise, old)), list(map(without_noise, new))
    found = judge(old, new, rule)
    if not found.settled and found.verdict is Verdict.SLOWER:
        needed = PROCESSES if len(new) < PROCESSES else MOST_PROCESSES
        why = f"slower in {len(new)} of {needed} processes: measure it with --opprof-processes={needed}"
        return undecided(found, why)
    return found


def _report(windows: dict[tuple[str, str], JudgedWindow], top: int, style: str) -> Iterator[str]:
    from ..report.failure import failure
    from ..results.window_result import titled
    from ..verdict.verdicts import Verdict

    write = writer(style)
    for (test, _), window in windows.items():
        title = titled(test, window.name)
        if window.findings:
            yield from [*failure(test, [window], top, top == 0, "", "-t 0 shows them", style).splitlines(), ""]
        elif window.verdict is Verdict.NOISY:
            yield write(f"{title}: {window.verdict.value}: {window.untimed}")
        elif window.untimed:
            yield write(f"{title}: times not compared: {window.untimed}")
        yield from (write(f"{title}: {line}") for line in window.remarks)


def _plain(diff: Diff) -> dict[str, Any]:
    def plain(row: Any) -> dict[str, Any]:
        return {
            "op": row.op,
            "base_calls": row.base and row.base.calls.most,
            "now_calls": row.now and row.now.calls.most,
            "base_ns": row.base_ns,
            "now_ns": row.now_ns,
            "verdict": row.word,
        }

    return {
        "verdict": diff.worst.word,
        "times_not_judged": diff.times or None,
        "total": plain(diff.total),
        "rows": [plain(row) for row in diff.rows],
    }
