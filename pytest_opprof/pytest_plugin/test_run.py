"""One test of a run, from its collection to its report: what its marks ask for, and what was measured of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import is_

import pytest

from ..errors import NothingMeasured, OpprofError, UsageError
from ..measure.measurement import Measurement
from ..measure.plan import TestPlan
from ..report.colours import Tone
from ..results.run_result import TestRecord
from ..results.test_id import id_of, split_id
from .marks import marks_of, read


class Failed(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # pytest sets the attribute at run time
    """A test that broke its budget or got worse: fails it where it runs, without a traceback."""

    __module__ = "builtins"  # as pytest's own: "Failed: ..."

    def __init__(self, message: str, cause: str = "", *, tones: Sequence[Tone] = (), saw_nothing: bool = False) -> None:
        """*cause* is the message in a few words; *tones* are what its lines say, for their colours.

        *saw_nothing*: the only thing wrong is that nothing was recorded.
        """
        super().__init__(message, pytrace=False)
        self.cause = cause or message.partition("\n")[0]
        self.tones = list(tones)
        self.saw_nothing = saw_nothing


class TestRun:
    """One test: made when it is collected, it travels in place of pytest's item."""

    __test__ = False  # pytest: this is no test class

    def __init__(self, item: pytest.Item) -> None:
        self.item = item
        self.nodeid: str = item.nodeid
        self.id = id_of(item)
        """As baselines and messages call it."""
        self.where = split_id(self.id)
        """The module whose baselines hold it, and its name there."""
        self.file = str(item.path)
        self.has_fixture = "opprof" in getattr(item, "fixturenames", ())
        """Whether it may open windows by the fixture."""
        self.wrong_mark: UsageError | None = None
        self.measurement: Measurement | None = None
        """While it runs: the windows that it opened."""
        self.record: TestRecord | None = None
        """What is kept of it, until its report has it."""
        self._marks: list[pytest.Mark] = []
        self._plan: TestPlan | None = None

    @classmethod
    def of(cls, item: pytest.Item) -> TestRun:
        """Return that of *item*, made where there is none."""
        if _TEST not in item.stash:
            item.stash[_TEST] = cls(item)
        return item.stash[_TEST]

    @property
    def plan(self) -> TestPlan:
        """What its marks ask for, read anew where a fixture added one. Raises UsageError for one that means nothing."""
        marks = marks_of(self.item)
        if self._plan is None or len(marks) != len(self._marks) or not all(map(is_, marks, self._marks)):
            self._marks, self._plan = marks, read(self.item)
        return self._plan

    def read_marks_anew(self) -> None:
        """Forget its plan: settings changed that it follows from."""
        self._plan = None

    @contextmanager
    def told_plainly(self) -> Iterator[None]:
        """Fail the test with the message of an error of ours, without a traceback."""
        try:
            yield
        except OpprofError as error:
            raise self.unmeasured(error) from None

    def keep_unmeasured(self, *remarks: str, reported: str = "") -> None:
        """Keep a record without numbers; *reported* is the failure that the test passes with all the same."""
        self.record = TestRecord(
            id=self.id, status="not measured", file=self.file, remarks=list(remarks), reported=reported
        )

    def unmeasured(self, error: OpprofError) -> Failed:
        """Return what the test fails with that could not be measured."""
        self.keep_unmeasured()
        message = f"opprof could not measure {self.id}: {error}"
        return Failed(message, str(error), saw_nothing=isinstance(error, NothingMeasured))


_TEST = pytest.StashKey[TestRun]()
