"""Collectives of torch.distributed with gloo, in a world of one: what is asked for is the same, however many answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.profile.op_profile import OpProfile

torch = pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
import torch.distributed as dist  # noqa: E402

from pytest_opprof.frameworks.pytorch.live.backend import backend  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def _world() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def measured(run: Callable[[], object], memory: bool | None = None) -> OpProfile:
    with backend().collect(Options(memory=memory)) as log:
        log.mark()
        run()
        log.mark()
    return log.freeze()


def numbers(profile: OpProfile, op: str) -> tuple[int, int | None, tuple[int, ...] | None]:
    stats = profile.stats(op)
    return sum(stats.calls), sum(stats.bytes) if stats.bytes else None, stats.device_ns


def tensor(elements: int = 256, dtype: Any = None) -> Any:
    return torch.ones(elements, dtype=dtype or torch.float32)


@pytest.mark.parametrize(
    ("op", "nbytes", "run"),
    [
        ("AllReduce", 1024, lambda x: dist.all_reduce(x)),
        ("AllReduce", 2048, lambda x: dist.all_reduce_coalesced([x, x])),
        ("AllGather", 1024, lambda x: dist.all_gather([tensor()], x)),
        ("AllGather", 1024, lambda x: dist.all_gather_into_tensor(tensor(), x)),
        ("ReduceScatter", 1024, lambda x: dist.reduce_scatter_tensor(tensor(), x)),
        ("Broadcast", 1024, lambda x: dist.broadcast(x, 0)),
        ("AllToAll", 1024, lambda x: dist.all_to_all_single(tensor(), x)),
        ("Barrier", 0, lambda x: dist.barrier()),
        ("c10d::reduce_", 1024, lambda x: dist.reduce(x, 0)),
        ("c10d::gather_", 1024, lambda x: dist.gather(x, [tensor()], 0)),
    ],
)
def test_a_collective_is_one_call_with_the_bytes_that_a_rank_gives_and_no_device_time(
    op: str, nbytes: int, run: Callable[[Any], object]
) -> None:
    x = tensor()
    assert numbers(measured(lambda: run(x)), op) == (1, nbytes, None)


def test_what_gloo_does_in_its_threads_is_no_op_and_its_time_stands_beside_them() -> None:
    x = tensor()
    profile = measured(lambda: dist.all_gather([tensor()], x))
    assert "Copy" not in profile.op_names  # gloo copies what it got into the tensors
    assert not any(name.startswith("gloo:") for name in profile.raw_names)
    assert profile.communication_ns is not None
    assert sum(profile.communication_ns) > 0
    assert measured(lambda: x + 1).communication_ns is None


def test_the_time_of_a_wait_is_not_that_of_the_op_that_waits() -> None:
    from torch.distributed._functional_collectives import all_reduce

    x = tensor()
    profile = measured(lambda: all_reduce(x, "sum", dist.group.WORLD) + 1)
    assert numbers(profile, "AllReduce") == (1, 1024, None)
    assert profile.stats("Add").calls == (0, 1, 0)
    assert "_c10d_functional::wait_tensor" not in profile.op_names


def test_a_node_of_autograd_that_starts_a_collective_is_no_op_by_itself() -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    x = tensor(4).reshape(1, 4)
    model(x).sum().backward()
    profile = measured(lambda: model(x).sum().backward())
    assert numbers(profile, "AllReduce") == (1, 4 * (16 + 4), None)
    with model.no_sync():
        assert measured(lambda: model(x).sum().backward()).stats("AllReduce").calls == (0, 0, 0)


def test_how_many_bytes_are_held_is_not_known_where_another_thread_frees_them_unless_asked() -> None:
    x = tensor()
    with_memory = measured(lambda: (dist.all_reduce(x), x + 1), memory=True)
    by_default = measured(lambda: (dist.all_reduce(x), x + 1))
    assert by_default.allocations == with_memory.allocations
    assert (by_default.peak_memory, by_default.held_memory) == (None, None)
    assert with_memory.peak_memory is not None
    assert measured(lambda: x + 1).peak_memory is not None


def test_a_framework_says_which_rank_this_is_once_it_was_told() -> None:
    assert backend().rank() == (0, 1)
