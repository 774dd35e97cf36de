"""``opprof check``: a saved profile against a budget."""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from ..errors import OpprofError, TraceError, UsageError
from ..frameworks.files import formats
from ..profile.saved import SavedProfile, communicates
from ..questions import query
from ..report.colours import TextLine, show
from ..report.tables import style_of
from ..units import format_ns, plural
from .inputs import reading
from .inputs.opened import Profiles, opened
from .inputs.reading import Asked
from .inputs.remote import location

if TYPE_CHECKING:
    from ..verdict.budgets import Budget


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    check = commands.add_parser("check", help="judge a saved profile by a budget; exit 1 when it is exceeded")
    check.add_argument("file", type=location)
    reading.add_source(check)
    reading.add_on(check)
    check.add_argument(
        "--budget",
        action="append",
        required=True,
        metavar="KEY=LIMIT",
        help="a limit as in the op_budget mark: Cast=10, MatMul=3..5, device_time=5ms, 'aten::*conv*=0'; repeatable",
    )
    check.add_argument("--allow-inferred", action="store_true", help="judge op types that were guessed from names")
    check.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    """Judge a profile by a budget; return whether it is exceeded."""
    # Imported here, with NumPy behind it.
    from ..verdict.budgets import Budget, parse_pair

    budget = reduce(lambda farther, nearer: nearer.over(farther), map(parse_pair, arguments.budget), Budget())
    broken, cut = False, list[formats.Found]()
    profiles = opened(arguments.file, Asked.of(arguments, quiet=True), Profiles)
    for found, saved in profiles.each:
        remarks = reading.remarks(saved)
        try:
            lines, exceeded = _judged(found, saved, budget, arguments)
        except OpprofError:
            for remark in remarks:
                reading.say(found, remark)
            raise
        show([*lines, *(TextLine(f"note: {remark}") for remark in remarks)])
        broken = broken or exceeded
        cut += [found] if saved.is_cut else []
    if profiles.left_out and not broken:
        raise TraceError(
            f"{len(profiles.left_out)} of these profiles could not be read, so opprof cannot tell whether all are"
            " within the budget"
        )
    if cut and not broken:
        raise TraceError(f"{cut[0]}: was read in part, so opprof cannot tell whether it is within its budget")
    return broken


def _judged(
    found: formats.Found, saved: SavedProfile, budget: Budget, arguments: argparse.Namespace
) -> tuple[list[TextLine], bool]:
    """Return the verdict in words, and whether the budget is exceeded. Raises UsageError for an unjudgeable limit."""
    from ..report.failure import Shown, failure
    from ..results.judged_window import JudgedWindow
    from ..results.window_result import BODY, WindowNumbers

    named = [*budget.ops, *(budget.only or ()), *(budget.top or ())]
    if named and saved.inferred_types and not arguments.allow_inferred:
        raise UsageError(
            f"{found}: its op types were guessed from names, so a limit on an op may miss some. Record it"
            " so that it has them (on Ascend: Level1), or say --allow-inferred"
        )
    profile = saved.profile()
    _check_told(found, saved, named)
    _check_timed(found, saved, budget)
    if "host_time" in budget.window and not saved.step_ns:
        raise UsageError(_no_wall_time(found, saved))
    findings = budget.check(profile)
    if not findings:
        return [TextLine(_kept(found, saved, profile, arguments))], False
    window = JudgedWindow(WindowNumbers.of(BODY, profile), findings)
    shown = Shown(more="opprof show -t 0 lists them", style=style_of("table"))
    lines = failure(str(found), [window], None, shown)
    if profile.steps > 1:
        lines.append(TextLine(f"limits hold{_each(profile.steps)}; --steps chooses some"))
    return lines, True


def _no_wall_time(found: formats.Found, saved: SavedProfile) -> str:
    ops = query.total(saved, "host")
    known = "" if ops is None else f": its ops have {format_ns(ops)} of host time, without the time between them"
    return (
        f"{found}: the limit on host_time cannot be checked. It is the wall time of each step, which {saved.source}"
        f" does not have{known}. Limit device_time, or record steps"
    )


def _check_told(found: formats.Found, saved: SavedProfile, named: Sequence[str]) -> None:
    """Raise UsageError for a limit on an op that the source cannot tell from others: it would pass unseen."""
    for name in named:
        if query.is_untold(saved, name):
            raise UsageError(
                f"{found}: the limit on {name} cannot be checked: {saved.source} does not tell {name} from other ops"
            )


def _check_timed(found: formats.Found, saved: SavedProfile, budget: Budget) -> None:
    """Raise UsageError for a limit on the time of communication."""
    kinds = {record.type for record in saved.records if communicates(record)}
    for name, limits in budget.ops.items():
        if any(limit.what.name in ("device_time", "share") for limit in limits) and fnmatch.filter(kinds, name):
            raise UsageError(
                f"{found}: the limit on the time of {name} cannot be checked: communication mostly waits for the other"
                f" ranks, so its time is beside the total and is not judged. Limit its calls: {name}=N"
            )


def _kept(found: formats.Found, saved: SavedProfile, profile: Any, arguments: argparse.Namespace) -> str:
    limits = ", ".join(arguments.budget)
    ops = f"{plural(profile.total.most_calls, 'call')} of {plural(len(profile.ops), 'op')}{_each(profile.steps)}"
    verdict = "what could be read of it does not exceed" if saved.is_cut else "within"
    return f"{found}: {verdict} its budget ({limits}); {ops}"


def _each(steps: int) -> str:
    return f" in each of {steps} steps, times in the fastest" if steps > 1 else ""
