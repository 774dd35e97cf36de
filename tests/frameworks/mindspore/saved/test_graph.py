"""MindSpore's saved graphs: texts and MINDIR. What MindSpore itself says of the same graphs is in ``counts.json``."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_opprof.errors import TraceError, UsageError
from pytest_opprof.frameworks.files import formats, programs
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.mindspore.nodes import NO_OPS
from pytest_opprof.frameworks.mindspore.saved import graph, mindir
from pytest_opprof.ops.names import Kind, meaning
from pytest_opprof.profile.saved import SavedProfile, op_of

from ....protobuf_messages import field

DATA = Path(__file__).parents[3] / "data" / "mindspore-graphs"
TOLD: dict[str, dict[str, Any]] = {
    path.parent.name: json.loads(path.read_text("utf-8")) for path in sorted(DATA.glob("*/counts.json"))
}
MODELS = [(version, model) for version, models in TOLD.items() for model in models if (DATA / version / model).is_dir()]


def stage(version: str, model: str, name: str | None = None, sites: bool = False) -> SavedProfile:
    (found,) = formats.find(Place(DATA / version / model), stage=name)
    return formats.read(found, sites=sites)


def calls(profile: SavedProfile, canonical: bool = False) -> dict[str, int]:
    counted = Counter[str]()
    for record in profile.records:
        counted[op_of(record) if canonical else record.type] += record.calls
    return dict(counted)


def has(version: str, model: str, pattern: str) -> bool:
    return any((DATA / version / model).glob(pattern))


@pytest.mark.parametrize(("version", "model"), [each for each in MODELS if has(*each, "graph_build*")])
def test_kernels_are_those_in_the_protobuf_that_mindspore_wrote_of_the_same_graphs(version: str, model: str) -> None:
    """The text ``graph_build_N`` against ``ms_output_vm_build_N.pb``, which `anf_ir_pb2` of MindSpore decoded."""
    told = sum((Counter(nodes) for name, nodes in TOLD[version][model].items() if "vm_build" in name), Counter[str]())
    assert calls(stage(version, model, "graph_build")) == {op: n for op, n in told.items() if op not in NO_OPS}


RAN = [each for each in MODELS if "ran" in TOLD[each[0]][each[1]] and each[1] not in ("branches", "reused")]


@pytest.mark.parametrize(("version", "model"), [each for each in RAN if has(*each, "graph_build*")])
def test_kernels_are_those_that_ran(version: str, model: str) -> None:
    """``graph_build`` against one call under MindSpore's profiler. What only gives another shape does not run."""
    found = calls(stage(version, model, "graph_build"))
    assert {op: n for op, n in found.items() if meaning(op).kind is not Kind.VIEW} == without_views(version, model)


@pytest.mark.parametrize(
    ("version", "model"), [each for each in RAN if each[1] in ("lenet", "bert", "training", "dynamic")]
)
def test_ops_of_the_last_stage_are_those_that_ran_where_no_kernel_casts(version: str, model: str) -> None:
    """``execute`` against the same, by canonical op: MatMulExt of the program is BatchMatMul when it runs."""
    ran = Counter[str]()
    for op, number in without_views(version, model).items():
        ran[meaning(op).op] += number
    found = calls(stage(version, model), canonical=True)
    assert {op: n for op, n in found.items() if meaning(op).kind is not Kind.VIEW} == ran


def without_views(version: str, model: str) -> dict[str, int]:
    ran: dict[str, int] = TOLD[version][model]["ran"]
    return {op: number for op, number in ran.items() if meaning(op).kind is not Kind.VIEW}


@pytest.mark.parametrize(("version", "model"), [each for each in MODELS if has(*each, "*.mindir.gz")])
def test_nodes_of_a_mindir_are_those_that_mindspore_decodes(version: str, model: str) -> None:
    """MINDIR against the same file decoded by `mind_ir_pb2` of MindSpore. Each sub-graph of these runs once."""
    told = sum(map(Counter, TOLD[version][model]["mindir"].values()), Counter[str]())
    nodes = {op: n for op, n in told.items() if op not in NO_OPS | {"Constant"} and not op[0].isdigit()}
    assert calls(exported(version, model)) == nodes


def exported(version: str, model: str) -> SavedProfile:
    return mindir.read(Place(DATA / version / model / f"{model}.mindir.gz"), Options())


@pytest.mark.parametrize(("version", "model"), [each for each in MODELS if has(*each, "*.mindir.gz")])
def test_a_mindir_and_the_text_have_the_same_dtypes_shapes_and_flops(version: str, model: str) -> None:
    found, other = (
        Counter(
            (
                op_of(each),
                each.input_dtypes,
                each.output_dtypes,
                each.input_shapes,
                each.output_shapes,
                each.computation,
            )
            for each in profile.records
            if each.computation or op_of(each) == "Cast"
        )
        for profile in (exported(version, model), stage(version, model))
    )
    # A model is exported with the shapes of its inputs, though it was compiled for any.
    assert found == other or model == "dynamic"


def test_a_convolution_and_a_product_have_the_flops_that_their_shapes_give() -> None:
    found = {record.name.split("/")[1]: record.computation for record in stage("2.10.0", "lenet").records}
    assert found["conv1-Conv2d"] == 2 * (2 * 6 * 28 * 28) * 25
    assert found["conv2-Conv2d"] == 2 * (2 * 16 * 10 * 10) * 6 * 25
    of = {record.name: record.computation for record in stage("2.10.0", "lenet").records}
    assert of["Default/dense1-Dense/MatMul-op0"] == 2 * 2 * 400 * 120
    assert of["Default/relu-ReLU/ReLU-op0"] is None


def test_casts_have_dtypes_scope_and_line() -> None:
    casts = [record for record in stage("2.10.0", "llama_cast", sites=True).records if record.type == "Cast"]
    assert {(each.input_dtypes[0], each.output_dtypes[0]) for each in casts} == {
        ("float16", "float32"),
        ("float32", "float16"),
    }
    assert len(casts) == 8
    sites = [record.site.frames[0] for record in casts if record.site]
    assert len(sites) == 8
    assert {(Path(site.file).name, site.function) for site in sites} == {
        ("mindspore_nets.py", "norm"),
        ("mindspore_nets.py", "construct"),
    }


def test_lines_of_mindspore_2_0_have_no_columns_and_no_functions() -> None:
    (conv, *_) = [record for record in stage("2.0.0", "lenet", sites=True).records if record.type == "Conv2D"]
    assert conv.name == "Default/conv1-Conv2d/Conv2D"
    assert conv.site is not None
    assert [(Path(frame.file).name, frame.line) for frame in conv.site.frames] == [("mindspore_nets.py", 32)]


def test_what_several_tensors_are_made_of_is_known() -> None:
    (norm, *_) = [record for record in stage("2.10.0", "bert").records if record.type == "LayerNorm"]
    assert (norm.output_dtypes, norm.output_shapes) == (("float32",) * 3, ((2, 8, 32), (2, 8, 1), (2, 8, 1)))
    assert norm.input_dtypes == ("float32",) * 3


def test_gradients_have_the_lines_of_what_they_are_the_gradients_of() -> None:
    records = stage("2.10.0", "training", sites=True).records
    backward = {record.type for record in records if record.site and record.site.is_backward}
    assert {"BiasAddGrad", "ReluGrad"} <= backward or not any(record.site for record in records)


def test_shapes_that_are_dynamic_are_not_known() -> None:
    records = stage("2.10.0", "dynamic").records
    assert all(record.output_shapes is None and record.output_dtypes == ("float32",) for record in records)
    assert not any(record.computation for record in records)


@pytest.mark.parametrize("version", [*TOLD])
def test_loops_and_branches_count_once_and_that_is_said(version: str) -> None:
    profiles = [stage(version, "branches"), exported(version, "branches")]
    for profile in profiles:
        assert calls(profile, canonical=True) == {
            "Add": 2, "Cast": 2, "Greater": 1, "Less": 1, "ReduceSum": 1, "Relu": 1, "Reshape": 1, "Sin": 1,
        }  # fmt: skip
        assert [remark.partition(" is counted")[0] for remark in profile.remarks] == [
            "the body of a branch",
            "the body of a loop",
        ]


def test_parts_of_a_stage_are_one_profile_and_how_often_each_runs_is_not_known() -> None:
    profile = stage("2.10.0", "branches", "graph_build")
    assert profile.records[0].type == "Less"
    assert profile.remarks == (graph._PARTS,)
    assert stage("2.10.0", "reused", "graph_build").remarks == (graph._PARTS,)
    assert stage("2.10.0", "lenet", "graph_build").remarks == ()


def test_a_sub_graph_counts_as_often_as_it_is_called_as_it_runs() -> None:
    """``execute`` against one call under MindSpore's profiler, where ``graph_build`` has the kernels once."""
    for version in ("2.7.1", "2.10.0"):
        assert calls(stage(version, "reused"), canonical=True) == TOLD[version]["reused"]["ran"] == {"Exp": 3, "Mul": 3}
        assert stage(version, "reused").remarks == ()
        assert calls(stage(version, "reused", "graph_build")) == {"Exp": 1, "Mul": 1}


# Which stage of a folder.


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (None, "stage execute"),
        ("execute", "stage execute"),
        ("24_execute", "stage execute"),
        ("24_execute_0147", "stage execute"),
        ("24_execute_0147.ir.gz", "stage execute"),
        ("validate", "stage validate"),
        ("type_inference", "stage type_inference"),
        ("graph_build", "stage graph_build"),
        ("graph_build_0", "stage graph_build"),
        ("graph_build_0_0144", "stage graph_build"),
    ],
)
def test_a_folder_is_its_last_stage_or_the_one_that_is_asked_for(name: str | None, source: str) -> None:
    assert stage("2.10.0", "bert", name).source == f"MindSpore graph, {source} (static: no run)"


def test_an_earlier_stage_has_ops_where_the_last_has_none_of_them() -> None:
    first, last = (calls(stage("2.10.0", "bert", name), canonical=True) for name in ("type_inference", "execute"))
    assert first["MatMul"] == last["MatMul"] == 8
    assert first["Transpose"] == last["Transpose"] == 4


def test_a_stage_without_ops_and_one_that_is_not_there_are_told() -> None:
    with pytest.raises(TraceError, match=r"has no ops yet: .*Read a later one"):
        stage("2.10.0", "bert", "bootstrap")
    with pytest.raises(TraceError, match=r"bert: has no stage 'optimise'\. It has bootstrap, type_inference, validate"):
        stage("2.10.0", "bert", "optimise")
    with pytest.raises(UsageError, match=r"--stage execute: is for a folder of graphs .* is a file"):
        formats.find(Place(DATA / "2.10.0" / "bert" / "24_execute_0147.ir.gz"), stage="execute")


def test_a_folder_with_several_graphs_names_a_file_of_each(tmp_path: Path) -> None:
    for model, name in (("lenet", "24_execute_0177.ir.gz"), ("training", "24_execute_0157.ir.gz")):
        shutil.copy(DATA / "2.10.0" / model / name, tmp_path)
    (tmp_path / "22_backend_pass_0200.ir").write_bytes(b"# IR entry: @a\n")
    assert [str(found) for found in formats.find(Place(tmp_path))] == [
        f"{tmp_path}/24_execute_0157.ir.gz",
        f"{tmp_path}/24_execute_0177.ir.gz",
        f"{tmp_path}/22_backend_pass_0200.ir",
    ]


def test_graphs_of_a_rank_have_its_number(tmp_path: Path) -> None:
    for rank in (0, 1):
        shutil.copytree(DATA / "2.10.0" / "lenet", tmp_path / f"rank_{rank}")
    assert [(found.rank, found.place.path.name) for found in formats.find(Place(tmp_path))] == [
        (0, "rank_0"),
        (1, "rank_1"),
    ]


def test_a_folder_of_two_runs_is_told(tmp_path: Path) -> None:
    shutil.copy(DATA / "2.10.0" / "lenet" / "24_execute_0177.ir.gz", tmp_path)
    shutil.copy(DATA / "2.10.0" / "lenet" / "24_execute_0177.ir.gz", tmp_path / "21_validate_0177.ir.gz")
    with pytest.raises(TraceError, match=r"mixes graphs of two runs: 21_validate_0177\.ir\.gz and 24_execute_0177\."):
        formats.find(Place(tmp_path))


# Bad input.

TEXT = gzip.decompress((DATA / "2.10.0" / "branches" / "24_execute_0187.ir.gz").read_bytes()).decode()


def read(tmp_path: Path, text: str | bytes, name: str = "a.ir") -> SavedProfile:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (found,) = formats.find(Place(path))
    return formats.read(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT[: TEXT.index("PrimFunc_Sin")], "ends in the middle of a sub-graph. Was it copied whole?"),
        (TEXT[: TEXT.index("subgraph @41")], r"ends after \d of 6 sub-graphs. Was it copied whole?"),
        (TEXT[:200], "ends after 0 of 6 sub-graphs. Was it copied whole?"),
        ("# IR entry: @a\n", "ends before the sub-graph that it begins with. Was it copied whole?"),
        (TEXT + TEXT, r"line \d+: a second graph begins. Give each stage a file"),
        (TEXT.replace("subgraph @41", "subgraph @99"), "calls '41_.*', which is not in the file"),
        (TEXT.replace("\n}\n\n\nindirect", "\n", 1), r"line \d+: sub-graph .38_.* begins inside of another one"),
        (
            "# IR entry: @a\nsubgraph @a() {\n  Return(%0)\n}\n",
            "has no ops yet: at this stage MindSpore knew only Python's names",
        ),
        ("module {\n  func.func @main() { return }\n}\n", "has no ops: 'main' and what it calls are empty"),
        ("; ModuleID = 'a.ll'\ndefine void @f() {\n", r"is not a profile .* It begins with \"; ModuleID"),
        ("digraph mindspore {\n}\n", r"is a drawing of a graph; .*\.ir file beside it"),
    ],
    ids="middle start head entry twice missing unclosed empty mlir llvm dot".split(),
)  # fmt: skip
def test_a_text_that_is_no_whole_graph_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)


def test_too_many_ops_and_nesting_without_end_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "".join(f"subgraph @f{n}() {{\n  %0(a) = call @f{n + 1}()\n}}\n" for n in range(20_000))
    text = f"# IR entry: @f0\n{deep}subgraph @f20000() {{\n  %0(a) = Add(%1)\n}}\n"
    assert calls(read(tmp_path, text)) == {"Add": 1}
    types = "<" + "Tuple[" * 50_000 + "Tensor[Float32]*999999999" + "]" * 50_000 + ", " + "TupleShape(" * 50_000
    text = f"# IR entry: @f\nsubgraph @f() {{\n  %0(a) = Add(%1)\n      : ({types}) -> ({types})\n}}\n"
    assert read(tmp_path, text).records[0].output_dtypes == ("float32",)
    monkeypatch.setattr(programs, "MOST_OPS", 3)
    with pytest.raises(TraceError, match="more than 3 ops, which no program has"):
        read(tmp_path, TEXT)


def test_calls_multiply(tmp_path: Path) -> None:
    """A text made by hand: each of 3 calls of a layer calls a norm twice; one is handed on, how often is not told."""
    text = """# IR entry: @main
# Total subgraphs: 4
subgraph @norm(%para1_x) {
  %0(a) = PrimFunc_Cast(%para1_x)
      : (<Tensor[BFloat16], (2, 3)>) -> (<Tensor[Float32], (2, 3)>)
      # Fullname with scope: (Default/norm/Cast-op0)
  Return(%0)
}
subgraph @layer(%para1_x) {
  %0(a) = call @norm(%para1_x)
  %1(b) = call @norm(%0)
  %2(c) = PrimFunc_MatMul(%1, %0)
      : (<Tensor[Float32], (2, 3)>, <Tensor[Float32], (3, 4)>) -> (<Tensor[Float32], (2, 4)>)
  Return(%2)
}
subgraph @handed(%para1_x) {
  %0(a) = PrimFunc_Sin(%para1_x)
  Return(%0)
}
subgraph @main(%para1_x) {
  %0(a) = call @layer(%para1_x)
  %1(b) = call @layer(%0)
  %2(c) = call @layer(%1)
  %3(d) = Map(@handed, %2)
  Return(%3)
}
"""
    profile = read(tmp_path, text)
    assert calls(profile) == {"Cast": 6, "MatMul": 3, "Sin": 1, "Map": 1}
    assert [record.computation for record in profile.records if record.computation] == [3 * 2 * 2 * 4 * 3]
    assert profile.remarks == (programs.ONCE.format("a function that is passed on"),)


NAMES = st.integers(0, 5)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, st.lists(NAMES, max_size=4), min_size=1))
def test_a_sub_graph_without_loops_runs_as_often_as_it_is_called(
    tmp_path_factory: Any, called: dict[int, list[int]]
) -> None:
    """Against calls that are followed one by one, from each sub-graph to those with a higher number."""
    graphs = {name: [each for each in called.get(name, []) if each > name] for name in range(6)}

    def ran(name: int) -> int:
        return 1 + sum(map(ran, graphs[name]))

    parts = [
        f"subgraph @g{name}() {{\n  %0(a) = Add(%1)\n"
        + "".join(f"  %{place}(b) = call @g{each}()\n" for place, each in enumerate(calls_of, 1))
        + "}\n"
        for name, calls_of in graphs.items()
    ]
    profile = read(tmp_path_factory.mktemp("a"), f"# IR entry: @g0\n{''.join(parts)}")
    assert calls(profile) == {"Add": ran(0)}
    assert profile.remarks == ()


def is_read(reader: Any, place: Place) -> None:
    """Read it, or raise an error of one line."""
    try:
        records = reader.read(place, Options(sites=True)).records
    except TraceError as error:
        records = "\n" not in str(error)
    assert records


LINES = st.sampled_from([*dict.fromkeys(line for line in TEXT.splitlines() if not line.startswith("# IR"))])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(LINES, LINES, st.text(max_size=60)), max_size=40))
def test_any_lines_are_ops_or_one_error(tmp_path_factory: Any, lines: list[str]) -> None:
    text = "# IR entry: @36_1_nets\n" + "\n".join(lines)
    place = Place(tmp_path_factory.mktemp("a") / "a.ir")
    place.path.write_bytes(text.encode("utf-8", "replace"))
    is_read(graph, place)


MODEL = gzip.decompress((DATA / "2.10.0" / "branches" / "branches.mindir.gz").read_bytes())


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(MODEL) - 1), st.binary(max_size=8), st.integers(0, 8))
def test_any_change_of_a_mindir_is_ops_or_one_error(
    tmp_path_factory: Any, at: int, bytes_: bytes, left_out: int
) -> None:
    place = Place(tmp_path_factory.mktemp("a") / "a.mindir")
    place.path.write_bytes(MODEL[:at] + bytes_ + MODEL[at + left_out :])
    is_read(mindir, place)


def test_a_mindir_that_was_cut_or_is_without_a_graph_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"is not a complete MindIR model \(.*\)\. Was it copied whole\?"):
        read(tmp_path, MODEL[:4000], "a.mindir")
    with pytest.raises(TraceError, match="has no graph, so it is not a MindIR model"):
        read(tmp_path, field(1, "1.1") + field(2, "MindSpore"), "a.mindir")
    nested = b""
    for _ in range(40):
        nested = field(17, nested + field(16, 20))
    node = field(1, field(4, "Add") + field(2, "a") + field(5, field(1, "shape") + nested))
    with pytest.raises(TraceError, match="values 16 deep"):
        read(tmp_path, field(1, "1.1") + field(2, "MindSpore") + field(7, node + field(2, "g")), "a.mindir")


def test_a_mindir_of_mindspore_2_7_0() -> None:
    path = DATA.parent / "mindspore-cpu" / "cast.mindir"
    (found,) = formats.find(Place(path))
    profile = formats.read(found)
    assert calls(profile) == {"ReLU": 1, "Cast": 1}
    assert str(profile.environment) == "mindspore 2.7.0"


def test_a_pass_inside_of_a_stage_goes_by_its_own_name(tmp_path: Path) -> None:
    for name in ("12_optimize_0065.ir", "opt_pass_2_opt_a_0015.ir", "opt_pass_9_opt_b_0022.ir"):
        (tmp_path / name).write_text(TEXT, encoding="utf-8")
    (found,) = formats.find(Place(tmp_path), stage="opt_a")
    assert str(found) == f"{tmp_path}/opt_pass_2_opt_a_0015.ir"


def test_a_value_that_may_be_any_of_very_many_graphs_is_one_line(tmp_path: Path) -> None:
    graphs = b"".join(field(8, field(2, f"g{n}")) for n in range(1100))
    nodes = field(1, field(4, "Partial") + field(1, "g0") + field(2, "v0"))
    for n in range(1, 1100):
        inputs = field(1, f"v{n - 1}") + field(1, f"g{n}")
        nodes += field(1, field(4, "Switch") + inputs + field(2, f"v{n}"))
    with pytest.raises(TraceError, match="a value that may be more than 1000 graphs"):
        read(
            tmp_path, field(1, "1.1") + field(2, "MindSpore") + field(7, nodes + field(2, "main")) + graphs, "a.mindir"
        )
