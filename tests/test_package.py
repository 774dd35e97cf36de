from __future__ import annotations

import pytest

import pytest_opprof
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.op_profile import OpStats
from pytest_opprof.pytest_plugin.fixture import Opprof


def test_the_types_of_the_fixture_are_there_for_annotations() -> None:
    assert (pytest_opprof.Opprof, pytest_opprof.Window, pytest_opprof.OpStats) == (Opprof, Window, OpStats)


def test_what_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'pytest_opprof' has no attribute 'Session'"):
        pytest_opprof.Session  # noqa: B018
