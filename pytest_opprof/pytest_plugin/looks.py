"""Looks at a test once more: whether more calls are its own, and which lines ask for what fails it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import monotonic

import pytest
from msgspec import structs

from ..baselines.entry import WindowBaseline
from ..errors import BackendError
from ..measure.plan import Settings
from ..processes.pool import NO_FRESH, Answer, Pool
from ..processes.this_run import say
from ..profile.calls import CallRange
from ..profile.op_profile import OpProfile
from ..results.judged_window import JudgedWindow
from ..results.test_id import id_of
from ..verdict.compare import excuse

CONFIRMING_S = 60
"""What one run spends on confirming calls, at most: what has more calls after that fails as it is."""
_AGAIN = "when it was looked at once more: "
_VARY = "calls that vary from run to run are kept as ranges: record it again"


class Looks:
    """Looks of fresh processes, one for each test: for all that is asked of it."""

    def __init__(self, config: pytest.Config, settings: Settings, pool: Pool) -> None:
        self._config = config
        self._settings = settings
        self._pool = pool
        self._left_s: float = CONFIRMING_S
        self._found: tuple[list[Answer], str] | None = None

    def begin(self) -> None:
        """Say that another test begins."""
        self._found = None

    def alone(self, item: pytest.Item, why: str, times: int) -> tuple[list[Answer], str]:
        """Return what a fresh process measures so many *times*, or why it does not; *why* it has to is said.

        One process looks at a test, for all that is asked of it: the last time also tells lines.
        """
        if self._found is None:
            self._found = self._measured(item, why, times)
        return self._found

    def _measured(self, item: pytest.Item, why: str, times: int) -> tuple[list[Answer], str]:
        if not self._settings.rank.is_alone:
            return [], f"{NO_FRESH} of {self._settings.rank.size}"
        if self._left_s < 0:
            return [], f"this run has spent {CONFIRMING_S} s on that"
        say(self._config, f"opprof: {id_of(item)} {why}")
        begin = monotonic()
        try:
            return self._pool.alone(str(item.path), id_of(item), times), ""
        except BackendError as error:
            return [], str(error)
        finally:
            self._left_s -= monotonic() - begin


def with_looks(looks: Sequence[Answer], why: str, window: JudgedWindow, base: WindowBaseline) -> JudgedWindow:
    """Return the report of a window with more calls after *looks* at it in a fresh process; *why* there are none."""
    window = _with_remarks(window, looks)
    seen = [look.windows[window.name].calls for look in looks if window.name in look.windows]
    if len(seen) < len(looks) or not looks:
        why = why or next((look.why for look in looks if look.why), "the window was not opened there")
        return replace(window, looked=f"not confirmed in a fresh process: {why}")
    if excused := excuse(base.calls, window.numbers.calls, seen):
        return replace(window, excused=excused)
    window = with_sites(window, looks[-1])
    there = {op: seen[0].get(op, CallRange(0, 0)) for op in window.more_calls}
    now = window.numbers.calls
    if all(there[op].most == now[op].most for op in there):
        return replace(window, looked="the same alone in a fresh process")
    varied = ", ".join(f"{op} {calls}" for op, calls in there.items())
    return replace(window, looked=f"alone in a fresh process: {varied}. {_VARY}")


def lacks_sites(window: JudgedWindow) -> bool:
    """Tell whether a window fails for what it did, and nobody looked which lines did it."""
    return bool(window.asked) and not window.numbers.sites and not window.sites_lost


def is_alike(window: JudgedWindow, again: OpProfile) -> bool:
    """Tell whether a window made the same calls *again*, and lines are known: a debugger here may be in the way."""
    has_lines = any(key.site and key.site.frames for key in again.keys)
    calls = {op: calls.most for op, calls in window.numbers.calls.items()}
    return has_lines and calls == {stats.op: stats.most_calls for stats in again.ops}


def _with_remarks(window: JudgedWindow, looks: Iterable[Answer]) -> JudgedWindow:
    """Return the report of a window with what backends said in further *looks* at it, and not in the first."""
    before = window.numbers.remarks
    new = [text for look in looks for text in look.remarks.get(window.name, ()) if text not in before]
    said = dict.fromkeys([*before, *(f"{_AGAIN}{text}" for text in new)])
    return replace(window, numbers=structs.replace(window.numbers, remarks=tuple(said)))


def with_sites(window: JudgedWindow, look: Answer, why: str = "") -> JudgedWindow:
    """Return the report of a window with the lines that a further *look* found; *why* there may be none."""
    window, found = _with_remarks(window, [look]), look.sites.get(window.name)
    if not found:
        return replace(window, sites_lost=why) if why else window
    return replace(window, numbers=structs.replace(window.numbers, sites=found))
