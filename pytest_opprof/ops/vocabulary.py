"""Names that count in a way of their own: casts, copies, views, wrappers, allocations. Data only.

The op of a name is in `tables`; `names` combines both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CAST = "Cast"
COPY = "Copy"
COMPILE = "torch::compile"
GRAPH = "torch::graph"
# A call of a program that JAX compiled, and of a kernel in it.
PROGRAM, KERNEL = "jax::program", "jax::kernel"
# Raw names that are a `Cast` if the dtypes recorded with the call differ, and otherwise the `Copy` of their table.
# ``dtype=`` stands for a NumPy ufunc told to compute in another dtype.
CASTS: Mapping[str, str] = {
    "numpy": """ndarray.astype ndarray.__setitem__ numpy.copyto dtype= numpy.array numpy.asarray numpy.asanyarray
        numpy.asarray_chkfinite numpy.ascontiguousarray numpy.asfarray numpy.asfortranarray numpy.require""",
    "torch": "aten::copy_ aten::copy aten::_copy_from",
}
# Ops that count wherever they happen, also inside another op, because budgets look for them.
DATA_MOVEMENT = frozenset([CAST, "MemcpyHtoD", "MemcpyDtoH", "MemcpyDtoD", "Memset", "Synchronize"])
# Ops between processes or devices. Their time is mostly waiting for the others, so the ops' time does not include it.
COMMUNICATION = frozenset("""AllReduce AllGather ReduceScatter Broadcast AllToAll Send Recv Barrier""".split())
# Raw names that are communication as well, and have no canonical name.
UNNAMED_COMMUNICATION = frozenset("c10d::reduce_ c10d::gather_ c10d::scatter_ collective-permute".split())
# Raw names that count as `Copy` inside another op too: a hidden copy of an operand, not the op's own work.
ALWAYS_COPIES = frozenset(["aten::clone"])
# Ops that move no data: inside another op they are part of it, and one that has to copy is the `Copy` it makes.
VIEWS = frozenset("""Expand Identity Reshape Slice Split Squeeze Transpose Unsqueeze""".split())
# Raw names that only allocate memory: part of the op around them.
ALLOCATIONS = frozenset(
    """numpy.empty numpy.empty_like
    aten::empty aten::empty_like aten::empty_strided aten::new_empty aten::new_empty_strided
    aten::empty_permuted aten::resize_ aten::resize_as_ aten::set_ aten::as_strided_""".split()
)
# Raw names that only ask: no ops.
QUESTIONS = frozenset(
    """aten::_nnpack_available aten::cudnn_is_acceptable aten::result_type aten::is_floating_point
    aten::is_complex aten::is_conj aten::is_neg aten::is_contiguous aten::is_same_size
    aten::_has_compatible_shallow_copy_type aten::_has_same_storage_numel aten::_version aten::output_nr
    aten::can_cast aten::_use_cudnn_rnn_flatten_weight""".split()
)
# Raw names of wrappers: the ops inside do the work. A wrapper without ops inside did nothing.
WRAPPERS = frozenset(
    """aten::to aten::_to_copy aten::contiguous aten::type_as aten::_autocast_to_reduced_precision
    aten::_autocast_to_full_precision aten::_to_cpu aten::scaled_dot_product_attention
    aten::_scaled_dot_product_attention_math aten::einsum aten::cross_entropy_loss aten::lstm aten::gru
    aten::rnn_tanh aten::rnn_relu aten::rnn_tanh_cell aten::rnn_relu_cell aten::embedding_bag
    aten::_transformer_encoder_layer_fwd aten::cosine_similarity aten::cosine_embedding_loss aten::ctc_loss
    aten::kl_div aten::triplet_margin_loss aten::margin_ranking_loss aten::hinge_embedding_loss
    aten::poisson_nll_loss aten::pairwise_distance aten::bilinear aten::l1_loss aten::square aten::outer
    aten::ger aten::meshgrid aten::atleast_1d aten::atleast_2d aten::atleast_3d aten::block_diag
    aten::cartesian_prod aten::quantile aten::nanquantile aten::cov aten::corrcoef aten::histogramdd
    aten::cdist aten::cross aten::fake_quantize_per_tensor_affine
    aten::stft aten::istft aten::linalg_matrix_power aten::matrix_power aten::linalg_cond
    aten::linalg_matrix_rank aten::isclose aten::allclose aten::diag aten::pad_sequence
    aten::_pack_padded_sequence aten::_pad_packed_sequence aten::_weight_norm aten::norm_except_dim""".split()
)
# torch.compile: the compilation of a frame of Python code, and a run of a compiled graph. The last two names of a graph
# are a part of the first two inside them.
COMPILED: Mapping[str, Sequence[str]] = {
    COMPILE: ["_compile.compile_inner (dynamo_timed)"],
    GRAPH: ["Torch-Compiled Region", "CompiledFunctionBackward", "CompiledFunction", "CompiledFxGraph"],
}
# Raw names of a graph that counts also inside another: one calls the other at a graph break.
GRAPHS = frozenset(COMPILED[GRAPH][:2])
