"""The fresh processes of a run: a worse result may come from the process, the moment, or earlier tests.

Two processes of the same code differ more than two rounds of one process, so more rounds here would not help.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import monotonic

import pytest
from msgspec import Struct
from msgspec.structs import replace

from ..baselines.entry import WindowBaseline, entry_of
from ..errors import BackendError
from ..machine.cpu_core import Core
from ..machine.ranks import ALONE, Rank
from ..machine.scratch import scratch
from ..measure.memory.traced import Where
from ..profile.op_profile import Remark
from ..python_calls.counted import PythonCalls
from ..results.plain import converted, plain
from ..results.window_result import SitesByOp, WindowResult
from ..verdict.quantities import CPU_TIME
from ..verdict.times.repeats import TIMED_PROCESSES
from .child import Child, Command, started
from .request import USUAL, Request
from .this_run import CORE, command

# This many processes stay for further tests: with this run's own process enough for a verdict.
_STAYING = TIMED_PROCESSES - 1
# How often a body runs in a fresh process before it takes longer there.
_RUNS = 3


# The reason why ranks have none: it would wait for the other ranks at its first collective.
NO_FRESH = "a fresh process cannot join the"


class TimeLimit:
    """The most time that a run spends on one purpose of fresh processes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.left_s = seconds

    @property
    def reached(self) -> str:
        """Why no further process is asked; empty if there is time left."""
        return f"the {self._seconds} s limit of this run was reached; run this test alone" if self.left_s < 0 else ""

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Subtract the time of the context."""
        begin = monotonic()
        try:
            yield
        finally:
            self.left_s -= monotonic() - begin


class Batch(Struct):
    """The tests that a fresh process is to measure next."""

    tests: list[str]
    request: Request = USUAL
    sites: list[str] = []
    """The tests to measure with source lines, if the request does not ask for all."""
    repeats: bool = False
    """Whether the second of two runs with the same fixtures of class and module is measured; of the first only the
    coarse time is.
    """
    stays: bool = False
    """Whether the module of the last test stays set up for the next batch."""
    until: str = ""
    """A test: *tests* run in the order of their files, up to this one; otherwise in the order of this batch."""
    best_ns: float | None = None
    """The best speed of this run's core, ns: the rounds wait for it."""


class Measured(Struct):
    """The answer of a fresh process about a test."""

    windows: list[WindowResult] = []
    python: dict[str, PythonCalls] = {}
    """By window, the calls of Python functions, if only these were requested."""
    why: str = ""
    """The error; empty if there was none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The measurements of a test in a fresh process."""

    windows: Mapping[str, WindowBaseline]
    """By window, its entry in a baseline."""
    why: str
    """The error; empty if there was none."""
    sites: Mapping[str, SitesByOp] = field(default_factory=dict)
    """By window, if requested."""
    remarks: Mapping[str, Sequence[Remark]] = field(default_factory=dict)
    """By window, the backends' remarks."""
    python: Mapping[str, PythonCalls] = field(default_factory=dict)
    """By window, the calls of Python functions of a body that runs once, if only these were requested."""
    slow_lines: Sequence[Where] = ()
    """The lines that take the time of the body, if requested."""


class Process:
    """A fresh process, which has collected its tests and measures the requested ones."""

    def __init__(self, child: Child, core: Core | None) -> None:
        """*core* is that of this run, whose best speed the rounds there wait for."""
        self._child = child
        self._core = core

    def measure(self, batch: Batch, patience_s: float | None = None) -> dict[str, Answer]:
        """Return its measurements of a batch of tests. Raises BackendError if it dies or takes too long."""
        if self._core and self._core.best_ns < math.inf:
            batch = replace(batch, best_ns=self._core.best_ns)
        self._child.answer(plain(batch))
        _, answers = self._child.hear(patience_s)
        return {
            test: Answer(
                {window.name: entry_of(window) for window in answer.windows},
                answer.why,
                {window.name: window.sites for window in answer.windows},
                {window.name: window.remarks for window in answer.windows},
                answer.python,
                [each for window in answer.windows if (each := window.explanations.get(CPU_TIME))],
            )
            for test, answer in converted(answers, dict[str, Measured]).items()
        }

    def end(self) -> None:
        """End it."""
        self._child.end()


class Pool:
    """Fresh processes, started at first use. They stay, because most of their cost is importing a framework.

    Raises BackendError, with the reason, if a process cannot start or gives no answer.
    """

    def __init__(self, config: pytest.Config, rank: Rank = ALONE) -> None:
        self.files: set[str] = set()
        """The files of the tests that may be measured."""
        self.closely = False
        """Whether tests without a mark are measured as closely as those with one."""
        self._config = config
        self._rank = rank
        self._stack = ExitStack()
        self._staying: list[Process] = []
        self._looking = ExitStack()
        self._looked: tuple[str, Process] | None = None
        """The file whose tests a process re-ran, and that process."""
        config.add_cleanup(self._stack.close)
        config.add_cleanup(self._looking.close)

    @contextmanager
    def started(self, files: Iterable[str], number: int = 1, first: int = 0) -> Iterator[list[Process]]:
        """Start *number* processes at once, and yield them when all have collected the tests in *files*.

        Their hash seeds follow from *first*, so the one that confirms extra work (0) has the sets of an update's
        second process. They are gone afterwards.
        """
        if not self._rank.is_alone:
            raise BackendError(f"{NO_FRESH} {self._rank.size} ranks")
        config = self._config
        with scratch() as folder:
            commands = []
            for each in range(first, first + number):
                (folder / f"{each}").mkdir()
                words = [*command(config, f"{folder}/{each}"), "--continue-on-collection-errors", "--maxfail=0"]
                told = {"kind": "fresh", "files": sorted(files), "closely": self.closely}
                commands.append(Command("a fresh process", words, config.invocation_params.dir, told, hash_seed=each))
            with started(commands) as children:
                for child in children:
                    child.hear()
                yield [Process(child, config.stash.get(CORE, None)) for child in children]

    def measure(self, test: str, number: int, stays: bool) -> Answer:
        """Measure *test* in a process of its own for each *number* from 0 on; it ends afterwards unless it *stays*."""
        with self._one(number, stays) as process:
            return process.measure(Batch([test]))[test]

    def in_one_thread(
        self, test: str, number: int, stays: bool, is_enough: Callable[[Answer], bool], *, repeats: bool = False
    ) -> list[Answer]:
        """Measure *test* in one thread, without recording its ops; up to twice more there until an answer is enough.

        *repeats*: with the time of several later runs of its body.

        The cost of a first use in a process, such as an import, depends on earlier tests. What `torch.jit` compiles in
        the second run is fast in the third: two of 540 unchanged tests of PyG took 26 ms twice, and 10 ms then.
        """
        with self._one(number, stays) as process:
            batch = Batch([test], Request(one_thread=True, ops_only=True, unrecorded=True, repeats=repeats))
            answers = [process.measure(batch)[test]]
            while len(answers) < _RUNS and not is_enough(answers[-1]):
                answers.append(process.measure(batch)[test])
            return answers

    @contextmanager
    def _one(self, number: int, stays: bool) -> Iterator[Process]:
        if not stays or number >= _STAYING:
            with self.started(self.files) as processes:
                yield processes[0]
            return
        if number >= len(self._staying):
            # The first process clears up most slow results; if it does not, all others will be needed.
            wanted = 1 if number == 0 else _STAYING - len(self._staying)
            self._staying += self._stack.enter_context(self.started(self.files, wanted, len(self._staying)))
        process = self._staying[number]
        try:
            yield process
        except BackendError:
            self._staying.remove(process)
            process.end()
            raise

    def alone(self, file: str, test: str, times: int) -> list[Answer]:
        """Measure *test* in a process where nothing ran before, *times* times: later with the module's fixtures.

        The last time also records source lines and leaks, because a body that has run so often may compile no more. The
        process stays for `second`.
        """
        self.forget()
        (process,) = self._looking.enter_context(self.started({file}))
        self._looked = file, process
        return self._looks(process, test, times)

    def second(self, file: str, test: str, times: int) -> list[Answer]:
        """Measure *test* like `alone`, in the process that re-ran another test of *file*; empty without one.

        That saves importing the framework: 3 s of PyTorch.
        """
        if self._looked is None or self._looked[0] != file:
            return []
        try:
            return self._looks(self._looked[1], test, times)
        except BackendError:
            return []  # a process of its own reports the error

    def forget(self) -> None:
        """End the process that re-ran tests."""
        self._looked = None
        self._looking.close()

    def _looks(self, process: Process, test: str, times: int) -> list[Answer]:
        before = [Batch([test], Request(first_look=True), stays=True)] * (times - 1)
        try:
            return [process.measure(each)[test] for each in [*before, Batch([test], Request(sites=True))]]
        except BackendError:
            self.forget()
            raise

    def cold(self, file: str, test: str, *, slow: bool = False, lines: bool = False) -> Answer:
        """Count calls of Python functions of *test* in a process where nothing ran before, in its one run.

        *slow*: let pytest run it there before, and sample the lines that take its time. *lines*: find the callers.
        """
        with self.started({file}) as (process,):
            sampling = Batch([test], Request(slow=True, causes=True, ops_only=True))
            sampled = process.measure(sampling)[test] if slow else Answer({}, "")
            counted = process.measure(Batch([test], Request(cold=True, sites=lines)))[test]
            return dataclasses.replace(counted, slow_lines=sampled.slow_lines, why=sampled.why or counted.why)
