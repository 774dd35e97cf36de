"""The first window of a process, in which CuPy first uses the GPU, and windows that end in an error."""

from __future__ import annotations

import time

import pytest

from pytest_opprof.frameworks.nvidia.live import libcupti

from .windows import cupy_or_skip, of_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


def test_a_context_that_is_made_inside_a_window_is_recorded() -> None:
    cp = cupy_or_skip()
    profile = of_cuda(lambda: [cp.ones(64, cp.float32).astype(cp.float64) for _ in range(3)])
    assert profile.stats("Cast").calls == (3,)
    assert any("loaded" in said.text for _, said in profile.remarks)


def test_the_clock_of_cupti_is_the_clock_of_the_system() -> None:
    """Then the marks of rounds, read from it, lie between the calls that they stand between."""
    cupy_or_skip()
    cupti = libcupti.opened()
    away_ns = []
    for _ in range(3000):
        before = time.time_ns()
        now = cupti.timestamp()
        away_ns.append(max(before - now, now - time.time_ns(), 0))
    assert max(away_ns) == 0


def test_an_exception_in_a_window_leaves_the_next_one_whole() -> None:
    cp = cupy_or_skip()
    x = cp.ones(64, cp.float32)

    def fails() -> None:
        for _ in range(1000):
            cp.add(x, 1, out=x)
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  # raised here
        of_cuda(fails)
    assert of_cuda(lambda: x.astype(cp.float64)).stats("Add").calls == (0,)
