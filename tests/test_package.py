from __future__ import annotations

import re
from pathlib import Path

import pytest

import pytest_opprof
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.op_profile import OpStats
from pytest_opprof.pytest_plugin.fixture import Opprof

ROOT = Path(__file__).parents[1]


def test_the_types_of_the_fixture_are_there_for_annotations() -> None:
    assert (pytest_opprof.Opprof, pytest_opprof.Window, pytest_opprof.OpStats) == (Opprof, Window, OpStats)


def test_what_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'pytest_opprof' has no attribute 'Session'"):
        pytest_opprof.Session  # noqa: B018


def extras() -> dict[str, list[str]]:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads pyproject.toml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: dict[str, list[str]] = project["optional-dependencies"]
    return found


def test_extras_that_messages_and_pages_name_are_there_and_each_is_in_the_readme_and_installed_in_ci() -> None:
    texts = [
        path.read_text("utf-8") for folder in ("pytest_opprof", "docs") for path in (ROOT / folder).rglob("*.[pm][yd]")
    ]
    readme = (ROOT / "README.md").read_text("utf-8")
    named = {name for text in [*texts, readme] for name in re.findall(r"pytest-opprof\[([\w-]+)\]", text)}
    of_users = {name for name in extras() if not name.startswith("test") and name not in ("docs", "lint")}
    assert named <= of_users
    assert set(re.findall(r"`\[([\w-]+)\]`", readme)) == of_users
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert set(re.findall(r"for extra in ([\w ,-]+);", makefile)[0].replace(",", " ").split()) == of_users
