from __future__ import annotations

from pathlib import Path

import pytest

from pytest_opprof.sites.chains import Frame
from pytest_opprof.sites.recorded import recorded


def files(*names: str) -> list[str]:
    return [frame.file for frame in recorded(Frame(name, "f", 1) for name in names)]


def test_lines_of_frameworks_and_the_standard_library_of_any_machine_are_left_out() -> None:
    assert files(
        "/opt/py/lib/python3.9/contextlib.py",
        "/opt/py/lib/python3.9/site-packages/torch/nn/modules/linear.py",
        "/opt/py/lib/python3.9/site-packages/einops/einops.py",
        "/home/them/nets.py",
        "<string>",
    ) == ["/opt/py/lib/python3.9/site-packages/einops/einops.py", "/home/them/nets.py"]


def test_relative_files_are_judged_by_their_first_folder() -> None:
    assert files("torch/nn/modules/linear.py", "typing.py", "einops/einops.py", "nets.py") == [
        "einops/einops.py",
        "nets.py",
    ]


def test_a_relative_file_is_one_of_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "queue.py").touch()
    monkeypatch.chdir(tmp_path)
    assert files("queue.py", "heapq.py") == [str(tmp_path / "queue.py")]


def test_chains_end_where_a_test_tool_called() -> None:
    assert files("nets.py", "test_nets.py", "_pytest/python.py", "run_tests.py") == ["nets.py", "test_nets.py"]
