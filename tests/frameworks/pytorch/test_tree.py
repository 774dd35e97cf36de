from __future__ import annotations

from pytest_opprof.frameworks.pytorch.tree import ops_inside, owners_of
from pytest_opprof.ops.names import meaning
from pytest_opprof.profile.events.attribution import NOBODY


def test_what_an_annotation_is_around_is_in_the_op_around_that() -> None:
    range_, op = False, True
    assert ops_inside([], []) == ([], [])
    assert ops_inside([-1, 0, 1, 2, -1], [range_, op, range_, op, range_]) == ([-1, 0, 0, 1, -1], [-1, 0])


def test_an_annotation_counts_as_nothing_else_and_changes_nothing_inside() -> None:
    linear, product, view = meaning("aten::linear"), meaning("aten::addmm"), meaning("aten::t")
    wrapper = meaning("aten::to")
    assert owners_of([-1, 0, 1, 1, -1], [linear, None, product, view, wrapper]) == [0, 1, 0, 0, NOBODY]
    assert owners_of([-1, 0], [None, product]) == [0, 1]
    assert owners_of([-1, 0, 1], [wrapper, None, product]) == [2, 1, 2]
