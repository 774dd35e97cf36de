"""Who holds memory at the peak."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.timeline.peak import Held, peak
from pytest_opprof.timeline.spans import Kind, Memory

from .made import HOST, OTHER, STREAM, in_use, timeline


def test_the_peak_is_held_by_the_ops_that_got_what_was_not_freed() -> None:
    ran = timeline(
        (HOST, "forward", Kind.RANGE, 0, 50),
        (HOST, "aten::conv2d", Kind.OP, 5, 20),
        (HOST, "aten::convolution", Kind.OP, 6, 18),
        (HOST, "aten::empty", Kind.OP, 9, 2),
        (HOST, "aten::relu", Kind.OP, 30, 10),
        (STREAM, "kernel", Kind.OP, 32, 10),
    )
    memory = in_use((1, 100), (10, 400), (15, 420), (20, 400), (35, 900), (60, 100))
    found = peak("device 0", memory, ran)
    assert found is not None
    assert (found.time_ns, found.size, found.before) == (35, 900, 100)
    # 20 bytes were freed again; memory that aten::empty gets is of the op around it.
    assert found.held == [Held("aten::relu", "forward", 500, 1), Held("aten::convolution", "forward", 300, 1)]


def test_memory_belongs_to_the_op_that_began_last_on_any_thread() -> None:
    ran = timeline(
        (HOST, "main", Kind.OP, 0, 100), (OTHER, "backward", Kind.OP, 20, 10), (OTHER, "step", Kind.RANGE, 15, 40)
    )  # fmt: skip
    found = peak("CPU", in_use((1, 0), (10, 5), (25, 12), (200, 15)), ran)
    assert found is not None
    assert found.held == [Held("backward", "step", 7, 1), Held("main", "", 5, 1), Held("", "", 3, 1)]


def test_freed_memory_is_the_newest_of_its_size() -> None:
    ran = timeline((HOST, "kept", Kind.OP, 0, 10), (HOST, "temporary", Kind.OP, 20, 10))
    found = peak("CPU", in_use((0, 0), (5, 8), (25, 16), (28, 8), (29, 9), (30, 1)), ran)
    assert found is not None
    assert found.size == 16
    later = peak("CPU", in_use((0, 0), (5, 8), (25, 16), (28, 8), (40, 17)), ran)
    assert later is not None
    assert [(each.op, each.size) for each in later.held] == [("", 9), ("kept", 8)]


def test_without_memory_there_is_no_peak() -> None:
    assert peak("CPU", in_use(), timeline()) is None
    assert peak("CPU", in_use((0, 0), (1, -5)), timeline()) is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1))
def test_all_of_the_peak_is_held_or_from_before(changes: list[tuple[int, int]]) -> None:
    memory: Memory = in_use(*sorted(changes, key=lambda change: change[0]))
    found = peak("CPU", memory, timeline((HOST, "a", Kind.OP, 0, 20), (HOST, "b", Kind.OP, 25, 20)))
    assert (found is None) == (max(memory.sizes) == 0)
    if found is not None:
        assert found.before + sum(each.size for each in found.held) == found.size
        assert all(each.size > 0 for each in found.held)
