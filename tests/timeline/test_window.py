"""A window that was measured here as a timeline: the same ops as in the table, nested, inside of the round."""

from __future__ import annotations

from collections import Counter
from threading import Thread

import numpy as np
import pytest

from pytest_opprof.frameworks.fake.live import backend as fake_device
from pytest_opprof.frameworks.fake.live import launch
from pytest_opprof.frameworks.live.contract import Backend, Options
from pytest_opprof.frameworks.numpy.live.backend import NumpyBackend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.user_ops import op
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.columns import ABSENT
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.timeline.spans import Kind, Span
from pytest_opprof.timeline.window import timeline_of, traced_round

from ..conftest import profile_of


class Measured:
    """A window, and a recorder for it."""

    def __init__(self, *backends: Backend, moments: bool = True) -> None:
        self.recorder = Recorder(backends, Options(moments=moments), explicit=True)
        self.window = Window("made")

    def spans(self, step: int = 0) -> tuple[Span, list[Span]]:
        """Return the round, and what ran in it."""
        first, *others = timeline_of(self.window.profile, step)
        return first, others


def named(spans: list[Span]) -> list[str]:
    return [span.name for span in spans]


@pytest.mark.torch
def test_a_round_of_a_model_has_the_ops_of_the_table_nested_inside_of_it() -> None:
    import torch

    from pytest_opprof.frameworks.pytorch.live.backend import backend

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    measured = Measured(backend())
    with measured.recorder.open(measured.window):
        for size in (2, 5):
            with measured.recorder.step(measured.window):
                model(torch.ones(size, 8)).sum().backward()
                optimizer.step()
    profile = measured.window.profile
    for step in (0, 1):
        whole, spans = measured.spans(step)
        assert whole.name == f"round {step + 1} of 2"
        ops = [span for span in spans if span.kind is Kind.OP]
        # Each call of each op is there, under its name.
        calls = {stats.op: stats.calls[step] for stats in profile.ops if stats.calls[step]}
        assert Counter(span.name.partition(" (")[0] for span in ops) == calls
        assert sum(calls.values()) > 20
        assert "MatMul (aten::linear)" in named(ops)
        # So are their parts; Timeline takes nothing for inside that is not.
        assert len(spans) == sum(profile.columns.step == step)
        assert ("aten::addmm", Kind.CALL, 1) in {(span.name, span.kind, span.depth) for span in spans}
        assert all(whole.start_ns <= span.start_ns <= span.end_ns <= whole.end_ns for span in spans)
        # What is inside nothing has, with all that is inside it, the time of the table.
        outermost = sum(span.duration_ns for span in spans if not span.depth)
        assert outermost == profile.columns.device_ns[profile.columns.step == step].sum()


def test_ranges_and_threads_have_lanes_of_their_own() -> None:
    numpy = NumpyBackend()
    array = np.ones((8, 8))
    measured = Measured(numpy)
    with measured.recorder.open(measured.window), measured.recorder.step(measured.window):
        with op("my_norm"):
            np.linalg.norm(array)
        array.astype(np.float32)
        thread = Thread(target=lambda: array * 2, name="other")
        thread.start()
        thread.join()
    whole, spans = measured.spans()
    assert [(span.lane.process.partition(" ")[0], span.lane.thread, span.name) for span in spans] == [
        ("numpy", "thread of the test", "ReduceL2 (numpy.linalg.norm)"),
        ("numpy", "thread of the test", "Cast (ndarray.astype)"),
        ("numpy", "other", "Mul (numpy.multiply)"),
        ("ranges", "opprof.op", "my_norm"),
    ]
    norm, cast, _, around = spans
    assert whole.start_ns < around.start_ns < norm.start_ns < norm.end_ns < around.end_ns < cast.start_ns
    assert cast.end_ns < whole.end_ns


def test_functions_of_numpy_hold_what_runs_inside_them() -> None:
    numpy = NumpyBackend()
    array = np.ones((4, 4))
    measured = Measured(numpy)
    with measured.recorder.open(measured.window), measured.recorder.step(measured.window):
        np.apply_along_axis(lambda row: np.sum(row), 0, array)
    _, spans = measured.spans()
    assert [span.depth for span in spans] == [0, 1, 1, 1, 1]
    assert len(spans) == len(measured.window.profile.columns)


def test_of_windows_inside_each_other_each_has_what_ran_in_it() -> None:
    measured, inner = Measured(fake_device()), Window("inner")
    with measured.recorder.open(measured.window), measured.recorder.step(measured.window):
        launch("Add")
        with measured.recorder.open(inner), measured.recorder.step(inner):
            launch("Cast")
        launch("Mul")
    assert named(measured.spans()[1]) == ["Add", "Cast", "Mul"]
    assert named(list(timeline_of(inner.profile, 0))) == ["round 1 of 1", "Cast"]


def test_the_fake_device_does_one_thing_after_the_other() -> None:
    measured = Measured(fake_device())
    with measured.recorder.open(measured.window), measured.recorder.step(measured.window):
        outer = launch("aten::linear", device_ns=10**9)
        launch("aten::mm", device_ns=700, inside=outer)
        launch("aten::add", device_ns=300, inside=outer)
        launch("Cast", device_ns=5)
        launch("Copy", device_ns=ABSENT)
    _, spans = measured.spans()
    begin = spans[0].start_ns
    assert [(span.name, span.depth, span.start_ns - begin, span.duration_ns) for span in spans] == [
        ("MatMul (aten::linear)", 0, 0, 10**9),
        ("aten::mm", 1, 0, 700),
        ("aten::add", 1, 700, 300),
        ("Cast", 0, 10**9, 5),
    ]


def test_nobody_pays_who_did_not_ask() -> None:
    for backend in (fake_device(), NumpyBackend()):
        measured = Measured(backend, moments=False)
        array = np.ones(4) if backend.name == "numpy" else None
        with measured.recorder.open(measured.window), measured.recorder.step(measured.window):
            launch("Add") if array is None else array + 1
            logs = [log for _, log in measured.recorder._recording]
        assert measured.recorder._marks_ns == []
        assert [log._ran for log in logs] == [{}]
        profile = measured.window.profile
        assert (profile.moments, profile.ran_ns, profile.is_empty) == (None, (), False)


@pytest.mark.parametrize(
    ("rounds", "chosen"),
    [
        ([[("Add", 9)], [("Add", 7)], [("Add", 8)]], 1),
        ([[("Add", 1)], [("Add", 7), ("Cast", 2)], [("Add", 6), ("Cast", 2)]], 2),
    ],
)
def test_the_round_is_the_fastest_of_those_with_the_most_calls(
    rounds: list[list[tuple[str, int]]], chosen: int
) -> None:
    profile: OpProfile = profile_of(*rounds)
    assert traced_round(profile) == chosen
