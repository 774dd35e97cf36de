"""Graphs of CUDA in windows of CuPy: before 13.1 Update 1 CUPTI numbers them wrongly in all windows but the first."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_opprof.errors import BackendError

from .windows import counts, cupy_or_skip, of_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


class Graph:
    """Three kernels, captured when this is made."""

    def __init__(self, cp: Any) -> None:
        x = cp.ones(1024, cp.float32)
        y = cp.empty_like(x)
        self.stream = cp.cuda.Stream(non_blocking=True)

        def work() -> None:
            cp.multiply(x, 2, out=y)
            cp.add(y, 1, out=y)
            cp.sqrt(y, out=y)

        with self.stream:
            work()  # compiles
            self.stream.synchronize()
            self.stream.begin_capture()
            work()
            self.graph = self.stream.end_capture()

    def launch(self, times: int) -> None:
        """Run it so many times."""
        for _ in range(times):
            self.graph.launch(self.stream)


def test_each_kernel_of_each_launch_is_counted_in_every_window() -> None:
    cp, made = cupy_or_skip(), []
    of_cuda(lambda: made.append(Graph(cp)))
    for times in (4, 1, 3):
        profile = of_cuda(lambda times=times: made[0].launch(times))
        assert profile.launches == (times,)
        assert {op: calls for op, calls in counts(profile).items() if op != "(unlinked)"} == dict.fromkeys(
            ("Mul", "Add", "Sqrt"), times
        )


def test_a_graph_from_before_a_window_is_counted_or_an_error() -> None:
    graph = Graph(cupy_or_skip())

    def found() -> object:
        try:
            return of_cuda(lambda: graph.launch(4)).stats("Sqrt").calls
        except BackendError as error:
            return "CUDA graphs" in str(error)

    assert found() in ((4,), True)
