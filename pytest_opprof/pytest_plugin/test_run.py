"""One test of a run, from its collection to its report: its plan from the marks, and its measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import is_
from typing import Any

import pytest

from ..baselines.entry import WindowBaseline
from ..baselines.store import Store
from ..errors import NothingMeasured, OpprofError, UsageError
from ..measure.measurement import Measurement
from ..measure.plan import TestPlan
from ..report.colours import Tone
from ..results.judged_window import JudgedWindow
from ..results.test_id import id_of, split_id
from ..results.test_result import TestRecord
from ..sites.code import first_part, is_test_tool
from ..verdict.verdicts import Status
from .marks import marks_of, placed, read


class Failed(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # pytest sets the attribute at run time
    """A broken budget or a regression: fails the test where it runs, without a traceback."""

    __module__ = "builtins"  # as pytest's own: "Failed: ..."

    def __init__(self, message: str, cause: str = "", *, tones: Sequence[Tone] = (), saw_nothing: bool = False) -> None:
        """*cause* is the message in a few words; *tones* are the senses of its lines, for their colours.

        *saw_nothing*: the only problem is an empty recording.
        """
        super().__init__(message, pytrace=False)
        self.cause = cause or message.partition("\n")[0]
        self.tones = list(tones)
        self.saw_nothing = saw_nothing


class TestRun:
    """One test: made at collection, it travels in place of pytest's item."""

    __test__ = False  # pytest must not collect it as a test class

    def __init__(self, item: pytest.Item) -> None:
        self.item = item
        self.nodeid: str = item.nodeid
        self.id = id_of(item)
        """Its name in baselines and messages."""
        self.where = split_id(self.id)
        """The module whose baselines hold it, and its name there."""
        self.file = str(item.path)
        self.has_fixture = "opprof" in getattr(item, "fixturenames", ())
        """Whether it may open windows by the fixture."""
        self.wrong_mark: UsageError | None = None
        self.measurement: Measurement | None = None
        """While it runs: the windows that it opened."""
        self.record: TestRecord | None = None
        """Its record, until the report takes it."""
        self._is_close = False
        self._is_later = False
        self._rounds = 0
        self._marks: list[pytest.Mark] = []
        self._plan: TestPlan | None = None

    @classmethod
    def of(cls, item: pytest.Item) -> TestRun:
        """Return the test of *item*, made at the first call."""
        if _TEST not in item.stash:
            item.stash[_TEST] = cls(item)
        return item.stash[_TEST]

    @property
    def plan(self) -> TestPlan:
        """The plan from its marks, parsed again if a fixture added one. Raises UsageError for an invalid mark."""
        marks = marks_of(self.item)
        if self._plan is None or len(marks) != len(self._marks) or not all(map(is_, marks, self._marks)):
            plan = read(self.item)
            plan = replace(plan, closely=plan.closely or (self._is_close and plan.measured))
            if plan.measured and not plan.closely and plan.python is None:
                plan = replace(plan, tolerances=replace(plan.tolerances, is_of_many=True))
            if self._is_later or self._rounds:
                plan = replace(plan, warmup=max(plan.warmup, 1), rounds=max(plan.rounds, self._rounds))
            self._marks, self._plan = marks, plan
        return self._plan

    @property
    def measures(self) -> bool:
        """Whether it has measurements. Raises UsageError for an invalid mark."""
        return self.has_fixture or self.plan.measured

    @property
    def shows_failure(self) -> bool:
        """Whether pytest prints its failure message: a test that is expected to fail shows none."""
        return self.item.get_closest_marker("xfail") is None

    @property
    def lasting_fixtures(self) -> list[pytest.FixtureDef[Any]]:
        """The fixtures that serve other tests, too: of its class, module, package or session."""
        found = getattr(self.item, "_fixtureinfo", None)
        used = [each[-1] for each in found.name2fixturedefs.values() if each] if found else []
        return [each for each in used if each.scope != "function"]

    @property
    def shares_state(self) -> bool:
        """Whether a fixture of the program, or `setup_module` and the like, serves several tests, which may find what a
        second run of its body changed.
        """
        # pytest makes a fixture of `setup_module`, and of the `setUpClass` of each TestCase, which may do nothing.
        classes = getattr(self.item.cls, "__mro__", ()) if isinstance(self.item, pytest.Function) else ()
        own = [each for each in classes if each.__module__ != "unittest.case"]
        is_own = any(vars(each).keys() & {"setUpClass", "tearDownClass"} for each in own)
        lasting = [each for each in self.lasting_fixtures if is_own or not each.argname.startswith("_unittest_setUp")]
        of_setup = any(each.argname.startswith(("_xunit_", "_unittest_")) for each in lasting)
        return of_setup or any(not is_test_tool(first_part(each.func.__module__)) for each in lasting)

    def read_marks_anew(self, *, is_close: bool = False, is_later: bool = False, rounds: int = 0) -> None:
        """Drop the plan, because settings that it depends on have changed.

        *is_close*: it is measured as closely as a test with a mark. *is_later*: its first run is a warm-up, since a
        later one is compared. *rounds*: at least so many judge its time.
        """
        self._plan, self._is_close, self._is_later, self._rounds = None, is_close, is_later, rounds

    @contextmanager
    def told_plainly(self) -> Iterator[None]:
        """Fail the test with the message of an OpprofError, without a traceback."""
        try:
            yield
        except OpprofError as error:
            raise self.unmeasured(error) from None

    def with_bases(
        self,
        store: Store,
        windows: Iterable[JudgedWindow],
        concerns: Callable[[JudgedWindow], bool],
        change: Callable[[JudgedWindow, WindowBaseline], JudgedWindow],
    ) -> list[JudgedWindow]:
        """Return the windows; those that it *concerns* are changed, given their baselines."""
        bases = self.bases(store, filter(concerns, windows := [*windows]))
        return [change(each, bases[each.name]) if each.name in bases else each for each in windows]

    def bases(self, store: Store, windows: Iterable[JudgedWindow]) -> dict[str, WindowBaseline]:
        """Return the baselines of *windows*, by name; those that have one."""
        found = ((each.name, store.entry(each.environment, *self.where, each.name)) for each in windows)
        return {name: base for name, base in found if base}

    def keep_unmeasured(self, remark: str = "", reported: str = "") -> None:
        """Keep a record without numbers; *reported* is the failure message of a test that passes all the same."""
        self.record = TestRecord(
            id=self.id,
            status=Status.NOT_MEASURED,
            file=self.file,
            remarks={self.id: [remark]} if remark else {},
            reported=reported,
        )

    def unmeasured(self, error: OpprofError) -> Failed:
        """Return the failure of a test that could not be measured."""
        self.keep_unmeasured()
        if isinstance(error, UsageError):  # in its marks or windows
            message = placed(self.item, error)
        else:
            message = f"opprof could not measure {self.id}: {error}"
        return Failed(message, str(error), saw_nothing=isinstance(error, NothingMeasured))


_TEST = pytest.StashKey[TestRun]()
