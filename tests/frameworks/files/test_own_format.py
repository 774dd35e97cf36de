from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_opprof
from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import own_format
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.formats import find
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_key import CallSite
from pytest_opprof.profile.saved import Collective, SavedKernel, SavedOp, SavedProfile, Whole
from pytest_opprof.sites.chains import Frame

RECORD = SavedOp("conv", "Conv2D", "7", 1, 2, 10.5, least_ns=4, input_shapes=((2, 3), ()), input_dtypes=("f32",))
TRACE = SavedProfile(
    "made by hand",
    Environment((("made", "1.0"),), "cpu", ""),
    (RECORD, RECORD._replace(name="\x1b[2J", step=0, counted=0, op="Conv", whole=Whole(9.5, host_most_ns=3))),
    steps=("4", "5"),
    step_ns=(1e6, 2e6),
    kernels=(SavedKernel("k", "conv", calls=3, device_ns=5),),
    collectives=(Collective("AllReduce", None, 1, 5.5), Collective("AllGather", "0[0, 1]")),
    peak_memory=77,
    remarks=("one remark",),
    is_cut=True,
)


def saved(path: Path, trace: SavedProfile) -> Place:
    path.write_text(own_format.dump(trace), encoding="utf-8")
    return Place(path)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    for trace in (TRACE, SavedProfile("plain", TRACE.environment, (RECORD._replace(step=0),))):
        assert own_format.read(saved(tmp_path / "a.json", trace), Options()) == trace


def test_lines_are_written_where_there_are_some(tmp_path: Path) -> None:
    site = CallSite((Frame("/a/nets.py", "f", 3), Frame("/a/main.py", "<module>", 9)), is_backward=True)
    sited = replace(TRACE, records=(RECORD._replace(site=site), RECORD, RECORD._replace(site=CallSite(()))))
    assert own_format.read(saved(tmp_path / "a.json", sited), Options()) == sited
    # As before there were lines, and collectives: older versions read it.
    assert "site" not in own_format.dump(TRACE)
    assert "collectives" not in own_format.dump(replace(TRACE, collectives=()))


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
AMOUNT = st.one_of(st.none(), st.integers(0, 2**53), st.floats(0, 1e18))


RECORDS = st.tuples(TEXT, TEXT, TEXT, st.just(0), st.integers(1, 9), *[AMOUNT] * 8).map(lambda values: SavedOp(*values))


@given(st.lists(RECORDS, max_size=5))
def test_any_records_survive(tmp_path_factory: pytest.TempPathFactory, records: list[SavedOp]) -> None:
    trace = SavedProfile("any", TRACE.environment, tuple(records))
    assert own_format.read(saved(tmp_path_factory.mktemp("any") / "a.json", trace), Options()) == trace


def test_it_is_recognised_by_its_content(tmp_path: Path) -> None:
    (found,) = find(saved(tmp_path / "a.anything", TRACE))
    assert found.format == "opprof"


def test_every_written_file_keeps_to_the_shipped_schema(tmp_path: Path) -> None:
    schema = json.loads((Path(pytest_opprof.__file__).parent / "schema" / "profile-1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    sited = RECORD._replace(site=CallSite((Frame("/a/nets.py", "f", 3),)))
    for trace in (TRACE, SavedProfile("plain", TRACE.environment, (RECORD,)), replace(TRACE, records=(sited,))):
        jsonschema.validate(json.loads(own_format.dump(trace)), schema)


TEXT_OF_TRACE = own_format.dump(TRACE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT_OF_TRACE[:-20], "is not a complete pytest-opprof profile"),
        (TEXT_OF_TRACE.replace('"opprof_profile": 1', '"opprof_profile": 2'), "has version 2, this opprof reads 1"),
        (TEXT_OF_TRACE.replace('"conv"', "5"), "is not a complete pytest-opprof profile"),
        (TEXT_OF_TRACE.replace('"made by hand"', "null"), "is not a complete pytest-opprof profile"),
        (TEXT_OF_TRACE.replace('"whole"]', '"something_new"]'), "fields that differ: something_new, whole"),
        (TEXT_OF_TRACE.replace('"frameworks": {', '"frameworks": ['), "is not a complete pytest-opprof profile"),
        (TEXT_OF_TRACE.replace('"7", 1, 2,', '"7", 9, 2,'), "'conv' has 2 calls in step 9 of 2"),
        (TEXT_OF_TRACE.replace('"Conv2D"', "[" * 100_000), "is not a complete pytest-opprof profile"),
    ],
)
def test_a_broken_file_is_one_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=rf"a.json: .*{message}"):
        own_format.read(Place(path), Options())


def test_a_viewer_gets_a_bar_an_op_in_the_order_of_the_source() -> None:
    events = json.loads(own_format.chrome(TRACE))["traceEvents"]
    bars = [(event["tid"], event["name"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
    assert bars == [(0, "\x1b[2J", 0, 0.0105), (1, "conv", 0, 0.0105)]
