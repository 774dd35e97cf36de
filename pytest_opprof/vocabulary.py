"""The op vocabulary: which raw names mean which canonical op, per framework. Data only; `names` holds the rules.

Canonical names are ONNX operator names where ONNX has the op (`Gelu`, `ReduceSum`); gradients add ``Grad`` as ONNX
Runtime's training ops do; the others say what they are (`Copy`, `Item`). In the torch column a name stands for its
in-place twin too (`aten::add` for `aten::add_`), unless that twin has a line of its own.

Sources: the operators registered by PyTorch 2.13, NumPy 2.4's public functions, the ONNX 1.23 operator list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CAST = "Cast"
COPY = "Copy"
COMPILE = "torch::compile"
GRAPH = "torch::graph"

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "Abs": {"numpy": "numpy.absolute numpy.fabs", "torch": "aten::abs aten::absolute"},
    "Acos": {"numpy": "numpy.arccos", "torch": "aten::acos aten::arccos"},
    "Acosh": {"numpy": "numpy.arccosh", "torch": "aten::acosh aten::arccosh"},
    "Add": {"numpy": "numpy.add", "torch": "aten::add aten::_add_relu"},
    "Addcdiv": {"torch": "aten::addcdiv"},
    "Addcmul": {"torch": "aten::addcmul"},
    "And": {"numpy": "numpy.logical_and", "torch": "aten::logical_and"},
    "ArgMax": {"numpy": "ndarray.argmax numpy.argmax", "torch": "aten::argmax"},
    "ArgMin": {"numpy": "ndarray.argmin numpy.argmin", "torch": "aten::argmin"},
    "Asin": {"numpy": "numpy.arcsin", "torch": "aten::asin aten::arcsin"},
    "Asinh": {"numpy": "numpy.arcsinh", "torch": "aten::asinh aten::arcsinh"},
    "Atan": {"numpy": "numpy.arctan", "torch": "aten::atan aten::arctan"},
    "Atan2": {"numpy": "numpy.arctan2", "torch": "aten::atan2 aten::arctan2"},
    "Atanh": {"numpy": "numpy.arctanh", "torch": "aten::atanh aten::arctanh"},
    "Attention": {
        "torch": """aten::_scaled_dot_product_flash_attention_for_cpu aten::_scaled_dot_product_flash_attention
            aten::_scaled_dot_product_efficient_attention aten::_scaled_dot_product_cudnn_attention
            aten::_scaled_dot_product_fused_attention_overrideable aten::_flash_attention_forward
            aten::_efficient_attention_forward aten::_native_multi_head_attention""",
    },
    "AttentionGrad": {
        "torch": """aten::_scaled_dot_product_flash_attention_for_cpu_backward
            aten::_scaled_dot_product_flash_attention_backward
            aten::_scaled_dot_product_efficient_attention_backward
            aten::_scaled_dot_product_cudnn_attention_backward aten::_flash_attention_backward
            aten::_efficient_attention_backward""",
    },
    "AveragePool": {
        "torch": """aten::avg_pool1d aten::avg_pool2d aten::avg_pool3d aten::adaptive_avg_pool1d
            aten::adaptive_avg_pool2d aten::adaptive_avg_pool3d aten::_adaptive_avg_pool2d
            aten::_adaptive_avg_pool3d aten::mkldnn_adaptive_avg_pool2d""",
    },
    "AveragePoolGrad": {
        "torch": """aten::avg_pool2d_backward aten::avg_pool3d_backward aten::_adaptive_avg_pool2d_backward
            aten::_adaptive_avg_pool3d_backward aten::mkldnn_adaptive_avg_pool2d_backward""",
    },
    "BatchNormalization": {
        "torch": """aten::batch_norm aten::_batch_norm_impl_index aten::native_batch_norm
            aten::_native_batch_norm_legit aten::_native_batch_norm_legit_no_training
            aten::_batch_norm_with_update aten::_batch_norm_no_update aten::cudnn_batch_norm
            aten::miopen_batch_norm""",
    },
    "BatchNormalizationGrad": {
        "torch": """aten::native_batch_norm_backward aten::batch_norm_backward aten::cudnn_batch_norm_backward
            aten::_batch_norm_impl_index_backward aten::miopen_batch_norm_backward""",
    },
    "Bernoulli": {"torch": "aten::bernoulli"},
    "BinaryCrossEntropy": {"torch": "aten::binary_cross_entropy aten::binary_cross_entropy_with_logits"},
    "BinaryCrossEntropyGrad": {"torch": "aten::binary_cross_entropy_backward"},
    "BitShift": {
        "numpy": "numpy.left_shift numpy.right_shift",
        "torch": """aten::bitwise_left_shift aten::bitwise_right_shift aten::__lshift__ aten::__rshift__
            aten::__ilshift__ aten::__irshift__""",
    },
    "BitwiseAnd": {"numpy": "numpy.bitwise_and", "torch": "aten::bitwise_and aten::__and__ aten::__iand__"},
    "BitwiseNot": {"numpy": "numpy.invert", "torch": "aten::bitwise_not"},
    "BitwiseOr": {"numpy": "numpy.bitwise_or", "torch": "aten::bitwise_or aten::__or__ aten::__ior__"},
    "BitwiseXor": {"numpy": "numpy.bitwise_xor", "torch": "aten::bitwise_xor aten::__xor__ aten::__ixor__"},
    "Ceil": {"numpy": "numpy.ceil", "torch": "aten::ceil"},
    "Celu": {"torch": "aten::celu"},
    "Cholesky": {
        "numpy": "numpy.linalg.cholesky scipy.linalg.cholesky scipy.linalg.cholesky_banded scipy.linalg.cho_factor",
        "torch": "aten::linalg_cholesky aten::linalg_cholesky_ex aten::cholesky",
    },
    "Clip": {
        "numpy": "ndarray.clip numpy.clip",
        "torch": "aten::clamp aten::clamp_min aten::clamp_max aten::clip aten::hardtanh aten::relu6",
    },
    "Concat": {
        "numpy": """numpy.concatenate numpy.stack numpy.vstack numpy.hstack numpy.dstack numpy.column_stack
            numpy.append numpy.block""",
        "torch": """aten::cat aten::concat aten::concatenate aten::stack aten::hstack aten::vstack aten::dstack""",
    },
    "ConstantOfShape": {
        "numpy": """ndarray.fill numpy.zeros_like numpy.ones_like numpy.full_like numpy.fill_diagonal
            numpy.zeros numpy.ones numpy.full numpy.eye numpy.identity""",
        "torch": """aten::zeros aten::ones aten::full aten::zeros_like aten::ones_like aten::full_like aten::zero_
            aten::zero aten::fill_ aten::fill aten::new_zeros aten::new_ones aten::new_full
            aten::scalar_tensor aten::eye""",
    },
    "Conv": {
        "numpy": """numpy.convolve numpy.correlate scipy.signal.convolve scipy.signal.correlate
            scipy.signal.convolve2d scipy.signal.correlate2d scipy.signal.fftconvolve
            scipy.signal.oaconvolve""",
        "torch": """aten::conv1d aten::conv2d aten::conv3d aten::convolution aten::_convolution
            aten::_convolution_mode aten::convolution_overrideable aten::mkldnn_convolution
            aten::cudnn_convolution aten::cudnn_convolution_relu aten::cudnn_convolution_add_relu
            aten::miopen_convolution aten::thnn_conv2d aten::_slow_conv2d_forward aten::slow_conv3d
            aten::slow_conv3d_forward aten::slow_conv_dilated2d aten::slow_conv_dilated3d
            aten::_conv_depthwise2d aten::conv_depthwise3d aten::_nnpack_spatial_convolution
            aten::conv_tbc mkldnn::_convolution_pointwise mkldnn_prepacked::conv2d_run""",
    },
    "ConvGrad": {
        "torch": """aten::convolution_backward aten::convolution_backward_overrideable aten::_slow_conv2d_backward
            aten::_convolution_double_backward aten::conv_tbc_backward""",
    },
    "ConvTranspose": {
        "torch": """aten::conv_transpose1d aten::conv_transpose2d aten::conv_transpose3d
            aten::cudnn_convolution_transpose aten::miopen_convolution_transpose
            aten::slow_conv_transpose2d aten::slow_conv_transpose3d
            mkldnn::_convolution_transpose_pointwise""",
    },
    COPY: {
        "numpy": """ndarray.astype ndarray.copy ndarray.__copy__ ndarray.flatten ndarray.ravel
            ndarray.reshape ndarray.__setitem__ numpy.copy numpy.copyto numpy.reshape numpy.ravel
            numpy.put numpy.putmask numpy.place numpy.array numpy.asarray numpy.asanyarray
            numpy.asarray_chkfinite numpy.ascontiguousarray numpy.asfarray numpy.asfortranarray
            numpy.require ndarray.__deepcopy__""",
        "torch": "aten::copy_ aten::copy aten::clone aten::_copy_from aten::_reshape_copy",
    },
    "Cos": {"numpy": "numpy.cos", "torch": "aten::cos"},
    "Cosh": {"numpy": "numpy.cosh", "torch": "aten::cosh"},
    "CumProd": {"numpy": "ndarray.cumprod numpy.cumprod numpy.multiply.accumulate", "torch": "aten::cumprod"},
    "CumSum": {
        "numpy": "ndarray.cumsum numpy.cumsum numpy.add.accumulate",
        "torch": "aten::cumsum",
    },
    "DequantizeLinear": {"torch": "aten::dequantize"},
    "Det": {
        "numpy": "numpy.linalg.det numpy.linalg.slogdet scipy.linalg.det",
        "torch": """aten::det aten::linalg_det aten::_linalg_det aten::slogdet aten::linalg_slogdet
            aten::_linalg_slogdet aten::logdet""",
    },
    "Div": {
        "numpy": "numpy.divide numpy.true_divide",
        "torch": "aten::div aten::divide aten::true_divide",
    },
    "Dropout": {
        "torch": """aten::dropout aten::native_dropout aten::_fused_dropout aten::alpha_dropout
            aten::feature_dropout aten::feature_alpha_dropout""",
    },
    "DropoutGrad": {"torch": "aten::native_dropout_backward"},
    "Eig": {
        "numpy": """numpy.linalg.eig numpy.linalg.eigh numpy.linalg.eigvals numpy.linalg.eigvalsh
            scipy.linalg.eig scipy.linalg.eigh scipy.linalg.eigvals scipy.linalg.eigvalsh
            scipy.linalg.eig_banded scipy.linalg.eigvals_banded scipy.linalg.eigh_tridiagonal
            scipy.linalg.eigvalsh_tridiagonal scipy.sparse.linalg.eigs scipy.sparse.linalg.eigsh""",
        "torch": "aten::linalg_eig aten::linalg_eigh aten::_linalg_eigh aten::linalg_eigvals aten::linalg_eigvalsh",
    },
    "Einsum": {"numpy": "numpy.einsum"},
    "Elu": {"torch": "aten::elu"},
    "EluGrad": {"torch": "aten::elu_backward"},
    "Equal": {"numpy": "numpy.equal", "torch": "aten::eq"},
    "Erf": {"numpy": "scipy.special.erf", "torch": "aten::erf aten::special_erf"},
    "Exp": {"numpy": "numpy.exp", "torch": "aten::exp"},
    "Expand": {
        "numpy": "numpy.broadcast_to numpy.broadcast_arrays",
        "torch": "aten::expand aten::expand_as aten::broadcast_to aten::broadcast_tensors",
    },
    "Expm1": {"numpy": "numpy.expm1", "torch": "aten::expm1"},
    "FFT": {
        "numpy": """numpy.fft.fft numpy.fft.ifft numpy.fft.rfft numpy.fft.irfft numpy.fft.fft2
            numpy.fft.ifft2 numpy.fft.rfft2 numpy.fft.irfft2 numpy.fft.fftn numpy.fft.ifftn
            numpy.fft.rfftn numpy.fft.irfftn scipy.fft.fft scipy.fft.ifft scipy.fft.rfft scipy.fft.irfft
            scipy.fft.fft2 scipy.fft.ifft2 scipy.fft.rfft2 scipy.fft.irfft2 scipy.fft.fftn scipy.fft.ifftn
            scipy.fft.rfftn scipy.fft.irfftn""",
        "torch": """aten::fft_fft aten::fft_ifft aten::fft_rfft aten::fft_irfft aten::fft_fft2 aten::fft_ifft2
            aten::fft_rfft2 aten::fft_irfft2 aten::fft_fftn aten::fft_ifftn aten::fft_rfftn
            aten::fft_irfftn aten::_fft_r2c aten::_fft_c2r aten::_fft_c2c""",
    },
    "Floor": {"numpy": "numpy.floor", "torch": "aten::floor"},
    "FusedOptimizer": {"torch": "aten::_fused_adam aten::_fused_adamw aten::_fused_sgd aten::_fused_adagrad"},
    "Gather": {
        "numpy": """ndarray.take numpy.take ndarray.__getitem__ ndarray.compress numpy.compress numpy.choose
            numpy.extract""",
        "torch": "aten::index aten::index_select aten::embedding aten::masked_select aten::take",
    },
    "GatherElements": {"numpy": "numpy.take_along_axis", "torch": "aten::gather aten::take_along_dim"},
    "GatherGrad": {"torch": "aten::embedding_dense_backward aten::embedding_backward aten::_embedding_bag_backward"},
    "Gelu": {"torch": "aten::gelu"},
    "GeluGrad": {"torch": "aten::gelu_backward"},
    "Glu": {"torch": "aten::glu"},
    "GluGrad": {"torch": "aten::glu_backward"},
    "Greater": {"numpy": "numpy.greater", "torch": "aten::gt aten::greater"},
    "GreaterOrEqual": {"numpy": "numpy.greater_equal", "torch": "aten::ge aten::greater_equal"},
    "GridSample": {"torch": "aten::grid_sampler aten::grid_sampler_2d aten::grid_sampler_3d"},
    "GroupNormalization": {"torch": "aten::group_norm aten::native_group_norm"},
    "GroupNormalizationGrad": {"torch": "aten::native_group_norm_backward"},
    "GRU": {"torch": "aten::gru_cell aten::_thnn_fused_gru_cell"},
    "GRUGrad": {"torch": "aten::_thnn_fused_gru_cell_backward"},
    "HardSigmoid": {"torch": "aten::hardsigmoid"},
    "HardSwish": {"torch": "aten::hardswish"},
    "HuberLoss": {"torch": "aten::huber_loss"},
    "HuberLossGrad": {"torch": "aten::huber_loss_backward"},
    "Identity": {
        "torch": """aten::detach detach aten::detach_ detach_ aten::alias aten::lift_fresh aten::lift
            aten::resolve_conj aten::resolve_neg aten::positive aten::view_as_real aten::view_as_complex
            aten::conj aten::_conj aten::real aten::imag aten::requires_grad_ aten::set_data
            BackwardHookFunction""",
    },
    "InstanceNormalization": {"torch": "aten::instance_norm"},
    "Inverse": {
        "numpy": """numpy.linalg.inv numpy.linalg.pinv scipy.linalg.inv scipy.linalg.pinv
            scipy.linalg.pinvh scipy.sparse.linalg.inv""",
        "torch": "aten::inverse aten::linalg_inv aten::linalg_inv_ex aten::pinverse aten::linalg_pinv",
    },
    "IsInf": {"numpy": "numpy.isinf", "torch": "aten::isinf aten::isposinf aten::isneginf"},
    "IsNaN": {"numpy": "numpy.isnan", "torch": "aten::isnan"},
    "Item": {"torch": "aten::item aten::_local_scalar_dense aten::is_nonzero"},
    "LayerNormalization": {"torch": "aten::layer_norm aten::native_layer_norm"},
    "LayerNormalizationGrad": {"torch": "aten::native_layer_norm_backward"},
    "LeakyRelu": {"torch": "aten::leaky_relu"},
    "LeakyReluGrad": {"torch": "aten::leaky_relu_backward"},
    "Less": {"numpy": "numpy.less", "torch": "aten::lt aten::less"},
    "LessOrEqual": {"numpy": "numpy.less_equal", "torch": "aten::le aten::less_equal"},
    "Log": {"numpy": "numpy.log", "torch": "aten::log"},
    "Log1p": {"numpy": "numpy.log1p", "torch": "aten::log1p"},
    "LogSigmoid": {"torch": "aten::log_sigmoid aten::log_sigmoid_forward"},
    "LogSigmoidGrad": {"torch": "aten::log_sigmoid_backward"},
    "LogSoftmax": {
        "numpy": "scipy.special.log_softmax",
        "torch": "aten::log_softmax aten::_log_softmax aten::special_log_softmax",
    },
    "LogSoftmaxGrad": {"torch": "aten::_log_softmax_backward_data"},
    "LSTM": {
        "torch": """aten::mkldnn_rnn_layer aten::_cudnn_rnn aten::miopen_rnn aten::lstm_cell
            aten::_thnn_fused_lstm_cell""",
    },
    "LSTMGrad": {
        "torch": """aten::mkldnn_rnn_layer_backward aten::_cudnn_rnn_backward aten::miopen_rnn_backward
            aten::_thnn_fused_lstm_cell_backward aten::_thnn_fused_lstm_cell_backward_impl""",
    },
    "MatMul": {
        "numpy": """numpy.matmul numpy.dot ndarray.dot numpy.vdot numpy.inner numpy.tensordot numpy.matvec
            numpy.vecmat numpy.vecdot numpy.linalg.multi_dot""",
        "torch": """aten::linear aten::matmul aten::linalg_matmul aten::mm aten::bmm aten::addmm aten::addbmm
            aten::baddbmm aten::addmv aten::mv aten::dot aten::vdot aten::inner aten::tensordot
            aten::chain_matmul aten::linalg_multi_dot aten::_addmm_activation aten::mkldnn_linear
            aten::_int_mm aten::_scaled_mm aten::_grouped_mm aten::_scaled_grouped_mm aten::linalg_vecdot
            mkldnn::_linear_pointwise mkl::_mkl_linear""",
    },
    "MatMulGrad": {"torch": "aten::linear_backward aten::matmul_backward aten::mkldnn_linear_backward"},
    "Max": {
        "numpy": "numpy.maximum numpy.fmax",
        "torch": "aten::maximum aten::fmax",
    },
    "MaxPool": {
        "torch": """aten::max_pool1d aten::max_pool1d_with_indices aten::max_pool2d aten::max_pool2d_with_indices
            aten::max_pool3d aten::max_pool3d_with_indices aten::mkldnn_max_pool2d aten::mkldnn_max_pool3d
            aten::adaptive_max_pool1d aten::adaptive_max_pool2d aten::adaptive_max_pool3d""",
    },
    "MaxPoolGrad": {
        "torch": """aten::max_pool2d_with_indices_backward aten::max_pool3d_with_indices_backward
            aten::max_pool2d_backward aten::mkldnn_max_pool2d_backward aten::adaptive_max_pool2d_backward""",
    },
    "Min": {
        "numpy": "numpy.minimum numpy.fmin",
        "torch": "aten::minimum aten::fmin",
    },
    "Mish": {"torch": "aten::mish"},
    "Mod": {"numpy": "numpy.remainder numpy.fmod", "torch": "aten::remainder aten::fmod"},
    "MSELoss": {"torch": "aten::mse_loss"},
    "MSELossGrad": {"torch": "aten::mse_loss_backward"},
    "Mul": {"numpy": "numpy.multiply numpy.square", "torch": "aten::mul aten::multiply"},
    "Neg": {"numpy": "numpy.negative", "torch": "aten::neg aten::negative"},
    "NegativeLogLikelihoodLoss": {
        "torch": """aten::nll_loss aten::nll_loss_nd aten::nll_loss2d aten::nll_loss_forward
            aten::nll_loss2d_forward""",
    },
    "NegativeLogLikelihoodLossGrad": {"torch": "aten::nll_loss_backward aten::nll_loss2d_backward"},
    "NonZero": {
        "numpy": "ndarray.nonzero numpy.nonzero numpy.argwhere numpy.flatnonzero",
        "torch": "aten::nonzero aten::argwhere aten::nonzero_static",
    },
    "Not": {"numpy": "numpy.logical_not", "torch": "aten::logical_not"},
    "NotEqual": {"numpy": "numpy.not_equal", "torch": "aten::ne aten::not_equal"},
    "OneHot": {"torch": "aten::one_hot"},
    "Or": {"numpy": "numpy.logical_or", "torch": "aten::logical_or"},
    "Pad": {
        "numpy": "numpy.pad",
        "torch": """aten::pad aten::constant_pad_nd aten::reflection_pad1d aten::reflection_pad2d
            aten::reflection_pad3d aten::replication_pad1d aten::replication_pad2d aten::replication_pad3d
            aten::_pad_circular aten::_pad_enum""",
    },
    "Pow": {"numpy": "numpy.power numpy.float_power", "torch": "aten::pow aten::float_power"},
    "PRelu": {"torch": "aten::prelu aten::_prelu_kernel"},
    "PReluGrad": {"torch": "aten::_prelu_kernel_backward"},
    "QuantizeLinear": {
        "torch": "aten::quantize_per_tensor aten::quantize_per_channel aten::quantize_per_tensor_dynamic",
    },
    "RandomNormal": {
        "numpy": "numpy.random.normal numpy.random.standard_normal numpy.random.randn",
        "torch": "aten::randn aten::randn_like aten::normal aten::normal_",
    },
    "RandomPermutation": {
        "numpy": "numpy.random.permutation numpy.random.permuted numpy.random.shuffle",
        "torch": "aten::randperm",
    },
    "RandomUniform": {
        "numpy": """numpy.random.random numpy.random.uniform numpy.random.rand numpy.random.integers
            numpy.random.randint numpy.random.random_sample numpy.random.random_integers numpy.random.ranf
            numpy.random.sample""",
        "torch": """aten::rand aten::rand_like aten::uniform aten::uniform_ aten::randint aten::randint_like
            aten::random_""",
    },
    "Range": {
        "numpy": "numpy.arange numpy.linspace numpy.logspace numpy.geomspace",
        "torch": "aten::arange aten::range aten::linspace aten::logspace",
    },
    "Reciprocal": {"numpy": "numpy.reciprocal", "torch": "aten::reciprocal"},
    "ReduceAll": {"numpy": "ndarray.all numpy.all numpy.logical_and.reduce", "torch": "aten::all"},
    "ReduceAny": {"numpy": "ndarray.any numpy.any numpy.logical_or.reduce", "torch": "aten::any"},
    "ReduceL2": {
        "numpy": """numpy.linalg.norm numpy.linalg.vector_norm numpy.linalg.matrix_norm scipy.linalg.norm
            scipy.sparse.linalg.norm""",
        "torch": """aten::norm aten::linalg_vector_norm aten::linalg_norm aten::linalg_matrix_norm
            aten::frobenius_norm aten::_weight_norm_interface aten::native_norm""",
    },
    "ReduceLogSumExp": {
        "numpy": "numpy.logaddexp.reduce scipy.special.logsumexp",
        "torch": "aten::logsumexp aten::special_logsumexp",
    },
    "ReduceMax": {
        "numpy": "ndarray.max numpy.max numpy.amax numpy.maximum.reduce",
        "torch": "aten::max aten::amax",
    },
    "ReduceMean": {
        "numpy": "ndarray.mean numpy.mean numpy.average",
        "torch": "aten::mean",
    },
    "ReduceMin": {
        "numpy": "ndarray.min numpy.min numpy.amin numpy.minimum.reduce",
        "torch": "aten::min aten::amin",
    },
    "ReduceProd": {"numpy": "ndarray.prod numpy.prod numpy.multiply.reduce", "torch": "aten::prod"},
    "ReduceStd": {"numpy": "ndarray.std numpy.std", "torch": "aten::std aten::std_mean"},
    "ReduceSum": {
        "numpy": "ndarray.sum numpy.sum numpy.add.reduce",
        "torch": "aten::sum aten::sum_to_size",
    },
    "ReduceVar": {"numpy": "ndarray.var numpy.var", "torch": "aten::var aten::var_mean"},
    "Relu": {"torch": "aten::relu"},
    "ReluGrad": {"torch": "aten::threshold_backward aten::hardtanh_backward"},
    "Repeat": {"numpy": "ndarray.repeat numpy.repeat", "torch": "aten::repeat_interleave"},
    "Reshape": {
        "torch": """aten::view aten::reshape aten::_unsafe_view aten::_reshape_alias aten::flatten aten::unflatten
            aten::view_as aten::reshape_as aten::ravel aten::as_strided aten::_reshape_from_tensor""",
    },
    "Resize": {
        "torch": """aten::upsample_nearest1d aten::upsample_nearest2d aten::upsample_nearest3d
            aten::upsample_linear1d aten::upsample_bilinear2d aten::upsample_bicubic2d
            aten::upsample_trilinear3d aten::_upsample_nearest_exact1d aten::_upsample_nearest_exact2d
            aten::_upsample_nearest_exact3d aten::_upsample_bilinear2d_aa aten::_upsample_bicubic2d_aa""",
    },
    "ResizeGrad": {
        "torch": """aten::upsample_nearest1d_backward aten::upsample_nearest2d_backward
            aten::upsample_nearest3d_backward aten::upsample_linear1d_backward
            aten::upsample_bilinear2d_backward aten::upsample_bicubic2d_backward
            aten::upsample_trilinear3d_backward""",
    },
    "Reverse": {"numpy": "numpy.flip numpy.flipud numpy.fliplr", "torch": "aten::flip aten::fliplr aten::flipud"},
    "RMSNormalization": {"torch": "aten::rms_norm aten::_fused_rms_norm"},
    "RMSNormalizationGrad": {"torch": "aten::_fused_rms_norm_backward"},
    "Roll": {"numpy": "numpy.roll", "torch": "aten::roll"},
    "Round": {"numpy": "ndarray.round numpy.round numpy.rint numpy.around", "torch": "aten::round"},
    "Rsqrt": {"torch": "aten::rsqrt"},
    "ScatterElements": {
        "numpy": "numpy.put_along_axis",
        "torch": "aten::scatter aten::scatter_add aten::scatter_reduce aten::select_scatter aten::slice_scatter",
    },
    "ScatterND": {
        "numpy": "ndarray.put numpy.add.at",
        "torch": """aten::index_put aten::_index_put_impl_ aten::index_add aten::index_copy aten::index_fill
            aten::masked_fill aten::masked_scatter aten::put aten::index_reduce""",
    },
    "SearchSorted": {
        "numpy": "ndarray.searchsorted numpy.searchsorted numpy.digitize",
        "torch": "aten::searchsorted aten::bucketize",
    },
    "Selu": {"torch": "aten::selu"},
    "Sigmoid": {"numpy": "scipy.special.expit", "torch": "aten::sigmoid"},
    "SigmoidGrad": {"torch": "aten::sigmoid_backward"},
    "Sign": {"numpy": "numpy.sign", "torch": "aten::sign aten::sgn"},
    "Sin": {"numpy": "numpy.sin", "torch": "aten::sin"},
    "Sinh": {"numpy": "numpy.sinh", "torch": "aten::sinh"},
    "Slice": {"torch": "aten::slice aten::select aten::narrow aten::diagonal aten::unfold"},
    "SliceGrad": {"torch": "aten::slice_backward aten::select_backward aten::unfold_backward aten::diagonal_backward"},
    "SmoothL1Loss": {"torch": "aten::smooth_l1_loss"},
    "SmoothL1LossGrad": {"torch": "aten::smooth_l1_loss_backward"},
    "Softmax": {
        "numpy": "scipy.special.softmax",
        "torch": "aten::softmax aten::_softmax aten::_safe_softmax aten::special_softmax",
    },
    "SoftmaxGrad": {"torch": "aten::_softmax_backward_data"},
    "Softplus": {"numpy": "scipy.special.softplus", "torch": "aten::softplus"},
    "SoftplusGrad": {"torch": "aten::softplus_backward"},
    "Solve": {
        "numpy": """numpy.linalg.solve numpy.linalg.lstsq scipy.linalg.solve scipy.linalg.lstsq
            scipy.linalg.solve_triangular scipy.linalg.solve_banded scipy.linalg.solveh_banded
            scipy.linalg.solve_circulant scipy.linalg.solve_toeplitz scipy.linalg.cho_solve
            scipy.linalg.cho_solve_banded scipy.linalg.lu_solve scipy.sparse.linalg.spsolve
            scipy.sparse.linalg.spsolve_triangular""",
        "torch": """aten::linalg_solve aten::linalg_solve_ex aten::_linalg_solve_ex aten::linalg_lstsq
            aten::linalg_solve_triangular aten::triangular_solve aten::cholesky_solve""",
    },
    "Sort": {
        "numpy": "ndarray.sort numpy.sort ndarray.argsort numpy.argsort numpy.lexsort",
        "torch": "aten::sort aten::argsort aten::msort",
    },
    "Split": {
        "numpy": "numpy.split numpy.array_split numpy.hsplit numpy.vsplit numpy.dsplit",
        "torch": """aten::split aten::split_with_sizes aten::chunk aten::unbind aten::tensor_split
            aten::unsafe_split aten::unsafe_chunk""",
    },
    "Sqrt": {"numpy": "numpy.sqrt", "torch": "aten::sqrt"},
    "Squeeze": {"numpy": "numpy.squeeze", "torch": "aten::squeeze"},
    "Sub": {"numpy": "numpy.subtract", "torch": "aten::sub aten::subtract aten::rsub"},
    "SVD": {
        "numpy": "numpy.linalg.svd scipy.linalg.svd scipy.linalg.svdvals scipy.sparse.linalg.svds",
        "torch": "aten::svd aten::linalg_svd aten::_linalg_svd aten::linalg_svdvals",
    },
    "Swish": {"torch": "aten::silu"},
    "SwishGrad": {"torch": "aten::silu_backward"},
    "Tan": {"numpy": "numpy.tan", "torch": "aten::tan"},
    "Tanh": {"numpy": "numpy.tanh", "torch": "aten::tanh"},
    "TanhGrad": {"torch": "aten::tanh_backward"},
    "Tile": {"numpy": "numpy.tile", "torch": "aten::repeat aten::tile"},
    "TopK": {"torch": "aten::topk"},
    "Transpose": {
        "numpy": "numpy.transpose numpy.swapaxes numpy.moveaxis ndarray.transpose ndarray.swapaxes",
        "torch": """aten::transpose aten::t aten::permute aten::numpy_T aten::mT aten::mH aten::adjoint
            aten::swapaxes aten::swapdims aten::movedim aten::moveaxis""",
    },
    "Trilu": {"numpy": "numpy.tril numpy.triu", "torch": "aten::tril aten::triu"},
    "Trunc": {"numpy": "numpy.trunc", "torch": "aten::trunc aten::fix"},
    "Unique": {"numpy": "numpy.unique", "torch": "aten::unique_dim aten::_unique aten::_unique2"},
    "Unsqueeze": {"numpy": "numpy.expand_dims", "torch": "aten::unsqueeze"},
    "Where": {"numpy": "numpy.where numpy.select", "torch": "aten::where "},
    "Xor": {"numpy": "numpy.logical_xor", "torch": "aten::logical_xor"},
}

CASTS: Mapping[str, str] = {
    "numpy": """ndarray.astype ndarray.__setitem__ numpy.copyto dtype= numpy.array numpy.asarray numpy.asanyarray
        numpy.asarray_chkfinite numpy.ascontiguousarray numpy.asfarray numpy.asfortranarray numpy.require""",
    "torch": "aten::copy_ aten::copy aten::_copy_from",
}
"""Raw names that are a `Cast` when the dtypes recorded with the call differ, and the `Copy` of their table else.
``dtype=`` stands for a NumPy ufunc told to compute in another dtype."""

DATA_MOVEMENT = frozenset([CAST, "MemcpyHtoD", "MemcpyDtoH", "MemcpyDtoD", "Memset", "Synchronize"])
"""Ops that count wherever they happen, also inside another op: they are what budgets hunt for."""

ALWAYS_COPIES = frozenset(["aten::clone"])
"""Raw names that count as `Copy` inside another op too: a hidden copy of an operand, not the op's own work."""

VIEWS = frozenset("""Expand Identity Reshape Slice Split Squeeze Transpose Unsqueeze""".split())
"""Ops that move no data: inside another op they are part of it, and one that has to copy is the `Copy` it makes."""

ALLOCATIONS = frozenset(
    """numpy.empty numpy.empty_like
    aten::empty aten::empty_like aten::empty_strided aten::new_empty aten::new_empty_strided
    aten::empty_permuted aten::resize_ aten::resize_as_ aten::set_ aten::as_strided_""".split()
)
"""Raw names that only get memory: part of the op around them."""

QUESTIONS = frozenset(
    """aten::_nnpack_available aten::cudnn_is_acceptable aten::result_type aten::is_floating_point
    aten::is_complex aten::is_conj aten::is_neg aten::is_contiguous aten::is_same_size
    aten::_has_compatible_shallow_copy_type aten::_has_same_storage_numel aten::_version aten::output_nr
    aten::can_cast aten::_use_cudnn_rnn_flatten_weight""".split()
)
"""Raw names that only ask: no ops."""

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
"""Raw names of wrappers: the ops inside do the work. One that finds nothing inside did nothing."""

COMPILED: Mapping[str, Sequence[str]] = {
    COMPILE: ["_compile.compile_inner (dynamo_timed)"],
    GRAPH: ["Torch-Compiled Region", "CompiledFunctionBackward", "CompiledFunction", "CompiledFxGraph"],
}
"""torch.compile: a frame of Python code that it compiles, and a run of a graph that it made. The last two names of a
graph are a part of the first two where those are around them."""

GRAPHS = frozenset(COMPILED[GRAPH][:2])
"""Raw names of a graph that is one more also inside another: one calls the other where it is broken."""

CUDA_COPIES: Mapping[int, str] = {
    **dict.fromkeys([1, 3, 11], "MemcpyHtoD"),
    **dict.fromkeys([2, 4, 12], "MemcpyDtoH"),
    **dict.fromkeys([5, 6, 7, 8, 10, 13], "MemcpyDtoD"),
    9: "MemcpyHtoH",
}
"""CUPTI's numbers: to and from arrays (3 to 7) and unified memory (11 to 13) are the same directions."""
