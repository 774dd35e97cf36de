"""The tree of ranges and ops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.timeline.spans import Kind
from pytest_opprof.timeline.tree import Node, tree

from .made import HOST, OTHER, SECOND, STREAM, Event, marks, timeline, works


def said(node: Node) -> dict[str, object]:
    """Return a node as plain values: its name, then calls and time, then what is inside."""
    return {f"{each.name} {each.calls}x {each.ns}": said(each) for each in node.children.values()}


def test_work_of_the_device_belongs_to_the_range_and_op_that_launched_it() -> None:
    found = tree(
        timeline(
            (HOST, "forward", Kind.RANGE, 0, 50),
            (HOST, "layer", Kind.RANGE, 5, 30),
            (HOST, "aten::linear", Kind.OP, 10, 20),
            (HOST, "aten::addmm", Kind.OP, 12, 10),
            (STREAM, "gemm", Kind.OP, 60, 70, 15),
            (SECOND, "copy", Kind.COPY, 60, 8, 40),
            (STREAM, "late", Kind.OP, 150, 4, 99),
        )
    )
    assert found.on_device
    assert found.root.ns == 82
    assert said(found.root) == {"forward 1x 78": {"layer 1x 70": {"aten::linear 1x 70": {}}}}
    assert found.root.has_ranges


def test_a_launch_belongs_to_the_thread_whose_range_began_last() -> None:
    found = tree(
        timeline(
            (HOST, "step", Kind.RANGE, 0, 100),
            (OTHER, "backward", Kind.RANGE, 20, 30),
            (STREAM, "k", Kind.OP, 60, 9, 25),
            (STREAM, "k", Kind.OP, 80, 3, 70),
        )
    )
    assert said(found.root) == {"step 1x 3": {}, "backward 1x 9": {}}


def test_without_launches_it_has_the_time_of_the_host() -> None:
    repeated = [(HOST, "layer", Kind.RANGE, 20 * n, 10) for n in range(3)]
    found = tree(timeline(*repeated, (HOST, "aten::mm", Kind.OP, 2, 5), (HOST, "aten::mm", Kind.OP, 90, 4)))
    assert not found.on_device
    assert (found.root.ns, said(found.root)) == (34, {"layer 3x 30": {"aten::mm 1x 5": {}}, "aten::mm 1x 4": {}})
    assert not tree(timeline((HOST, "aten::mm", Kind.OP, 0, 5))).root.has_ranges


def test_of_chosen_steps_only_what_ran_in_them_counts() -> None:
    marked = timeline(
        (HOST, "1", Kind.STEP, 0, 50),
        (HOST, "2", Kind.STEP, 50, 50),
        (HOST, "layer", Kind.RANGE, 10, 10),
        (HOST, "layer", Kind.RANGE, 60, 20),
    )
    assert said(tree(marked, ["2"]).root) == {"layer 1x 20": {}}


def test_ranges_that_recurse_end_at_some_depth() -> None:
    found = tree(timeline(*((HOST, f"r{n}", Kind.RANGE, n, 100 - 2 * n) for n in range(40))))
    depth, node = 0, found.root
    while node.children:
        depth, node = depth + 1, next(iter(node.children.values()))
    assert depth == 12


@given(st.lists(works() | marks(), max_size=15))
def test_what_is_inside_a_node_takes_no_longer_than_the_node(events: list[Event]) -> None:
    def check(node: Node) -> None:
        assert sum(child.ns for child in node.children.values()) <= node.ns
        for child in node.children.values():
            check(child)

    found = tree(timeline(*events))
    check(found.root)
    launched = [event for event in events if event[0].on_device and event[2] is not Kind.WAIT and event[5] is not None]
    if launched:
        assert found.root.ns == sum(event[4] for event in launched)
