"""How many threads ops may use: one where times are judged, unless the test or the user asks for more."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

Suite = Callable[..., pytest.RunResult]
HEAD = """
import numpy as np, pytest
from pytest_opprof.backends import fake
from threadpoolctl import threadpool_info
def blas(): return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
"""
MARKED = """
@pytest.mark.opprof({mark})
def test_a():
    fake.launch("Add")
    assert blas() == {threads}
def test_after(): assert blas() == {{3}}
"""


@pytest.fixture(autouse=True)
def _blas_has_three_threads() -> Iterator[None]:
    """More than one on any machine."""
    with threadpool_limits(3, user_api="blas"):
        yield
        pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        assert {*pools} == {3}


@pytest.mark.parametrize(
    ("mark", "flags", "threads"),
    [
        ("rounds=10", ["--opprof"], 1),
        ("rounds=10", ["--opprof", "--opprof-threads=2"], 2),
        ("rounds=10", ["--opprof", "-o", "opprof_threads=2"], 2),
        ("rounds=10", ["--opprof", "--opprof-threads=all"], 3),
        ("rounds=10, threads=2", ["--opprof"], 2),
        ("rounds=10, threads='all'", ["--opprof", "--opprof-threads=2"], 3),
        ("rounds=9", ["--opprof"], 3),
        ("rounds=10", [], 3),
    ],
)
def test_a_timed_body_has_as_many_as_it_may_and_what_comes_after_it_as_many_as_before(
    pytester: pytest.Pytester, suite: Suite, mark: str, flags: list[str], threads: int
) -> None:
    pytester.makepyfile(test_m=HEAD + MARKED.format(mark=mark, threads={threads}))
    suite(*flags).assert_outcomes(passed=2)


def test_what_was_limited_is_in_the_json(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=HEAD + MARKED.format(mark="rounds=10, threads=2", threads={2}))
    suite("--opprof", "--opprof-json=run.json")
    ((test),) = json.loads((pytester.path / "run.json").read_text())["tests"]
    assert [run["threads"] for run in test["windows"][0]["processes"]] == [2]


def test_threads_are_put_back_after_a_test_that_fails(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=HEAD + MARKED.format(mark="rounds=10", threads={9}))
    suite("--opprof").assert_outcomes(passed=1, failed=1)


def test_rounds_inside_a_test_are_limited_as_long_as_they_run(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m=HEAD
        + """
def test_a(opprof):
    for _ in opprof.rounds(10):
        fake.launch("Add")
        assert blas() == {1}
    assert blas() == {3}
    for _ in opprof.rounds(2):
        fake.launch("Add")
        assert blas() == {3}
def test_left(opprof):
    for _ in opprof.rounds(10): break
def test_after(): assert blas() == {3}
"""
    )
    suite("--opprof").assert_outcomes(passed=2, failed=1)


def test_one_thread_is_what_a_numpy_test_really_has(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m=HEAD
        + """
@pytest.mark.opprof(rounds=10)
def test_a(opprof):
    x = np.ones((4, 4))
    x @ x
    assert blas() == {1}
def test_after(): assert blas() == {3}
"""
    )
    suite("--opprof", "--opprof-backend=numpy").assert_outcomes(passed=2)


@pytest.fixture(scope="module")
def imported_before() -> None:
    """Import what pytester would forget that a test imported: PyTorch registers the ops of that only once."""
    importlib.import_module("torch._dynamo")


@pytest.mark.torch
@pytest.mark.usefixtures("imported_before")
def test_one_thread_is_what_a_torch_test_really_has_and_every_thread_has_as_many_as_before(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    import torch

    pytester.makepyfile(
        test_m="""
import threading, torch, pytest
def seen():
    found = [torch.get_num_threads()]
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start(); thread.join()
    return found
@pytest.mark.opprof(rounds=10)
def test_a():
    torch.ones(4) + 1
    assert seen() == [1, 1]
def test_after(): assert seen() == [3, 3]
"""
    )
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        suite("--opprof", "--opprof-backend=torch").assert_outcomes(passed=2)
    finally:
        torch.set_num_threads(before)
