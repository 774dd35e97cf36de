from __future__ import annotations

import pytest

from pytest_opprof.frameworks.pytorch.events import Around, Compiler, Role, logged, meaning_as, role
from pytest_opprof.ops.names import Kind, Meaning


@pytest.mark.parametrize(
    ("name", "annotates", "numbered", "expected"),
    [
        ("aten::mm", False, False, Role.OP),
        ("mylib::fused", False, False, Role.OP),
        ("Mine", False, True, Role.OP),
        ("MineBackward", False, True, Role.NODE),
        ("autograd::engine::evaluate_function: MineBackward", False, True, Role.NODE),
        ("torch::autograd::AccumulateGrad", False, False, Role.NODE),
        ("torch::autograd::CppNode<(anonymous namespace)::Mine>", False, True, Role.NODE),
        ("torch::jit::(anonymous namespace)::DifferentiableGraphBackward", False, True, Role.NODE),
        ("detach", False, False, Role.OP),
        ("graph_0_cpp_fused_add_0", False, False, Role.OP),
        ("graph_0_gemm_m32n64k64_kernel", False, False, Role.OP),
        ("triton_poi_fused_add_7", False, False, Role.OP),
        ("Torch-Compiled Region: 0/1", False, False, Role.OP),
        ("## Call CompiledFxGraph fabc ##", True, False, Role.OP),
        ("forward", False, False, Role.GROUP),
        ("<forward op>", False, False, Role.GROUP),
        ("my section", True, False, Role.ANNOTATION),
        ("aten::mm", True, False, Role.ANNOTATION),
        ("Optimizer.step#SGD.step", True, False, Role.ANNOTATION),
        ("TorchDynamo Cache Lookup", False, False, Role.ANNOTATION),
        ("PythonDispatchMode", False, False, Role.ANNOTATION),
        ("CheckpointFunction", False, True, Role.ANNOTATION),
        ("AOTAutogradCache.inductor_load (dynamo_timed)", False, False, Role.COMPILES),
        ("backward._backward_impl (dynamo_timed)", False, False, Role.COMPILES),
        ("_compile.compile_inner (dynamo_timed)", False, False, Role.FRAME),
        ("_compile.<locals>.compile_inner (dynamo_timed)", True, False, Role.FRAME),
        ("_compile (dynamo_timed)", True, False, Role.FRAME),
    ],
)
def test_what_an_event_is(name: str, annotates: bool, numbered: bool, expected: Role) -> None:
    assert role(name, annotates, numbered) is expected


def test_what_torch_compile_has_in_its_log_is_compiling() -> None:
    names = ["dynamo", "dynamo_data: compile_id=0/0", "gc_data: fn_name=collect, compile_id=0/0", "my_data: 5"]
    assert logged(names) == {"dynamo", "gc"}
    assert role("dynamo", annotates=False, numbered=False, is_logged=True) is Role.COMPILES
    assert role("dynamo", annotates=False, numbered=False) is Role.GROUP


def test_a_group_is_called_as_it_is() -> None:
    assert meaning_as(Role.GROUP, "forward") == Meaning("forward", Kind.GROUP)
    assert meaning_as(Role.NODE, "MineBackward") == Meaning("MineBackward", Kind.WRAPPER)
    assert meaning_as(Role.OP, "aten::mm") == Meaning("MatMul", Kind.COMPUTE)


def test_of_what_torch_compile_does_only_the_outermost_frames_are_the_programs() -> None:
    compiler = Compiler()
    told = [
        (-50, -40, Role.OP, False),
        (0, 100, Role.COMPILES, False),
        (10, 60, Role.FRAME, False),
        (20, 30, Role.OP, True),
        (20, 50, Role.FRAME, True),
        (61, 62, Role.OP, True),
        (65, 90, Role.COMPILES, True),
        (70, 80, Role.FRAME, False),
        (100, 120, Role.OP, False),
        (130, 140, Role.FRAME, False),
        (131, 132, Role.OP, True),
    ]
    assert [compiler.leaves_out(start, end, role) for start, end, role, _ in told] == [each for *_, each in told]
    assert [time for time in (-1, 0, 99, 100, 130, 139, 140) if compiler.ran_at(time)] == [0, 99, 130, 139]


def test_it_is_told_the_same_by_what_lies_around_an_event() -> None:
    around = Around.PROGRAM
    for what, is_left_out in [(Role.OP, False), (Role.COMPILES, False), (Role.COMPILES, True), (Role.FRAME, False)]:
        assert around.leaves_out(what) is is_left_out
        around = around.inside(what)
    assert around.leaves_out(Role.FRAME)
    assert around.inside(Role.OP) is Around.FRAME
