from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import place as place_module
from pytest_opprof.frameworks.files.place import Place


def test_gzip_and_a_byte_order_mark_are_seen_through_by_content(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbf{}"
    for name, content in (("a.json", text), ("b.json", gzip.compress(text))):
        (tmp_path / name).write_bytes(content)
        place = Place(tmp_path / name)
        assert (place.head, place.read(10)) == (b"{}", b"{}")
        assert place.is_compressed == (name == "b.json")


def test_progress_is_told_in_bytes_of_the_file(tmp_path: Path) -> None:
    content = gzip.compress(os.urandom(300_000))
    (tmp_path / "a").write_bytes(content)
    seen: list[int] = []
    Place(tmp_path / "a", seen.append).read(1 << 20)
    assert sum(seen) <= len(content) + 2
    assert sum(seen) >= len(content) - place_module.HEAD


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"x" * 100)[:-10], "is a broken gzip file"),
        (gzip.compress(b"x" * 100)[:12] + b"\xff" * 30, "is a broken gzip file"),
        (b"x" * 101, "is larger than 0 MiB"),
    ],
    ids=["cut", "broken", "large"],
)
def test_what_cannot_be_read_is_one_error_with_its_path(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(TraceError, match=rf"/a: {message}"):
        Place(tmp_path / "a").read(100)
    with pytest.raises(TraceError, match="/nothing: cannot be read"):
        Place(tmp_path / "nothing").read(100)


def test_a_gzip_bomb_ends_in_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_module, "MOST_INFLATED", 1 << 20)
    (tmp_path / "a").write_bytes(gzip.compress(bytes(5 << 20)))
    with Place(tmp_path / "a").open() as file, pytest.raises(TraceError, match="this is no profile"):
        while file.read(1 << 16):
            pass


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "up").symlink_to(tmp_path)
    assert [child.path.name for child in Place(tmp_path).children()] == ["folder"]
    assert Place(tmp_path / "folder").children() == []


def test_the_head_of_a_gzip_file_that_was_cut_is_what_there_is_of_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(os.urandom(9_000))[:5_000])
    assert 3_000 < len(Place(tmp_path / "a").head) < 5_000
    (tmp_path / "b").write_bytes(b"\x1f\x8bnonsense")
    assert Place(tmp_path / "b").head == b""
