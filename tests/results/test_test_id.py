"""What tests are called here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_opprof.results.test_id import command, id_of, is_file, split_id


def item(path: str, nodeid: str, **known: object) -> pytest.Item:
    config = SimpleNamespace(rootpath=Path("/root"))
    return SimpleNamespace(path=Path(path), nodeid=nodeid, config=config, **known)  # type: ignore[return-value]


def test_below_the_root_directory_a_test_has_its_node_id() -> None:
    assert id_of(item("/root/tests/test_a.py", "tests/test_a.py::test_b[x]")) == "tests/test_a.py::test_b[x]"


@pytest.mark.parametrize("nodeid", ["::test_b", "tests/test_a.py::test_b", "../site/package/tests/test_a.py::test_b"])
def test_elsewhere_its_module_is_called_by_its_dotted_name(nodeid: str) -> None:
    module = SimpleNamespace(__name__="package.tests.test_a")
    assert id_of(item("/site/package/tests/test_a.py", nodeid, module=module)) == "package.tests.test_a::test_b"


def test_what_is_no_module_is_called_by_its_file() -> None:
    assert id_of(item("/elsewhere/guide.md", "::line 3")) == "guide::line 3"


def test_a_test_is_its_module_and_its_name_there() -> None:
    assert split_id("tests/test_a.py::TestB::test_c[a::b]") == ("tests/test_a.py", "TestB::test_c[a::b]")


@pytest.mark.parametrize(
    ("module", "expected"), [("test_a.py", True), ("docs/guide.md", True), ("package.tests.test_a", False)]
)
def test_a_file_is_told_from_a_dotted_name(module: str, expected: bool) -> None:
    assert is_file(module) is expected


def test_the_command_runs_the_test_wherever_it_is() -> None:
    assert command(["test_a.py::test_b[x y]"], "--opprof") == "pytest 'test_a.py::test_b[x y]' --opprof"
    both = ["test_a.py::test_b", "package.test_a::test_b"]
    assert command(both, "--opprof") == "pytest --pyargs test_a.py::test_b package.test_a::test_b --opprof"
    assert command([], "--opprof", "mpirun pytest") == "mpirun pytest --opprof"
