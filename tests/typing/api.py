"""The public types, checked and never run."""

from __future__ import annotations

import numpy as np

from pytest_opprof import Opprof, OpStats, Window, op
from pytest_opprof.backends import Backend, KnownWork, fake
from pytest_opprof.frameworks.numpy.live.backend import backend
from pytest_opprof.pytest_plugin.fixture import Rounds
from pytest_opprof.testing import check_backend


def use(opprof: Opprof) -> None:
    with opprof("prefill") as prefill:
        event: int = fake.launch("Cast", device_ns=2_000)
        fake.launch("Add", inside=event)
    window: Window = prefill
    calls: int = window.count("Cast") + window.calls
    top: tuple[OpStats, ...] = window.top(1)
    name: str = top[0].op
    rounds: Rounds = opprof.rounds(20, warmup=3, name=name)
    for number in rounds:
        calls += number
    x = np.ones(3)
    x.astype("float32")
    with opprof.op("my_attention"), op("my_softmax"):
        pass


backends: list[Backend] = [fake.backend(), backend()]
left_out: list[str] = check_backend(backend(), KnownWork(lambda: None, {"Cast": 1}))
