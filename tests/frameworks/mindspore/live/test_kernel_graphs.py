"""The text of compiled graphs, and which calls are a run of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_opprof.frameworks.mindspore.live import scratch
from pytest_opprof.frameworks.mindspore.live.graph_text import Kernel, kernels, with_lines
from pytest_opprof.frameworks.mindspore.live.kernel_graphs import KernelGraphs
from pytest_opprof.frameworks.mindspore.live.profiler import Call
from pytest_opprof.ops.signature import Signature
from pytest_opprof.sites.chains import Frame

HALF = """\
# IR entry: @kernel_graph0
subgraph @kernel_graph0() {
  %0(CNode_103) = Load(%para2_w, UMonad[U]) cnode_attrs: {checkpoint: Bool(1)}
      : (<Ref[Tensor[Float32]], (8, 64), ref_key=w, is_parameter>, <UMonad, NoShape>) -> (<Tensor[Float32], (8, 64)>)
      # Fullname with scope: (Default/Load-op0)
  %1(x) = PrimFunc_Cast(%0) primitive_attrs: {dst_type: I64(42)} cnode_attrs: {checkpoint: Bool(1)}
      : (<Tensor[Float32], (8, 64)>) -> (<Tensor[Float16], (8, 64)>)
      : (<Float32xDefaultFormat[const vector]{8, 64}>) -> (<Float16xDefaultFormat[const vector]{8, 64}>)
      : (Tensor) -> (Tensor)
      # Fullname with scope: (Default/Cast-op0)
      # Corresponding code candidate:
      # In file /home/me/net.py:8~10, 4~97/    def construct(self, x):/
      # In file /home/me/net.py:10, 22~30/        return self.half(x)/
      # In file /lib/python3.11/site-packages/mindspore/ops/gen_ops_def.py:8804~8835/def cast(input, dtype):/
      # In file /lib/python3.11/site-packages/mindspore/ops/gen_ops_def.py:8835, 11~32/    return cast_op(input)/
      # In file /home/me/half.py:3~6, 0~8/@ms.jit/
      # In file /home/me/half.py:4~6, 11~32/def half(x):/
      # In file /home/me/half.py:5~6, 11~32/    return (x.astype(/
  %2(x) = PrimFunc_MatMul(%0, %1, Bool(0), Bool(1)) {instance name: matmul} cnode_attrs: {is_dynamic_len: Bool(0)}
      : (<Tensor[Float16], (8, 64)>, <Tensor[Float16], (8, 64)>, <Bool, NoShape>, <Bool, NoShape>) -> \
(<Tensor[Float16], (8, 8)>)
      : (<Float32xDefaultFormat[const vector]{8, 64}>, <Float32xDefaultFormat[const vector]{8, 64}>, \
<BoolxDefaultFormat[const vector]{}>, <BoolxDefaultFormat[const vector]{}>) -> \
(<Float32xDefaultFormat[const vector]{8, 8}>)
      : (Tensor, Tensor, Scalar, Scalar) -> (Tensor)
      # Fullname with scope: (Default/MatMul-op0)
  %3(x) = PrimFunc_Reshape(%2, (I64(64))) cnode_attrs: {is_dynamic_len: Bool(0)}
      : (<Tensor[Float32], (8, 8)>, <Tuple[Int64], TupleShape(NoShape)>) -> (<Tensor[Float32], (64)>)
      : (<Float32xDefaultFormat[const vector]{8, 8}>, <Int64xDefaultFormat[const vector]{1}>) -> \
(<Float32xDefaultFormat[const vector]{64}>)
      : (Tensor, Tuple) -> (Tensor)
      # Fullname with scope: (Default/Reshape-op0)
  %4(CNode_99) = MakeTuple(%3) cnode_attrs: {is_dynamic_len: Bool(0)}
      : (<Tensor[Float32], (64)>) -> (<Tuple[Tensor[Float32]], TupleShape((64))>)
      : (<Float32xDefaultFormat[const vector]{64}>) -> (<Float32xDefaultFormat[const vector]{64}>)
      : (Tensor) -> (TupleUnfold)
      # Fullname with scope: (Default/Return-op0)
  Return(%4)
      : (<Tuple[Tensor[Float32]], TupleShape((64))>)
}
"""
CAST = Signature(("float32",), ("float16",), ((8, 64),), ((8, 64),))
MATMUL = Signature(("float32", "float32"), ("float32",), ((8, 64), (8, 64)), ((8, 8),))
RESHAPE = Signature(("float32",), ("float32",), ((8, 8),), ((64,),))


def test_a_kernel_has_the_types_that_were_chosen_for_it_without_numbers_and_axes() -> None:
    assert types(HALF) == {
        "Default/Cast-op0": CAST,
        "Default/MatMul-op0": MATMUL,
        "Default/Reshape-op0": RESHAPE,
    }


def test_an_op_has_the_lines_of_the_program_that_ask_for_it() -> None:
    found = dict(kernels(HALF.splitlines()))
    lines = Frame("/home/me/half.py", "half", 5), Frame("/home/me/net.py", "construct", 10)
    assert (found["Default/Cast-op0"].lines, found["Default/MatMul-op0"].lines) == (lines, ())


def asked(number: int) -> Kernel:
    return Kernel(CAST, lines=(Frame("/home/me/net.py", "construct", number),))


INNER = Kernel(CAST, is_inner=True)


def lines_of(graph: list[tuple[str, Kernel]], program: list[tuple[str, Kernel]]) -> list[int]:
    """Return the line of each kernel; 0 where it is not known."""
    return [kernel.lines[0].line if kernel.lines else 0 for kernel in with_lines(dict(graph), dict(program)).values()]


def test_lines_are_those_of_the_program_where_casts_that_kernels_need_are_not_counted() -> None:
    program = [("Default/Cast-op1", asked(2)), ("Default/Cast-op0", asked(1)), ("Default/d/Cast-op0", asked(3))]
    built = ["Default/Cast-op1", "Default/Cast-op0", "Default/Cast-op10", "Default/Cast-op9", "Default/d/Cast-op7"]
    kinds = [asked(9), INNER, asked(9), INNER, asked(9)]
    assert lines_of([*zip(built, kinds)], program) == [1, 0, 2, 0, 3]


def test_an_op_that_was_expanded_has_its_lines_where_it_is_one_kernel() -> None:
    program = [("Default/Muls-op0", asked(1)), ("Default/Muls-op1", asked(2)), ("Default/SiLU-op0", asked(3))]
    built = ["Expand/_Muls/Mul-op0", "Expand/_Muls/Mul-op1", "Expand/_SiLU/Mul-op0", "Expand/_SiLU/Mul-op1"]
    assert lines_of([(name, asked(9)) for name in built], program) == [1, 2, 0, 0]


def test_where_the_program_has_more_or_fewer_ops_their_lines_are_not_known() -> None:
    program = [("Default/Cast-op0", asked(1)), ("Default/Cast-op1", asked(2)), ("other", asked(3))]
    assert lines_of([("Default/Cast-op0", asked(9)), ("other", asked(9))], program) == [0, 3]


def test_before_kernels_are_chosen_a_tensor_has_the_type_of_the_program() -> None:
    text = """\
  %0(CNode_9) = PrimFunc_Adam(%para1_w, %para2_x) cnode_attrs: {}
      : (<Ref[Tensor[BFloat16]], (4), ref_key=w, is_parameter>, <Tensor[Complex64], ()>, <Bool, NoShape>) -> \
(<Tensor[Float64], (-1, 2)>)
      # Fullname with scope: (Default/Adam-op3)
"""
    signature = Signature(("bfloat16", "complex64"), ("float64",), ((4,), ()), None)
    assert types(text) == {"Default/Adam-op3": signature}


def test_several_results_are_several_tensors() -> None:
    text = """\
  %0(CNode_9) = PrimFunc_Split(%para1_x, I64(0)) cnode_attrs: {}
      : (<Tensor[Float32], (4, 3)>, <Int64, NoShape>) -> (<Tuple[Tensor[Float32]*2], TupleShape((2, 3), (2, 3))>)
      : (<Complex64xDefaultFormat[const vector]{4, 3}>, <Int64xDefaultFormat[const vector]{}>) -> \
(<Complex64xDefaultFormat[const vector]{2, 3}>, <Complex64xDefaultFormat[const vector]{2, 3}>)
      : (Tensor, Scalar) -> (TupleUnfold)
      # Fullname with scope: (Default/Split-op0)
"""
    signature = Signature(("complex64",), ("complex64",) * 2, ((4, 3),), ((2, 3),) * 2)
    assert types(text) == {"Default/Split-op0": signature}


def graphs(*texts: str) -> KernelGraphs:
    """Return what knows the graphs of *texts*, as MindSpore leaves them in its folder."""
    known = KernelGraphs()
    for number, text in enumerate(texts):
        written(f"graph_build_{number}_0042.ir", text)
    return known


def written(name: str, text: str = "") -> Path:
    path = scratch.folder("graphs") / "rank_0" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def signatures(known: KernelGraphs, calls: list[Call]) -> dict[int, Signature]:
    return {index: kernel.signature for index, kernel in known.kernels_of(calls).items()}


def types(text: str) -> dict[str, Signature]:
    return {name: kernel.signature for name, kernel in kernels(text.splitlines())}


def calls(*names: str) -> list[Call]:
    return [Call(start, 1, name, None) for start, name in enumerate(names)]


RUN = ["Default/Cast-op0", "Default/MatMul-op0"]


def test_a_graph_has_the_lines_of_the_program_that_is_written_after_it() -> None:
    written("graph_build_0_0041.ir", HALF)
    written("24_execute_0044.ir", HALF.replace("net.py:10", "net.py:77"))
    written("graph_build_1_0055.ir", HALF.replace("op0", "op1"))
    found = KernelGraphs().kernels_of(calls(*RUN, *[name.replace("op0", "op1") for name in RUN]))
    assert [frame.line for frame in found[0].lines] == [5, 77]
    assert (found[2].signature, found[2].lines) == (CAST, ())


def test_a_run_has_all_kernels_of_its_graph_but_those_that_only_reshape() -> None:
    found = signatures(
        graphs(HALF), calls("Default/MatMul-op0", "Default/Cast-op0", "Cast", *RUN, "Default/Reshape-op0")
    )
    assert found == {0: MATMUL, 1: CAST, 3: CAST, 4: MATMUL, 5: RESHAPE}


def test_what_only_looks_like_a_part_of_a_graph_is_not_known() -> None:
    """As the casts of a single op in PyNative mode do, which have names of their own numbering."""
    assert signatures(graphs(HALF), calls("Default/Cast-op0", "Default/BiasAdd-op0", "Default/MatMul-op0")) == {}


def test_of_graphs_that_share_names_the_one_that_ran_whole_is_meant() -> None:
    single = HALF[: HALF.index("  %2(")].replace("Float16", "Float64")
    known = graphs(single, HALF)
    assert signatures(known, calls(*RUN))[0] == CAST
    assert signatures(known, calls("Default/Cast-op0"))[0].output_dtypes == ("float64",)


def test_two_graphs_that_differ_under_the_same_names_are_not_known() -> None:
    known = graphs(HALF, HALF.replace("Float16", "Float64"))
    assert signatures(known, calls(*RUN)) == {1: MATMUL}


def test_a_shape_that_is_dynamic_is_not_known() -> None:
    found = signatures(graphs(HALF.replace("{8, 64}", "{-1, 64}")), calls(*RUN))
    assert found[0] == Signature(CAST.input_dtypes, CAST.output_dtypes)
    assert found[1] == MATMUL._replace(input_shapes=None)


@pytest.mark.parametrize("name", ["graph_build_0_0001.ir", "ms_output_vm_build_0.pb"])
def test_files_are_deleted_when_they_were_read(name: str) -> None:
    known = KernelGraphs()
    path = written(name)
    assert signatures(known, []) == {}
    assert not path.exists()


@pytest.mark.processes
def test_the_folder_is_gone_when_its_process_ends() -> None:
    code = "from pytest_opprof.frameworks.mindspore.live.scratch import folder; print(folder('calls'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    path = Path(done.stdout.strip())
    assert path.name == "calls"
    assert not path.parent.exists()


class Context:
    """A context of MindSpore, and its parameters by name."""

    def __init__(self, **parameters: object) -> None:
        self.parameters = {"save_graphs": 0, "save_graphs_path": "", **parameters}
        self.context = self
        self.ms_ctx_param = self
        self.__members__ = {name: name for name in self.parameters}
        self.get_param = self.parameters.get
        self.set_param = self.parameters.__setitem__

    def _context(self) -> Context:
        return self


@pytest.mark.parametrize("by_variable", [True, False])
def test_graphs_that_the_program_saves_are_read_from_its_folder_and_stay_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    context = Context() if by_variable else Context(save_graphs=2, save_graphs_path=str(tmp_path))
    monkeypatch.setitem(sys.modules, "mindspore", context)
    monkeypatch.delenv("MS_DEV_DUMP_IR_PASSES", raising=False)
    if by_variable:
        monkeypatch.setenv("MS_DEV_SAVE_GRAPHS", "1")
        monkeypatch.setenv("MS_DEV_SAVE_GRAPHS_PATH", str(tmp_path))
    old = tmp_path / "graph_build_0_0007.ir"
    old.write_text(HALF.replace("op0", "op5"), encoding="utf-8")
    before = dict(context.parameters)
    known = KernelGraphs()
    known.watch()
    assert context.parameters == before
    assert "MS_DEV_DUMP_IR_PASSES" not in os.environ
    (tmp_path / "rank_0").mkdir()
    path = tmp_path / "rank_0" / "graph_build_0_0042.ir"
    path.write_text(HALF, encoding="utf-8")
    (tmp_path / "notes.ir").write_text("", encoding="utf-8")
    ran = calls(*RUN, *(name.replace("op0", "op5") for name in RUN))
    assert signatures(known, ran) == {0: CAST, 1: MATMUL}
    assert signatures(known, ran) == {0: CAST, 1: MATMUL}
    assert path.exists()
    old.write_text(HALF.replace("op0", "op5") + "\n", encoding="utf-8")
    os.utime(old, ns=(1, 1))
    assert len(signatures(known, ran)) == 4


def test_where_the_program_saves_none_ours_are_written_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context()
    monkeypatch.setitem(sys.modules, "mindspore", context)
    monkeypatch.delenv("MS_DEV_SAVE_GRAPHS", raising=False)
    monkeypatch.setenv("MS_DEV_DUMP_IR_PASSES", "of the program")
    known = KernelGraphs()
    known.watch()
    known.watch()
    assert context.parameters == {"save_graphs": 1, "save_graphs_path": str(scratch.folder("graphs"))}
    assert os.environ["MS_DEV_DUMP_IR_PASSES"] == "of the program"
