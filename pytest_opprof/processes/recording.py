"""Measure the content of a baseline in further processes: calls, which may vary, and times, which always do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from time import monotonic

import pytest

from ..errors import BackendError
from ..machine.load import QUIET_PATIENCE_S, Watch, quiet_again
from ..measure.plan import Settings
from ..profile.op_counts import OpCounts, listed
from ..profile.range import Range
from ..profile.timings import disturbances
from ..report.summary import Summary
from ..results.test_result import TestRecord
from ..results.window_result import SitesByOp
from ..units import plural
from ..verdict.quantities import FACTS, OF_PYTHON
from ..verdict.times.noise import clean_processes
from ..verdict.times.repeats import CALL_PROCESSES, VARYING_PROCESSES
from ..verdict.times.stored_rule import STORED_RULE
from .pool import Answer, Batch, Pool, Process
from .recorded_window import RecordedWindow, is_timed
from .request import Request
from .this_run import say

# A process that takes this many times as long as the tests took before hangs.
_PATIENCE = 10
_LEAST_PATIENCE_S = 300
# The least time for measuring tests alone whose first run in a process does more than a second. Of the others the
# second run in a fresh process decides, which hides only what a change adds to the first.
_ALONE_S = 15
_AGAIN = (
    "Counts and coarse times were recorded; times to compare with were not. Record them on a quiet machine, or use"
    " --opprof-noise=ignore"
)
# Libraries that make a test do more or less in each run, with a remedy.
ADAPTS = {
    "Hypothesis": "each run draws different examples (@settings(derandomize=True, database=None) draws the same)",
    "pytest-benchmark": "it runs the function as often as time allows (--benchmark-disable: once)",
}


class Recording:
    """Measures tests again, one further process after the other, and adds the results to their records."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        pool: Pool,
        watch: Watch,
        summary: Summary,
        took_s: float,
        quiet_again: Callable[[], bool] = quiet_again,
    ) -> None:
        """*watch* was made before the first time was measured, *summary* gets the messages; this run *took_s*.

        *quiet_again* waits until others no longer use the machine, and returns whether it is quiet.
        """
        self._config = config
        self._settings = settings
        self._pool = pool
        self._watch = watch
        self._lines = summary.lines
        self._errors = summary.errors
        self._windows: dict[tuple[str, str], RecordedWindow] = {}
        self._took_s = took_s
        self._quiet_again = quiet_again
        self._sites = defaultdict[str, list[Mapping[str, SitesByOp]]](list)
        """The source lines of tests whose calls were measured with them, of each such process."""
        self._is_broken = False
        """Whether further processes are impossible."""

    def calls(self, tests: Sequence[TestRecord], processes: int) -> None:
        """Measure *tests* in *processes* processes in all, this one included, and find the calls that vary.

        The last process also records source lines, if no times are needed, because a separate process would import the
        framework once more.
        """
        of_tests = [(test, self._of(test)) for test in tests]
        windows = [window for _, of_test in of_tests for window in of_test]
        if windows and processes > 1:
            with_lines = {test.id for test in tests if test.tells_sites and not any(map(is_timed, test.windows))}
            self._measure(windows, range(2, processes + 1), processes, with_lines, warm=True)
            varying = [window for window in windows if window.varies]
            if varying and processes == CALL_PROCESSES and not self._is_broken:
                further = range(processes + 1, VARYING_PROCESSES + 1)
                with_lines &= {window.test.id for window in varying}
                # The first have the hash seeds of the ones before. If they agree, the order of sets is the cause.
                self._measure(varying, further, VARYING_PROCESSES, with_lines, varying=True)
        of_ops, of_python = dict[str, list[str]](), dict[str, dict[str, Range]]()
        for test, of_test in of_tests:
            vary: dict[str, OpCounts] = {}
            for window in of_test:
                window.keep_coarse()
                vary |= window.keep_calls_that_vary()
                known = window.result.vary or self._is_broken or is_timed(window.result)
                if window.lost and not known:
                    self._lines.append(f"{window.title}: it is unknown whether its calls vary: {window.lost}")
            if vary:
                at: dict[str, str] = {}
                for window in of_test:
                    at |= _lines_that_vary([each.get(window.result.name, {}) for each in self._sites[test.id]])
                why = {window.why_it_varies for window in of_test if window.result.vary}
                of_ops.setdefault(_said_to_vary(test, vary, at, why), []).append(test.id)
                continue
            for window in of_test:
                facts = window.result.facts_vary
                # Calls vary with the iterations of their loops.
                name = next((name for name in OF_PYTHON if name in facts), None)
                if name:
                    of_python.setdefault(name, {})[window.title] = facts[name]
        self._lines += [f"{listed(tests)}: {said}" for said, tests in of_ops.items()]
        self._lines += [_python_said_to_vary(name, ranges) for name, ranges in of_python.items()]
        if not self._is_broken:  # that was said
            self._alone([window for window in windows if window.needs_alone])
        if said := [f"{window.title} ({window.split})" for window in windows if window.split]:
            self._lines.append(f"coarse times are judged by the slowest process: {listed(said)}")

    def sites(self, tests: Sequence[TestRecord]) -> dict[str, Mapping[str, SitesByOp]]:
        """Return the source lines of *tests*, by test and window, from one more process."""
        found: dict[str, Mapping[str, SitesByOp]] = {
            test.id: sites
            for test in tests
            if any((sites := {each.name: each.sites for each in test.windows}).values())
        }
        found |= {test.id: self._sites[test.id][-1] for test in tests if test.id in self._sites}
        left = {test.id: test.file for test in tests if test.id not in found}
        if not left:
            return found
        say(self._config, f"opprof: calls are recorded; recording the source lines of {plural(len(left), 'test')}")
        try:
            with self._pool.started(set(left.values())) as (process,):
                answers = process.measure(Batch([*left], Request(sites=True)), self._patience_s)
        except BackendError as error:
            self._lines.append(f"source lines were not recorded: {error}")
            return found
        self._keep_sites(answers)
        return found | {test: each[-1] for test, each in self._sites.items()}

    def _keep_sites(self, answers: Mapping[str, Answer]) -> None:
        """Keep the source lines of tests, and tell remarks that some are missing."""
        for test, answer in answers.items():
            self._sites[test].append(answer.sites)
        self._lines += [
            line
            for test, answer in answers.items()
            for remark in dict.fromkeys(
                each for name, ops in answer.sites.items() if ops for each in answer.remarks.get(name, ())
            )
            if remark.about == "lines" and (line := f"{test}: {remark.text}") not in self._lines
        ]

    def times(self, tests: Sequence[TestRecord], processes: int) -> None:
        """Measure *tests* until each of their timed windows has the times of *processes* processes.

        The times of failures are dropped then. Raises KeyboardInterrupt.
        """
        windows = [window for test in tests for window in self._of(test) if is_timed(window.result)]
        judged = bool(self._settings.update) and self._settings.noise != "ignore"
        self._measure_times(windows, processes, judged)
        if judged and any(not window.lost for window in windows) and (busy := self._watch.busy()):
            say(self._config, f"opprof: {busy}; waiting up to {QUIET_PATIENCE_S} s to record times again")
            if self._quiet_again():
                self._watch = Watch()
                for window in windows:
                    window.keep(())
                self._measure_times(windows, processes, judged)
        for window in windows:
            window.keep_coarse()
            if window.lost:
                window.keep(())
                if not self._is_broken and not window.result.vary:
                    self._errors.append(f"{window.title}: its times were not recorded: {window.lost}")
        if judged:
            refused = _refused([window for window in windows if not window.lost], self._watch.busy())
            (self._errors if self._settings.noise == "fail" else self._lines).extend(refused)

    def _measure_times(self, windows: Sequence[RecordedWindow], processes: int, judged: bool) -> None:
        """Measure *windows* in *processes* processes each; *judged*: in more if these were disturbed."""
        said = False
        while lacking := [window for window in windows if not window.lost and window.lacks(processes, judged)]:
            if self._settings.update and not said:
                said = True
                say(
                    self._config, f"opprof: calls are recorded; recording the times of {plural(len(lacking), 'window')}"
                )
            first = 1 + min(len(window.result.processes) for window in lacking)
            if judged and first > processes and self._watch.busy():
                break  # further measurements would be refused with the rest
            # One beyond *processes* makes up for another, and may be enough.
            self._measure(lacking, range(first, max(processes, first) + 1), processes)

    @property
    def _patience_s(self) -> float:
        """How long a process may take before it counts as hanging."""
        return max(_PATIENCE * self._took_s, _LEAST_PATIENCE_S)

    def _of(self, test: TestRecord) -> list[RecordedWindow]:
        for index, window in enumerate(test.windows):
            self._windows.setdefault((test.id, window.name), RecordedWindow(test, index))
        return [self._windows[test.id, window.name] for window in test.windows]

    def _measure(
        self,
        windows: Sequence[RecordedWindow],
        numbers: Sequence[int],
        processes: int,
        with_lines: Collection[str] = (),
        warm: bool = False,
        varying: bool = False,
    ) -> None:
        """Let the processes of these *numbers* measure: started at once, one after the other.

        The last measures the tests *with_lines* with source lines, and runs all of them once more for the *warm* calls.
        Of windows that are known to be *varying* each measures source lines, and the hash seeds begin anew.

        A window that has the times of *processes* processes is left out, unless a further one makes up for others.
        """
        try:
            files = {window.test.file for window in windows}
            # This run is the first process, whose hash seed nobody chose.
            seed = 0 if varying else max(numbers[0] - 2, 0)
            with self._pool.started(files, len(numbers), first=seed) as others:
                for number, process in zip(numbers, others):
                    lacking = [each for each in windows if number > processes or len(each.result.processes) < processes]
                    tests = list(dict.fromkeys(window.test.id for window in lacking))
                    of = f" of {processes}" if number <= processes else ", since others were disturbed or differ"
                    estimate = f", about {self._took_s:.0f} s" if self._took_s >= 1 else ""
                    what = f"{plural(len(tests), 'test')} in process {number}{of}{estimate}"
                    say(self._config, f"opprof: measuring {what}")
                    begin = monotonic()
                    patience_s = self._patience_s
                    has_lines = varying or number == numbers[-1]
                    lines = [test for test in tests if test in with_lines and has_lines]
                    answers = process.measure(Batch(tests, sites=lines), patience_s)
                    self._keep_sites({test: answers[test] for test in lines if answers[test].windows})
                    self._took_s = monotonic() - begin
                    for window in lacking:
                        window.add(number, answers[window.test.id])
                    self._again(process, lacking, patience_s, warm and number == numbers[-1])
                    process.end()  # its memory is free for the next, and its time is known to be this run's
        except BackendError as error:
            self._is_broken = True
            for window in windows:
                window.lost = "no further process could measure it"
            self._errors.append(f"no further process could measure, so only the calls of this one are kept: {error}")

    def _alone(self, windows: Sequence[RecordedWindow]) -> None:
        """Measure the test of each of *windows* in a process without other tests, for as long as the tests took."""
        tests = list(dict.fromkeys(window.test.id for window in windows))
        begin = monotonic()
        if tests:
            which = tests[0] if len(tests) == 1 else plural(len(tests), "test")
            say(self._config, f"opprof: measuring {which} alone: more work in the first run of a process")
        for number, test in enumerate(tests):
            if monotonic() - begin > max(self._took_s, _ALONE_S):
                left = plural(len(tests) - number, "test")
                self._lines.append(f"no time was left to measure {left} alone, whose first run in a process does more")
                return
            of_test = [window for window in windows if window.test.id == test]
            try:
                with self._pool.started({of_test[0].test.file}) as (process,):
                    answer = process.measure(Batch([test]), self._patience_s)[test]
            except BackendError as error:
                answer = Answer({}, str(error))
            if answer.why:
                self._lines.append(
                    f"{test} was not measured alone, and its first run in a process does more: {answer.why}"
                )
            for window in of_test:
                window.keep_alone(answer)

    def _again(self, process: Process, windows: Sequence[RecordedWindow], patience_s: float, warm: bool) -> None:
        """Run tests a second time if *warm*, and in one thread if waiting threads took CPU time.

        If *warm*, then once more without recording ops, if that may take a notable part of their time, and with no
        function compiled before, if functions compiled again are counted.

        Calls of Python functions and peak memory are not measured again: their runs follow a run of the body anyway,
        and take ten times as long.
        """
        threaded = [window for window in windows if window.is_threaded]
        repeated = [window for window in windows if warm and not is_timed(window.result)]

        def measured(windows: Sequence[RecordedWindow], request: Request, repeats: bool = False) -> dict[str, Answer]:
            tests = list(dict.fromkeys(window.test.id for window in windows))
            return process.measure(Batch(tests, request, repeats=repeats), patience_s) if tests else {}

        # With as many threads as in a run, whose number the work may follow: `torch.histc` has a buffer for each.
        answers = measured(repeated, Request(ops_only=True), repeats=True)
        for window in repeated:
            window.add_warm(answers[window.test.id])
        answers = measured(threaded, Request(one_thread=True, ops_only=True))
        for window in threaded:
            window.add_in_one_thread(answers[window.test.id])
        recording = [window for window in windows if warm and window.is_recording]
        answers = measured(recording, Request(one_thread=True, ops_only=True, unrecorded=True))
        # A third run may be faster for itself: `torch.jit` compiles in the second.
        recording = [window for window in recording if window.is_faster_unrecorded(answers[window.test.id])]
        answers = measured(recording, Request(one_thread=True, ops_only=True))
        for window in recording:
            window.add_recorded_again(answers[window.test.id])
        compiling = [window for window in windows if warm and window.counts_compilations]
        answers = measured(compiling, Request(anew=True, ops_only=True))
        for window in compiling:
            window.add_compiled_anew(answers[window.test.id])


def _lines_that_vary(of_processes: Sequence[SitesByOp]) -> dict[str, str]:
    """Return the line of each op whose calls differ most between processes: `` at model.py:12``."""
    found: dict[str, str] = {}
    for op in {op for sites in of_processes for op in sites}:
        calls = [Counter[str]() for _ in of_processes]
        for of_process, sites in zip(calls, of_processes):
            for each in sites.get(op, ()):
                if each.lines:
                    of_process[each.lines[0].location] += each.calls
        lines = sorted({line for each in calls for line in each})
        spread = {line: max(each[line] for each in calls) - min(each[line] for each in calls) for line in lines}
        line = max(lines, key=spread.__getitem__, default="")
        if line and spread[line]:
            found[op] = f" at {line}"
    return found


def _said_to_vary(test: TestRecord, vary: Mapping[str, OpCounts], at: Mapping[str, str], causes: set[str]) -> str:
    """Return which ops of a test vary, without its name: many tests of a module may say the same."""
    ops = [f"{op} {_what_varies(each)}{at.get(op, '')}" for op, each in sorted(vary.items())]
    more = f" and {plural(len(ops) - 3, 'more op')}" if len(ops) > 3 else ""
    timed = "times, " if any(map(is_timed, test.windows)) else ""
    cause = next(iter(causes)) if len(causes) == 1 else ""
    why = f"{test.adapts}: {ADAPTS[test.adapts]}" if test.adapts else cause or "seed random numbers, sort sets"
    kept = f"The baseline stores ranges; {timed}bytes, FLOPs and dtypes are not judged"
    varies = "calls vary" if any(each.calls.varies for each in vary.values()) else "work varies"
    return f"{varies} from run to run: {', '.join(ops[:3])}{more}. {kept} ({why})"


def _python_said_to_vary(name: str, ranges: Mapping[str, Range]) -> str:
    """Return the *ranges*, by title, of the calls of Python functions, or of another such quantity, that vary."""
    vary, stores = f"{FACTS[name].text} vary from run to run", "The baseline stores the range"
    spans = {title: f"{each.least:,}..{each.most:,}" for title, each in ranges.items()}
    if len(spans) > 1:
        return f"{vary}: {listed([f'{title} {span}' for title, span in spans.items()])}. {stores}"
    ((title, span),) = spans.items()
    return f"{title}: {vary}: {span}. {stores}"


def _what_varies(counts: OpCounts) -> str:
    if counts.calls.varies:
        return str(counts.calls)
    if dtypes := [name for name, calls in counts.by_dtypes.items() if calls.varies]:
        return f"in {', '.join(dtypes)}"
    return "in bytes" if counts.bytes and counts.bytes.varies else "in FLOPs"


def _refused(windows: Sequence[RecordedWindow], busy: str) -> Iterator[str]:
    """Yield the reasons why times are no baseline, and drop them; of disturbed processes only, if enough others are
    left.
    """
    if busy and windows:
        yield f"the machine was busy while times were recorded: {busy}. {_AGAIN}"
    for window in windows:
        runs = window.result.processes
        clean = clean_processes(runs)
        if not busy and clean < STORED_RULE.least_base_processes:
            what = disturbances(runs) or "its rounds shared their CPU core with other processes"
            yield f"{window.title}: in {len(runs) - clean} of {len(runs)} processes {what}. {_AGAIN}"
        is_refused = busy or clean < STORED_RULE.least_base_processes
        window.keep([] if is_refused else [run for run in runs if not run.disturbed])
