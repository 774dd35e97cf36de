from __future__ import annotations

from pathlib import Path

import pytest

from pytest_opprof import traces
from pytest_opprof.environment import Environment
from pytest_opprof.errors import TraceError, UsageError
from pytest_opprof.trace import OpRecord, OpTrace
from pytest_opprof.traces import opprof
from pytest_opprof.traces.place import Place

TEXT = opprof.dump(OpTrace("made", Environment((("made", "1"),)), (OpRecord("a", "Add"),)))


def test_profiles_are_found_below_a_folder_whatever_their_names(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("b.txt", "deep/er/a"):
        (tmp_path / name).write_text(TEXT)
    (tmp_path / "other.json").write_text("{}")
    assert [str(found) for found in traces.find(Place(tmp_path))] == [f"{tmp_path}/b.txt", f"{tmp_path}/deep/er/a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is no profile that opprof knows \(opprof formats lists them\): it is empty"),
        (b"hello \x1b[2J", r"is no profile .*It begins with 'hello \\x1b\[2J'"),
        (b"\x00\xff" * 500, "is no profile"),
        (b"[" * 100_000, "is no profile"),
        (b'{"traceEvents": 5}', "is no profile"),
        (b"SQLite format 3\x00" + bytes(200), "is no profile"),
        (b"\x1f\x8b" + b"nonsense" * 9, "broken gzip file"),
    ],
)
def test_a_file_of_no_known_format_is_one_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(TraceError, match=message):
        traces.find(Place(tmp_path / "a"))


def test_an_empty_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is no profile that opprof knows"):
        traces.find(Place(tmp_path))
    with pytest.raises(TraceError, match="there is no such file"):
        traces.find(Place(tmp_path / "nothing"))


def test_a_format_can_be_named_and_a_wrong_name_is_mended(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(TEXT)
    (found,) = traces.find(Place(tmp_path / "a"), "megengine")
    assert found.format == "megengine"
    with pytest.raises(TraceError):
        traces.read(found)
    with pytest.raises(UsageError, match=r"unknown format 'megengin': did you mean 'megengine'"):
        traces.find(Place(tmp_path / "a"), "megengin")


@pytest.mark.parametrize("name", traces.FORMATS)
def test_every_format_says_what_it_reads_and_recognises_no_rubbish(tmp_path: Path, name: str) -> None:
    module = traces.module(name)
    assert module.TITLE
    assert module.__doc__
    (tmp_path / "empty").mkdir()
    assert not module.recognises(Place(tmp_path / "empty"))
    for content in (b"", b"\x00" * 100, b"{", b"[]", b"{}", b"\xff\xfe\x00", b'{"a": "\xed\xa0\x80"}'):
        (tmp_path / "a").write_bytes(content)
        assert not module.recognises(Place(tmp_path / "a"))
