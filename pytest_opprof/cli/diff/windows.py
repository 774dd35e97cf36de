"""The windows that ``opprof diff`` compares, each judged: by the rule for profiles, or by the rule for runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from ...errors import UsageError
from ...profile.timings import ProcessTimes, without_noise
from ...python_calls.names import of_python, other_versions
from ...results.judged_window import JudgedWindow
from ...units import parse_duration, parse_share, plural
from ...verdict.compare import compare, compare_counts_first
from ...verdict.times.repeats import MOST_TIMED_PROCESSES, TIMED_PROCESSES
from ...verdict.times.stored_rule import Rule, judge, unjudged
from ...verdict.tolerances import STORED, Tolerances
from ...verdict.verdicts import TimingVerdict, Verdict, undecided
from .sides import Kept, Side

_LEAST_SHARE = 0.0025
"""Of the total: an op of a profile below it is not judged by its time."""


def judged(base: Side, now: Side, arguments: argparse.Namespace) -> dict[tuple[str, str], JudgedWindow]:
    """Return the windows that both sides have, judged. Raises UsageError where they have none in common."""
    of_profiles = not {"profile", "ranks"}.isdisjoint((base.kind, now.kind))
    tolerances = _of_profiles(arguments) if of_profiles else STORED.with_given(vars(arguments), _flag)
    if "profile" in (base.kind, now.kind):
        pairs = {("", ""): (base.only(arguments.test, arguments.window), now.only(arguments.test, arguments.window))}
    else:
        pairs = {key: (base.windows[key], after) for key, after in now.windows.items() if key in base.windows}
    if not pairs:
        what = "rank" if now.kind == "ranks" else "window of any test"
        raise UsageError(f"{base.path} and {now.path}: have no {what} in common")
    top = 0 if of_profiles else 5 if arguments.top is None else arguments.top
    found = {}
    for key, (before, after) in pairs.items():
        # Other versions of packages are the question itself.
        versions = of_python(after.entry.python)
        done = before.entry.comparable(versions).done, after.entry.done
        if of_profiles:
            timing = _of_one_process(base, now, (before, after), tolerances)
            diff = compare(*done, timing, tolerances, top, base.then(now))
        else:
            rule = Rule(tolerances, base=base.called)
            timing = _of_processes(before, after, rule, ignore_noise=arguments.ignore_noise)
            diff = compare_counts_first(*done, timing, tolerances, top, base.then(now))
        found[key] = JudgedWindow(after.numbers, diff=diff)
        if differ := other_versions(before.entry.python, after.entry.python):
            are = "not compared" if other_versions(before.entry.python, versions) else "compared across versions"
            found[key] = found[key].with_remark(f"calls of Python functions {are}: {differ}")
    return found


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _of_profiles(arguments: argparse.Namespace) -> Tolerances:
    floor_ns = parse_duration(arguments.floor or "20 us", "--floor")
    tolerance = parse_share(arguments.tolerance or "10%", "--tolerance")
    op_tolerance = parse_share(arguments.op_tolerance, "--op-tolerance") if arguments.op_tolerance else tolerance
    return Tolerances(tolerance, floor_ns, op_tolerance, floor_ns, _LEAST_SHARE)


def _of_one_process(base: Side, now: Side, pair: tuple[Kept, Kept], tolerances: Tolerances) -> TimingVerdict:
    """Judge the times that ops took in one process each, as profiles have them."""
    old, new = (kept.of_ops for kept in pair)
    if not old and not new:
        return TimingVerdict(Verdict.OK)  # there are calls alone, and they are compared
    if not old or not new:
        side, kept = (now, pair[1]) if old else (base, pair[0])
        why = kept.without_times or f"the {side.kind} {'after' if old else 'before'} has no times"
        return unjudged(why, new, old)
    if old[0].rounds != new[0].rounds:
        why = f"the fastest of {plural(old[0].rounds, 'step')} cannot be compared with the fastest of {new[0].rounds}"
        return unjudged(f"{why}; choose equally many with --base-steps and --steps", new, old)
    return judge(old, new, Rule(tolerances, 1, 1, 1))


def _of_processes(before: Kept, after: Kept, rule: Rule, *, ignore_noise: bool) -> TimingVerdict:
    """Judge the times of the processes of two runs, or of a run and its baseline."""
    common = next((machine for machine in after.machines if machine in before.machines), None)
    if why := _differ(before, after, common):
        return unjudged(why, after.runs(after.machines[0]) if after.machines else [])
    runs: list[Sequence[ProcessTimes]] = [
        kept.runs(common or next(iter(kept.machines), "")) for kept in (before, after)
    ]
    old, new = [[*map(without_noise, each)] for each in runs] if ignore_noise else runs
    found = judge(old, new, rule)
    if not found.settled and found.verdict is Verdict.SLOWER:
        needed = TIMED_PROCESSES if len(new) < TIMED_PROCESSES else MOST_TIMED_PROCESSES
        why = f"slower in {len(new)} of {needed} processes: measure it with --opprof-processes={needed}"
        return undecided(found, why)
    return found


def _differ(before: Kept, after: Kept, common: str | None) -> str:
    """Return why times of the two cannot be compared: other environments or machines; empty where they can."""
    environments = [kept.numbers.environment.environment for kept in (before, after)]
    # Other versions of the same frameworks are the question itself: both are named, and the machine is the same.
    alike = [replace(each, frameworks=tuple((name, "") for name, _ in each.frameworks)) for each in environments]
    if alike[0] != alike[1]:
        return f"the runs differ in their environment: {environments[0].full}, then {environments[1].full}"
    if common is None and before.machines and after.machines:
        return f"the runs differ in their machine: {before.machines[0]}, then {after.machines[0]}"
    return ""
