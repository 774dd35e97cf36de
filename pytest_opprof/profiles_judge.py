"""``opprof diff`` and ``opprof check``: a saved profile against another one, or against a budget."""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from . import listing, profiles_read, query, traces
from .errors import OpprofError, TraceError, UsageError
from .trace import OpTrace, communicates
from .units import format_ns, parse_share, parse_time

if TYPE_CHECKING:
    from .budgets import Budget
    from .samples import Run


def diff(arguments: argparse.Namespace) -> bool:
    """Compare two profiles; return whether the second is worse."""
    # Imported here, with NumPy behind them: to show a profile needs neither.
    from . import reports
    from .baselines import calls_of, run_of
    from .compare import compare
    from .judge import Judgement, Limits, Rule, Verdict, judge, unjudged

    base_rank, base_steps = arguments.base_rank or arguments.rank, arguments.base_steps or arguments.steps
    base = profiles_read.read_one(arguments, arguments.base, base_rank, base_steps, "diff")
    now = profiles_read.read_one(arguments, arguments.now, arguments.rank, arguments.steps, "diff")
    floor = parse_time(arguments.floor, "--floor")
    tolerance = parse_share(arguments.tolerance, "--tolerance")
    limits = Limits(tolerance, int(floor or 0), tolerance, int(floor or 0), 0.0025)
    profiles = [trace.profile(by=arguments.by) for trace in (base, now)]
    before, after = map(calls_of, profiles)
    base_run, now_run = ([run] if (run := run_of(profile, wall=False)) else [] for profile in profiles)
    if not base_run and not now_run:
        timing = Judgement(Verdict.OK)  # there are calls alone, and they are compared
    elif why := _no_times(base_run, now_run) or _other_steps(profiles[0].steps, profiles[1].steps):
        timing = unjudged(why, base_run, now_run)
    else:
        timing = judge(base_run, now_run, Rule(limits, 1, 1, 1))
    diff = compare(before, after, timing, limits)
    window = reports.WindowReport(reports.BODY, profiles[1], diff=diff)
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


def _diff_text(base: OpTrace, now: OpTrace, window: Any, top: int, style: str) -> Iterator[str]:
    from . import reports

    yield f"{base.source}  [{base.environment}] -> {now.source}  [{now.environment}]"
    if base.environment != now.environment:
        yield "the environments differ: so may ops and times, for no fault of the program"
    yield from (f"  {finding}" for finding in window.regressions)
    yield from (f"  {improvement}" for improvement in window.diff.improvements())
    yield ""
    if max(len(base.steps), len(now.steps)) > 1:
        yield "calls are of the step with most, times of the fastest step, each row's own (--steps chooses some)"
    yield from "\n".join(reports.table(window, top, top == 0, style, "-t 0 shows them")).splitlines()
    yield f"verdict: {window.diff.verdict.value}"
    if window.diff.timing.base is None and window.diff.timing.now is None:
        yield "(of calls: neither profile has times)"


def _diff_document(base: OpTrace, now: OpTrace, diff: Any) -> dict[str, Any]:
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


def check(arguments: argparse.Namespace) -> bool:
    """Judge a profile by a budget; return whether it is exceeded."""
    # Imported here, with NumPy behind it.
    from .budgets import Budget, parse_pair

    budget = reduce(lambda farther, nearer: nearer.over(farther), map(parse_pair, arguments.budget), Budget())
    broken, cut = False, list[traces.Found]()
    for found, trace in profiles_read.read(arguments, arguments.file, arguments.rank, arguments.steps, quiet=True):
        remarks = profiles_read.remarks(trace)
        try:
            text, exceeded = _judged(found, trace, budget, arguments)
        except OpprofError:
            for remark in remarks:
                profiles_read.say(found, remark)
            raise
        print("\n".join(map(listing.clean, [*text.splitlines(), *(f"note: {remark}" for remark in remarks)])))
        broken = broken or exceeded
        cut += [found] if trace.is_cut else []
    if cut and not broken:
        raise TraceError(f"{cut[0]}: was cut, so that nobody can tell whether it is within its budget")
    return broken


def _judged(found: traces.Found, trace: OpTrace, budget: Budget, arguments: argparse.Namespace) -> tuple[str, bool]:
    """Return the verdict in words, and whether the budget is exceeded. Raises UsageError for what cannot be judged."""
    from . import reports

    named = [*budget.ops, *(budget.only or ()), *(budget.top or ())]
    if named and trace.inferred_types and not arguments.allow_inferred:
        raise UsageError(
            f"{found}: its op types were guessed from names, so a limit on an op may miss some. Record it"
            " so that it has them (on Ascend: Level1), or say --allow-inferred"
        )
    profile = trace.profile()
    _check_told(found, trace, named)
    _check_timed(found, trace, budget)
    if "host_time" in budget.window and not trace.step_ns:
        raise UsageError(_no_wall_time(found, trace))
    findings = budget.check(profile)
    if not findings:
        return _kept(found, trace, profile, arguments), False
    window = reports.WindowReport(reports.BODY, profile, findings)
    text = reports.failure(str(found), [window], 5, False, "", "opprof show -t 0 lists them")
    if profile.steps > 1:
        text += f"\nlimits hold{_each(profile.steps)}; --steps chooses some"
    return text, True


def _no_wall_time(found: traces.Found, trace: OpTrace) -> str:
    ops = query.total(trace, "host")
    known = "" if ops is None else f": its ops have {format_ns(ops)} of host time, without what is between them"
    return (
        f"{found}: the limit on host_time cannot be checked. It is the wall time of each step, which {trace.source}"
        f" does not have{known}. Limit device_time, or record steps"
    )


def _check_told(found: traces.Found, trace: OpTrace, named: Sequence[str]) -> None:
    """Raise UsageError for a limit on an op that the source cannot tell from others: it would pass unseen."""
    for name in named:
        if query.is_untold(trace, name):
            raise UsageError(
                f"{found}: the limit on {name} cannot be checked: {trace.source} does not tell {name} from other ops"
            )


def _check_timed(found: traces.Found, trace: OpTrace, budget: Budget) -> None:
    """Raise UsageError for a limit on the time of communication."""
    kinds = {record.type for record in trace.records if communicates(record)}
    for name, limits in budget.ops.items():
        if any(limit.what in ("device_time", "share") for limit in limits) and fnmatch.filter(kinds, name):
            raise UsageError(
                f"{found}: the limit on the time of {name} cannot be checked: communication mostly waits for the other"
                f" ranks, so its time is beside the total and is not judged. Limit its calls: {name}=N"
            )


def _kept(found: traces.Found, trace: OpTrace, profile: Any, arguments: argparse.Namespace) -> str:
    limits = ", ".join(arguments.budget)
    ops = f"{profile.total.most_calls} calls of {len(profile.ops)} ops{_each(profile.steps)}"
    verdict = "what is left of it does not exceed" if trace.is_cut else "within"
    return f"{found}: {verdict} its budget ({limits}); {ops}"


def _each(steps: int) -> str:
    return f" in each of {steps} steps, times in the fastest" if steps > 1 else ""
