from __future__ import annotations

import pytest

from pytest_opprof import errors
from pytest_opprof.ops import names, tables, vocabulary
from pytest_opprof.ops.names import Kind, meaning


@pytest.mark.parametrize(
    ("raw", "dtypes", "op", "kind"),
    [
        ("aten::addmm", (), "MatMul", Kind.COMPUTE),
        ("aten::add_", (), "Add", Kind.COMPUTE),
        ("aten::copy_", ("float32", "float16"), "Cast", Kind.MOVE),
        ("aten::copy_", ("float32", "float32"), "Copy", Kind.COPY),
        ("aten::copy_", (), "Copy", Kind.COPY),
        ("aten::clone", (), "Copy", Kind.MOVE),
        ("ndarray.astype", ("float64", "float32"), "Cast", Kind.MOVE),
        ("ndarray.astype", ("float64", "float64"), "Copy", Kind.COPY),
        ("numpy.add.reduce", (), "ReduceSum", Kind.COMPUTE),
        ("aten::view", (), "Reshape", Kind.VIEW),
        ("aten::to", (), "aten::to", Kind.WRAPPER),
        ("AddmmBackward0", (), "AddmmBackward0", Kind.UNKNOWN),
        ("aten::result_type", (), "aten::result_type", Kind.WRAPPER),
        ("aten::_foreach_add_", (), "aten::_foreach_add_", Kind.GROUP),
        ("Torch-Compiled Region", (), "torch::graph", Kind.GRAPH),
        ("CompiledFxGraph", (), "torch::graph", Kind.UNKNOWN),
        ("_compile.compile_inner (dynamo_timed)", (), "torch::compile", Kind.MOVE),
        ("aten::empty", (), "aten::empty", Kind.ALLOCATION),
        ("mylib::fused", (), "mylib::fused", Kind.UNKNOWN),
        ("Cast", (), "Cast", Kind.MOVE),
        ("MatMul", (), "MatMul", Kind.COMPUTE),
        ("MemcpyHtoD", (), "MemcpyHtoD", Kind.MOVE),
    ],
)
def test_a_raw_name_means_a_canonical_op(raw: str, dtypes: tuple[str, ...], op: str, kind: Kind) -> None:
    assert meaning(raw, dtypes) == names.Meaning(op, kind)


def test_whole_names_match_never_parts_of_them() -> None:
    assert meaning("FusionOp_ReluGradV2_Cast").kind is Kind.UNKNOWN
    assert meaning("xaten::addmm").kind is Kind.UNKNOWN


def test_the_users_aliases_win_over_the_vocabulary() -> None:
    aliases = {"mylib::fused": "Attention", "aten::addmm": "Gemm"}
    assert meaning("mylib::fused", aliases=aliases) == names.Meaning("Attention", Kind.COMPUTE)
    assert meaning("aten::addmm", aliases=aliases).op == "Gemm"


@pytest.mark.parametrize(
    ("raw", "stable"),
    [
        ("graph_1_cpp_fused__softmax__to_copy_add_gelu_sum_0", "cpp_fused__softmax__to_copy_add_gelu_sum"),
        ("graph_12_cpp_fused_add_31", "cpp_fused_add"),
        ("graph_0_gemm_m32n64k64_kernel", "gemm_m32n64k64_kernel"),
        ("triton_poi_fused_add_relu_7", "triton_poi_fused_add_relu"),
        ("## Call CompiledFxGraph fz5w72z7gtgap5yhg ##", "CompiledFxGraph"),
        ("Torch-Compiled Region: 3/1", "Torch-Compiled Region"),
        ("Torch-Compiled Region: !0/1/0", "Torch-Compiled Region"),
        ("_compile.<locals>.compile_inner (dynamo_timed)", "_compile.compile_inner (dynamo_timed)"),
        ("aten::upsample_nearest2d", "aten::upsample_nearest2d"),
    ],
)
def test_names_that_torch_compile_changes_from_run_to_run_are_made_stable(raw: str, stable: str) -> None:
    assert names.stable(raw) == stable


def test_an_unknown_name_gets_the_nearest_known_ones() -> None:
    assert str(errors.unknown("Csat", names.canonical_ops())) == "unknown op 'Csat': did you mean 'Cast'?"
    assert str(errors.unknown("zzzzzz", names.canonical_ops())) == "unknown op 'zzzzzz'"


def test_no_raw_name_means_two_ops() -> None:
    seen: dict[str, str] = {}
    for table in tables.TABLES.values():
        for op, raw in ((op, raw) for op, raws in table.items() for raw in raws.split()):
            assert seen.setdefault(raw, op) == op
            assert raw not in vocabulary.WRAPPERS
            assert raw not in vocabulary.ALLOCATIONS


def test_the_vocabulary_is_sorted_so_that_a_reader_finds_an_op() -> None:
    for table in tables.TABLES.values():
        assert list(table) == sorted(table)


def test_every_numpy_name_of_the_vocabulary_exists_in_some_numpy_or_scipy() -> None:
    import numpy as np
    import scipy

    not_in_all = {"numpy.astype", "numpy.matvec", "numpy.vecmat", "numpy.vecdot", "numpy.asfarray"}
    not_in_all |= {"numpy.linalg.vector_norm", "numpy.linalg.matrix_norm", "scipy.special.softplus"}
    missing = []
    for raw in (raw for op, framework, raws in names.rows() if framework == "numpy" for raw in raws.split()):
        root, _, path = raw.partition(".")
        value: object = {"numpy": np, "ndarray": np.ndarray, "scipy": scipy}.get(root)
        for part in path.split("."):
            # Draws are called so whoever draws: the functions, a RandomState or a Generator.
            value = getattr(value, part, None) or getattr(np.random.Generator, part, None)
        if value is None and root in ("numpy", "ndarray", "scipy"):
            missing.append(raw)
    assert set(missing) <= not_in_all


@pytest.mark.torch
def test_every_torch_name_of_the_vocabulary_is_registered_in_torch() -> None:
    import torch

    registered = {name.split(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    listed = {raw for _, framework, raws in names.rows() if framework == "torch" for raw in raws.split()}
    listed |= vocabulary.WRAPPERS | vocabulary.ALLOCATIONS | vocabulary.QUESTIONS
    aten = {raw for raw in listed if raw.startswith("aten::")}
    assert {raw for raw in aten if raw not in registered and f"{raw}_" not in registered} == set()


@pytest.mark.torch
def test_every_aten_wrapper_is_composed_of_other_ops_in_torch() -> None:
    import torch

    def is_composite(name: str) -> bool:
        overloads = [full for full in torch._C._dispatch_get_all_op_names() if full.split(".")[0] == name]
        keys = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
        return any(torch._C._dispatch_has_kernel_for_dispatch_key(full, key) for full in overloads for key in keys)

    assert {raw for raw in vocabulary.WRAPPERS if raw.startswith("aten::") and not is_composite(raw)} == set()
