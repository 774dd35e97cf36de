"""JAX: the profiler's trace, and programs as text (StableHLO, HLO)."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from math import prod
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import programs
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.xla.saved import hlo, stablehlo
from pytest_opprof.frameworks.xla.saved import jax_trace as jax
from pytest_opprof.profile.saved import SavedProfile

from ...counted import counts

DATA = Path(__file__).parents[3] / "data" / "jax-cpu"
COUNTS = json.loads((DATA / "op_counts.json").read_bytes())


def content(name: str) -> bytes:
    return gzip.decompress((DATA / name).read_bytes())


Write = Callable[["bytes | str"], Place]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(text: bytes | str) -> Place:
        path = tmp_path / "profile"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Place(path)

    return write


# The program as it was asked for.


@pytest.mark.parametrize("name", ["control_flow", "step"])
def test_ops_of_a_program_are_those_that_jax_itself_finds_in_it(name: str) -> None:
    assert counts(stablehlo.read(Place(DATA / f"{name}.mlir.gz"), Options())) == COUNTS[name]


def test_debug_info_changes_nothing() -> None:
    with_info = stablehlo.read(Place(DATA / "step_debug_info.mlir.gz"), Options())
    assert with_info.records == stablehlo.read(Place(DATA / "step.mlir.gz"), Options()).records


def test_converts_say_from_which_dtype_to_which() -> None:
    trace = stablehlo.read(Place(DATA / "step.mlir.gz"), Options())
    pairs = Counter((r.input_dtypes, r.output_dtypes) for r in trace.records if r.type == "convert")
    assert pairs == {(("f32",), ("bf16",)): 5, (("bf16",), ("f32",)): 4}


def test_operands_without_a_type_of_their_own_have_that_of_the_result(written: Write) -> None:
    place = written(
        "module @m {\n  func.func public @main(%a: tensor<2x3xf32>, %p: tensor<2x3xi1>) -> tensor<2x3xf32> {\n"
        "    %0 = stablehlo.add %a, %a : tensor<2x3xf32>\n"
        "    %1 = stablehlo.select %p, %0, %a : tensor<2x3xi1>, tensor<2x3xf32>\n"
        "    %2 = stablehlo.convert %1 : (tensor<2x3xf32>) -> tensor<2x?xbf16>\n"
        "    return %1 : tensor<2x3xf32>\n  }\n}\n"
    )
    add, select, convert = stablehlo.read(place, Options()).records
    assert add.input_shapes == ((2, 3), (2, 3))
    assert select.input_dtypes == ("i1", "f32", "f32")
    assert (select.output_dtypes, select.output_shapes) == (("f32",), ((2, 3),))
    assert (convert.output_dtypes, convert.output_shapes) == (("bf16",), None)


def test_a_reduction_is_what_it_applies() -> None:
    trace = stablehlo.read(Place(DATA / "control_flow.mlir.gz"), Options())
    assert Counter(r.op for r in trace.records if r.type == "reduce") == {"ReduceSum": 3, "ReduceMax": 2, "": 1}


def test_bodies_of_loops_and_branches_count_once_and_that_is_said() -> None:
    trace = stablehlo.read(Place(DATA / "control_flow.mlir.gz"), Options())
    assert [remark.split(" is ")[0] for remark in trace.remarks] == ["the body of a branch", "the body of a loop"]


# The program that runs.


def test_converts_inside_fusions_count_and_those_on_single_elements_do_not() -> None:
    trace = hlo.read(Place(DATA / "train_step.hlo.txt.gz"), Options())
    text = content("train_step.hlo.txt.gz").decode()
    on_elements = text[text.index("%region_2.4.clone (") :].partition("\n}")[0].count(" convert(")
    assert counts(trace)["convert"] == text.count(" convert(") - on_elements == 28
    assert "fusion" not in counts(trace)


def test_shapes_give_the_floating_point_operations_that_xla_counts() -> None:
    """XLA's cost analysis: 2mnk for a dot, one for each element of a result, for a reduction one for each that goes."""
    trace = hlo.read(Place(DATA / "train_step.hlo.txt.gz"), Options())
    applied = {"region_0.2": 1, "region_2.4.clone": 3}
    flops = sum(r.computation or 0 for r in trace.records)
    for record in trace.records:
        assert record.output_shapes is not None
        elements = sum(map(prod, record.output_shapes))
        if record.type == "reduce":
            assert record.input_shapes is not None
            which = "region_0.2" if record.output_shapes == ((8,),) else "region_2.4.clone"
            flops += (prod(record.input_shapes[0]) - elements) * applied[which]
        elif record.type not in ("dot", "broadcast", "transpose", "copy"):
            flops += elements
    assert flops == json.loads((DATA / "cost_analysis.json").read_bytes())["flops"]


def test_convolutions_have_the_flops_that_xla_counts(written: Write) -> None:
    """The instruction of jax 0.9.2, of which XLA's cost analysis says 42336."""
    place = written(
        "HloModule m\n\nENTRY %main {\n  %x = f32[2,9,9,8]{3,2,1,0} parameter(0)\n"
        "  %w = f32[3,3,4,6]{3,2,1,0} parameter(1)\n  ROOT %convolution = f32[2,7,7,6]{3,2,1,0} convolution(%x, %w),"
        " window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2\n}\n"
    )
    (record,) = hlo.read(place, Options()).records
    assert record.computation == 42336
    dilated = written(place.path.read_text().replace("size=3x3", "size=3x3 lhs_dilate=1x2"))
    assert [record.computation for record in hlo.read(dilated, Options()).records] == [42336 * 11 // 21]


def test_a_program_may_be_written_without_percent_signs_and_signatures(written: Write) -> None:
    place = written(
        "HloModule m\n\nadder {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"
        "ENTRY main {\n  x = (f32[2,3]{1,0:T(8,128)(2,1)}, s32[]) parameter(0)\n"
        "  y = f32[2,3]{1,0} get-tuple-element(x), index=0\n  z = f32[] constant(0)\n"
        "  ROOT s = f32[2]{0} reduce(y, z), dimensions={1}, to_apply=adder\n}\n"
    )
    (record,) = hlo.read(place, Options()).records
    assert (record.type, record.op, record.input_shapes) == ("reduce", "ReduceSum", ((2, 3), ()))


def test_an_op_that_starts_and_is_done_is_one_op(written: Write) -> None:
    place = written(
        "HloModule m\n\nENTRY %main (a: f32[4]) -> f32[4] {\n  %a = f32[4]{0} parameter(0)\n"
        "  %s = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(%a), backend_config={}\n"
        "  ROOT %d = f32[4]{0} copy-done(%s)\n}\n"
    )
    assert counts(hlo.read(place, Options())) == {"copy": 1}


def test_what_is_called_twice_counts_twice(written: Write) -> None:
    place = written(
        "HloModule m\n\n%f (a: f32[4]) -> f32[4] {\n  %a = f32[4]{0} parameter(0)\n"
        "  ROOT %n = f32[4]{0} negate(%a)\n}\n\nENTRY %main (a: f32[4]) -> f32[4] {\n  %b = f32[4]{0} parameter(0)\n"
        "  %c = f32[4]{0} call(%b), to_apply=%f\n  ROOT %d = f32[4]{0} call(%c), to_apply=%f\n}\n"
    )
    assert counts(hlo.read(place, Options())) == {"negate": 2}


LOOP = """HloModule m

%inner (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %n = f32[4]{0} negate(%p)
}

%outer (q: f32[4]) -> f32[4] {
  %q = f32[4]{0} parameter(0)
  %s = f32[4]{0} sine(%q)
  ROOT %w = f32[4]{0} while(%s), condition=%less, body=%inner, INNER
}

%less (r: f32[4]) -> pred[] {
  %r = f32[4]{0} parameter(0)
  ROOT %c = pred[] compare(%r, %r), direction=LT
}

ENTRY %main (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  ROOT %v = f32[4]{0} while(%a), condition=%less, body=%outer, OUTER
}
"""
TRIPS = (
    'metadata={op_name="f"}, backend_config={"known_trip_count":{"n":"%d"},"known_init_step":{"init":"0","step":"1"}}'
)


def test_loops_count_as_often_as_the_program_says_that_they_run(written: Write) -> None:
    trace = hlo.read(written(LOOP.replace("OUTER", TRIPS % 3).replace("INNER", TRIPS % 5)), Options())
    assert counts(trace) == {"sine": 3, "negate": 15}
    assert trace.remarks == ()
    quoted = TRIPS.partition("backend_config=")[0] + r'backend_config="{\"known_trip_count\":{\"n\":\"3\"}}"'
    trace = hlo.read(written(LOOP.replace("OUTER", quoted).replace("INNER", "")), Options())
    assert counts(trace) == {"sine": 3, "negate": 3, "compare": 3}
    assert trace.remarks == ("the body of a loop is counted once: how often it runs is not in the file",)
    trace = hlo.read(written(LOOP.replace("OUTER", "").replace("INNER", TRIPS % 0)), Options())
    assert counts(trace) == {"sine": 1, "compare": 1}


def test_a_product_in_a_loop_has_the_flops_of_all_its_calls(written: Write) -> None:
    dot = "f32[] dot(%p, %p), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    text = LOOP.replace("f32[4]{0} negate(%p)", dot).replace("OUTER", TRIPS % 3).replace("INNER", TRIPS % 5)
    (record,) = [record for record in hlo.read(written(text), Options()).records if record.type == "dot"]
    assert (record.calls, record.computation) == (15, 15 * 2 * 4)


def test_a_name_that_looks_like_a_trip_count_is_none(written: Write) -> None:
    name = r'metadata={op_name="\"known_trip_count\":{\"n\":\"9\"}"}'
    assert counts(hlo.read(written(LOOP.replace("OUTER", name).replace("INNER", TRIPS % 2)), Options()))["negate"] == 2


HEAD = "HloModule m\n\nENTRY %main (a: f32[4]) -> f32[4] {\n  %a = f32[4]{0} parameter(0)\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("HloModule m\n", "without an ENTRY"),
        (HEAD, "in the middle of a computation"),
        (HEAD + "  ROOT %b = f32[4]{0}\n}\n", "no shape and opcode"),
        (HEAD + "  ROOT b! = f32[4]{0} negate(%a)\n}\n", "is not an instruction"),
        (HEAD + "}\n", "has no ops"),
        (HEAD + "  ROOT %b = f32[4]{0} call(%a), to_apply=%f\n}\n", "which is not in the file"),
        (HEAD + "  ROOT %b = f32[4]{0} call(%a), to_apply=%main\n}\n", "calls itself"),
    ],
)
def test_a_broken_hlo_text_is_one_clear_error(written: Write, text: str, message: str) -> None:
    place = written(text)
    assert hlo.recognises(place)
    with pytest.raises(TraceError, match=message) as error:
        hlo.read(place, Options())
    assert str(error.value).startswith(str(place))


FUNCTION = "module @m {\n  func.func public @main() {\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FUNCTION, "in the middle of a function"),
        ("module @m {\n  func.func private @f() {\n  }\n}\n", "without a function @main"),
        (FUNCTION + "  }\n}\n", "has no ops"),
        (FUNCTION + "  }\n}\n}\n", "brackets"),
        (FUNCTION + "    %0 = nonsense\n  }\n}\n", "is not an op"),
        (FUNCTION + "    call @main() : () -> ()\n  }\n}\n", "calls itself"),
        (
            "module @m {\n"
            + "".join(
                f"  func.func public @{'main' if i == 0 else f'f{i}'}() {{\n"
                f"    call @f{i + 1}() : () -> ()\n    call @f{i + 1}() : () -> ()\n  }}\n"
                for i in range(200)
            )
            + "  func.func private @f200() {\n    %0 = stablehlo.iota dim = 0 : tensor<2xi32>\n  }\n}\n",
            "more than 1e[+]15 times",
        ),
    ],
)
def test_a_broken_stablehlo_text_is_one_clear_error(written: Write, text: str, message: str) -> None:
    place = written(text)
    assert stablehlo.recognises(place)
    with pytest.raises(TraceError, match=message) as error:
        stablehlo.read(place, Options())
    assert str(error.value).startswith(str(place))


def test_a_constant_of_many_megabytes_is_skipped(written: Write) -> None:
    constant = f'    %c = stablehlo.constant dense<"0x{"0" * (24 << 20)}"> : tensor<3145728xf32>\n'
    place = written(FUNCTION + constant + "    %0 = stablehlo.iota dim = 0 : tensor<2xi32>\n  }\n}\n")
    assert counts(stablehlo.read(place, Options())) == {"iota": 1}


@pytest.mark.parametrize("name", ["train_step.hlo.txt.gz", "control_flow.mlir.gz"])
def test_a_program_that_was_cut_anywhere_is_an_error(name: str) -> None:
    text = content(name).rstrip()
    module = hlo if "hlo" in name else stablehlo

    @given(st.integers(0, len(text) - 1))
    @settings(max_examples=50)
    def check(end: int) -> None:
        with NamedTemporaryFile() as file:
            file.write(text[:end])
            file.flush()
            with pytest.raises(TraceError):
                module.read(Place(Path(file.name)), Options())

    check()


MILLION = 1_000_000
MLIR = "module @m {{\n  func.func public @main(%a: tensor<2xf32>) {{\n    {}\n    return\n  }}\n}}\n"
HLO = "HloModule m\n\nENTRY main {{\n  {}\n}}\n"


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (stablehlo, MLIR.format(f"%0 = stablehlo.add %{'a' * MILLION}, %b : tensor<2xf32>"), ""),
        (stablehlo, MLIR.format(f"%{'a' * MILLION} = stablehlo.add %a, %b : tensor<2xf32>"), ""),
        (stablehlo, MLIR.format("%" + "a" * MILLION), "is not an op"),
        (stablehlo, MLIR.format("stablehlo.add %a, %b : tensor<2xf32>" + '"' + '\\"' * MILLION), ""),
        (hlo, HLO.format("a = f32[] add(f32[] %b), metadata={" + '"' + '\\"' * MILLION), ""),
        (hlo, HLO.format(f"a = {'a' * MILLION} add(f32[] %b)"), ""),
        (hlo, HLO.format("a = f32[] add(f32[] %b), " + "calls={" * (MILLION // 6)), ""),
        (hlo, "HloModule m\n\nmain (" + ") -> " * (MILLION // 5) + "{{\n", "without an ENTRY"),
    ],
    ids=["operand", "name", "no-op", "mlir-text", "hlo-text", "shape", "calls", "signature"],
)  # fmt: skip
def test_a_line_of_a_million_characters_does_not_take_the_square_of_them(
    written: Write, reader: Any, text: str, message: str
) -> None:
    """The square would be hours."""
    if message:
        with pytest.raises(TraceError, match=message):
            reader.read(written(text), Options())
    else:
        assert sum(counts(reader.read(written(text), Options())).values()) == 1


def test_a_program_of_more_text_than_any_has_is_an_error(written: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_TEXT", 1 << 20)
    lines = "    stablehlo.add %a, %b : tensor<2xf32>\n" * (1 << 15)
    with pytest.raises(TraceError, match=r"line 26[0-9]+: more than 1 MiB of ops"):
        stablehlo.read(written(MLIR.format(lines)), Options())
    lines = "  a = f32[] add(f32[] %b)\n" * (1 << 16)
    with pytest.raises(TraceError, match=r"line 4[0-9]+: more than 1 MiB of ops"):
        hlo.read(written(HLO.format(lines)), Options())


# What the profiler saw.


def test_each_step_has_the_ops_of_one_execution() -> None:
    trace = jax.read(Place(DATA / "train_step.trace.json.gz"), Options())
    assert trace.steps == ("train 0", "train 1", "train 2", "train 3", "train 4")
    steps = [{r.name: r.calls for r in trace.records if r.step == step} for step in range(5)]
    assert all(step == steps[0] for step in steps)
    entry = content("train_step.hlo.txt.gz").decode().partition("ENTRY")[2]
    assert len(steps[0]) == sum(entry.count(f" {opcode}(") for opcode in ("fusion", "dot")) == 18


def test_times_of_ops_and_steps_are_the_durations_in_the_file() -> None:
    trace = jax.read(Place(DATA / "train_step.trace.json.gz"), Options())
    events = json.loads(content("train_step.trace.json.gz"))["traceEvents"]
    ops = [event["dur"] for event in events if "hlo_op" in event.get("args", {})]
    assert sum(r.device_ns or 0 for r in trace.records) == sum(round(dur * 1000) for dur in ops)
    assert trace.step_ns == tuple(round(event["dur"] * 1000) for event in events if "step_num" in event.get("args", {}))


def test_types_are_names_without_numbers_and_marked_as_inferred() -> None:
    trace = jax.read(Place(DATA / "train_step.trace.json.gz"), Options())
    assert {r.name: r.type for r in trace.records}["wrapped_convert.1"] == "convert"
    assert counts(trace)["dot_general"] == 10
    assert trace.inferred_types
    assert any("14 of 18 ops are fusions" in remark for remark in trace.remarks)


def test_ops_belong_to_the_step_that_asked_for_them_though_they_ran_later() -> None:
    trace = jax.read(Place(DATA / "asynchronous.trace.json.gz"), Options())
    events = json.loads(content("asynchronous.trace.json.gz"))["traceEvents"]
    last_step_ends = max(e["ts"] + e["dur"] for e in events if "step_num" in e.get("args", {}))
    products = [e for e in events if e.get("args", {}).get("hlo_module") == "jit__lambda" and e["name"] == "ynn_fusion"]
    assert all(e["ts"] > last_step_ends for e in products)
    assert [r.step for r in trace.records if r.id == "jit__lambda" and r.name == "ynn_fusion"] == [0, 1, 3, 2]
    assert Counter(r.step for r in trace.records) == {0: 20, 1: 20, 2: 20, 3: 20}


def op(name: str, ts: float, dur: float, **more: object) -> dict[str, object]:
    args = {"hlo_op": name.partition("!")[0], "hlo_module": "jit_f", "run_id": "1"}
    return {
        "ph": "X",
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "dur": dur,
        "name": name.partition("!")[2] or name,
        "args": args,
        **more,
    }


def trace_of(written: Write, *events: dict[str, object]) -> SavedProfile:
    process = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}
    head = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}}
    place = written(json.dumps({**head, "traceEvents": [process, *events, {}]}))
    assert jax.recognises(place)
    return jax.read(place, Options())


def test_a_loop_is_no_op_and_timed_without_its_body_whose_iterations_are_calls(written: Write) -> None:
    trace = trace_of(written, op("while.3", 0, 100), op("add.1", 10, 20), op("add.1", 40, 20))
    loop, add = trace.records
    assert (loop.device_ns, loop.counted) == (60_000, 0)
    assert (add.device_ns, add.calls, add.least_ns) == (40_000, 2, 20_000)


def test_pieces_that_run_at_the_same_time_are_one_call(written: Write) -> None:
    (record,) = trace_of(written, op("dot.1", 0, 10), op("dot.1", 5, 10, tid=2), op("dot.1", 9, 3, tid=3)).records
    assert (record.calls, record.device_ns) == (1, 23_000)


def test_kernels_of_one_op_are_one_call_of_it(written: Write) -> None:
    trace = trace_of(written, op("dot.1!gemm", 0, 10), op("dot.1!splitk_reduce", 10, 5))
    assert [(r.name, r.calls, r.device_ns) for r in trace.records] == [("dot.1", 1, 15_000)]
    assert trace.kernels is not None
    assert [(k.name, k.launched_by, k.device_ns) for k in trace.kernels] == [
        ("gemm", "dot.1", 10_000),
        ("splitk_reduce", "dot.1", 5_000),
    ]
    assert trace.environment.device == "gpu"


def test_executions_that_no_call_explains_are_said_to_be_guessed(written: Write) -> None:
    step = {"ph": "X", "pid": 1, "tid": 9, "ts": 0, "dur": 5, "name": "train", "args": {"step_num": 7}}
    trace = trace_of(written, step, op("add.1", 8, 1))
    assert (trace.steps, trace.records[0].step) == (("train 7",), 0)
    assert any("not linked to the call from Python" in remark for remark in trace.remarks)


def test_an_execution_that_was_under_way_at_the_first_call_is_in_no_step(written: Write) -> None:
    steps = [
        {"ph": "X", "pid": 1, "tid": 9, "ts": 10 * n, "dur": 9, "name": "train", "args": {"step_num": n}}
        for n in (1, 2)
    ]
    calls = [{"ph": "X", "pid": 1, "tid": 9, "ts": 10 * n + 2, "dur": 2, "name": "PjitFunction(f)"} for n in (1, 2)]
    ran = [
        op("add.1", ts, dur, args={"hlo_op": "add.1", "hlo_module": "jit_f", "run_id": str(number)})
        for number, (ts, dur) in enumerate(((11, 7), (18, 3), (25, 4)))
    ]
    trace = trace_of(written, *steps, *calls, *ran)
    assert trace.steps == ("train 1", "train 2", "outside")
    assert [(record.step, record.device_ns) for record in trace.records] == [(2, 7000), (0, 3000), (1, 4000)]
    assert trace.step_ns == (9000, 9000)
    assert trace.profile().total.device_ns == (3000, 4000)


def test_each_format_is_recognised_by_its_reader_alone() -> None:
    files = {"train_step.trace.json.gz": jax, "train_step.hlo.txt.gz": hlo, "step_debug_info.mlir.gz": stablehlo}
    for name, owner in files.items():
        assert [reader for reader in (jax, hlo, stablehlo) if reader.recognises(Place(DATA / name))] == [owner]


def test_a_trace_without_ops_is_an_error(written: Write) -> None:
    with pytest.raises(TraceError, match="has no XLA ops"):
        trace_of(written)
    with pytest.raises(TraceError, match="not a number of us"):
        trace_of(written, op("add", 1e308, 1))
