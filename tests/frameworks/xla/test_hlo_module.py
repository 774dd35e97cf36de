"""Programs as XLA gives them in memory: those of JAX 0.7 to 0.10, and messages made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.files.protobuf import Broken
from pytest_opprof.frameworks.xla.hlo_module import Array, Frame, HloModule

from ...protobuf_messages import field
from .jax_windows import VERSIONS, recorded


@pytest.mark.parametrize("version", VERSIONS)
def test_a_program_has_its_name_its_instructions_and_their_types(version: str) -> None:
    module = recorded(version).module("casts")
    assert module.name == "jit__lambda"
    assert module.id > 0
    ((dot, computation),) = (each for each in module.by_name.values() if each[0].opcode == "dot")
    inputs = [module.computations[computation][number].outputs for number in dot.operands]
    assert (dot.outputs, inputs, dot.contracted) == (
        (Array("f32", (48, 48)),),
        [(Array("f32", (48, 48)),)] * 2,
        (1,),
    )
    entry = module.computations[module.entry].values()
    assert [each.outputs for each in entry if each.opcode == "parameter"] == [(Array("f32", (48, 48)),)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_instruction_knows_its_line_and_from_0_8_on_those_that_called_it(version: str) -> None:
    module = recorded(version).module("sharded")
    (product,) = (each for each, _ in module.by_name.values() if each.opcode == "multiply")
    line, *callers = module.frames(product)
    assert (line.file, line.line > 10) == ("record_jax.py", True)
    if callers:
        assert line.function == "total"
        assert {"main", "<module>"} <= {frame.function for frame in callers}
    else:
        assert version == "0.7.2"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_loop_knows_how_often_it_runs(version: str) -> None:
    for name, trips in (("small_loop", 3), ("scan", 5)):
        loops = [each for each, _ in recorded(version).module(name).by_name.values() if each.opcode == "while"]
        assert [(each.trips, len(each.called)) for each in loops] == [(trips, 2)]


def instruction(number: int, name: str, *more: bytes) -> bytes:
    return field(2, field(1, name) + field(2, "add") + field(35, number) + b"".join(more))


def module(*instructions: bytes, tables: bytes = b"") -> HloModule:
    computation = field(3, field(1, "main") + b"".join(instructions) + field(5, 7))
    return HloModule(field(1, "jit_f") + computation + field(5, 3) + field(6, 7) + field(17, tables))


def test_the_arrays_of_a_tuple_are_its_types() -> None:
    def shape(kind: int, *sizes: int) -> bytes:
        return field(2, kind) + b"".join(field(3, size) for size in sizes)

    elements = shape(11, 2, 3), field(2, 13) + field(4, shape(16)), shape(17)
    nested = field(2, 13) + b"".join(field(4, each) for each in elements)
    types = field(3, nested), field(3, shape(99, 4)), b""
    found = module(*(instruction(number, f"i{number}", each) for number, each in enumerate(types)))
    assert [each.outputs for each, _ in found.by_name.values()] == [
        (Array("f32", (2, 3)), Array("bf16", ())),
        (Array("type 99", (4,)),),
        (),
    ]


def frame_tables(*frames: tuple[int, int]) -> bytes:
    """Return tables of three lines, and *frames* of (line, calling frame)."""
    texts = field(1, "model.py") + b"".join(field(2, name) for name in ("main", "step", "loss"))
    places = b"".join(field(3, field(1, 1) + field(2, number) + field(3, 10 * number)) for number in (1, 2, 3))
    return texts + places + b"".join(field(4, field(1, place) + field(2, parent)) for place, parent in frames)


@pytest.mark.parametrize("shift", [0, 1])
def test_the_frame_that_called_is_one_less_where_none_is_one(shift: int) -> None:
    tables = frame_tables((1, shift), (2, 1 + shift), (3, 2 + shift))
    found = module(instruction(1, "a", field(7, field(15, 3))), tables=tables)
    assert found.frames(found.by_name["a"][0]) == (
        Frame("model.py", "loss", 30),
        Frame("model.py", "step", 20),
        Frame("model.py", "main", 10),
    )


def test_frames_that_call_each_other_and_frames_that_are_not_there_end() -> None:
    found = module(
        instruction(1, "round", field(7, field(15, 1))),
        instruction(2, "nowhere", field(7, field(15, 9))),
        instruction(3, "none"),
        tables=frame_tables((1, 2), (9, 1), (3, 0)),
    )
    assert len(found.frames(found.by_name["round"][0])) <= 1000
    assert found.frames(found.by_name["nowhere"][0]) == found.frames(found.by_name["none"][0]) == ()


def test_a_line_by_itself_is_the_only_frame() -> None:
    found = module(instruction(1, "a", field(7, field(2, "jit(f)/add") + field(3, "model.py") + field(4, 12))))
    assert found.frames(found.by_name["a"][0]) == (Frame("model.py", "", 12),)


@given(st.sampled_from(VERSIONS), st.data())
def test_a_program_that_was_cut_is_broken_or_smaller(version: str, data: st.DataObject) -> None:
    whole = recorded(version).programs["small_loop"]
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        names = HloModule(cut).by_name.keys()
    except Broken:
        return
    assert names <= HloModule(whole).by_name.keys()
