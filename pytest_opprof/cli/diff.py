"""``opprof diff``: a saved profile against another one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TraceError, UsageError
from ..profile.saved import SavedProfile
from ..report import listing
from ..units import parse_duration, parse_share
from . import read

if TYPE_CHECKING:
    from ..profile.timings import Run


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    diff = commands.add_parser("diff", help="compare two saved profiles; exit 1 when the second is worse")
    diff.add_argument("base", type=Path, help="the profile before")
    diff.add_argument("now", type=Path, help="the profile after")
    read.add_source(diff)
    diff.add_argument("--base-steps", metavar="STEPS", help="other steps of the profile before")
    diff.add_argument("--base-rank", metavar="N", help="another rank of the profile before")
    diff.add_argument("--tolerance", default="10%", help="how much slower is slower (default: 10%%)")
    diff.add_argument("--floor", default="20 us", help="a smaller change of time is none (default: 20 us)")
    diff.add_argument("--by", choices=("type", "name", "shape"), default="type", help="what an op is (default: type)")
    diff.add_argument("-t", "--top", type=int, default=10, metavar="K", help="unchanged ops to show (default: 10)")
    diff.add_argument("--format", choices=("table", "markdown", "json"), default="table")
    diff.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    """Compare two profiles; return whether the second is worse."""
    # Imported here, with NumPy behind them: to show a profile needs neither.
    from ..profile.calls import calls_of
    from ..profile.timings import run_of
    from ..results.window import BODY, WindowReport
    from ..verdict.compare import compare
    from ..verdict.judgement import Judgement, Verdict
    from ..verdict.stored_rule import Rule, judge, unjudged
    from ..verdict.tolerances import Limits

    base_rank, base_steps = arguments.base_rank or arguments.rank, arguments.base_steps or arguments.steps
    base = read.read_one(arguments, arguments.base, base_rank, base_steps, "diff")
    now = read.read_one(arguments, arguments.now, arguments.rank, arguments.steps, "diff")
    floor = parse_duration(arguments.floor, "--floor")
    tolerance = parse_share(arguments.tolerance, "--tolerance")
    limits = Limits(tolerance, floor, tolerance, floor, 0.0025)
    profiles = [saved.profile(by=arguments.by) for saved in (base, now)]
    before, after = map(calls_of, profiles)
    base_run, now_run = ([run] if (run := run_of(profile, wall=False)) else [] for profile in profiles)
    if not base_run and not now_run:
        timing = Judgement(Verdict.OK)  # there are calls alone, and they are compared
    elif why := _no_times(base_run, now_run) or _other_steps(profiles[0].steps, profiles[1].steps):
        timing = unjudged(why, now_run, base_run)
    else:
        timing = judge(base_run, now_run, Rule(limits, 1, 1, 1))
    diff = compare(before, after, timing, limits)
    window = WindowReport(BODY, profiles[1], diff=diff)
    if arguments.format == "json":
        print(listing.document(_diff_document(base, now, diff)))
    else:
        style = "github" if arguments.format == "markdown" else "simple"
        print("\n".join(map(listing.clean, _diff_text(base, now, window, arguments.top, style))))
    worse = any(row.verdict.is_regression for row in (*diff.rows, diff.total))
    if base.is_cut or (now.is_cut and not worse):
        raise TraceError("a file was cut, so that nobody can tell whether the second profile is worse")
    if diff.times and not worse:
        raise UsageError(f"the times were not compared, so that nobody can tell whether they are worse: {diff.times}")
    return worse


def _no_times(base: Sequence[Run], now: Sequence[Run]) -> str:
    return "" if base and now else f"the profile {'after' if base else 'before'} has no times"


def _other_steps(base: int, now: int) -> str:
    """Return why the fastest of some steps is not compared with that of others."""
    if base == now:
        return ""
    return f"the fastest of {base} steps is not that of {now}; --base-steps and --steps choose as many of each"


def _diff_text(base: SavedProfile, now: SavedProfile, window: Any, top: int, style: str) -> Iterator[str]:
    from ..report.table import table

    yield f"{base.source}  [{base.environment}] -> {now.source}  [{now.environment}]"
    if base.environment != now.environment:
        yield "the environments differ: so may ops and times, for no fault of the program"
    yield from (f"  {finding}" for finding in window.regressions)
    yield from (f"  {improvement}" for improvement in window.diff.improvements())
    yield ""
    if max(len(base.steps), len(now.steps)) > 1:
        yield "calls are of the step with most, times of the fastest step, each row's own (--steps chooses some)"
    yield from "\n".join(table(window, top, top == 0, style, "-t 0 shows them")).splitlines()
    yield f"verdict: {window.diff.verdict.value}"
    if window.diff.timing.base is None and window.diff.timing.now is None:
        yield "(of calls: neither profile has times)"


def _diff_document(base: SavedProfile, now: SavedProfile, diff: Any) -> dict[str, Any]:
    def plain(row: Any) -> dict[str, Any]:
        return {
            "op": row.op,
            "base_calls": row.base_calls and row.base_calls.most,
            "now_calls": row.now_calls and row.now_calls.most,
            "base_ns": row.base_ns,
            "now_ns": row.now_ns,
            "verdict": row.verdict.value,
        }

    return {
        "base": {"source": base.source, "environment": base.environment.full},
        "now": {"source": now.source, "environment": now.environment.full},
        "verdict": diff.verdict.value,
        "times_not_judged": diff.times or None,
        "total": plain(diff.total),
        "rows": [plain(row) for row in diff.rows],
    }
