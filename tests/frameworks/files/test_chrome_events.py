from __future__ import annotations

import gzip
import json
import random
import re
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import chrome_events as events
from pytest_opprof.frameworks.files.chrome_events import head, read_events
from pytest_opprof.frameworks.files.place import Place

from ...conftest import shared

CPU = Path(__file__).parents[2] / "data" / "torch-cpu" / "train_step.pt.trace.json.gz"


class Event(msgspec.Struct, gc=False):
    name: str = ""
    ph: str = ""
    dur: float = -1.0
    args: msgspec.Raw = msgspec.Raw(b"")


def place(folder: Path, content: bytes | str) -> Place:
    path = folder / "trace.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Place(path)


def read(where: Place, **options: bool) -> tuple[list[Event], dict[str, object], list[str]]:
    header: dict[str, object] = {}
    remarks: list[str] = []
    found = [event for some in read_events(where, Event, header, remarks=remarks, **options) for event in some]
    return found, header, remarks


def names(where: Place, **options: bool) -> list[str]:
    return [event.name for event in read(where, **options)[0]]


@pytest.fixture
def small_pieces() -> object:
    with patch.object(events, "PIECE", 64):
        yield


@pytest.mark.parametrize(
    "path",
    [
        "torch-cuda/hta_alexnet_2023.json.gz",
        "torch-cuda/kineto_h100_2026_small.json.gz",
        "torch-cuda/kineto_resnet50_v100_2021.pt.trace.json.gz",
        "onnxruntime-cpu/ort_opt-all.json",
        "jax-cpu/train_step.trace.json.gz",
        "megengine/imperative-train.chrome_timeline.json",
    ],
)
def test_every_event_and_key_of_a_recording_is_read_as_json_reads_it(path: str) -> None:
    content = shared(path).read_bytes()
    whole = json.loads(gzip.decompress(content) if path.endswith(".gz") else content)
    expected = whole.pop("traceEvents") if isinstance(whole, dict) else whole
    found, header, remarks = read(Place(shared(path)))
    assert [(event.name, event.ph, event.dur) for event in found] == [
        (event.get("name", ""), event.get("ph", ""), event.get("dur", -1.0)) for event in expected
    ]
    assert header == (whole if isinstance(whole, dict) else {})
    assert remarks == []


texts = st.text(st.sampled_from('},{[]":\\ \n"traceEvents"aé☃'), max_size=20) | st.just('"traceEvents": [{}, {')
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
keys = st.dictionaries(texts.filter(lambda key: key != "traceEvents"), values, max_size=3)


@given(before=keys, after=keys, data=st.data())
@settings(max_examples=150)
def test_any_trace_is_read_whole_whatever_its_pieces(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[str, object],
    after: dict[str, object],
    data: st.DataObject,
) -> None:
    made = data.draw(st.lists(st.fixed_dictionaries({"name": texts, "args": values}), max_size=6))
    bare = data.draw(st.booleans())
    whole = made if bare else {**before, "traceEvents": made, **{k: v for k, v in after.items() if k not in before}}
    text = json.dumps(whole, indent=data.draw(st.none() | st.integers(0, 2)), ensure_ascii=data.draw(st.booleans()))
    content = gzip.compress(text.encode()) if data.draw(st.booleans()) else text.encode()
    where = place(tmp_path_factory.mktemp("trace"), content)
    with patch.object(events, "PIECE", data.draw(st.integers(1, 300))):
        found, header, _ = read(where, partial=data.draw(st.booleans()))
    assert [event.name for event in found] == [event["name"] for event in made]
    expected = {} if isinstance(whole, list) else {key: value for key, value in whole.items() if key != "traceEvents"}
    assert json.dumps(header) == json.dumps(expected)


@given(cut=st.integers(0, 10**6), piece=st.integers(1, 400))
@settings(max_examples=100)
def test_a_cut_file_is_an_error_and_partial_reads_its_whole_events(
    tmp_path_factory: pytest.TempPathFactory, cut: int, piece: int
) -> None:
    made = [{"name": f"}},{{ {n}", "args": {"deep": [{"n": n}, {}]}} for n in range(12)]
    content = json.dumps({"first": [1], "traceEvents": made, "last": 2}).encode()
    cut %= len(content)
    where = place(tmp_path_factory.mktemp("trace"), content[:cut])
    text = content[:cut].decode()
    whole = sum(text.count(json.dumps(event)) for event in made)
    with patch.object(events, "PIECE", piece):
        with pytest.raises(TraceError, match=r"byte \d+"):
            read(where)
        if '"traceEvents": [' not in text:
            return
        found, _, remarks = read(where, partial=True)
    assert [event.name for event in found] == [event["name"] for event in made[:whole]]
    assert len(remarks) == 1
    assert f"the {whole} whole events before it" in remarks[0]


@pytest.mark.parametrize("missing", [1, 4, 9, 100, 5000])
def test_partial_reads_a_gzip_file_that_was_cut(tmp_path: Path, missing: int) -> None:
    where = place(tmp_path, CPU.read_bytes()[:-missing])
    with pytest.raises(TraceError, match=r"broken gzip file .* was it copied whole\?"):
        read(where)
    found, _, remarks = read(where, partial=True)
    everything = read(Place(CPU))[0]
    assert len(everything) - 8 < len(found) < len(everything) if missing < 10 else 600 < len(found) < len(everything)
    assert [event.dur for event in found] == [event.dur for event in everything[: len(found)]]
    assert len(remarks) == 1


def test_a_break_in_the_middle_says_where_and_partial_reads_what_is_before(tmp_path: Path, small_pieces: None) -> None:
    where = place(tmp_path, '[{"name":"a"},{"name":"b"},{"name" "c"},{"name":"d"}]')
    with pytest.raises(TraceError, match=r"trace.json: is cut off, or not JSON, behind event 2: .* at byte 35\."):
        read(where)
    assert names(where, partial=True) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", r"expected '\{', found '' at byte 0"),
        (b"   \n", r"expected '\{'"),
        (b"\x00\x01\xff", r"expected '\{', found"),
        ("{}", "at byte 1"),
        ('{"a": 1}', r'its keys end without "traceEvents" at byte 7'),
        ('{"traceEvents": {}}', r"expected '\[', found"),
        ('{"traceEvents": 5', r"expected '\[', found '5'"),
        ('{"traceEvents": [', "byte 17"),
        ("[", "byte 1"),
        ('[{"name":"a"}', r"expected ',', found '' at byte 13"),
        ('[{"name":"a"},]', "byte 14"),
        ('[{"name":"a"}] []', "something behind the array at byte 14"),
        ('{"traceEvents": []', "keys behind the events"),
        ('{"traceEvents": []} {}', "keys behind the events"),
        ('{"traceEvents": [{}], "traceEvents": [{}]}', '"traceEvents" twice'),
        ('[{"dur": 007}]', "byte 10"),
        ('[{"name": "a\nb"}]', "control character"),
        ('[{"name": "a\\x"}]', "escape"),
        ("[" * 100_000, "nested too deeply"),
        ('[{"a":' * 100_000, "nested too deeply"),
        ('{"traceEvents": [{}], "a": ' + "[" * 100_000, "keys behind the events"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('[{"name":"a"}]'.encode("utf-16"), r"expected '\{', found"),
    ],
)
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_what_is_no_trace_is_one_clear_error(tmp_path: Path, content: bytes | str, why: str, piece: int) -> None:
    with patch.object(events, "PIECE", piece), pytest.raises(TraceError, match=why) as caught:
        read(place(tmp_path, content))
    assert str(caught.value).startswith(f"{tmp_path}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected", "remark"),
    [
        (
            '[{"name":"a","dur":NaN},{"name":"b","dur":1}]',
            [("a", -1.0), ("b", 1.0)],
            "1 values of 'dur' have an unexpected type",
        ),
        ('[{"name":"a","dur":1e400}]', [("a", -1.0)], "1 values of 'dur'"),
        ('[{"name":"a","dur":"x"}]', [("a", -1.0)], "1 values of 'dur'"),
        ('[{"name":"a","dur":"2.5"}]', [("a", 2.5)], None),
        ('[{"name":"a","dur":null}]', [("a", -1.0)], None),
        ('[{"name":null,"dur":1}]', [("", 1.0)], None),
        ('[{"name":5,"dur":1}]', [("", 1.0)], "1 values of 'name'"),
        ('[null,{"name":"a"},3]', [("a", -1.0)], "2 of the events are not objects"),
        ('[{"name":"a","dur":' + "9" * 5000 + "}]", [("a", -1.0)], "1 values of 'dur'"),
        ('[{"name":"a","x":' + "9" * 5000 + "}]", [("a", -1.0)], None),
        ('[{"name":"a","dur":1,"dur":2}]', [("a", 2.0)], None),
        (b'[{"name":"a\xff"}]', [("a�", -1.0)], None),
        (b'[{"name":"\\ud800"}]', [("?", -1.0)], None),
        (b'\xef\xbb\xbf[{"name":"a"}]', [("a", -1.0)], None),
        ('[{"name":"inf, nan","x":inf},{"name":"b","x":[-nan, N/A]}]', [("inf, nan", -1.0), ("b", -1.0)], "3 numbers"),
        ('[{"name":"a","dur": nan }]', [("a", -1.0)], "1 numbers are written as a bare inf, nan or N/A"),
    ],
)
@pytest.mark.parametrize("padding", [0, 50])
def test_odd_values_cost_only_themselves_and_are_told(
    tmp_path: Path, content: bytes | str, expected: list[tuple[str, float]], remark: str | None, padding: int
) -> None:
    odd = content if isinstance(content, bytes) else content.encode()
    with patch.object(events, "PIECE", 64):
        found, _, remarks = read(place(tmp_path, odd[:-1] + b',{"name":"good","dur":3}' * padding + b"]"))
    assert [(event.name, event.dur) for event in found] == expected + [("good", 3.0)] * padding
    assert [text for text in remarks if remark is None] == []
    assert remark is None or (len(remarks) == 1 and remarks[0].startswith(remark))


def test_a_text_of_a_million_quotes_without_an_end_does_not_take_the_square_of_them(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="Unterminated string"):
        read(place(tmp_path, '[{"name":" nan ' + '\\"' * 1_000_000))


def test_an_event_larger_than_the_bound_ends_the_reading(tmp_path: Path) -> None:
    where = place(tmp_path, '[{"name":"a"},{"name":"' + "},{" * (3 << 20) + '"},{"name":"b"}]')
    with pytest.raises(TraceError, match=r"behind event 1: Unterminated string .* at byte 22\."):
        read(where)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "one long string": lambda: b'[{"name":"' + b"x" * (200 << 20) + b'"}]',
    "a string of cuts": lambda: b'[{"name":"' + b"},{" * (60 << 20) + b'"}]',
    "a long header": lambda: b'{"a":[' + b"1," * (80 << 20) + b'1],"traceEvents":[]}',
    "small events": lambda: b'{"traceEvents":[' + b"{}," * (5 << 20) + b"{}]}",
    "odd events": lambda: b'{"traceEvents":[' + b'{"dur":NaN},' * (1 << 19) + b"{}]}",
    "no objects": lambda: b"[" + b"[]," * (10 << 20) + b"[]]",
    "a gzip bomb": lambda: gzip.compress(b'[{"name":"' + b" " * (300 << 20) + b'"}]'),
}
CHILD = """
import resource, sys
from pathlib import Path
import msgspec
from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files.chrome_events import read_events
from pytest_opprof.frameworks.files.place import Place
class Event(msgspec.Struct, gc=False):
    name: str = ""
    dur: float = 0.0
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (128 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    print(sum(map(len, read_events(Place(Path(sys.argv[1])), Event))))
except TraceError as error:
    print("TraceError", error)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is set from /proc")
@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.processes
def test_memory_is_bounded_whatever_the_file(tmp_path: Path, what: str) -> None:
    where = place(tmp_path, HOSTILE[what]())
    done = subprocess.run([sys.executable, "-c", CHILD, str(where)], capture_output=True, text=True, timeout=300)
    assert re.match(r"\d+$|TraceError .* byte \d+", done.stdout), done.stderr
    assert done.stderr == ""


def test_the_head_is_what_the_file_begins_with(tmp_path: Path) -> None:
    found = head(Place(CPU))
    assert found is not None
    assert found.header["schemaVersion"] == 1
    assert found.events[0]["name"] == "process_name"
    assert not found.bare
    bare = head(place(tmp_path, ' [{"name":"a"}, 3, {"name":"b'))
    assert bare is not None
    assert (bare.events, bare.bare) == ([{"name": "a"}], True)


@given(content=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: ("{" + text).encode()))
def test_the_head_of_anything_else_is_no_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    head(place(folder, content))
    assert head(Place(folder)) is None


@pytest.mark.slow
def test_a_recording_that_is_damaged_anywhere_is_read_or_refused(tmp_path: Path) -> None:
    content = gzip.decompress(CPU.read_bytes())
    chance = random.Random(0)
    for _ in range(30):
        broken = bytearray(content)
        for _ in range(chance.randint(1, 3)):
            broken[chance.randrange(len(broken))] = ord(chance.choice(string.printable))
        where = place(tmp_path, bytes(broken))
        why = refused(where)
        assert why.startswith(str(where)) or len(read(where)[0]) >= 1160
        if why and "traceEvents" not in why:
            assert len(read(where, partial=True)[0]) < 1163


def refused(where: Place) -> str:
    try:
        read(where)
    except TraceError as error:
        return str(error)
    return ""
