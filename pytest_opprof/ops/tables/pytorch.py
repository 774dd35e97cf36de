"""PyTorch: operators by their name in its dispatcher and its profiler.

A name stands for its in-place twin too (`aten::add` for `aten::add_`), unless that twin has a line of its own. Source:
the operators registered by PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "Abs": "aten::abs aten::absolute",
    "Acos": "aten::acos aten::arccos",
    "Acosh": "aten::acosh aten::arccosh",
    "Add": "aten::add aten::_add_relu",
    "Addcdiv": "aten::addcdiv",
    "Addcmul": "aten::addcmul",
    "AllGather": """
        record_param_comms::allgather c10d::allgather_
        c10d::allgather_coalesced_ c10d::_allgather_base_ c10d::allgather_into_tensor_coalesced_
        _c10d_functional::all_gather_into_tensor _c10d_functional::all_gather_into_tensor_out
        _c10d_functional::all_gather_into_tensor_coalesced _c10d_functional_autograd::all_gather_into_tensor
    """,
    "AllReduce": """
        record_param_comms::allreduce c10d::allreduce_ c10d::allreduce_coalesced_
        _c10d_functional::all_reduce _c10d_functional::all_reduce_
        _c10d_functional::all_reduce_coalesced _c10d_functional::all_reduce_coalesced_
    """,
    "AllToAll": """
        record_param_comms::alltoall c10d::alltoall_ c10d::alltoall_base_ _c10d_functional::all_to_all_single
        _c10d_functional_autograd::all_to_all_single
    """,
    "And": "aten::logical_and",
    "ArgMax": "aten::argmax",
    "ArgMin": "aten::argmin",
    "Asin": "aten::asin aten::arcsin",
    "Asinh": "aten::asinh aten::arcsinh",
    "Atan": "aten::atan aten::arctan",
    "Atan2": "aten::atan2 aten::arctan2",
    "Atanh": "aten::atanh aten::arctanh",
    "Attention": """
        aten::_scaled_dot_product_flash_attention_for_cpu aten::_scaled_dot_product_flash_attention
        aten::_scaled_dot_product_efficient_attention aten::_scaled_dot_product_cudnn_attention
        aten::_scaled_dot_product_fused_attention_overrideable aten::_flash_attention_forward
        aten::_efficient_attention_forward aten::_native_multi_head_attention
    """,
    "AttentionGrad": """
        aten::_scaled_dot_product_flash_attention_for_cpu_backward
        aten::_scaled_dot_product_flash_attention_backward
        aten::_scaled_dot_product_efficient_attention_backward
        aten::_scaled_dot_product_cudnn_attention_backward aten::_flash_attention_backward
        aten::_efficient_attention_backward
    """,
    "AveragePool": """
        aten::avg_pool1d aten::avg_pool2d aten::avg_pool3d aten::adaptive_avg_pool1d aten::adaptive_avg_pool2d
        aten::adaptive_avg_pool3d aten::_adaptive_avg_pool2d aten::_adaptive_avg_pool3d
        aten::mkldnn_adaptive_avg_pool2d
    """,
    "AveragePoolGrad": """
        aten::avg_pool2d_backward aten::avg_pool3d_backward aten::_adaptive_avg_pool2d_backward
        aten::_adaptive_avg_pool3d_backward aten::mkldnn_adaptive_avg_pool2d_backward
    """,
    "Barrier": "record_param_comms::barrier c10d::barrier c10d::monitored_barrier_",
    "BatchNormalization": """
        aten::batch_norm aten::_batch_norm_impl_index aten::native_batch_norm aten::_native_batch_norm_legit
        aten::_native_batch_norm_legit_no_training aten::_batch_norm_with_update aten::_batch_norm_no_update
        aten::cudnn_batch_norm aten::miopen_batch_norm
    """,
    "BatchNormalizationGrad": """
        aten::native_batch_norm_backward aten::batch_norm_backward aten::cudnn_batch_norm_backward
        aten::_batch_norm_impl_index_backward aten::miopen_batch_norm_backward
    """,
    "Bernoulli": "aten::bernoulli",
    "BinaryCrossEntropy": "aten::binary_cross_entropy aten::binary_cross_entropy_with_logits",
    "BinaryCrossEntropyGrad": "aten::binary_cross_entropy_backward",
    "BitShift": """
        aten::bitwise_left_shift aten::bitwise_right_shift aten::__lshift__ aten::__rshift__ aten::__ilshift__
        aten::__irshift__
    """,
    "BitwiseAnd": "aten::bitwise_and aten::__and__ aten::__iand__",
    "BitwiseNot": "aten::bitwise_not",
    "BitwiseOr": "aten::bitwise_or aten::__or__ aten::__ior__",
    "BitwiseXor": "aten::bitwise_xor aten::__xor__ aten::__ixor__",
    "Broadcast": """
        record_param_comms::broadcast c10d::broadcast_ _c10d_functional::broadcast _c10d_functional::broadcast_
    """,
    "Ceil": "aten::ceil",
    "Celu": "aten::celu",
    "Cholesky": "aten::linalg_cholesky aten::linalg_cholesky_ex aten::cholesky",
    "Clip": "aten::clamp aten::clamp_min aten::clamp_max aten::clip aten::hardtanh aten::relu6",
    "Concat": "aten::cat aten::concat aten::concatenate aten::stack aten::hstack aten::vstack aten::dstack",
    "ConstantOfShape": """
        aten::zeros aten::ones aten::full aten::zeros_like aten::ones_like aten::full_like aten::zero_
        aten::zero aten::fill_ aten::fill aten::new_zeros aten::new_ones aten::new_full aten::scalar_tensor
        aten::eye
    """,
    "Conv": """
        aten::conv1d aten::conv2d aten::conv3d aten::convolution aten::_convolution aten::_convolution_mode
        aten::convolution_overrideable aten::mkldnn_convolution aten::cudnn_convolution
        aten::cudnn_convolution_relu aten::cudnn_convolution_add_relu aten::miopen_convolution aten::thnn_conv2d
        aten::_slow_conv2d_forward aten::slow_conv3d aten::slow_conv3d_forward aten::slow_conv_dilated2d
        aten::slow_conv_dilated3d aten::_conv_depthwise2d aten::conv_depthwise3d
        aten::_nnpack_spatial_convolution aten::conv_tbc mkldnn::_convolution_pointwise
        mkldnn_prepacked::conv2d_run
    """,
    "ConvGrad": """
        aten::convolution_backward aten::convolution_backward_overrideable aten::_slow_conv2d_backward
        aten::_convolution_double_backward aten::conv_tbc_backward
    """,
    "ConvTranspose": """
        aten::conv_transpose1d aten::conv_transpose2d aten::conv_transpose3d aten::cudnn_convolution_transpose
        aten::miopen_convolution_transpose aten::slow_conv_transpose2d aten::slow_conv_transpose3d
        mkldnn::_convolution_transpose_pointwise
    """,
    "Copy": "aten::copy_ aten::copy aten::clone aten::_copy_from aten::_reshape_copy",
    "Cos": "aten::cos",
    "Cosh": "aten::cosh",
    "CumProd": "aten::cumprod",
    "CumSum": "aten::cumsum",
    "DequantizeLinear": "aten::dequantize",
    "Det": """
        aten::det aten::linalg_det aten::_linalg_det aten::slogdet aten::linalg_slogdet aten::_linalg_slogdet
        aten::logdet
    """,
    "Div": "aten::div aten::divide aten::true_divide",
    "Dropout": """
        aten::dropout aten::native_dropout aten::_fused_dropout aten::alpha_dropout aten::feature_dropout
        aten::feature_alpha_dropout
    """,
    "DropoutGrad": "aten::native_dropout_backward",
    "Eig": "aten::linalg_eig aten::linalg_eigh aten::_linalg_eigh aten::linalg_eigvals aten::linalg_eigvalsh",
    "Elu": "aten::elu",
    "EluGrad": "aten::elu_backward",
    "Equal": "aten::eq",
    "Erf": "aten::erf aten::special_erf",
    "Exp": "aten::exp",
    "Expand": "aten::expand aten::expand_as aten::broadcast_to aten::broadcast_tensors",
    "Expm1": "aten::expm1",
    "FFT": """
        aten::fft_fft aten::fft_ifft aten::fft_rfft aten::fft_irfft aten::fft_fft2 aten::fft_ifft2
        aten::fft_rfft2 aten::fft_irfft2 aten::fft_fftn aten::fft_ifftn aten::fft_rfftn aten::fft_irfftn
        aten::_fft_r2c aten::_fft_c2r aten::_fft_c2c
    """,
    "Floor": "aten::floor",
    "FusedOptimizer": "aten::_fused_adam aten::_fused_adamw aten::_fused_sgd aten::_fused_adagrad",
    "GRU": "aten::gru_cell aten::_thnn_fused_gru_cell",
    "GRUGrad": "aten::_thnn_fused_gru_cell_backward",
    "Gather": "aten::index aten::index_select aten::embedding aten::masked_select aten::take",
    "GatherElements": "aten::gather aten::take_along_dim",
    "GatherGrad": "aten::embedding_dense_backward aten::embedding_backward aten::_embedding_bag_backward",
    "Gelu": "aten::gelu",
    "GeluGrad": "aten::gelu_backward",
    "Glu": "aten::glu",
    "GluGrad": "aten::glu_backward",
    "Greater": "aten::gt aten::greater",
    "GreaterOrEqual": "aten::ge aten::greater_equal",
    "GridSample": "aten::grid_sampler aten::grid_sampler_2d aten::grid_sampler_3d",
    "GroupNormalization": "aten::group_norm aten::native_group_norm",
    "GroupNormalizationGrad": "aten::native_group_norm_backward",
    "HardSigmoid": "aten::hardsigmoid",
    "HardSwish": "aten::hardswish",
    "HuberLoss": "aten::huber_loss",
    "HuberLossGrad": "aten::huber_loss_backward",
    "Identity": """
        aten::detach detach aten::detach_ detach_ aten::alias aten::lift_fresh aten::lift aten::resolve_conj
        aten::resolve_neg aten::positive aten::view_as_real aten::view_as_complex aten::conj aten::_conj
        aten::real aten::imag aten::requires_grad_ aten::set_data BackwardHookFunction
    """,
    "InstanceNormalization": "aten::instance_norm",
    "Inverse": "aten::inverse aten::linalg_inv aten::linalg_inv_ex aten::pinverse aten::linalg_pinv",
    "IsInf": "aten::isinf aten::isposinf aten::isneginf",
    "IsNaN": "aten::isnan",
    "Item": "aten::item aten::_local_scalar_dense aten::is_nonzero",
    "LSTM": "aten::mkldnn_rnn_layer aten::_cudnn_rnn aten::miopen_rnn aten::lstm_cell aten::_thnn_fused_lstm_cell",
    "LSTMGrad": """
        aten::mkldnn_rnn_layer_backward aten::_cudnn_rnn_backward aten::miopen_rnn_backward
        aten::_thnn_fused_lstm_cell_backward aten::_thnn_fused_lstm_cell_backward_impl
    """,
    "LayerNormalization": "aten::layer_norm aten::native_layer_norm",
    "LayerNormalizationGrad": "aten::native_layer_norm_backward",
    "LeakyRelu": "aten::leaky_relu",
    "LeakyReluGrad": "aten::leaky_relu_backward",
    "Less": "aten::lt aten::less",
    "LessOrEqual": "aten::le aten::less_equal",
    "Log": "aten::log",
    "Log1p": "aten::log1p",
    "LogSigmoid": "aten::log_sigmoid aten::log_sigmoid_forward",
    "LogSigmoidGrad": "aten::log_sigmoid_backward",
    "LogSoftmax": "aten::log_softmax aten::_log_softmax aten::special_log_softmax",
    "LogSoftmaxGrad": "aten::_log_softmax_backward_data",
    "MSELoss": "aten::mse_loss",
    "MSELossGrad": "aten::mse_loss_backward",
    "MatMul": """
        aten::linear aten::matmul aten::linalg_matmul aten::mm aten::bmm aten::addmm aten::addbmm aten::baddbmm
        aten::addmv aten::mv aten::dot aten::vdot aten::inner aten::tensordot aten::chain_matmul
        aten::linalg_multi_dot aten::_addmm_activation aten::mkldnn_linear aten::_int_mm aten::_scaled_mm
        aten::_grouped_mm aten::_scaled_grouped_mm aten::linalg_vecdot mkldnn::_linear_pointwise
        mkl::_mkl_linear
    """,
    "MatMulGrad": "aten::linear_backward aten::matmul_backward aten::mkldnn_linear_backward",
    "Max": "aten::maximum aten::fmax",
    "MaxPool": """
        aten::max_pool1d aten::max_pool1d_with_indices aten::max_pool2d aten::max_pool2d_with_indices
        aten::max_pool3d aten::max_pool3d_with_indices aten::mkldnn_max_pool2d aten::mkldnn_max_pool3d
        aten::adaptive_max_pool1d aten::adaptive_max_pool2d aten::adaptive_max_pool3d
    """,
    "MaxPoolGrad": """
        aten::max_pool2d_with_indices_backward aten::max_pool3d_with_indices_backward aten::max_pool2d_backward
        aten::mkldnn_max_pool2d_backward aten::adaptive_max_pool2d_backward
    """,
    "Min": "aten::minimum aten::fmin",
    "Mish": "aten::mish",
    "Mod": "aten::remainder aten::fmod",
    "Mul": "aten::mul aten::multiply",
    "Neg": "aten::neg aten::negative",
    "NegativeLogLikelihoodLoss": """
        aten::nll_loss aten::nll_loss_nd aten::nll_loss2d aten::nll_loss_forward aten::nll_loss2d_forward
    """,
    "NegativeLogLikelihoodLossGrad": "aten::nll_loss_backward aten::nll_loss2d_backward",
    "NonZero": "aten::nonzero aten::argwhere aten::nonzero_static",
    "Not": "aten::logical_not",
    "NotEqual": "aten::ne aten::not_equal",
    "OneHot": "aten::one_hot",
    "Or": "aten::logical_or",
    "PRelu": "aten::prelu aten::_prelu_kernel",
    "PReluGrad": "aten::_prelu_kernel_backward",
    "Pad": """
        aten::pad aten::constant_pad_nd aten::reflection_pad1d aten::reflection_pad2d aten::reflection_pad3d
        aten::replication_pad1d aten::replication_pad2d aten::replication_pad3d aten::_pad_circular
        aten::_pad_enum
    """,
    "Pow": "aten::pow aten::float_power",
    "QuantizeLinear": "aten::quantize_per_tensor aten::quantize_per_channel aten::quantize_per_tensor_dynamic",
    "RMSNormalization": "aten::rms_norm aten::_fused_rms_norm",
    "RMSNormalizationGrad": "aten::_fused_rms_norm_backward",
    "RandomNormal": "aten::randn aten::randn_like aten::normal aten::normal_",
    "RandomPermutation": "aten::randperm",
    "RandomUniform": """
        aten::rand aten::rand_like aten::uniform aten::uniform_ aten::randint aten::randint_like aten::random_
    """,
    "Range": "aten::arange aten::range aten::linspace aten::logspace",
    "Reciprocal": "aten::reciprocal",
    "Recv": "record_param_comms::recv c10d::recv_ c10d::recv_any_source_ _c10d_functional::irecv",
    "ReduceAll": "aten::all",
    "ReduceAny": "aten::any",
    "ReduceL2": """
        aten::norm aten::linalg_vector_norm aten::linalg_norm aten::linalg_matrix_norm aten::frobenius_norm
        aten::_weight_norm_interface aten::native_norm
    """,
    "ReduceLogSumExp": "aten::logsumexp aten::special_logsumexp",
    "ReduceMax": "aten::max aten::amax",
    "ReduceMean": "aten::mean",
    "ReduceMin": "aten::min aten::amin",
    "ReduceProd": "aten::prod",
    "ReduceScatter": """
        record_param_comms::reducescatter c10d::reduce_scatter_
        c10d::_reduce_scatter_base_ c10d::reduce_scatter_tensor_coalesced_
        _c10d_functional::reduce_scatter_tensor _c10d_functional::reduce_scatter_tensor_out
        _c10d_functional::reduce_scatter_tensor_coalesced _c10d_functional_autograd::reduce_scatter_tensor
    """,
    "ReduceStd": "aten::std aten::std_mean",
    "ReduceSum": "aten::sum aten::sum_to_size",
    "ReduceVar": "aten::var aten::var_mean",
    "Relu": "aten::relu",
    "ReluGrad": "aten::threshold_backward aten::hardtanh_backward",
    "Repeat": "aten::repeat_interleave",
    "Reshape": """
        aten::view aten::reshape aten::_unsafe_view aten::_reshape_alias aten::flatten aten::unflatten
        aten::view_as aten::reshape_as aten::ravel aten::as_strided aten::_reshape_from_tensor
    """,
    "Resize": """
        aten::upsample_nearest1d aten::upsample_nearest2d aten::upsample_nearest3d aten::upsample_linear1d
        aten::upsample_bilinear2d aten::upsample_bicubic2d aten::upsample_trilinear3d
        aten::_upsample_nearest_exact1d aten::_upsample_nearest_exact2d aten::_upsample_nearest_exact3d
        aten::_upsample_bilinear2d_aa aten::_upsample_bicubic2d_aa
    """,
    "ResizeGrad": """
        aten::upsample_nearest1d_backward aten::upsample_nearest2d_backward aten::upsample_nearest3d_backward
        aten::upsample_linear1d_backward aten::upsample_bilinear2d_backward aten::upsample_bicubic2d_backward
        aten::upsample_trilinear3d_backward
    """,
    "Reverse": "aten::flip aten::fliplr aten::flipud",
    "Roll": "aten::roll",
    "Round": "aten::round",
    "Rsqrt": "aten::rsqrt",
    "SVD": "aten::svd aten::linalg_svd aten::_linalg_svd aten::linalg_svdvals",
    "ScatterElements": "aten::scatter aten::scatter_add aten::scatter_reduce aten::select_scatter aten::slice_scatter",
    "ScatterND": """
        aten::index_put aten::_index_put_impl_ aten::index_add aten::index_copy aten::index_fill
        aten::masked_fill aten::masked_scatter aten::put aten::index_reduce
    """,
    "SearchSorted": "aten::searchsorted aten::bucketize",
    "Selu": "aten::selu",
    "Send": "record_param_comms::send c10d::send _c10d_functional::isend",
    "Sigmoid": "aten::sigmoid",
    "SigmoidGrad": "aten::sigmoid_backward",
    "Sign": "aten::sign aten::sgn",
    "Sin": "aten::sin",
    "Sinh": "aten::sinh",
    "Slice": "aten::slice aten::select aten::narrow aten::diagonal aten::unfold",
    "SliceGrad": "aten::slice_backward aten::select_backward aten::unfold_backward aten::diagonal_backward",
    "SmoothL1Loss": "aten::smooth_l1_loss",
    "SmoothL1LossGrad": "aten::smooth_l1_loss_backward",
    "Softmax": "aten::softmax aten::_softmax aten::_safe_softmax aten::special_softmax",
    "SoftmaxGrad": "aten::_softmax_backward_data",
    "Softplus": "aten::softplus",
    "SoftplusGrad": "aten::softplus_backward",
    "Solve": """
        aten::linalg_solve aten::linalg_solve_ex aten::_linalg_solve_ex aten::linalg_lstsq
        aten::linalg_solve_triangular aten::triangular_solve aten::cholesky_solve
    """,
    "Sort": "aten::sort aten::argsort aten::msort",
    "Split": """
        aten::split aten::split_with_sizes aten::chunk aten::unbind aten::tensor_split aten::unsafe_split
        aten::unsafe_chunk
    """,
    "Sqrt": "aten::sqrt",
    "Squeeze": "aten::squeeze",
    "Sub": "aten::sub aten::subtract aten::rsub",
    "Swish": "aten::silu",
    "SwishGrad": "aten::silu_backward",
    "Tan": "aten::tan",
    "Tanh": "aten::tanh",
    "TanhGrad": "aten::tanh_backward",
    "Tile": "aten::repeat aten::tile",
    "TopK": "aten::topk",
    "Transpose": """
        aten::transpose aten::t aten::permute aten::numpy_T aten::mT aten::mH aten::adjoint aten::swapaxes
        aten::swapdims aten::movedim aten::moveaxis
    """,
    "Trilu": "aten::tril aten::triu",
    "Trunc": "aten::trunc aten::fix",
    "Unique": "aten::unique_dim aten::_unique aten::_unique2",
    "Unsqueeze": "aten::unsqueeze",
    "Where": "aten::where",
    "Xor": "aten::logical_xor",
}
