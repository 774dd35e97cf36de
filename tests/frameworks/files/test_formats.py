from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_opprof.errors import TraceError, UsageError
from pytest_opprof.frameworks.files import formats, own_format, place
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import SavedOp, SavedProfile

TEXT = own_format.dump(SavedProfile("made", Environment((("made", "1"),)), (SavedOp("a", "Add"),)))


def test_profiles_are_found_below_a_folder_whatever_their_names(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("b.txt", "deep/er/a"):
        (tmp_path / name).write_text(TEXT)
    (tmp_path / "other.json").write_text("{}")
    assert [str(found) for found in formats.find(Place(tmp_path))] == [f"{tmp_path}/b.txt", f"{tmp_path}/deep/er/a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is not a profile that opprof can read \(opprof formats lists them\): it is empty"),
        (b"hello \x1b[2J", r"is not a profile .*It begins with 'hello \\x1b\[2J'"),
        (b"\x00\xff" * 500, "is not a profile"),
        (b"[" * 100_000, "is not a profile"),
        (b'{"traceEvents": 5}', "is not a profile"),
        (b"SQLite format 3\x00" + bytes(200), "is not a profile"),
        (b"\x1f\x8b" + b"nonsense" * 9, "broken gzip file"),
    ],
)
def test_a_file_of_no_known_format_is_one_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(TraceError, match=message):
        formats.find(Place(tmp_path / "a"))


def test_an_empty_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is not a profile that opprof can read"):
        formats.find(Place(tmp_path))
    with pytest.raises(TraceError, match="there is no such file"):
        formats.find(Place(tmp_path / "nothing"))


@pytest.mark.parametrize("content", [b"", b"\n", b"\x1f\x8bbroken"])
def test_a_rank_of_several_that_is_empty_is_missed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rank0.json").write_text(TEXT)
    (tmp_path / "notes.json").write_text("")
    assert len(formats.find(Place(tmp_path))) == 1
    (tmp_path / "rank12.json").write_bytes(content)
    with pytest.raises(TraceError, match=r"rank12\.json: is empty or broken, although its name is that of a profile"):
        formats.find(Place(tmp_path))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("source", [None, "torch"])
def test_utf_16_is_named_with_the_command_that_converts_it(tmp_path: Path, encoding: str, source: str | None) -> None:
    (tmp_path / "a.json").write_text(TEXT, encoding=encoding)
    with pytest.raises(TraceError, match=r"a\.json: is UTF-16.*iconv -f UTF-16 -t UTF-8 a\.json"):
        formats.find(Place(tmp_path / "a.json"), source)
    with pytest.raises(TraceError, match=r"is not a profile .*a\.json is UTF-16"):
        formats.find(Place(tmp_path))


def test_a_pipe_and_the_standard_input_are_told_to_be_saved_to_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null"), Path("-")):
        with pytest.raises(TraceError, match=r"more than once.*save it to a file first"):
            formats.find(Place(path))


def test_a_file_that_may_not_be_read_is_named_alone_and_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.json").write_text(TEXT)
    monkeypatch.setattr(place, "open", refused, raising=False)
    for path in (tmp_path / "a.json", tmp_path):
        with pytest.raises(TraceError, match=r"a\.json: cannot be read \(Permission denied\)"):
            formats.find(Place(path))


class TestPartial:
    def test_a_file_that_is_whole_is_not_called_cut(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text(TEXT)
        (found,) = formats.find(Place(tmp_path / "a"))
        assert not formats.read(found, partial=True).is_cut

    def test_what_is_whole_of_a_cut_file_is_called_cut(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("Name,Type,Duration(us)\nmm,MatMul,1\nmm,MatMul,2")
        (found,) = formats.find(Place(tmp_path / "a"))
        with pytest.raises(TraceError, match="is cut in row 3"):
            formats.read(found)
        cut = formats.read(found, partial=True)
        assert (cut.is_cut, [record.calls for record in cut.records]) == (True, [1])

    def test_a_format_that_cannot_be_read_in_part_says_so(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text('{"profiler": {"device": {"1"')
        (found,) = formats.find(Place(tmp_path / "a"), "megengine")
        with pytest.raises(TraceError, match=r"\(--partial does not help here\)"):
            formats.read(found, partial=True)


def test_a_format_can_be_named_and_a_wrong_name_is_mended(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(TEXT)
    (found,) = formats.find(Place(tmp_path / "a"), "megengine")
    assert found.format == "megengine"
    with pytest.raises(TraceError):
        formats.read(found)
    with pytest.raises(UsageError, match=r"unknown format 'megengin': did you mean 'megengine'"):
        formats.find(Place(tmp_path / "a"), "megengin")


@pytest.mark.parametrize("name", formats.FORMATS)
def test_every_format_says_what_it_reads_and_recognises_no_rubbish(tmp_path: Path, name: str) -> None:
    of_format = formats.format_of(name)
    assert of_format.title
    (tmp_path / "empty").mkdir()
    assert not of_format.recognises(Place(tmp_path / "empty"))
    for content in (b"", b"\x00" * 100, b"{", b"[]", b"{}", b"\xff\xfe\x00", b'{"a": "\xed\xa0\x80"}'):
        (tmp_path / "a").write_bytes(content)
        assert not of_format.recognises(Place(tmp_path / "a"))
