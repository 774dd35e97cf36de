"""Ranges in Nsight's timeline; what they are in a profile is in `test_ranges`. No Nsight is here: NVTX is stood in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from pytest_opprof import op
from pytest_opprof.machine import nsight

pytestmark = pytest.mark.usefixtures("beside_other_software")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is said to the NVTX of CuPy, under Nsight; there is no other."""
    calls: list[str] = []
    for name, _, _ in nsight._NVTX:
        monkeypatch.delitem(sys.modules, name, raising=False)
    nvtx = ModuleType("cupy.cuda.nvtx")
    nvtx.RangePush, nvtx.RangePop = calls.append, lambda: calls.append("end")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy.cuda.nvtx", nvtx)
    monkeypatch.setattr(nsight, "IS_AROUND", True)
    nsight.nvtx.cache_clear()
    yield calls
    nsight.nvtx.cache_clear()


def test_under_nsight_a_range_is_one_of_its_timeline_also_where_it_raises(said: list[str]) -> None:
    with pytest.raises(ValueError, match="mine"), op("outer"), op("inner"):
        raise ValueError("mine")
    assert said == ["outer", "inner", "end", "end"]


def test_a_function_may_be_a_range_each_time_it_is_called(said: list[str]) -> None:
    @op("mine")
    def twice(x: int) -> int:
        return 2 * x

    assert (twice(2), twice(3)) == (4, 6)
    assert said == ["mine", "end"] * 2


def test_without_nsight_nothing_is_said(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsight, "IS_AROUND", False)
    with op("outer"):
        pass
    assert said == []


@pytest.mark.parametrize("cuda", [None, "13.0"])
def test_of_pytorch_only_a_build_for_cuda_can_say_it(
    said: list[str], monkeypatch: pytest.MonkeyPatch, cuda: str | None
) -> None:
    torch, nvtx, others = ModuleType("torch"), ModuleType("torch.cuda.nvtx"), list[str]()
    torch.version = ModuleType("torch.version")  # type: ignore[attr-defined]
    torch.version.cuda = cuda
    nvtx.range_push, nvtx.range_pop = others.append, lambda: others.append("end")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.cuda.nvtx", nvtx)
    with op("outer"):
        pass
    assert (said, others) == ((["outer", "end"], []) if cuda is None else ([], ["outer", "end"]))


def test_where_nobody_can_tell_nsight_code_runs_as_before(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy.cuda.nvtx")
    with op("outer"):
        pass
    assert said == []
