"""Re-run a test in another process: to confirm its extra work, and to look up the source lines of its failures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest
from msgspec import structs

from ...baselines.entry import WindowBaseline
from ...baselines.store import Store
from ...errors import BackendError, BaselineError
from ...frameworks.live.contract import Backend
from ...measure.plan import Settings
from ...ops.vocabulary import COMPILE
from ...processes.pool import NO_FRESH, Answer, Pool, TimeLimit
from ...processes.this_run import say
from ...profile.environment import Environment
from ...profile.memory import IN_USE
from ...profile.op_counts import GONE, Done, OpCounts, counts_of
from ...profile.op_profile import OpProfile, Remark
from ...profile.range import Range
from ...profile.timings import works_on_host
from ...python_calls.counted import PythonCalls
from ...results.judged_window import DEPENDS, JudgedWindow
from ...results.window_result import BODY
from ...units import format_ns, plural
from ...verdict.compare import changes, compare_counts_first, excuse, only_compiles
from ...verdict.diff import FIRST_USE, UNSTEADY
from ...verdict.quantities import FACTS, PYTHON_CALLS, RECOMPILATIONS, named
from ...verdict.times.coarse import clearly_more
from ...verdict.times.repeats import CONFIRMING_S
from ...verdict.times.stored_rule import unjudged
from ...verdict.tolerances import Tolerances
from ...verdict.verdicts import Verdict
from ..test_run import TestRun
from .order import AFTER_OTHERS, IN_ORDER, Order

_SHOWN = 3
# So many tests whose improvement a fresh process confirms: the change made it, and 300 more need none.
_ENOUGH = 3
# The most time that a run spends on confirming improvements, which fail nothing.
_FEWER_S = 20
_AGAIN = "in the re-run: "
_VARY = "record the baseline again: it stores varying calls as a range"
LATER = "in a later run of the body, as if a cache were lost"
_OF_MEMORY = ("memory", "host memory")


class Looks:
    """The re-runs of tests in other processes; one re-run of a test answers every question about it."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        store: Store,
        pool: Pool,
        errors: list[str],
        order: Order,
        *,
        is_apart: bool,
    ) -> None:
        """*errors* collects errors of baseline files, *is_apart*: whether another run judges these tests."""
        self._config = config
        self._settings = settings
        self._store = store
        self._pool = pool
        self._errors = errors
        self._order = order
        self._is_apart = is_apart
        self.limit = TimeLimit(CONFIRMING_S)
        self.is_second = False
        """Whether the process that re-ran this test had run others before."""
        self._fewer = 0
        """The number of tests whose improvement was confirmed, or could not be."""
        self._of_fewer = TimeLimit(_FEWER_S)
        self._found: tuple[list[Answer], str] | None = None

    def begin(self) -> None:
        """Begin another test."""
        self._found = None

    def confirmed(self, test: TestRun, windows: list[JudgedWindow]) -> list[JudgedWindow]:
        """Re-check windows with extra calls in a fresh process; return them updated.

        The work of a first use in a process depends on the tests before it, as do the caches that these fill.
        """
        windows = self._as_in_order(test, windows, self._order.known(test))
        if not any(window.does_more for window in windows):
            return windows
        found, agrees = self._looked_at(test, windows, afresh=False)
        if not agrees and self.is_second:  # only a process where nothing ran before excuses a test
            found, _ = self._looked_at(test, windows, afresh=True)
        if not any(window.does_more for window in found):
            return found
        return self._as_in_order(test, found, self._order.again(test, stays=may_stay(self._settings, found)))

    def _as_in_order(self, test: TestRun, windows: list[JudgedWindow], answer: Answer | None) -> list[JudgedWindow]:
        """Return the windows; one that did no more than its baseline after the tests that precede it is excused."""
        if answer is None:
            return windows
        judged = partial(_excused_in_order, answer, test.plan.tolerances)
        concerns = {window.name for window in windows if window.does_more} & answer.windows.keys()
        return test.with_bases(self._store, windows, lambda window: window.name in concerns, judged)

    def confirmed_less(self, test: TestRun, windows: list[JudgedWindow]) -> list[JudgedWindow]:
        """Return the windows without work that is less here, but not in a fresh process.

        Draws without a seed, and the order of a set of strings, make less in one run and more in the next. A few tests
        whose improvement is confirmed, or that no other process can run, speak for all others.
        """
        if self._fewer >= _ENOUGH or self._of_fewer.reached or not any(map(_only_does_less, windows)):
            return windows
        why = "does less than its baseline; re-running it in a fresh process to confirm"
        looks, _ = self.at(test, why, 1, limit=self._of_fewer)
        seen = looks[0].windows if looks else {}
        judged = partial(_with_less, seen, test.plan.tolerances)
        found = test.with_bases(self._store, windows, lambda each: _only_does_less(each) and each.name in seen, judged)
        self._fewer += any(map(_only_does_less, found))
        self.end(found, agrees=True)  # one that does as much as the baseline serves the next test as well
        return found

    def with_repeats(
        self, test: TestRun, windows: list[JudgedWindow], again: Callable[[], Mapping[str, OpProfile]]
    ) -> list[JudgedWindow]:
        """Compare a later run of a body with the baseline's, where that does less: a lost cache changes no first run.

        *again* runs the body once more in this process. Return the windows; one whose later run has more ops, here and
        in a fresh process, fails for these. An accepted one is measured anew by the update.
        """
        if any(window.budget or window.is_worse or window.unseen or window.excused for window in windows):
            return windows
        bases = test.bases(self._store, (window for window in windows if window.diff))
        if not any(map(_does_less_again, bases.values())):
            return windows
        later = {name: WindowBaseline(counts_of(profile)) for name, profile in again().items()}
        judged = partial(self._with_repeat, test, later)
        return test.with_bases(self._store, windows, lambda window: bool(window.diff) and window.name in later, judged)

    def _with_repeat(
        self, test: TestRun, later: Mapping[str, WindowBaseline], window: JudgedWindow, base: WindowBaseline
    ) -> JudgedWindow:
        """Return a window that fails for the extra ops of its *later* run, if a fresh process has them, too."""
        plan, again, before = test.plan, later[window.name], base.later or base.done
        shown = unjudged("a later run of the body is compared", ())
        diff = compare_counts_first(before, (again.ops, {}), shown, plan.tolerances, plan.top)
        more = [row.op for row in diff.rows if row.verdict.does_more]
        if not more or any(op in base.ops and base.ops[op].some_vary for op in more):
            return window
        window_now = replace(window, repeat=_differences(window, again))
        if window.accepted:
            return window_now
        why = "does more than its baseline when it runs again; re-running it in a fresh process to confirm"
        for afresh in (False, True):
            looks, lost = self.at(test, why, 2, afresh)
            seen = looks[-1].windows.get(window.name) if looks else None
            there = changes(before, (seen.ops, {}), plan.tolerances) if seen else {}
            agrees = all(op in there and there[op].does_more for op in more)
            self.end([window], agrees)
            if agrees or not self.is_second:  # only a process where nothing ran before excuses a test
                break
        if agrees:
            looked = f"{LATER}; confirmed in a fresh process"
            return with_sites(replace(window_now, diff=diff, confirmed=True, looked=looked), looks[-1])
        found = "; ".join(map(str, diff.findings()))
        lost = lost or next((look.why for look in looks if look.why), "")
        return window.with_remark(
            f"{found}, in a later run here; not confirmed in a fresh process{lost and f': {lost}'}"
        )

    def _looked_at(self, test: TestRun, windows: list[JudgedWindow], afresh: bool) -> tuple[list[JudgedWindow], bool]:
        """Re-check windows with extra calls in another process; return them updated, and whether it agrees."""
        looks, why = self.at(
            test, "does more than its baseline; re-running it in a fresh process to confirm", 2, afresh
        )
        judged = partial(with_looks, looks, why, test.plan.tolerances)
        found = test.with_bases(self._store, windows, lambda window: window.does_more, judged)
        asked = [now for before, now in zip(windows, found) if before.does_more]
        agrees = all(window.confirmed for window in asked)
        self.end(asked, agrees)
        return found, agrees

    def sees_alone(self, test: TestRun) -> bool:
        """Return True if a body that showed nothing has its baseline's calls when it runs alone in a fresh process.

        If the repeat differed (`WindowBaseline.warm`), it may have its calls alone instead; any, if these are unknown.
        """
        try:
            nothing = Environment((), ranks=self._settings.rank.size)
            base = self._store.entry(nothing, *test.where, BODY)  # in any environment
        except BaselineError as error:
            self._errors.append(str(error))
            return False
        if base is None or self._is_apart:
            return False
        looks, _ = self.at(test, "shows no op; re-running it in a fresh process to confirm", 1, afresh=True)
        self.end([], agrees=False)
        seen = looks[0].windows.get(BODY) if looks else None
        if seen is None or base.allows(seen):
            return seen is not None
        if base.alone is None:
            return base.warm is not None and bool(seen.ops)
        ops, facts = base.with_differences(base.alone)
        return replace(base, ops=ops, facts=facts).allows(seen)

    def at(
        self, test: TestRun, why: str, times: int, afresh: bool = False, limit: TimeLimit | None = None
    ) -> tuple[list[Answer], str]:
        """Return *times* measurements of another process, or why there are none; the terminal shows *why* it runs.

        One process answers every question about a test: its last repetition also records source lines. It is the
        process of an earlier test of the same file, unless it has to be a fresh one (*afresh*).
        """
        if self._found is None or afresh:
            self._found = self._measured(test, why, times, afresh, limit or self.limit)
        return self._found

    def end(self, windows: Iterable[JudgedWindow], agrees: bool) -> None:
        """End the process that re-ran *windows*, unless the next test may use it: it *agrees* with this process.

        Disagreement means that the order of tests matters.
        """
        if not (agrees and may_stay(self._settings, windows)):
            self._pool.forget()

    def counted_cold(self, test: TestRun, why: str, *, lines: bool = False) -> Mapping[str, PythonCalls]:
        """Count Python functions in a fresh process, in the only run of a body that cannot run twice (*why*).

        With *lines* it finds their callers. Empty if there is no time left, or no process.
        """
        told = "looking up the lines that make its Python calls" if lines else "counting its Python calls"
        return self._cold(test, f"{why}; {told} in a fresh process", lines=lines).python

    def slow(self, test: TestRun, why: str) -> Answer:
        """Return the lines that take the time of a body that cannot run twice (*why*), and its calls of functions.

        Both are from a fresh process.
        """
        return self._cold(test, f"{why}; looking in a fresh process for the lines that take its time", slow=True)

    @property
    def _no_process(self) -> str:
        """Why there can be no fresh process; empty if there can."""
        rank = self._settings.rank
        return "" if rank.is_alone else f"{NO_FRESH} {rank.size} ranks"

    def _cold(self, test: TestRun, why: str, *, slow: bool = False, lines: bool = False) -> Answer:
        if why_not := self.limit.reached or self._no_process:
            return Answer({}, why_not)
        say(self._config, f"opprof: {test.id}: {why}")
        with self.limit.spent():
            try:
                return self._pool.cold(test.file, test.id, slow=slow, lines=lines)
            except BackendError as error:
                return Answer({}, str(error))

    def _measured(
        self, test: TestRun, why: str, times: int, afresh: bool, limit: TimeLimit
    ) -> tuple[list[Answer], str]:
        self.is_second = False
        if why_not := self._no_process or limit.reached:
            return [], why_not
        with limit.spent():
            try:
                if not afresh and (found := self._pool.second(test.file, test.id, times)):
                    self.is_second = True
                    return found, ""
                say(self._config, f"opprof: {test.id} {why}")
                return self._pool.alone(test.file, test.id, times), ""
            except BackendError as error:
                return [], str(error)


def with_later(windows: Iterable[JudgedWindow], later: Mapping[str, OpProfile]) -> list[JudgedWindow]:
    """Return the windows with their differences in a *later* run of the body."""
    return [
        replace(each, repeat=_differences(each, WindowBaseline(counts_of(later[each.name]))))
        if each.name in later
        else each
        for each in windows
    ]


def _differences(window: JudgedWindow, later: WindowBaseline) -> Done:
    return WindowBaseline(window.numbers.counts).differences(later)


def may_stay(settings: Settings, windows: Iterable[JudgedWindow]) -> bool:
    """Return True if a process that ran *windows* may stay for the next test: it holds its device memory meanwhile."""
    return not settings.serialize and all(works_on_host(each.environment) for each in windows)


def _only_does_less(window: JudgedWindow) -> bool:
    """Return True if a window does less than its baseline, and nothing else changed that matters."""
    is_open = not (window.accepted or window.excused or window.unseen or window.is_worse or window.budget)
    return is_open and window.diff is not None and bool(window.diff.does_less)


def _with_less(
    seen: Mapping[str, WindowBaseline], tolerances: Tolerances, window: JudgedWindow, base: WindowBaseline
) -> JudgedWindow:
    """Return a window without the work that is less here than in its baseline, but not in a fresh process."""
    diff = window.diff
    assert diff is not None  # it does less
    there = changes(base.done, seen[window.name].done, tolerances)
    varied = [op for op in diff.does_less if op not in there or not there[op].is_improvement]
    said = [str(diff.finding(row)) for row in diff.rows if row.op in varied]
    window = window.with_remark(f"{'; '.join(said)}; but not in a fresh process, {DEPENDS}") if said else window
    return replace(window, diff=diff.without(varied, UNSTEADY))


def _does_less_again(base: WindowBaseline) -> bool:
    """Return True if an op ran less often in the second run of the baseline's test."""
    ops, _ = base.warm or ({}, {})
    return any(op in base.ops and each.calls.most < base.ops[op].calls.most for op, each in ops.items())


def with_looks(
    looks: Sequence[Answer], why: str, tolerances: Tolerances, window: JudgedWindow, base: WindowBaseline
) -> JudgedWindow:
    """Return a window with extra work, updated by *looks* at it in another process; *why* there are none."""
    window = _with_remarks(window, looks)
    found = [look.windows[window.name] for look in looks if window.name in look.windows]
    # Only the last look records leaks.
    left = {name: each for name, each in (found[-1].facts if found else {}).items() if FACTS[name].needs == "leaks"}
    seen = [(each.ops, {**left, **each.all_facts}) for each in found]
    if len(seen) < len(looks) or not looks:
        why = why or next((look.why for look in looks if look.why), "the window was not opened there")
        return replace(window, looked=f"not confirmed in a fresh process: {why}")
    base = base.comparable_here(window.numbers)
    was, now = base.done, window.numbers.done
    repeat = base.later or base.done
    alone = None if base.alone is None else base.with_differences(base.alone)
    compiles = base.compiled_anew and only_compiles(was, seen, tolerances, repeat)
    if not compiles and (excused := excuse(was, now, seen, tolerances, repeat, alone)):
        return replace(window, excused=excused)
    window = _without_calls_of_other_versions(window, base, found[-1])
    certain = (RECOMPILATIONS,) if compiles else _compiled_more(alone, now, seen[0], tolerances)
    window = _without_first_uses(window, changes(repeat, seen[-1], tolerances), certain)
    window = window if does_less(window, looks) else with_sites(window, looks[-1])
    worse = [op for op, verdict in changes(was, now, tolerances).items() if verdict.is_regression]
    worse = [op for op in worse if op not in window.first_uses]
    first, last = changes(now, seen[0], tolerances), changes(now, seen[-1], tolerances)
    # With the same ops, a first use in a process may do more than the change does: it imports, or fills a cache.
    varied = [_said_alone(op, first[op], *seen[0]) for op in worse if op in first and op in last]
    if varied:
        against_base = [changes(was, each, tolerances) for each in seen]
        more = all(op in found and found[op].is_regression for found in against_base for op in worse)
        advice = "; more than in the baseline, too" if more else f". {_VARY}"
        return replace(window, looked=f"alone in a fresh process: {', '.join(varied)}{advice}")
    again = " the second time" if any(op in first for op in worse) else ""
    return replace(window, confirmed=True, looked=f"confirmed in a fresh process{again}{_told(window.first_uses)}")


def _said_alone(op: str, verdict: Verdict, ops: Mapping[str, OpCounts], facts: Mapping[str, Range]) -> str:
    """Return the number of an op, or of a fact of the window, in a fresh process; or how its work differs there."""
    if op in FACTS and op in facts:
        return f"{FACTS[op].called} {FACTS[op].unit.write(facts[op].most, 3)}"
    return f"{op} {(ops[op].calls if op in ops else 0) if verdict.is_of_calls else verdict.value}"


def _excused_in_order(
    answer: Answer, tolerances: Tolerances, window: JudgedWindow, base: WindowBaseline
) -> JudgedWindow:
    """Return a window without extra and missing work that it does not have after the tests that precede it.

    Its time is judged all the same.
    """
    assert window.diff is not None  # it does more
    worse, seen = [row.op for row in window.worse if row.verdict.does_more], answer.windows[window.name]
    found = changes(base.comparable_here(window.numbers).done, seen.done, tolerances)
    is_unknown = any(op in FACTS and op not in seen.all_facts for op in worse)
    if is_unknown or any(verdict.is_regression for verdict in found.values()):
        return window
    said = "; ".join(str(window.diff.finding(row)) for row in window.worse if row.op in worse)
    less = [op for op in window.diff.does_less if op not in found or not found[op].is_improvement]
    diff = window.diff.without([*worse, *less], AFTER_OTHERS)
    window = replace(window, diff=diff, looked="", confirmed=False, first_uses=())
    return window.with_remark(f"{said}; but {IN_ORDER}")


def _without_calls_of_other_versions(window: JudgedWindow, base: WindowBaseline, seen: WindowBaseline) -> JudgedWindow:
    """Return a window without its calls of other versions if *seen*, a repeat in a fresh process, takes no clearly
    longer time.

    On a busy machine CPU time varies by up to 1.6 times, and the first run there imports.
    """
    took = seen.coarse_here
    if not base.grown_across_versions(window.numbers) or not took or not base.coarse_here or window.diff is None:
        return window
    if clearly_more(replace(base.coarse_here, first=None), took):
        return window
    told = [str(window.diff.finding(row)) for row in window.diff.rows if row.op == PYTHON_CALLS]
    rows = [replace(row, verdict=Verdict.OK) if row.op == PYTHON_CALLS else row for row in window.diff.rows]
    window = replace(window, diff=replace(window.diff, rows=tuple(rows)))
    return window.with_remark(f"{told[0]}; not judged: {format_ns(took.cpu_ns[0])} in a fresh process")


def _compiled_more(alone: Done | None, now: Done, first: Done, tolerances: Tolerances) -> Collection[str]:
    """Return the op of compilations if they are more than in the baseline's first run *alone* in a process: here, and
    in the *first* run of a fresh process.

    No import compiles a function, and no test that ran before hid that from the baseline.
    """
    is_more = alone is not None and COMPILE in now[0] and COMPILE not in changes(now, first, tolerances)
    beyond = changes(alone, first, tolerances) if alone is not None and is_more else {}
    return (COMPILE,) if COMPILE in beyond and beyond[COMPILE].is_regression else ()


def _without_first_uses(
    window: JudgedWindow, repeated: Mapping[str, Verdict], certain: Collection[str]
) -> JudgedWindow:
    """Return a window without the work that its repeat does not do again, such as an import.

    *repeated* are the verdicts on its ops in the second run of a process. If only first uses got worse, the window
    stays as it is, and `excuse` decides, as it has for *certain* work.
    """
    assert window.diff is not None  # without a diff nothing would be worse
    worse = [row.op for row in window.diff.rows if row.verdict.does_more]
    # Garbage collection begins at another time in a repeat, which moves a peak.
    kept = {op for op in worse if op in certain or (op in FACTS and FACTS[op].needs in _OF_MEMORY)}
    once = tuple(op for op in worse if op not in repeated and op not in kept)
    if not any(op in repeated and repeated[op].is_regression for op in worse):
        return window
    rows = tuple(replace(row, verdict=Verdict.OK, why=FIRST_USE) if row.op in once else row for row in window.diff.rows)
    return replace(window, diff=replace(window.diff, rows=rows), first_uses=once)


def _told(first_uses: Sequence[str]) -> str:
    if not first_uses:
        return ""
    ops = ", ".join(map(named, first_uses[:_SHOWN])) + (", ..." if len(first_uses) > _SHOWN else "")
    number = plural(len(first_uses), "op")
    return f"; {number} ({ops}) left out: a repeat does not run them again, like an import"


def why_no_sites(backends: Iterable[Backend], windows: Iterable[JudgedWindow]) -> str:
    """Return why the source lines of *windows* may be unknown, with a remedy."""
    frameworks = {name for window in windows for name, _ in window.environment.frameworks}
    seen = [backend for backend in backends if backend.name in frameworks]
    said = [
        backend.sites_hint or ("" if backend.tells_sites else f"the {backend.name} backend records no source lines")
        for backend in seen
    ]
    return "; ".join(filter(None, said)) or "no line of the program ran while the ops were recorded"


def without_sites(windows: Iterable[JudgedWindow], why: str) -> list[JudgedWindow]:
    """Return the reports with the reason *why* the lines of their failures are unknown."""
    return [replace(window, sites_lost=why) if lacks_sites(window) else window for window in windows]


def lacks_sites(window: JudgedWindow) -> bool:
    """Return True if a window fails for its work and its lines were not looked up."""
    return bool(window.asked) and not window.numbers.sites and not window.sites_lost


def does_less(window: JudgedWindow, looks: Sequence[Answer]) -> bool:
    """Return True if the last of the *looks*, which has the lines, makes fewer of the calls that a window fails for.

    Fewer than the first look, or than here if it is the only one: a cache is full by then.
    """
    first, last = (look.windows.get(window.name) for look in (looks[0], looks[-1]))
    if first is None or last is None:
        return False
    before = first.ops if len(looks) > 1 else window.numbers.counts
    asked = [op for op in window.asked if op in before]
    return any(last.ops.get(op, GONE).calls.most < before[op].calls.most for op in asked)


def is_alike(window: JudgedWindow, again: OpProfile) -> bool:
    """Return True if a window made the same calls *again* and lines are known; a debugger can prevent that."""
    has_lines = any(key.site and key.site.frames for key in again.keys)
    calls = {op: each.calls.most for op, each in window.numbers.counts.items()}
    return has_lines and calls == {stats.op: stats.most_calls for stats in again.ops}


def _with_remarks(window: JudgedWindow, looks: Iterable[Answer]) -> JudgedWindow:
    """Return a window with the remarks that backends made only in further *looks* at it."""
    before = window.numbers.remarks
    found = (each for look in looks for each in look.remarks.get(window.name, ()))
    # The number of processes can differ in a repeat: multiprocessing starts one of its own the first time.
    told = {"processes"} & {each.about for each in before} | (set() if window.asked else {"lines"})
    new = [each for each in found if each not in before and each.about not in told]
    said = dict.fromkeys([*before, *(Remark(f"{_AGAIN}{each.text}") for each in new)])
    return replace(window, numbers=structs.replace(window.numbers, remarks=tuple(said)))


def is_about(name: str, known: Range, nbytes: int) -> bool:
    """Return True if the memory in use of lines, *nbytes*, is about that of their window: *known*."""
    gate = FACTS[name].gate
    return gate is not None and not gate.direction(known, Range(nbytes))


def with_sites(window: JudgedWindow, look: Answer, why: str = "") -> JudgedWindow:
    """Return a window with the lines that a further *look* found; *why* there may be none."""
    window, found = _with_remarks(window, [look]), look.sites.get(window.name)
    # A later run may begin with other memory, and has other lines then.
    facts = window.numbers.facts
    found = {
        op: sites
        for op, sites in (found or {}).items()
        if op not in IN_USE or is_about(op, Range(max(facts.get(op, (0,)))), sum(each.bytes or 0 for each in sites))
    }
    if not found:
        return replace(window, sites_lost=why) if why else window
    return replace(window, numbers=structs.replace(window.numbers, sites=found))
