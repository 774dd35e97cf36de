"""Judge the coarse time of a test: it must exceed the limit here and in fresh processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from ...baselines.store import Store
from ...errors import BackendError, BaselineError
from ...machine.cpu_core import YARDSTICK
from ...machine.identity import machine, with_python
from ...machine.load import Watch
from ...measure.plan import Settings
from ...processes.pool import Answer, Pool, TimeLimit
from ...processes.this_run import CORE, say
from ...profile.op_profile import OpProfile
from ...python_calls.causes import sleeps_more
from ...results.judged_window import JudgedWindow
from ...results.window_result import WindowNumbers, coarse_of
from ...units import format_ns
from ...verdict.diff import Diff
from ...verdict.quantities import COARSE, WALL_TIME
from ...verdict.times.coarse import (
    Coarse,
    Slower,
    as_before,
    base_for,
    is_about,
    is_split_only,
    recording,
    slower,
    slower_despite_tracer,
    slower_repeated,
    together,
    waits_long,
    where,
)
from ...verdict.times.repeats import COARSE_PROCESSES, TIMES_S
from ..test_run import TestRun
from .counts import may_stay
from .order import IN_ORDER, Order


@dataclass
class _Suspect:
    """A window over its limit in this process, and its times in fresh processes."""

    base: Coarse
    elsewhere: bool
    here: Slower
    doubted: bool = False
    """Whether it makes fewer calls, so that a shorter time counts."""
    repeats: bool = False
    """Whether the time is that of repeated runs."""
    seen: list[Coarse] = field(default_factory=list)
    """The least time of each fresh process."""
    first: list[Coarse] = field(default_factory=list)
    """The first time of each fresh process."""
    has_later: bool = False
    """Whether one of them ran the test twice."""
    is_shared: bool = True
    """Whether others used the machine beside each of them."""
    has_first: bool = field(init=False)
    """Whether the first run in a process takes clearly longer in the baseline."""

    def __post_init__(self) -> None:
        self.has_first = self.base.first is not None

    def over(self, seen: Sequence[Coarse]) -> Slower | None:
        return self._over(self.base, seen, wall=True) if seen else None

    def _over(self, base: Coarse, seen: Sequence[Coarse], *, wall: bool, shared: bool = False) -> Slower | None:
        if self.repeats:
            return slower_repeated(base, together(seen), shared=shared)
        return slower(base, together(seen), wall=wall, elsewhere=self.elsewhere, shared=shared, doubted=self.doubted)

    def slower(self, *, wall: bool = True, shared: bool = False) -> Slower | None:
        base = self.base if self.has_later or self.repeats else self.base.at_first
        if not self.seen:
            return None
        return self._over(base, self.seen, wall=wall, shared=shared)

    def is_refuted_by(self, seen: Sequence[Coarse]) -> bool:
        """Return True if the first run of a process, *seen*, shows that it is not slower.

        It shows nothing about later runs if the first one compiles or imports in the baseline, too.
        """
        if self.repeats:
            return any(each.repeated_ns for each in seen) and not self._over(self.base, seen, wall=False)
        return bool(seen) and not self.has_first and not self._over(self.base.at_first, seen, wall=True)

    @property
    def waits_long(self) -> bool:
        """Whether it waits for so much longer in fresh processes that no other program explains it."""
        return bool(self.seen) and waits_long(self.base, together(self.seen), elsewhere=self.elsewhere)

    def slower_at_first(self) -> Slower | None:
        return self._over(self.base.at_first, self.first, wall=False)


class Coarsely:
    """Judges coarse times of windows whose wall time no other rule judges."""

    def __init__(
        self, config: pytest.Config, settings: Settings, store: Store, pool: Pool, order: Order, is_parallel: bool
    ) -> None:
        """*is_parallel*: whether other tests run at the same time."""
        self._config = config
        self._settings = settings
        self._store = store
        self._pool = pool
        self._order = order
        self._is_parallel = is_parallel
        self._machine = with_python(machine())
        self._is_first = True
        """Whether no test ran here before; the first test imports frameworks and starts their profilers."""
        self._limit = TimeLimit(TIMES_S)
        self._said = 0

    def settled(
        self,
        test: TestRun,
        windows: Sequence[JudgedWindow],
        again: Callable[[], Mapping[str, OpProfile]] | None,
        unrecorded: Callable[[], Mapping[str, Coarse]] | None,
    ) -> list[JudgedWindow]:
        """Return the reports, with each time that is slower both in this process and in fresh ones.

        *again* runs the body once more in this process and returns the profile of each window; *unrecorded* the time
        of windows that take clearly less if their ops are not recorded. None if nobody knows that it may run twice. A
        first run that compiles or imports, as in the baseline, may hide a later one that became slower.
        """
        was_first, self._is_first = self._is_first, False
        core = self._config.stash.get(CORE, None)
        if core:
            seen = [each.yardstick_ns for window in windows if (each := window.numbers.coarse) and each.yardstick_ns]
            core.best_ns = min([core.best_ns, *seen])
        found, suspects, hidden_ones = list[JudgedWindow](), dict[str, _Suspect](), dict[str, _Suspect]()
        repeated = dict[str, _Suspect]()
        for window in windows:
            now, known = window.numbers.coarse, self._base(test, window)
            if known is None or (now is None and self._settings.sites):
                found.append(window)
                continue
            base, elsewhere = known
            if now is None:
                # Under coverage or a debugger, fresh processes measure a test that seems much slower.
                if over := slower_despite_tracer(base.at_first, window.numbers.host_ns):
                    suspects[window.name] = _Suspect(base, elsewhere, over)
                found.append(replace(window, coarsely=True))
                continue
            assert window.diff is not None  # it has a base
            diff = window.diff
            doubted = diff.only_calls_less
            over = slower(base.at_first, now, wall=True, elsewhere=elsewhere, doubted=doubted)
            if not (elsewhere or window.does_more) and (in_repeats := slower_repeated(base, now)):
                repeated[window.name] = _Suspect(base, elsewhere, in_repeats, repeats=True)
            if over and not (window.does_more and diff.explains(over.factor)):
                suspects[window.name] = _Suspect(base, elsewhere, over, doubted)
            elif hidden := slower(base, now, wall=True, elsewhere=elsewhere, doubted=doubted):
                hidden_ones[window.name] = _Suspect(base, elsewhere, hidden, doubted)
            # The first test may import for itself the modules that tests before it had imported for the baseline.
            if not elsewhere and (window.does_more or not was_first):
                window = window.weighed(base)
            is_split = not now.threaded and is_split_only(base.at_first, now, elsewhere)
            split = base.at_first.split if is_split else ""
            said = [f"{split}; judged by the slowest process"] if split else []
            weighs, slower_here = "", False
            if window.does_more:  # it fails for that, and nothing confirms a time that the work explains
                before, after = base.at_first, now
                if unrecorded and now.may_be_recording and (bare := unrecorded().get(window.name)):
                    before, after = base.unrecorded or base, bare
                    over = slower(before, after, wall=True, elsewhere=elsewhere, doubted=doubted)
                # A baseline of several threads was measured in one: ignite's x4 was x94 beside spinning ones.
                slower_here = over is not None and not now.threaded
                weighs = f"{over.line(diff.then)}, in this process" if over and slower_here else ""
                # First runs import or compile, which hides the time of later ones: 5.1 ms where these take x34.
                if not (weighs or elsewhere or over or now.threaded or before is base.first):
                    weighs = as_before(before, after, diff.then)
            said = [*window.said, *said]
            found.append(replace(window, coarsely=True, weighs=weighs, slower_here=slower_here, said=said))
        if any(window.budget for window in windows):
            return found
        fails = any(window.does_more for window in windows)
        if hidden_ones and again and not fails:
            later = {name: time for name, profile in again().items() if (time := coarse_of(profile))}
            suspects |= {name: each for name, each in hidden_ones.items() if name in later and each.over([later[name]])}
        for suspect in suspects.values():
            if bare := suspect.base.unrecorded:  # without it, recording takes little of the base
                suspect.base = replace(bare, first=suspect.base.at_first)
        found = self._confirmed(test, found, suspects, was_first)
        for window in found:
            if window.is_slow:
                repeated.pop(window.name, None)
        return self._confirmed(test, found, repeated, was_first)

    def _confirmed(
        self, test: TestRun, windows: list[JudgedWindow], suspects: Mapping[str, _Suspect], was_first: bool
    ) -> list[JudgedWindow]:
        """Return *windows*, with the time of each of the *suspects* that fresh processes confirm."""
        if not suspects:
            return windows
        answer = self._order.known(test)
        fine = [name for name, each in suspects.items() if answer and each.is_refuted_by(self._of(answer, name))]
        windows = [_as_in_order(each, suspects[each.name].here) if each.name in fine else each for each in windows]
        suspects = {name: each for name, each in suspects.items() if name not in fine}
        why, busy = self._look(test, windows, suspects) if suspects else ("", "")
        return [
            self._concluded(test, window, suspects[window.name], why, busy, was_first)
            if window.name in suspects
            else window
            for window in windows
        ]

    def _base(self, test: TestRun, window: JudgedWindow) -> tuple[Coarse, bool] | None:
        """Return a window's base, and whether it is from another machine; None without a base."""
        diff = window.diff
        if diff is None or window.accepted or window.excused or window.unseen or not self._settings.rank.is_alone:
            return None
        if not is_judged(diff):
            return None
        try:
            base = self._store.entry(window.environment, *test.where, window.name)
        except BaselineError:
            return None  # reported where its calls were to be compared
        return base_for(base.coarse, self._machine) if base else None

    def _look(
        self, test: TestRun, windows: Sequence[JudgedWindow], suspects: Mapping[str, _Suspect]
    ) -> tuple[str, str]:
        """Measure *suspects* in fresh processes; return why that failed, and who else used the machine."""
        busy = ""
        stays = may_stay(self._settings, windows)
        repeats = any(each.repeats for each in suspects.values())

        def is_enough(answer: Answer) -> bool:
            return repeats or not any(each.over(self._of(answer, name)) for name, each in suspects.items())

        for number in range(COARSE_PROCESSES):
            if why := self._limit.reached:
                return why, busy
            if not number:
                again = f"re-running it in up to {COARSE_PROCESSES} fresh processes to confirm"
                self._said += 1
                if self._said <= _SAID:
                    say(self._config, f"opprof: {test.id} takes longer than its baseline; {again}")
                elif self._said == _SAID + 1:
                    say(self._config, "opprof: more tests take longer than their baselines; re-running them, too")
            watch = Watch()
            with self._limit.spent():
                try:
                    answers = self._pool.in_one_thread(test.id, number, stays, is_enough, repeats=repeats)
                except BackendError as error:
                    return str(error), busy
            is_ignored = self._settings.noise == "ignore"
            parallel = _IN_PARALLEL if self._is_parallel else ""
            disturbed = parallel or ("" if is_ignored else watch.busy() or self._slow_core(answers, suspects))
            busy = busy or disturbed
            for name, suspect in suspects.items():
                times = [each for answer in answers for each in self._of(answer, name)]
                if suspect.repeats:
                    times = [each for each in times if each.repeated_ns]
                if not times:
                    untimed = (
                        "the body cannot run again" if suspect.repeats else "coverage or a debugger traces them, too"
                    )
                    is_open = any(name in answer.windows for answer in answers)
                    return answers[-1].why or (untimed if is_open else "the window was not opened there"), busy
                suspect.seen.append(together(times))
                suspect.first += times[:1]
                suspect.has_later |= len(times) > 1
                suspect.is_shared &= bool(disturbed) and not is_ignored
            if not any(each.slower() for each in suspects.values()):
                break
        return "", busy

    def _slow_core(self, answers: Sequence[Answer], suspects: Iterable[str]) -> str:
        """Return in words that the core was slower than at its best beside the least time of a suspect; empty if it was
        not, or nobody knows.
        """
        core, longer = self._config.stash.get(CORE, None), 0.0
        for name in suspects:
            times = [each for answer in answers for each in self._of(answer, name)]
            if core and times:
                longer = max(longer, min(times, key=lambda each: each.cpu_ns).yardstick_ns / core.best_ns)
        return f"a fixed piece of work takes x{longer:.3g} as long as at best" if longer > YARDSTICK else ""

    def _sleeps_more(self, test: TestRun, window: JudgedWindow) -> bool:
        kept = self._store.functions(window.environment, *test.where, window.name)
        return not isinstance(kept, str) and sleeps_more(kept.calls, window.numbers.python)

    def _of(self, answer: Answer, window: str) -> list[Coarse]:
        entry = answer.windows.get(window)
        return [entry.coarse[self._machine]] if entry and self._machine in entry.coarse else []

    def _concluded(
        self, test: TestRun, window: JudgedWindow, suspect: _Suspect, why: str, busy: str, was_first: bool
    ) -> JudgedWindow:
        assert window.diff is not None  # without a diff it would be no suspect
        if why and (suspect.slower() or not suspect.seen):
            return replace(window, undecided=f"{suspect.here.line()}, but could not be re-measured: {why}")
        is_sure = not busy or suspect.waits_long or self._sleeps_more(test, window)
        if found := suspect.slower(wall=is_sure, shared=suspect.is_shared):
            answer = self._order.again(test, stays=may_stay(self._settings, [window]))
            if answer and suspect.is_refuted_by(self._of(answer, window.name)):
                return _as_in_order(window, found)
            work = found.work(
                *(["in the fastest of repeated runs"] if suspect.repeats else []),
                *explained(window, found, was_recorded=test.has_fixture),
                *([_ELSEWHERE] if suspect.elsewhere else []),
            )
            looked = f"confirmed in {COARSE_PROCESSES} fresh processes, in one thread"
            looked = f"{window.looked}; {COARSE[found.name]} {looked}" if window.looked else looked
            return replace(window, diff=window.diff.with_slower(found, work), looked=looked, weighs="")
        if waits := suspect.slower():
            return replace(window, undecided=f"{waits.line()}, unreliable while {busy}")
        if suspect.first and not was_first and (first := suspect.slower_at_first()):
            again = f"the first time in a process; {format_ns(together(suspect.seen).cpu_ns[0])} the second time"
            return replace(window, said=(*window.said, f"{first.line()}, {again}: an import, a cache or a compilation"))
        return window


def _as_in_order(window: JudgedWindow, found: Slower) -> JudgedWindow:
    return replace(window, said=(*window.said, f"{found.line()}; but {IN_ORDER}"))


def is_judged(diff: Diff) -> bool:
    """Return True if coarse time is useful: wall time has no sharper rule here."""
    return not diff.wall_is_judged


_SAID = 3
"""Announce so many tests that are run again."""
_IN_PARALLEL = "other tests run at the same time"
_ELSEWHERE = "the baseline is of another machine or Python"


def explained(window: JudgedWindow, found: Slower, *, was_recorded: bool) -> Iterator[str]:
    """Yield the known causes of a slower window, and whether recording its ops takes part of the time."""
    assert window.diff is not None
    if not window.numbers.ops:
        yield "no op ran in it"
    elif not any(row.verdict.is_change for row in window.diff.rows):
        yield "ops unchanged"
    if found.name == WALL_TIME and window.numbers.coarse:
        yield f"it waits: CPU time is {format_ns(window.numbers.coarse.cpu_ns[0])}"
    elif window.numbers.ops:
        cpu_ns = window.numbers.coarse.cpu_ns[0] if window.numbers.coarse else 0
        if was_recorded or is_about(cpu_ns, found.now_ns):  # recording takes time between and in ops
            yield _where(window.numbers)
        if was_recorded and (said := recording(max(window.numbers.total.calls), cpu_ns)):
            yield said


def _where(numbers: WindowNumbers) -> str:
    in_ops = numbers.total.device_ns
    return where(None if in_ops is None else sum(in_ops), sum(numbers.host_ns))
