"""What the backend of JAX makes of windows that were recorded with JAX 0.7 to 0.10, where JAX is not installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.xla.hlo_module import Frame, HloModule
from pytest_opprof.frameworks.xla.live import events
from pytest_opprof.frameworks.xla.live.programs import Known, Program
from pytest_opprof.frameworks.xla.live.recording import Recording, Span
from pytest_opprof.frameworks.xla.live.traced import Traced
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.op_profile import OpProfile, Remark
from pytest_opprof.sites.chains import UNKNOWN

from ....protobuf_messages import field
from ..jax_windows import VERSIONS, Recorded, recorded

Fence = Any


class Programs:
    """The recorded ones, by number: JAX has those of its own process."""

    def __init__(self, window: Recorded) -> None:
        modules = [window.module(name) for name in window.programs]
        self._modules = {Program(module.id, module.name): module for module in modules}

    def find(self, ran: Mapping[Program, Collection[str]]) -> dict[Program, Known]:
        return {program: Known(self._modules[program], (), 0) for program in ran}


def fence_of(window: Recorded) -> Fence:
    return SimpleNamespace(calls=window.calls, executions=window.executions)


def profile_of(window: Recorded, *compiled: events.Compiled) -> OpProfile:
    recording = Recording.of(window.xspace)
    recording.check(window.marks, fence_of(window))
    log = EventLog(Environment((("jax", "0"),)))
    log.interval = window.marks
    programs: Any = Programs(window)
    events.fill(log, recording, programs, Traced(), compiled)
    return log.freeze()


@pytest.mark.parametrize("version", VERSIONS)
def test_each_step_has_the_ops_that_the_text_of_its_program_has(version: str) -> None:
    window = recorded(version)
    profile = profile_of(window)
    # The first mark begins the window, then two for each step.
    for number, expected in enumerate(window.steps.values()):
        found: Counter[str] = Counter()
        for key, step, times in zip(profile.columns.key, profile.columns.step, profile.columns.events):
            raw = profile.keys[key].raw
            if step == 2 + 2 * number and not raw.startswith("jax::") and raw != "while" and "_fusion" not in raw:
                found[raw] += int(times)
        assert found == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_a_sort_is_one_call_though_xla_copies_what_it_sorts(version: str) -> None:
    steps = list(recorded(version).steps)
    calls = profile_of(recorded(version)).stats("Sort").calls
    assert (calls[2 + 2 * steps.index("sort")], calls[2 + 2 * steps.index("scan")]) == (1, 5)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_program_over_two_devices_is_one_call_and_its_ops_are_of_both(version: str) -> None:
    profile, step = profile_of(recorded(version)), 2 + 2 * list(recorded(version).steps).index("sharded")
    assert profile.stats("jax::program").calls[step] == 1
    assert profile.stats("all-reduce").calls[step] == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_all_kernels_have_their_time_and_the_markers_none(version: str) -> None:
    profile = profile_of(recorded(version))
    kernels, total = profile.stats("jax::kernel"), profile.total
    assert kernels.device_ns is None
    assert total.device_ns is not None
    assert [bool(ns) for ns in total.device_ns] == [bool(calls) for calls in kernels.calls]


def test_what_was_compiled_counts_by_its_name_alone() -> None:
    window = recorded(VERSIONS[0])
    profile = profile_of(window, events.Compiled(2, 5_000_000, "jit(f)", UNKNOWN))
    assert profile.stats("jax::compile").calls[2] == 1
    assert "jax::compile" not in [stats.op for stats in profile.ops]
    assert profile.total.device_ns == profile_of(window).total.device_ns
    assert (2, Remark("JAX compiled jit(f)")) in profile.remarks


def without(recording: Recording, **lost: int) -> Recording:
    """Return the recording without the first few of some events."""
    kept = {name: getattr(recording, name)[count:] for name, count in lost.items()}
    return replace(recording, **kept)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ({"marks": 1}, "JAX's profiler lost events: it recorded 10 of 11 marks, "),
        ({"fences": 99}, "Run without another profiler, and with jax"),
        ({"calls": 99}, "Run without another profiler, and with jax"),
        ({"ran": 999}, "Run without another profiler, and with jax"),
        ({"done": 1}, r"^1 of 6 called programs did not end in the window: another thread did not wait"),
        ({"asked": 2}, r"^2 programs ran that were not called in the window: another thread called them earlier"),
    ],
)
def test_what_is_lost_is_an_error(version: str, lost: dict[str, int], said: str) -> None:
    window = recorded(version)
    recording = Recording.of(window.xspace)
    with pytest.raises(BackendError, match=said):
        without(recording, **lost).check(window.marks, fence_of(window))


def test_a_call_is_in_a_fence_by_its_time_and_its_thread() -> None:
    recording = Recording(fences=[Span(10, 20, 1), Span(30, 40, 1)])
    inside = [Span(10, 20, 1), Span(32, 35, 1)]
    outside = [Span(9, 12, 1), Span(15, 25, 1), Span(22, 25, 1), Span(32, 35, 2)]
    assert [recording.is_in_fence(call) for call in (*inside, *outside)] == [True, True, False, False, False, False]


def test_what_is_no_profile_of_xlas_is_an_error() -> None:
    with pytest.raises(BackendError, match=r"JAX's profiler returned data that is not an XSpace \("):
        Recording.of(b"\x0a\xff\xff")
    stat = field(5, field(1, 3) + field(2, field(2, "hlo_op")))
    event = field(4, field(1, 1) + field(2, field(2, "add")))
    line = field(3, field(2, "python") + field(4, field(1, 1) + field(4, field(1, 3) + field(5, "add"))))
    with pytest.raises(
        BackendError, match=r"JAX's profiler does not report the 'program_id' of an op\. Install jax 0\.7\.2 to"
    ):
        Recording.of(field(1, field(2, "/host:CPU") + line + event + stat))


def inside(chain: list[str], stack: list[str]) -> list[str]:
    """Return the functions that are inside of a program, of lines that the functions of a *chain* have."""
    known = Known(HloModule(b""), tuple((__file__, function) for function in stack), 0)
    return [line.function for line in events._lines([Frame(__file__, each, 1) for each in chain], known)]


def test_lines_inside_of_a_program_end_where_it_was_called() -> None:
    # A function of the user's that is called as the program is called it, and is not inside of it.
    assert inside(["clip", "test_a"], ["clip", "test_a"]) == []
    assert inside(["dense", "step", "train", "test_a"], ["train", "test_a"]) == ["dense", "step"]
    # JAX keeps ten frames.
    assert inside(["dense", "step", "train"], ["train", "test_a"]) == ["dense", "step"]


def test_lines_that_another_test_traced_first_are_not_told() -> None:
    """As up to jax 0.8, where a function inside of a program was traced before, in a function of the same name."""
    assert inside(["dense", "step", "test_a"], ["test_b"]) == []
    assert inside(["dense", "step", "train", "test_a"], ["train", "test_b"]) == []
    assert inside(["dense"], []) == []
