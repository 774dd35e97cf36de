from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.xla.saved import hlo
from pytest_opprof.profile.op_key import CallSite, line_of
from pytest_opprof.sites.chains import Frame
from pytest_opprof.sites.shown import Shown

RECORDED = Place(Path(__file__).parents[3] / "data" / "jax-cpu" / "train_step.hlo.txt.gz")
TABLES = """
FileNames
1 "nets.py"
2 "/venv/lib/python3.11/site-packages/jax/_src/api.py"

FunctionNames
1 "norm"
2 "call"
3 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=5 end_line=5 column=2 end_column=9}
2 {file_name_id=2 function_name_id=2 line=99 end_line=99 column=2 end_column=9}
3 {file_name_id=1 function_name_id=3 line=8 end_line=8 column=2 end_column=9}

StackFrames
"""
CHAIN = (Frame("nets.py", "norm", 5), Frame("nets.py", "main", 8))


def site(tmp_path: Path, frames: str, metadata: str) -> CallSite | None:
    path = tmp_path / "a.hlo"
    path.write_text(
        f"HloModule m\n{TABLES}{frames}\n\nENTRY %main {{\n  %x = f32[2]{{0}} parameter(0)\n"
        f"  ROOT %y = f32[2]{{0}} negate(%x), metadata={{{metadata}}}, backend_config={{}}\n}}\n"
    )
    (record,) = hlo.read(Place(path), Options(sites=True)).records
    return record.site


def test_ops_of_a_recorded_program_belong_to_lines_of_the_forward_pass_and_of_gradients() -> None:
    records = hlo.read(RECORDED, Options(sites=True)).records
    shown, dots = Shown("."), Counter[str]()
    for record in records:
        if record.type == "dot":
            dots[line_of(record.site, shown)] += record.calls
    assert dots == {"rec.py:5 in mlp": 2, "rec.py:5 in mlp (backward)": 3}
    assert {len(record.site.frames) for record in records if record.site and record.type == "dot"} == {4}


def test_lines_are_read_only_when_asked_for() -> None:
    plain = hlo.read(RECORDED, Options()).records
    assert plain == tuple(record._replace(site=None) for record in hlo.read(RECORDED, Options(sites=True)).records)


@pytest.mark.parametrize(
    "frames",
    [
        "1 {file_location_id=3 parent_frame_id=1}\n2 {file_location_id=2 parent_frame_id=2}\n"
        "3 {file_location_id=1 parent_frame_id=3}",
        # Before 2025: the number of the caller itself, none for none.
        "1 {file_location_id=3}\n2 {file_location_id=2 parent_frame_id=1}\n3 {file_location_id=1 parent_frame_id=2}",
    ],
)
def test_chains_are_without_lines_of_frameworks(tmp_path: Path, frames: str) -> None:
    assert site(tmp_path, frames, 'op_name="jit(f)/neg" stack_frame_id=3') == CallSite(CHAIN)
    backward = site(tmp_path, frames, 'op_name="jit(f)/transpose(jvp())/neg" stack_frame_id=3')
    assert backward == CallSite(CHAIN, is_backward=True)


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ('op_name="jit(f)/neg" source_file="nets.py" source_line=7', CallSite((Frame("nets.py", "?", 7),))),
        ('op_name="{\\"stack_frame_id=1\\"}"', None),
        ('op_name="jit(f)/neg"', None),
        ("stack_frame_id=9", None),
        ("stack_frame_id=1", CallSite(())),
    ],
)
def test_what_an_instruction_may_say(tmp_path: Path, metadata: str, found: CallSite | None) -> None:
    # A frame that calls itself ends somewhere.
    frames = "1 {file_location_id=2 parent_frame_id=1}\n2 {file_location_id=2}"
    assert site(tmp_path, frames, metadata) == found
