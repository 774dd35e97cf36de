"""Re-run a test after the tests that precede it in its files: a subset, a shuffle and a worker of xdist leave some out.

What a test does may depend on them: a module that they imported, a dtype that they left in a shared array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache, cached_property
from itertools import takewhile
from time import monotonic

import pytest
from _pytest.fixtures import reorder_items

from ...baselines.stale import Collected
from ...baselines.store import Store
from ...errors import BackendError
from ...measure.plan import Settings
from ...processes.pool import Answer, Batch, Pool, Process, TimeLimit
from ...processes.this_run import say
from ...results.test_id import id_of, split_id
from ...verdict.times.repeats import CONFIRMING_S
from ..test_run import TestRun

AFTER_OTHERS = "not after other tests"
IN_ORDER = "after the tests that precede it in file order it stays within the baseline"
# A developer who runs one test of a long file does not wait longer; a shuffled run may take as long again.
_LEAST_S = 15


class Order:
    """The order in which tests ran here, and a process that runs them in that of their files, as an update does."""

    def __init__(
        self, config: pytest.Config, settings: Settings, store: Store, pool: Pool, collected: Collected
    ) -> None:
        self._config = config
        self._with_baseline = cache(store.tests)
        self._pool = pool
        self._collected = collected
        self.items: dict[str, pytest.Item] = {}
        """The tests that this process collected, by id, in the order of their files."""
        self._chosen = frozenset[str]()
        """The ones that it runs."""
        self._ran: dict[str, None] = {}
        self._begin = monotonic()
        self._limit = TimeLimit(CONFIRMING_S)
        self._stack = ExitStack()
        self._process: Process | None = None
        self._is_over = not settings.rank.is_alone
        """Whether there can be no such process: it failed, or this is one of several ranks."""
        self._answers: dict[str, Answer] = {}
        config.add_cleanup(self._stack.close)

    def add(self, item: pytest.Item) -> None:
        """Remember a collected test."""
        self.items[id_of(item)] = item

    def choose(self, items: Sequence[pytest.Item]) -> None:
        """Remember the tests that will run."""
        self._chosen = frozenset(map(id_of, items))

    def begin(self, item: pytest.Item) -> None:
        """Remember that a test runs now, or is skipped."""
        self._ran.setdefault(id_of(item))

    def before(self, test: str) -> Iterator[str]:
        """Yield the ids of the tests that precede *test* in file order.

        Not those that options other than -k leave out, which leave them out of an update, too.
        """
        every = takewhile(lambda each: each != test, self._in_file_order)
        return every if self._config.option.keyword else (each for each in every if each in self._chosen)

    @cached_property
    def _in_file_order(self) -> Sequence[str]:
        """The ids of all collected tests in the order in which pytest runs them: tests that use one parameter of a
        fixture of their module or class together.
        """
        return [id_of(item) for item in reorder_items([*self.items.values()])]

    def known(self, test: TestRun) -> Answer | None:
        """Return what `again` returns, if that takes no time: the process has passed *test*."""
        return None if test.id not in self._answers or self._has_run_in_order(test) else self._answers[test.id]

    def again(self, test: TestRun, *, stays: bool) -> Answer | None:
        """Measure *test* after all that precede it in its files and have a baseline; None if these ran before it here.

        The process goes on from there if it *stays*, so all failing tests together take one pass; if not, another
        begins anew. None also if it fails, or would take longer than this run so far.
        """
        if self._has_run_in_order(test):
            return None
        if test.id not in self._answers and not (self._is_over or self._limit.reached):
            say(self._config, f"opprof: {test.id}: re-running it in file order, after the tests that precede it")
            self._is_over = True
            with self._limit.spent():
                try:
                    self._measure(test)
                    self._is_over = False
                except BackendError as error:
                    say(self._config, f"opprof: no test runs in file order again: {error}")
            if self._is_over or not stays:
                self._process = None
                self._stack.close()
        return self._answers.get(test.id)

    def _measure(self, test: TestRun) -> None:
        patience_s = min(self._limit.left_s, max(_LEAST_S, monotonic() - self._begin))
        passed = self._answers.keys()
        if self._process is None:
            (self._process,) = self._stack.enter_context(self._pool.started(self._pool.files))
            passed = {}.keys()
        # If the user named single tests, only the fresh process knows all that precede.
        modules = {split_id(each)[0] for each in [*self.before(test.id), test.id]}
        known = {f"{module}::{name}" for module in modules for name in self._with_baseline(module)}
        batch = Batch(sorted({*known, test.id} - passed), until=test.id)
        self._answers |= self._process.measure(batch, patience_s)

    def _has_run_in_order(self, test: TestRun) -> bool:
        if self._collected.is_in_part(test.where[0]) or self._config.getoption("lf", False):
            return False  # pytest collects only some tests of a file
        before = filter(self._has_baseline, self.before(test.id))
        return [*before] == [each for each in self._ran if each != test.id and self._has_baseline(each)]

    def _has_baseline(self, test: str) -> bool:
        module, name = split_id(test)
        return name in self._with_baseline(module)
