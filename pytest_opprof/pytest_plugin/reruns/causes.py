"""Find the causes of failing windows: the lines of their ops, of their time and memory, and the functions that grew."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from msgspec import UNSET, structs

from ...baselines.files.paths import path_of
from ...baselines.store import Store
from ...errors import UsageError
from ...machine.git import commit_of
from ...measure.function_times import FunctionTime
from ...measure.memory.leaks import OFTEN_NS, Left
from ...measure.memory.traced import Where, amount, joined
from ...measure.plan import Settings, TestPlan
from ...measure.window import Window, profiles_of
from ...processes.pool import Answer
from ...processes.request import request_of
from ...profile.memory import IN_USE
from ...profile.op_profile import OpProfile
from ...profile.site_calls import site_calls
from ...profile.timings import OUTSIDE
from ...python_calls import causes
from ...python_calls.counted import PythonCalls
from ...results.judged_window import JudgedWindow
from ...results.window_result import BODY, SitesByOp, WindowNumbers
from ...sites.changed import Changes
from ...sites.code import relative
from ...sites.places import Calls
from ...sites.shown import Shown
from ...units import plural
from ...verdict.quantities import (
    COARSE,
    CPU_TIME,
    HOST_MEMORY,
    KEPT_MEMORY,
    LEFT_BEHIND,
    NOTABLE_KEPT,
    PEAKS,
    WITH_LINES,
    called,
)
from ...verdict.verdicts import Verdict
from ..test_run import TestRun
from .counts import Looks, does_less, is_about, is_alike, lacks_sites, with_sites

# The findings that the lines of a body explain: its coarse times, its time outside ops, and its time as a whole.
OF_TIME = (*COARSE, OUTSIDE, Verdict.SLOWER.value)
_CHANGES = "the change since a baseline"
_ONCE = "the body cannot run twice"
# The share of the rise of a peak that lines explain if they hold it.
_MOST_OF_RISE = 0.9
_LOOK = "; --opprof-sites records them in the first run"


class Causes:
    """Finds causes, in another run of the body or in another process."""

    def __init__(
        self, config: pytest.Config, settings: Settings, store: Store, looks: Looks, *, is_apart: bool
    ) -> None:
        """*is_apart*: whether another run judges these tests."""
        self._config = config
        self._settings = settings
        self._store = store
        self._looks = looks
        self._apart = is_apart
        self._commits: dict[Path, str] = {}
        """The commit of each file of baselines; empty if git knows none."""
        self._changes: dict[str, Changes | None] = {}
        """By commit."""
        self._shown = Shown(config.rootpath, settings.sites_show, settings.sites_hide)

    @property
    def compares_lines(self) -> bool:
        """Whether another run compares lines of this one's tests with another revision's."""
        return bool(self._apart and self._settings.against and request_of(self._config).sites)

    @property
    def are_requested(self) -> bool:
        """Whether another run judges this one's tests, and requests the causes of their failures."""
        return bool(self._apart and request_of(self._config).causes)

    def sites(self, profile: OpProfile, plan: TestPlan) -> SitesByOp:
        """Return the source lines of each op, and of each name in a budget."""
        limited = plan.budget.ops
        names = [*(stats.op for stats in profile.ops), *limited, *WITH_LINES]
        # The limits were checked before, so each name is known, but some ops may lack dtypes. A limit on a raw name
        # counts every event of that name, nested ones too; a baseline counts ops.
        of = partial(site_calls, profile, shown=self._shown, aliases=self._settings.aliases, known=names)
        return {name: found for name in names if (found := of(name, counted_only=name not in limited))}

    def located(
        self,
        test: TestRun,
        windows: list[JudgedWindow],
        again: Callable[[], Sequence[Window]] | None,
        is_repeatable: bool,
        no_sites: str,
    ) -> list[JudgedWindow]:
        """Look up the source lines of windows that fail for their work; return the windows with lines.

        *again* runs the body once more in this process, at once if it *is_repeatable*; otherwise a fresh process does,
        and this one only if no process is available. *no_sites* is the reason why a lookup may find no lines.
        """
        if self._apart or not any(window.asked for window in windows):
            return windows
        if again is not None and is_repeatable:
            windows = self._located_here(test, windows, again)
        if any(map(lacks_sites, windows)):
            told = "fails; re-running it in a fresh process to look up source lines"
            looks, why = self._looks.at(test, told, 1)
            is_later = len(looks) > 1 or (looks and self._looks.is_second)  # something ran there before
            if is_later and any(does_less(window, looks) for window in windows if lacks_sites(window)):
                looks, why = self._looks.at(test, told, 1, afresh=True)
            self._looks.end(windows, agrees=True)
            if again is not None and not looks:
                windows = self._located_here(test, windows, again)
            look = looks[-1] if looks else Answer({}, why)
            why = f"{why}{_LOOK}" if why and not self._settings.rank.is_alone else why
            why = why or look.why or no_sites
            windows = [with_sites(window, look, why) if lacks_sites(window) else window for window in windows]
        return [self._with_base_sites(test, window) if window.asked else window for window in windows]

    def _located_here(
        self, test: TestRun, windows: list[JudgedWindow], again: Callable[[], Sequence[Window]]
    ) -> list[JudgedWindow]:
        if not any(map(lacks_sites, windows)):
            return windows
        plan, others = test.plan, profiles_of(again())
        # A later round may do less than the first. In that case a process looks in which nothing ran before.
        alike = [window.name for window in windows if (now := others.get(window.name)) and is_alike(window, now)]
        found = [WindowNumbers.of(name, others[name], self.sites(others[name], plan)) for name in alike]
        look = Answer({}, "", {each.name: each.sites for each in found}, {each.name: each.remarks for each in found})
        return [with_sites(window, look) if lacks_sites(window) else window for window in windows]

    def _with_base_sites(self, test: TestRun, window: JudgedWindow) -> JudgedWindow:
        base = self._store.entry(window.environment, *test.where, window.name)
        if base is None:
            return window
        if window.repeat is not None:
            ops, _ = base.warm or ({}, {})
            if all(op in ops and not ops[op].calls.most for op in window.asked):
                return replace(window, base_sites={op: {} for op in window.asked})
            return replace(window, base_sites_lost="of later runs no source lines are stored")
        kept = self._store.sites(window.environment, *test.where, window.name)
        if isinstance(kept, str):
            # Of a window without an op no line is stored: all lines are new.
            return replace(window, base_sites_lost=kept) if base.ops else replace(window, base_sites={})
        known = {**{op: each.calls for op, each in base.ops.items()}, **base.facts}
        # The lines are those of one process, where calls vary.
        totals = {op: Calls.total(kept.get(op, {}).values()) for op in window.asked if op in known}
        fits = {
            op: is_about(op, known[op], each.bytes or 0)
            if op in IN_USE
            else known[op].least <= each.most <= known[op].most
            for op, each in totals.items()
        }
        stale = [op for op, does_fit in fits.items() if not does_fit]
        located = {op for op in window.asked if window.numbers.sites.get(op)}
        # A backend may tell the lines of fewer allocations than it counts, which says nothing about the lines of ops.
        facts = {op for op in stale if op not in base.ops}
        if len(facts) == len(stale) and not (located and located <= facts):
            return replace(window, base_sites=kept, uncompared=facts)
        op = min(stale, key=lambda op: (op in facts, op not in located))
        why = (
            f"the stored source lines belong to other calls of {called(op)}; pytest --opprof-update records them again"
        )
        if not kept.get(op):
            why = f"no source lines of {called(op)} are stored; pytest --opprof-update records them"
        return replace(window, base_sites_lost=why)

    def explained(
        self,
        test: TestRun,
        windows: list[JudgedWindow],
        again: Callable[[Collection[str]], Mapping[str, PythonCalls]],
    ) -> list[JudgedWindow]:
        """Look up the callers of Python functions in windows that fail for these; return the windows with lines.

        *again* runs the body once more in this process, and finds the callers of the given functions.
        """
        windows = [self._with_base_functions(test, window) if window.wanted_functions else window for window in windows]
        counted = [window for window in windows if window.numbers.python]
        wanted = set[str]().union(*(window.wanted_functions for window in counted))
        if not wanted:
            return windows
        is_cold = any(window.numbers.python and window.numbers.python.cold for window in counted)
        lines = self._looks.counted_cold(test, _ONCE, lines=True) if is_cold else again(wanted)
        return [_with_lines(window, lines) if window.wanted_functions else window for window in windows]

    def with_change(self, test: TestRun, windows: list[JudgedWindow]) -> list[JudgedWindow]:
        """Return the windows; those that fail for their work or calls know which of their lines changed since their
        baseline was written.

        A test that changed itself is the cause only if no other file of the window did.
        """
        return [
            replace(window, changed=self._changed(test, window))
            if not self._apart and window.diff is not None and (window.asked or window.wanted_functions)
            else window
            for window in windows
        ]

    def _changed(self, test: TestRun, window: JudgedWindow) -> Mapping[str, Sequence[range]]:
        """Return the changed lines of a window's files; none if git or the file system does not tell."""
        with suppress(UsageError, OSError, ValueError):
            if changes := self._changes_since(test, window):
                own = {changes.name_of(Path(test.file))}
                return changes.of(window.files - own) or changes.of(own)
        return {}

    def _show_changes(self, test: TestRun, window: JudgedWindow) -> None:
        """Let the lines that changed since a window's base be named as causes."""
        shown = test.measurement.shown if test.measurement else None
        assert shown is not None  # the test still runs
        with suppress(UsageError, OSError, ValueError):
            shown.changes = self._changes_since(test, window)

    def _changes_since(self, test: TestRun, window: JudgedWindow) -> Changes | None:
        """Return the changes since a window's base; None if there is none, or if git does not know."""
        commit = request_of(self._config).since if self._apart else self._commit_of_baseline(test, window)
        if commit not in self._changes:
            self._changes[commit] = None
            self._changes[commit] = Changes(self._config.rootpath, _CHANGES, commit) if commit else None
        return self._changes[commit]

    def _commit_of_baseline(self, test: TestRun, window: JudgedWindow) -> str:
        """Return the commit at which the file of a window's baseline was written; empty if git knows none."""
        home = self._store.home(window.environment, *test.where, window.name)
        if home is None:
            return ""
        file = path_of(self._store.root, home, test.where[0])
        if file not in self._commits:
            self._commits[file] = ""  # not asked again if git fails
            self._commits[file] = commit_of(file, _CHANGES)
        return self._commits[file]

    def slower_explained(
        self,
        test: TestRun,
        windows: list[JudgedWindow],
        sample: Callable[[bool], Sequence[Where]],
        count: Callable[[], Mapping[str, PythonCalls]],
        time: Callable[[], Sequence[FunctionTime]],
    ) -> list[JudgedWindow]:
        """Look up lines and functions that take the time of windows that fail for coarse time; return the windows.

        A body that shows no op although its baseline has some gets the lines that take its time now.

        *sample*, *count* and *time* run the body once more each in this process; *sample*, given whether the time of
        its first run is in question, finds no lines if a later one takes clearly less.
        """
        body = next((each for each in windows if each.name == BODY), None)
        if body and (self.are_requested if self._apart else body.is_slow or body.slower_here):
            self._show_changes(test, body)
        if self._apart:  # another process judges
            lines = sample(True) if self.are_requested else []
            functions = tuple(time()) if self.compares_lines else UNSET
            is_slow_side = self._settings.against and request_of(self._config).slow
            if is_slow_side and not all(each.numbers.python for each in windows):
                counted = count()
                known = [each.numbers.python or counted.get(each.name) for each in windows]
                windows = [
                    replace(each, numbers=structs.replace(each.numbers, python=python))
                    for each, python in zip(windows, known)
                ]
            return [
                _explained(replace(each, numbers=structs.replace(each.numbers, functions=functions)), OF_TIME, lines)
                if each.name == BODY
                else each
                for each in windows
            ]
        if body and body.unseen and not body.accepted:
            lines = sample(False)
            instead = tuple(each.text for each in lines)
            return [replace(each, instead=instead) if each.name == BODY else each for each in windows]
        slow = {each.name for each in windows if each.is_slow}
        # Calls of Python functions have lines. The lines of a time that fails nothing may be as before: an import in
        # biopython's function took 74 % of the time, then and now.
        if not slow and body and body.slower_here and not body.wanted_functions:
            lines = sample(True)
            return [_explained(each, [CPU_TIME], lines) if each.name == BODY else each for each in windows]
        if not slow:
            return windows
        lines, counted = sample(False), count()  # a first run alone that takes longer fails nothing
        if BODY in slow and not lines and counted[BODY].fails_again:
            look = self._looks.slow(test, counted[BODY].uncounted)
            unknown = f"the lines that take its time are unknown: {look.why}"
            lines = look.slow_lines or ([Where(unknown)] if look.why else [])
            counted = look.python
        return [self._with_functions(test, each, lines, counted) if each.name in slow else each for each in windows]

    def memory_explained(
        self,
        test: TestRun,
        windows: list[JudgedWindow],
        holders: Callable[..., Sequence[Where]],
        left: Callable[[], Left | None],
        kept: Callable[[], Sequence[Where]],
    ) -> list[JudgedWindow]:
        """Look up the cycle, and the lines of Python and NumPy, that hold the memory of a body that fails for it, and
        the holders of memory that it keeps; return the windows.

        *holders* runs the body again, given its peak, whether its lines are known, and whether it is of a device;
        *left* runs it many times, and *kept* once more, for the lines of memory that is no leak.
        """
        found = []
        for each in windows:
            if each.name == BODY:
                each = _explained(each, *self._held(test, each, holders))
                if self._keeps_more(each) and (leak := left()):
                    said = [Where(str(replace(leak, nbytes=0)), leak.line)] if leak.number else leak.filled
                    each = _explained(each, [KEPT_MEMORY], said or kept())
            found.append(each)
        return found

    def _keeps_more(self, window: JudgedWindow) -> bool:
        """Return True if memory that a body keeps is to be explained, and the body is short enough to run often."""
        kept = max(window.numbers.facts.get(KEPT_MEMORY, (0,)))
        is_asked = KEPT_MEMORY in [*(row.op for row in window.worse), *(each.rule for each in window.budget)]
        if self._apart:
            request = request_of(self._config)
            is_asked = bool(self._settings.against) and request.memory and request.causes and kept > NOTABLE_KEPT
        is_known = any(window.numbers.facts.get(LEFT_BEHIND, ()))  # a search for leaks found them
        return is_asked and not is_known and sum(window.numbers.host_ns) <= OFTEN_NS * window.numbers.rounds

    def _held(
        self, test: TestRun, window: JudgedWindow, holders: Callable[..., Sequence[Where]]
    ) -> tuple[Collection[str], Sequence[Where]]:
        """Return the peaks to explain, and in words their holders; empty if none is to be."""
        fails = {*(each.rule for each in window.budget), *(row.op for row in window.worse)}
        if self._apart:  # another process judges, and requests the lines of failing tests
            request = request_of(self._config)
            is_side = bool(self._settings.against) and request.sites  # the base's lines explain nothing, to be left out
            fails = {*PEAKS} if request.memory and (request.causes or is_side) else set()
        is_of_numpy = {name for name, _ in window.environment.frameworks} <= {"numpy"}
        facts = window.numbers.facts
        peaks = {name: max(column) for name in fails & PEAKS if (column := facts.get(name))}
        highest = max(peaks.values(), default=0)
        on_device = window.environment.device != "cpu" and HOST_MEMORY not in peaks
        known = is_of_numpy or HOST_MEMORY in peaks
        if not highest:
            return peaks, ()
        self._show_changes(test, window)
        found = holders(highest, are_lines_known=known, on_device=on_device)
        rise = max((row.work.rise(highest) for row in window.worse if row.op in peaks), default=math.inf)
        return peaks, _of_rise(found, f"{relative(test.file)}:", rise)

    def _with_functions(
        self, test: TestRun, window: JudgedWindow, lines: Sequence[Where], counted: Mapping[str, PythonCalls]
    ) -> JudgedWindow:
        python = counted.get(window.name)
        if python is None or python.uncounted:
            python = PythonCalls()
        kept = self._store.functions(window.environment, *test.where, window.name)
        said = [*lines] if window.name == BODY else []
        if isinstance(kept, str):  # another line than those that take the time may make as many calls as before
            slow = {each.line for each in said}
            found = [
                each for each in causes.most_called(python) if not each.line or not slow or each.line.location in slow
            ]
        else:
            found = causes.that_grew(kept.calls.with_own(python.own), python)
        # Where its calls fail, too, their cause stands there.
        said += in_words(found) if not said or not window.wanted_functions else []
        said += [Where(plural(python.collections, "full garbage collection"))] if python.collections > 1 else []
        return _explained(window, OF_TIME, said)

    def _with_base_functions(self, test: TestRun, window: JudgedWindow) -> JudgedWindow:
        if self._apart or window.diff is None:
            return window
        kept = self._store.functions(window.environment, *test.where, window.name)
        if isinstance(kept, str):
            return window.with_remark(f"the Python functions that grew are unknown: {kept}")
        own = window.numbers.python.own if window.numbers.python else ()
        return replace(window, base_functions=kept.calls.with_own(own), base_loops=kept.loops)


def _of_rise(found: Sequence[Where], of_test: str, rise: float) -> Sequence[Where]:
    """Return the holders of a peak without lines of the test if the others hold its *rise*, in bytes: it makes the same
    data as before.
    """
    others = [each for each in found if not each.line.startswith(of_test)]
    return others if sum(amount(each.text) for each in others) >= _MOST_OF_RISE * rise else found


def _with_lines(window: JudgedWindow, found: Mapping[str, PythonCalls]) -> JudgedWindow:
    python, lines = window.numbers.python, found.get(window.name)
    if python is None or lines is None:
        return window
    return replace(window, numbers=structs.replace(window.numbers, python=python.with_lines(lines)))


def _explained(window: JudgedWindow, quantities: Iterable[str], said: Sequence[Where]) -> JudgedWindow:
    if not said:
        return window
    return replace(window, numbers=window.numbers.explained_by(dict.fromkeys(quantities, joined(said))))


def in_words(found: Iterable[causes.Cause]) -> list[Where]:
    """Return the causes of calls in words, with their lines."""
    return [Where(each.text, each.line.location if each.line else "") for each in found]
