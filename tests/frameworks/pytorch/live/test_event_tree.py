"""The event tree of real windows: what is remembered of equal events changes nothing that is read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.pytorch import work
from pytest_opprof.frameworks.pytorch.live import event_tree, kineto
from pytest_opprof.frameworks.pytorch.live.event_tree import TreeReader
from pytest_opprof.frameworks.pytorch.work import Works
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.op_profile import OpProfile

from ....conftest import HAS_TORCH

pytestmark = pytest.mark.torch
if not HAS_TORCH:
    if "OPPROF_REQUIRE_TORCH" in os.environ:
        pytest.fail("torch is not installed")
    pytest.skip("torch is not installed (pip install torch==2.13.0)", allow_module_level=True)

import torch  # noqa: E402

from pytest_opprof.frameworks.pytorch.live.backend import _session  # noqa: E402

from . import torch_programs as programs  # noqa: E402


class Forgetful(Works):
    """It remembers nothing."""

    def __setitem__(self, case: tuple[object, ...], work: Any) -> None: ...


class _Nothing(dict[Any, Any]):
    def __setitem__(self, case: object, found: object) -> None: ...


def recorded(body: Callable[[], object]) -> Any:
    session = _session(Options(), on_gpu=False, all_threads=True)
    with session:
        body()
    return session.kineto_results


def read(results: Any, *, remembers: bool) -> OpProfile:
    log = EventLog(Environment((("torch", torch.__version__),)))
    reader = TreeReader(log, Options(), results.events)
    with pytest.MonkeyPatch.context() as patch:
        if not remembers:
            reader._works = _Nothing()
            patch.setattr(event_tree, "_DONE", Forgetful())
        reader.walk(results.experimental_event_tree())
    log.knows_flops = True
    log.computed_nothing(reader.on_meta)
    return log.freeze()


def lists() -> None:
    x, y = torch.ones(4, 4), torch.ones(4, 4, dtype=torch.float64)
    for left, right in ([x, x], [y, y], [x, x.t()], [x, y]):
        torch.cat([left, right])
        torch.stack([left, left])
    torch._foreach_add([x, x], [x, x], alpha=2)
    torch._foreach_mul_([x, y], 2.0)
    torch._foreach_norm([y, y])
    x[[0, 1], None]
    x[torch.tensor([0, 1]), torch.tensor([1, 2])]
    torch.block_diag(x, y)
    torch.einsum("ij,jk,kl->il", x, x, x)


def alike() -> None:
    """Ops whose names and shapes agree, but not their dtypes, layouts or attributes."""
    x = torch.ones(2, 3, 4, 4)
    for image in (x, x.to(memory_format=torch.channels_last), x.double(), x.transpose(2, 3)):
        image + image
        image.sum()
        image.sum(1)
        image.sum((1, 2), keepdim=True)
        image.mean(dtype=torch.float64)
        image.to(torch.bfloat16)
        image.argmax(1)
        torch.nn.functional.conv2d(image, image[:1])
        torch.nn.functional.conv2d(image, image[:1], padding=1)
    for size in ((3,), (3, 1), (1, 3)):
        torch.zeros(size)
        torch.zeros(size, dtype=torch.int64)
        torch.arange(size[0])
        torch.zeros_like(x, dtype=torch.bool)


def on_meta() -> None:
    x = torch.ones(4)
    x + x
    y = x.to("meta")
    y + y
    x + x


def in_threads() -> None:
    def work() -> None:
        torch.ones(4) + torch.ones(4)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    work()
    for worker in workers:
        worker.join()


def mixed() -> None:
    x, w = programs.inputs()
    programs.autocast(x, w)


def hooked() -> None:
    programs.hooked(*programs.inputs())
    programs.hooked_module(*programs.inputs())


def checkpointed() -> None:
    programs.checkpointed(*programs.inputs(), is_reentrant=False)


def compiled() -> None:
    torch.compile(lambda x: (x @ x).relu() + 1, backend="aot_eager")(torch.ones(8, 8))


def training() -> None:
    program = programs.Training()
    program.step()
    program.step()


BODIES = [alike, checkpointed, compiled, hooked, in_threads, lists, mixed, on_meta, training]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_events_are_read_as_if_nothing_were_known_of_equal_ones(body: Callable[[], object]) -> None:
    results = recorded(body)
    alone = read(results, remembers=False)
    assert alone.ops
    for again in (read(results, remembers=True), read(results, remembers=True)):
        assert [alone.keys[key] for key in alone.columns.key] == [again.keys[key] for key in again.columns.key]
        for field in fields(alone.columns):
            if field.name != "key":
                np.testing.assert_array_equal(getattr(again.columns, field.name), getattr(alone.columns, field.name))


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_flat_events_are_sorted_as_if_nothing_were_known_of_equal_ones(
    body: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = recorded(body).events()
    known = [kineto.recorded(events) for _ in range(2)]
    monkeypatch.setattr(kineto, "_DONE", Forgetful())
    assert known == [kineto.recorded(events)] * 2


def test_the_work_of_earlier_windows_is_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tree, "_DONE", Works())
    monkeypatch.setattr(work, "_MOST_WORKS", 3)
    results = recorded(alike)
    expected = read(results, remembers=False)
    assert [stats.op for stats in read(results, remembers=True).ops] == [stats.op for stats in expected.ops]
    assert len(event_tree._DONE) <= 3
