"""Conclude a test: the record to keep, and the failure message, if any."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from ..machine.identity import machine
from ..measure.plan import Comparison, Settings
from ..report.accepting import Accepting
from ..report.colours import TextLine
from ..report.failure import Shown, cause, failure
from ..report.op_table import kernels, table
from ..report.tables import Style
from ..results.judged_window import JudgedWindow
from ..results.test_id import function_of
from ..results.test_result import TestRecord, status
from ..results.window_result import titled
from ..units import format_share
from ..verdict.tolerances import LEAST_STORED
from ..verdict.verdicts import Status, Verdict


def concluded(
    test: str,
    windows: Sequence[JudgedWindow],
    plan: Comparison,
    settings: Settings,
    verbosity: int,
    first: dict[object, str],
    broken: Mapping[str, str] | None = None,
    parallel: bool = False,
) -> tuple[TestRecord, list[TextLine], str]:
    """Return the record of *test*, its failure message (empty if it passes), and the cause in a few words.

    *first* has the first failing test of each cause; this one is added. *broken* are the windows without numbers, and
    why. With --opprof-report-only the record has the message, and the test passes.
    """
    by_title = {titled(test, window.name): window for window in windows}
    style = Style(width=settings.width)
    record = TestRecord(
        id=test,
        status=status(windows) if windows else Status.NOT_MEASURED,
        windows=[window.result(machine(), parallel, plan.baseline) for window in windows],
        remarks={title: remarks for title, window in by_title.items() if (remarks := window.remarks)},
        missing={title: window.no_baseline for title, window in by_title.items() if window.no_baseline},
        unreadable=[title for title, window in by_title.items() if window.is_unreadable],
        untimed={
            **{title: f"times not judged, {window.untimed}" for title, window in by_title.items() if window.untimed},
            **{title: _NARROW for title, window in by_title.items() if _is_too_narrow(window, plan, settings)},
            **{titled(test, name): f"not judged, the window {why}" for name, why in (broken or {}).items()},
        },
        table=[line for window in windows for line in _tables(window, plan.top, style)] if verbosity > 1 else [],
    )
    record.accept = [step.text for step in Accepting.of_settings(settings).steps_of(record)]
    message, why = _failure(record, by_title, plan, settings, verbosity, first)
    if settings.report_only:
        return structs.replace(record, reported="\n".join(line.text for line in message)), [], ""
    return record, message, why


def _failure(
    record: TestRecord,
    by_title: Mapping[str, JudgedWindow],
    plan: Comparison,
    settings: Settings,
    verbosity: int,
    first: dict[object, str],
) -> tuple[list[TextLine], str]:
    """Return the failure message of a test and its cause in a few words; both empty if it passes."""
    test, windows, accepting = record.id, list(by_title.values()), Accepting.of_settings(settings)
    if any(window.findings for window in windows):
        like = first.setdefault(_causes(record), test) if verbosity <= 0 else test
        shown = Shown(
            top=plan.top,
            every_op=verbosity > 0,
            style=Style(width=settings.width),
            like=like if like != test else "",
        )
        return failure(test, windows, accepting, shown), cause(windows)
    missing = next((window for window in windows if window.no_baseline), None)
    if missing and settings.strict:
        advice = "" if missing.is_unreadable else f": record it with {accepting.update(test, new=True)}"
        return [TextLine(f"{missing.no_baseline}{advice}")], "no baseline"
    for title, window in by_title.items():
        unseen = next((each.text for each in window.numbers.remarks if each.about == "processes"), "")
        if settings.strict and unseen:
            return [TextLine(f"{title}: {unseen}: --opprof-strict requires all of them")], "other processes"
        if (
            window.untimed
            and not window.accepted
            and (advice := _needs_verdict(window, settings, accepting.update(test)))
        ):
            return [TextLine(f"times of {title} not judged, {window.untimed}: {advice}")], "times not judged"
    return [], ""


def _causes(record: TestRecord) -> object:
    """Return a key that is equal for tests that fail for the same lines, with the same consequences; where lines are
    unknown, of one function.
    """
    function = function_of(record.id)
    found = set[tuple[object, ...]]()
    for window in record.windows:
        for each in window.findings:
            below = (each.text if each.rule == Verdict.WIDER.value else "") if each.adds else each.line or function
            found.add((window.name, each.rule, each.op, each.ops, below))
    return frozenset(found)


def _tables(window: JudgedWindow, top: int, style: Style) -> list[str]:
    lines = [*table(window, 0, every_op=True, style=style), *kernels(window.numbers.kernels or (), top, style)]
    return [line.text for line in lines]


_NARROW = (
    f"the tolerance is below {format_share(LEAST_STORED)}, too small for a stored baseline: unchanged tests will be"
    " called slower, too. --opprof-against=REV detects smaller slowdowns"
)


def _is_too_narrow(window: JudgedWindow, plan: Comparison, settings: Settings) -> bool:
    return window.times_judged and plan.tolerances.tolerance < LEAST_STORED and not settings.against


def _needs_verdict(window: JudgedWindow, settings: Settings, update: str) -> str:
    """Return the remedy for times without a verdict; empty if they pass with a warning."""
    noisy = window.verdict is Verdict.NOISY
    if noisy and settings.noise == "fail":
        return "measure when it is quiet, or let it pass with --opprof-noise=warn"
    if noisy or not settings.strict:
        return ""
    return "--opprof-strict requires a verdict" + ("" if settings.against else f"; {update} records them here")


def defect(what: str, error: Exception) -> str:
    """Return one line about a defect of this plugin; *what* names the step that it prevented."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
    return f"{what}, by a defect of pytest-opprof: {type(error).__name__}: {error} ({where})"
