from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_opprof.processes.pool import Answer, Batch, Pool


class Runs:
    """A process whose answers are known."""

    def __init__(self, *said: str) -> None:
        self._answers = [Answer({}, each) for each in said]

    def measure(self, batch: Batch) -> dict[str, Answer]:
        """Return the next answer for the only test."""
        (test,) = batch.tests
        return {test: self._answers.pop(0)}


@pytest.mark.parametrize(
    ("said", "runs"),
    [
        (["fast"], 1),
        (["slow", "fast"], 2),  # the first imported
        (["slow", "slow", "fast"], 3),  # the second compiled, as with torch.jit
        (["slow", "slow", "slow", "fast"], 3),
    ],
)
def test_a_body_runs_up_to_three_times_until_it_is_fast_enough(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, said: list[str], runs: int
) -> None:
    @contextmanager
    def one(pool: Pool, number: int, stays: bool) -> Iterator[Runs]:
        yield Runs(*said)

    monkeypatch.setattr(Pool, "_one", one)
    pool = Pool(pytester.parseconfig("--opprof"))
    found = pool.in_one_thread("test_m.py::test_a", 0, False, lambda answer: answer.why == "fast")
    assert [each.why for each in found] == said[:runs]
