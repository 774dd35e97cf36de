from __future__ import annotations

import gc
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.measure.memory import host_memory
from pytest_opprof.measure.memory.host_memory import LOOKER, HostMemory, lines_at, memory_of
from pytest_opprof.measure.memory.traced import line_of
from pytest_opprof.sites.shown import Shown

from ..changed_lines import Changed

KIB, MIB = 1 << 10, 1 << 20


def measured(call: Callable[[], object]) -> HostMemory:
    def ran_again() -> bool:
        call()
        return True

    return memory_of(call, ran_again)


@pytest.mark.parametrize("nbytes", [MIB, 16 * MIB])
def test_the_peak_is_that_of_the_worst_moment(nbytes: int) -> None:
    def body() -> None:
        bytearray(nbytes)
        np.zeros(nbytes // 2, np.uint8)

    peak, _ = measured(body)
    assert nbytes <= peak < nbytes + 64 * KIB


def test_what_a_run_still_holds_is_known_when_its_garbage_is_collected() -> None:
    kept: list[bytearray] = []

    def body() -> None:
        kept.append(bytearray(MIB))
        cycle: list[object] = [bytearray(8 * MIB)]
        cycle.append(cycle)

    peak, held = measured(body)
    assert peak >= 9 * MIB
    assert MIB <= held < MIB + 64 * KIB
    assert measured(lambda: bytearray(MIB)).kept < 64 * KIB


def test_memory_that_replaces_that_of_an_earlier_call_is_not_kept() -> None:
    kept = [bytearray(MIB)]

    def body() -> None:
        kept[:] = [bytearray(MIB)]

    assert measured(body).kept < 64 * KIB


@pytest.mark.parametrize("sizes", [(MIB, 70 * KIB), (70 * KIB, MIB)])
def test_a_list_that_moves_in_one_of_two_runs_is_not_kept_by_each(sizes: tuple[int, int]) -> None:
    kept, left = list[bytearray](), iter(sizes)
    assert 70 * KIB <= measured(lambda: kept.append(bytearray(next(left)))).kept < 80 * KIB


def test_the_peak_is_known_though_the_body_cannot_run_once_more() -> None:
    kept: list[bytearray] = []
    peak, held = memory_of(lambda: kept.append(bytearray(2 * MIB)), lambda: False)
    assert min(peak, held) >= 2 * MIB


def test_memory_of_before_does_not_count() -> None:
    kept = bytearray(MIB)
    peak, _ = measured(lambda: kept)
    assert peak < 64 * KIB


def looking(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Return what is set once a snapshot was taken."""
    looked, take = Event(), tracemalloc.take_snapshot

    def noted() -> tracemalloc.Snapshot:
        found = take()
        looked.set()
        return found

    monkeypatch.setattr(tracemalloc, "take_snapshot", noted)
    return looked


def test_the_lines_of_a_peak_that_no_look_meets_are_those_of_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = looking(monkeypatch)

    def body() -> None:
        kept = bytearray(MIB)
        assert looked.wait(10)
        del kept

    ((line, _),) = lines_at(MIB * 3 // 2, body)
    assert line.startswith("1 MiB at ")


def test_a_peak_that_no_look_meets_has_the_line_that_allocates_most_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def body() -> None:
        before = bytearray(KIB)
        kept = bytearray(4 * MIB)
        bytearray(len(before))
        del kept

    monkeypatch.setattr(host_memory, "Thread", lambda **_: Thread(target=str))
    ((line, _),) = lines_at(4 * MIB, body)
    assert line.startswith("4 MiB at ")
    assert line.endswith(f"test_host_memory.py:{body.__code__.co_firstlineno + 2}")


def test_where_no_line_reaches_a_peak_that_is_said() -> None:
    ((line, _),) = lines_at(100 * MIB, lambda: bytearray(MIB))
    assert line == "its lines are unknown: the peak is over within a millisecond"


def test_memory_below_a_line_that_changed_comes_first_with_that_line() -> None:
    def made() -> bytearray:
        return bytearray(4 * MIB)

    def body() -> None:
        (looker,) = (thread for thread in enumerate_threads() if thread.name == LOOKER)
        larger = bytearray(5 * MIB)
        kept = made()
        looker.join(10)  # it has looked
        del larger, kept

    here, begin = "tests/measure/memory/test_host_memory.py", body.__code__.co_firstlineno
    first, second = lines_at(9 * MIB, body, Changed({__file__: [begin + 3]}))
    said = f"4 MiB at {here}:{made.__code__.co_firstlineno + 1}, below the changed line {here}:{begin + 3}"
    assert first == (said, f"{here}:{begin + 3}")
    assert second == (f"5 MiB at {here}:{begin + 2}", f"{here}:{begin + 2}")
    first, second = lines_at(9 * MIB, body, Changed({__file__: [made.__code__.co_firstlineno + 1]}))
    assert first.text == said.partition(", below")[0]


def test_many_changed_lines_that_hold_a_part_of_the_peak_together_are_not_lost_beside_the_largest() -> None:
    def body() -> None:
        (looker,) = (thread for thread in enumerate_threads() if thread.name == LOOKER)
        large = [bytearray(3 * MIB), bytearray(3 * MIB), bytearray(3 * MIB)]
        small = [
            bytearray(200 * KIB),
            bytearray(210 * KIB),
            bytearray(220 * KIB),
        ]
        looker.join(10)  # it has looked
        del large, small

    begin = body.__code__.co_firstlineno
    found = lines_at(9 * MIB + 630 * KIB, body, Changed({__file__: [begin + 4, begin + 5, begin + 6]}))
    assert [each.text.partition(" at ")[0] for each in found] == ["9 MiB", "220 KiB"]
    few = lines_at(9 * MIB + 630 * KIB, body, Changed({__file__: [begin + 4]}))
    assert [each.text.partition(" at ")[0] for each in few] == ["9 MiB"]


def test_memory_of_lines_of_the_test_comes_last(tmp_path: Path) -> None:
    code = tmp_path / "made.py"
    code.write_text("def made(n):\n    return bytearray(n)\n")
    space: dict[str, Callable[[int], bytearray]] = {}
    exec(compile(code.read_text(), code, "exec"), space)

    def body() -> None:
        (looker,) = (thread for thread in enumerate_threads() if thread.name == LOOKER)
        larger = bytearray(5 * MIB)
        kept = space["made"](4 * MIB)
        looker.join(10)  # it has looked
        del larger, kept

    shown = Shown(Path(__file__).parents[4], show=[str(tmp_path)])
    places = []
    for test in ("", __file__):
        shown.test = test
        places.append([Path(each.line.partition(":")[0]).name for each in lines_at(9 * MIB, body, shown)])
    assert places == [["test_host_memory.py", "made.py"], ["made.py", "test_host_memory.py"]]


@pytest.mark.parametrize(("of_test", "held", "named"), [(True, 4.5, 0), (True, 6, 1), (False, 4.5, 1)])
def test_lines_of_the_test_alone_that_hold_less_than_half_of_a_peak_explain_nothing(
    monkeypatch: pytest.MonkeyPatch, of_test: bool, held: float, named: int
) -> None:
    monkeypatch.setattr(host_memory, "_NEARLY", (0.4,))

    def body() -> None:
        (looker,) = (thread for thread in enumerate_threads() if thread.name == LOOKER)
        kept = bytearray(int(held * MIB))
        looker.join(10)  # it has looked
        del kept

    shown = Shown(Path(__file__).parents[4], show=[])
    shown.test = __file__ if of_test else ""
    assert len(lines_at(10 * MIB, body, shown)) == named


def test_the_lines_of_half_of_a_peak_do_not_stand_for_it(monkeypatch: pytest.MonkeyPatch, untraced: None) -> None:
    looked = looking(monkeypatch)

    def body() -> None:
        early = bytearray(2 * MIB)
        assert looked.wait(10)
        del early
        bytearray(4 * MIB)

    monkeypatch.setattr(host_memory, "Event", lambda: SimpleNamespace(wait=lambda _: looked.is_set(), set=looked.set))
    ((line, _),) = lines_at(4 * MIB, body)
    assert line.startswith("4 MiB at ")
    assert line.endswith(f"test_host_memory.py:{body.__code__.co_firstlineno + 4}")


def test_a_changed_line_is_named_for_a_peak_that_no_look_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> None:
        bytearray(4 * MIB)

    def body() -> None:
        made()

    monkeypatch.setattr(host_memory, "Thread", lambda **_: Thread(target=str))
    begin = body.__code__.co_firstlineno
    ((said, place),) = lines_at(4 * MIB, body, Changed({__file__: [begin + 1]}))
    assert place == f"tests/measure/memory/test_host_memory.py:{begin + 1}"
    assert said.endswith(f":{begin - 2}, below the changed line {place}")


def test_a_line_of_a_package_is_named_only_where_the_program_has_none() -> None:
    frames = tracemalloc.Traceback([("package.py", 5), (__file__, 3)])  # kept in reverse
    assert line_of(frames).startswith("package.py:5")
    assert line_of(frames, lambda file: file == __file__).endswith("test_host_memory.py:3")
    assert line_of(frames, lambda file: False).startswith("package.py:5")


def test_the_tracing_of_the_program_goes_on_and_is_not_read() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="the program uses tracemalloc itself"):
            measured(lambda: bytearray(MIB))
        assert lines_at(MIB, lambda: bytearray(MIB)) == []
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["start", "stop", "clear_traces", "reset_peak"])
def test_a_program_that_changes_the_tracing_has_no_peak(name: str) -> None:
    function = getattr(tracemalloc, name)
    with pytest.raises(UsageError, match="the program uses tracemalloc itself"):
        measured(lambda: getattr(tracemalloc, name)())
    assert getattr(tracemalloc, name) is function
    assert not tracemalloc.is_tracing()


@pytest.mark.parametrize("look", [measured, lambda call: lines_at(KIB, call)])
def test_nothing_is_traced_after_an_error(look: object) -> None:
    def fails() -> None:
        assert not gc.isenabled()
        raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        look(fails)  # type: ignore[operator]
    assert not tracemalloc.is_tracing()
    assert gc.isenabled()


def test_of_a_peak_that_is_over_at_once_the_lines_before_it_are_named_too(
    monkeypatch: pytest.MonkeyPatch, untraced: None
) -> None:
    monkeypatch.setattr(host_memory, "_LOOK_S", 10)  # no other thread looks

    def body() -> object:
        copied = bytearray(4 * MIB)
        return bytearray(9 * MIB), copied

    begin = body.__code__.co_firstlineno
    lines = [each.text for each in lines_at(13 * MIB, body)]
    assert lines == [
        f"{mib} MiB at tests/measure/memory/test_host_memory.py:{begin + at}" for mib, at in ((9, 2), (4, 1))
    ]


def test_a_peak_that_no_line_holds_a_tenth_of_is_said_to_be_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "_NEARLY", (0.01,))

    def body() -> None:
        (looker,) = (thread for thread in enumerate_threads() if thread.name == LOOKER)
        kept = bytearray(MIB)
        looker.join(10)
        del kept

    ((line, _),) = lines_at(12 * MIB, body)
    assert re.fullmatch(
        r"it is spread over \d+ lines?; the largest holds 1 MiB at tests/\S+test_host_memory.py:\d+", line
    )


def test_the_lines_that_hold_the_peak_are_named_the_largest_first() -> None:
    def body() -> None:
        (looker,) = (thread for thread in enumerate_threads() if thread.name == LOOKER)
        small, large = bytearray(MIB), bytearray(2 * MIB)
        looker.join(10)  # it has looked
        del small, large

    lines = [each.text for each in lines_at(3 * MIB, body)]
    assert [line.partition(":")[0] for line in lines[:1]] == ["3 MiB at tests/measure/memory/test_host_memory.py"]
