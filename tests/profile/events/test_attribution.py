from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.pytorch.events import meaning_as, role
from pytest_opprof.ops.names import Kind, Meaning, meaning
from pytest_opprof.profile.events.attribution import NOBODY, owners

Tree = list["str | tuple[str, Tree]"]


def counted(*tree: object) -> dict[str, int]:
    """Return the calls by canonical op of nested raw names: ("aten::linear", "aten::t", ("aten::addmm", ...))."""
    parents, raws = _flat(tree, -1, [], [])
    meanings = [_meaning(raw) for raw in raws]
    result: dict[str, int] = {}
    for event, owner in enumerate(owners(parents, list(range(len(raws))), meanings)):
        if event == owner:
            result[meanings[event].op] = result.get(meanings[event].op, 0) + 1
    return result


def _meaning(raw: object) -> Meaning:
    if isinstance(raw, tuple):
        return meaning(*raw)
    return meaning_as(role(str(raw), annotates=False, numbered=False), str(raw))


def _flat(tree: object, parent: int, parents: list[int], raws: list[object]) -> tuple[list[int], list[object]]:
    for node in tree:  # type: ignore[attr-defined]
        children = node[1:] if isinstance(node, list) else []
        parents.append(parent)
        raws.append(node[0] if isinstance(node, list) else node)
        _flat(children, len(raws) - 1, parents, raws)
    return parents, raws


CAST = ("aten::copy_", ("float32", "float16"))
COPY = ("aten::copy_", ("float32", "float32"))


def test_a_linear_layer_is_one_matmul_with_the_copy_of_its_bias() -> None:
    tree = ["aten::linear", ["aten::t", ["aten::transpose", "aten::as_strided"]], ["aten::addmm", "aten::expand", COPY]]
    assert counted(tree) == {"MatMul": 1}


def test_a_convolution_is_one_conv_however_many_wrappers_it_has() -> None:
    tree = ["aten::conv2d", ["aten::convolution", ["aten::_convolution", ["aten::mkldnn_convolution", "aten::empty"]]]]
    assert counted(tree) == {"Conv": 1}


def test_a_conversion_is_one_cast() -> None:
    assert counted(["aten::to", ["aten::_to_copy", "aten::empty_strided", CAST]]) == {"Cast": 1}


def test_a_conversion_to_the_same_dtype_that_copies_is_a_copy() -> None:
    assert counted(["aten::to", ["aten::_to_copy", "aten::empty_strided", COPY]]) == {"Copy": 1}


def test_a_conversion_that_converts_nothing_is_nothing() -> None:
    assert counted("aten::to", ["aten::contiguous"], "aten::type_as") == {}
    assert counted(["mylib::fused", "aten::to"]) == {"mylib::fused": 1}


def test_a_question_is_no_op() -> None:
    assert counted("aten::_has_compatible_shallow_copy_type", "aten::result_type", "aten::is_floating_point") == {}
    assert counted("aten::empty") == {"aten::empty": 1}


def test_casts_inside_another_op_count() -> None:
    autocast = ["aten::to", ["aten::_to_copy", CAST]]
    assert counted(["aten::linear", autocast, autocast, ["aten::linear", "aten::addmm"]]) == {"MatMul": 1, "Cast": 2}


def test_a_hidden_copy_of_an_operand_counts_and_the_view_that_caused_it_does_not() -> None:
    reshape = ["aten::reshape", ["aten::clone", "aten::empty_like", COPY], "aten::_unsafe_view"]
    assert counted(["aten::linear", ["aten::matmul", reshape, "aten::mm"]]) == {"MatMul": 1, "Copy": 1}
    assert counted(reshape) == {"Copy": 1}
    assert counted(["aten::contiguous", ["aten::clone", COPY]]) == {"Copy": 1}


def test_a_view_alone_is_an_op_and_inside_an_op_is_part_of_it() -> None:
    assert counted(["aten::t", ["aten::transpose", "aten::as_strided"]]) == {"Transpose": 1}
    assert counted(["aten::flatten", "aten::view"]) == {"Reshape": 1}
    assert counted(["aten::mean", "aten::view", "aten::sum", "aten::div_"]) == {"ReduceMean": 1}


def test_attention_is_one_op_when_fused_and_its_parts_when_not() -> None:
    fused = ["aten::scaled_dot_product_attention", ["aten::_scaled_dot_product_flash_attention_for_cpu", "aten::empty"]]
    assert counted(fused) == {"Attention": 1}
    parts = [
        "aten::_scaled_dot_product_attention_math",
        ["aten::matmul", "aten::bmm"],
        ["aten::softmax", "aten::_softmax"],
    ]
    assert counted(["aten::scaled_dot_product_attention", parts]) == {"MatMul": 1, "Softmax": 1}


def test_autograd_nodes_stand_for_the_ops_inside() -> None:
    node = [
        "autograd::engine::evaluate_function: AddmmBackward0",
        ["AddmmBackward0", "aten::t", "aten::mm", "aten::mm"],
    ]
    assert counted(node) == {"Transpose": 1, "MatMul": 2}


def test_a_node_of_autograd_without_an_op_is_nothing() -> None:
    accumulates = "torch::autograd::AccumulateGrad"
    nodes = [accumulates, "MineBackward", "torch::autograd::CppNode<(anonymous namespace)::Mine>"]
    assert counted(*([f"autograd::engine::evaluate_function: {node}", node] for node in nodes)) == {}
    node = [f"autograd::engine::evaluate_function: {accumulates}", [accumulates, ["aten::detach", "detach"]]]
    assert counted(node) == {"Identity": 1}


def test_optimizers_of_many_tensors_are_the_ops_of_each_or_one_op() -> None:
    assert counted(["aten::_foreach_add_", "aten::add_", "aten::add_"]) == {"Add": 2}
    assert counted("aten::_foreach_add_") == {"aten::_foreach_add_": 1}


def test_a_group_is_an_op_only_if_none_is_inside() -> None:
    assert counted(["forward", ["aten::t", "aten::transpose"], "aten::mm", "mine::op"]) == {
        "Transpose": 1,
        "MatMul": 1,
        "mine::op": 1,
    }
    assert counted(["forward", ["inner", "aten::t"]]) == {"Transpose": 1}
    assert counted(["forward", ["inner", "aten::to"]]) == {"inner": 1}
    assert counted(["mine::op", "inner"], ["my_kernel", "aten::empty"]) == {"mine::op": 1, "my_kernel": 1}
    assert counted(["MineBackward", "my_kernel"]) == {"my_kernel": 1}


REGION, COMPILED, FRAME = "Torch-Compiled Region", "CompiledFxGraph", "_compile.compile_inner (dynamo_timed)"


def test_a_graph_that_another_calls_where_it_is_broken_is_one_more_and_their_ops_count() -> None:
    broken = [REGION, [COMPILED, "aten::mm"], "aten::item", FRAME, [REGION, [COMPILED, "cpp_fused_add"]]]
    assert counted(broken) == {"torch::graph": 2, "MatMul": 1, "Item": 1, "torch::compile": 1, "cpp_fused_add": 1}
    assert counted([REGION, ["aten::t", "aten::as_strided"], "aten::mm", "mine::op"]) == {
        "torch::graph": 1,
        "Transpose": 1,
        "MatMul": 1,
        "mine::op": 1,
    }


def test_a_graph_and_its_backward_pass_are_two() -> None:
    forward = [REGION, ["CompiledFunction", [COMPILED, "aten::addmm"]]]
    backward = ["CompiledFunctionBackward", [COMPILED, "aten::mm"]]
    assert counted(forward, ["autograd::engine::evaluate_function: CompiledFunctionBackward", backward]) == {
        "torch::graph": 2,
        "MatMul": 2,
    }


def test_what_torch_compile_made_of_a_frame_without_tensors_is_no_graph() -> None:
    assert counted(REGION, [REGION, FRAME]) == {"torch::compile": 1}
    assert counted([REGION, [REGION, COMPILED]]) == {"torch::graph": 1}


def test_a_graph_that_nothing_is_around_is_one() -> None:
    """As in recordings of PyTorch 2.0 to 2.3."""
    assert counted(["CompiledFunction", "aten::mm"], [COMPILED, "aten::mm"]) == {"torch::graph": 2, "MatMul": 2}


def test_an_op_outside_the_vocabulary_counts_beside_what_is_inside_it() -> None:
    assert counted(["mylib::fused", "aten::empty", "aten::mm"]) == {"mylib::fused": 1, "MatMul": 1}


def test_self_time_of_a_wrapper_goes_to_the_op_inside_that_works_not_to_a_view() -> None:
    raws = ["AddmmBackward0", "aten::t", "aten::mm"]
    assert owners([-1, 0, 0], [0, 1, 2], [_meaning(raw) for raw in raws]) == [2, 1, 2]


def test_an_allocation_in_a_wrapper_goes_where_the_wrapper_goes() -> None:
    raws = ["aten::to", "aten::empty_strided"]
    assert owners([-1, 0, 0], [0, 1, 2], [*map(meaning, raws), meaning(*CAST)]) == [2, 2, 2]


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    size = draw(st.integers(0, 40))
    parents = [draw(st.integers(-1, index - 1)) for index in range(size)]
    return parents, [draw(st.integers(0, len(MEANINGS) - 1)) for _ in range(size)]


MEANINGS = [Meaning(f"{kind.name}{n}", kind) for kind in Kind for n in range(2)]


@given(forests())
def test_every_event_belongs_to_a_counted_event_or_to_nobody(forest: tuple[list[int], list[int]]) -> None:
    parents, names = forest
    result = owners(parents, names, MEANINGS)
    assert all(result[owner] == owner for owner in result if owner != NOBODY)
    does_nothing = {Kind.WRAPPER, Kind.ALLOCATION, Kind.GRAPH}
    assert {MEANINGS[name].kind for name, owner in zip(names, result) if owner == NOBODY} <= does_nothing


@given(forests())
def test_a_top_level_event_leads_to_something_counted_inside_its_own_tree(forest: tuple[list[int], list[int]]) -> None:
    parents, names = forest
    roots: list[int] = []
    for event, parent in enumerate(parents):
        roots.append(event if parent == -1 else roots[parent])
    result = owners(parents, names, MEANINGS)
    for event, owner in enumerate(result):
        # Where nobody owns one event of a tree, nothing in it is an op.
        assert (owner == NOBODY) == (result[roots[event]] == NOBODY)
        assert owner == NOBODY or roots[owner] == roots[event]


@given(forests(), st.lists(st.integers(0, len(MEANINGS) - 1), max_size=3))
def test_events_among_many_that_are_alone_belong_as_without_them(
    forest: tuple[list[int], list[int]], alone: list[int]
) -> None:
    parents, names = forest
    expected = owners(parents, names, MEANINGS)
    many = 2 * [*range(len(MEANINGS)), *alone] * (1 + len(parents) // len(MEANINGS))
    singly = [owners([NOBODY], [name], MEANINGS)[0] == 0 for name in many]
    first = len(many)
    mixed = owners(
        [NOBODY] * first + [NOBODY if parent == NOBODY else first + parent for parent in parents] + [NOBODY] * first,
        many + names + many,
        MEANINGS,
    )
    after = first + len(parents)
    assert mixed[first:after] == [NOBODY if owner == NOBODY else first + owner for owner in expected]
    assert mixed[:first] == [event if counts else NOBODY for event, counts in enumerate(singly)]
    assert mixed[after:] == [event if counts else NOBODY for event, counts in enumerate(singly, start=after)]


def test_the_out_form_of_a_function_without_a_canonical_name_is_the_same_call() -> None:
    assert counted(["aten::polar", "aten::polar"]) == {"aten::polar": 1}
    assert counted(["mylib::outer", "mylib::inner"]) == {"mylib::outer": 1, "mylib::inner": 1}


def test_the_in_place_twin_of_a_wrapper_is_a_wrapper() -> None:
    assert counted(["aten::square_", "aten::pow_"]) == {"Pow": 1}
