from __future__ import annotations

import json
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.pytorch.saved import kineto
from pytest_opprof.ops import cuda_kernels, names
from pytest_opprof.ops.cuda_kernels import canonical, copied_dtypes, demangled, reduced

from ..conftest import shared

NATIVE = "void at::native::"
TWO = "at::detail::Array<char*, 2>"
COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda(float)#1}"
)
ADAM = "at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>"

OPS = {
    # XLA
    "wrapped_convert": "Cast",
    "wrapped_convert_2": "Cast",
    "wrapped_transpose_1": "Transpose",
    "wrapped_erf_thing": "wrapped_erf_thing",
    "loop_convert_fusion": "loop_convert_fusion",  # a convert and what else
    "loop_multiply_add_fusion_3": "loop_multiply_add_fusion",
    "input_reduce_fusion_12_1": "input_reduce_fusion",
    "gemm_fusion_dot_3": "MatMul",
    "fusion_5": "fusion",
    "confusion_matrix": "confusion_matrix",
    # cuBLAS
    "volta_sgemm_64x64_nt": "MatMul",
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn": "MatMul",
    "ampere_gcgemm_64x64_nt": "MatMul",
    "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_stage3_warpsize2x2x1_ffma_aligna4": "MatMul",
    "nvjet_tst_128x64_64x8_2x1_v_bz_TNT": "MatMul",
    "sgemm_largek_lds64": "MatMul",
    "void gemmSN_TN_kernel_64addr<float, 128, 16, 2, 4, 8, 9, false>(cublasGemmSmallNParams<float>)": "MatMul",
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(float)": "MatMul",
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(cublasGemvParams<float>)": "MatMul",
    "void dot_kernel<float, 0, cublasDotParams<cublasGemvTensor<float>, float> >(cublasDotParams<float>)": "MatMul",
    "void splitKreduce_kernel<32, 16, int, float, true>(cublasSplitKParams<float>)": "splitKreduce_kernel",
    # cutlass
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>(cutlass_80::Params)": "MatMul",
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(int)": "MatMul",
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int>, float> >(int)": "MatMul",
    "void cutlass::device_kernel<flash::FlashAttnFwdSm90<cutlass::gemm::Shape> >(int)": "cutlass::device_kernel",
    "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4>(int)": "Conv",
    "void cutlass_cudnn_train::Kernel<cutlass_tensorop_s1688wgrad_optimized_tf32_256x64>(int)": "ConvGrad",
    # cuDNN
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_nhwckrsc_nchw_execute_kernel_cudnn": "Conv",
    "sm80_xmma_dgrad_implicit_gemm_tf32f32_nhwckrsc_nhwc_execute_kernel_cudnn_infer": "ConvGrad",
    "volta_scudnn_128x64_relu_medium_nn_v1": "Conv",
    "cudnn_infer_volta_scudnn_128x64_3dconv_fprop_medium_nn_v1": "Conv",
    "volta_scudnn_128x128_stridedB_splitK_small_nn_v1": "ConvGrad",
    "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, false, true>(int)": "Conv",
    "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)": "ConvGrad",
    "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnnTensorStruct)": "BatchNormalization",
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)": "BatchNormalizationGrad",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(int)": (
        "nchwToNhwcKernel"
    ),
    # in both directions
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1": (
        "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"
    ),
    # CUB
    "void cub::DeviceScanKernel<cub::AgentScanPolicy<128>, int*, int*, cub::Sum, cub::NullType, int>(int*)": "CumSum",
    "void cub::DeviceScanInitKernel<cub::ScanTileState<int, true> >(int)": "DeviceScanInitKernel",
    "void cub::DeviceReduceKernel<cub::Policy<float>, float*, float*, int, cub::Max>(float*)": "ReduceMax",
    "void cub::DeviceReduceSingleTileKernel<cub::Policy<float>, float*, cub::Sum>(float*)": (
        "DeviceReduceSingleTileKernel"
    ),
    "void cub::DeviceRadixSortOnesweepKernel<cub::Policy, false, long, int>(int)": "DeviceRadixSortOnesweepKernel",
    # Triton, NCCL, AMD, others
    "triton_poi_fused_add_0": "triton_poi_fused_add",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    ),
    "Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1": "MatMul",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128> >(Flash_fwd_params)": "Attention",
    "fmha_cutlassB_f16_aligned_64x64_k64_sm80(int)": "AttentionGrad",
    # CuPy
    "cupy_copy__float64_float32": "Cast",
    "cupy_copy__float32_float32": "Copy",
    "cupy_copy__float_float32": "ConstantOfShape",
    "cupy_copy_where__float32_bool_float16": "Cast",
    "cupy_add__float64_float_float64": "Add",
    "cupy_add_where__float32_float32_bool_float32": "Add",
    "cupy_multiply__float64_float64_float64": "Mul",
    "cupy_true_divide__float64_int_float64": "Div",
    "cupy_maximum__float32_float32_float32": "Max",
    "cupy_where__bool_float32_float32_float32": "Where",
    "cupy_floor_divide__int64_int64_int64": "cupy_floor_divide__int64_int64_int64",
    "cupy_sum": "ReduceSum",
    "cupy_sum_with_dtype": "ReduceSum",
    "cupy_cub_sum": "ReduceSum",
    "cupy_cub_sum_pass1": "ReduceSum",
    "cupy_cub_sum_pass2": "cupy_cub_sum_pass2",
    "cupy_nansum": "cupy_nansum",
    "cupy_max": "ReduceMax",
    "cupy_argmax": "ArgMax",
    "cupy_take": "Gather",
    "cupy_getitem_mask": "Gather",
    "cupy_arange": "Range",
    "cupy_tril_kernel": "Trilu",
    # PyTorch: one functor
    f"{NATIVE}vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, {TWO} >(int)": "Add",
    f"{NATIVE}vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float,"
    f" at::native::binary_internal::MulFunctor<float> >, {TWO} >(int)": "Mul",
    f"{NATIVE}vectorized_elementwise_kernel<4, at::native::FillFunctor<long>, {TWO} >(int)": "ConstantOfShape",
    f"{NATIVE}vectorized_elementwise_kernel<4, at::native::sigmoid_backward_kernel_cuda(at::TensorIteratorBase&)"
    f"::{{lambda()#2}}::operator()() const::{{lambda(float, float)#1}}, {TWO} >(int)": "SigmoidGrad",
    f"{NATIVE}vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::launch_clamp_scalar"
    f"(at::TensorIteratorBase&, c10::Scalar)::{{lambda()#1}}, {TWO} >(int)": "Clip",
    f"{NATIVE}vectorized_elementwise_kernel<4, at::native::BitwiseAndFunctor<int>, {TWO} >(int)": "BitwiseAnd",
    f"{NATIVE}vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)"
    f"::{{lambda()#1}}, {TWO} >(int)": "Gelu",
    f"{NATIVE}vectorized_elementwise_kernel<(int)4, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase &)"
    "::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)": "Cast",
    f"{NATIVE}vectorized_elementwise_kernel<4, at::native::threshold_kernel_impl<float>(int)::{{lambda()#1}},"
    f" {TWO} >(int)": "threshold_kernel_impl",
    f"{NATIVE}vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, bool,"
    f" at::native::CompareEqFunctor<float> >, {TWO} >(int)": "CompareEqFunctor",
    f"{NATIVE}vectorized_elementwise_kernel<4, a::AddFunctor<float>, a::MulFunctor<float>, {TWO} >(int)": (
        "vectorized_elementwise_kernel"
    ),
    f"{NATIVE}vectorized_elementwise_kernel<4, a::copy_kernel_cuda(int)::{{lambda()#1}}, {TWO} >(int)": (
        "copy_kernel_cuda"
    ),
    # PyTorch: copies
    f"{NATIVE}unrolled_elementwise_kernel<{COPY}, {TWO}, at::native::memory::LoadWithCast<1> >(int)": "Cast",
    f"{NATIVE}unrolled_elementwise_kernel<{COPY}, {TWO}, at::native::memory::LoadWithoutCast>(int)": "Copy",
    f"{NATIVE}vectorized_elementwise_kernel<4, {COPY}, {TWO} >(int)": "Copy",
    f"{NATIVE}elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<{COPY}>(int)>(int)": "Copy",
    # the same spelling is a copy in PyTorch 1 and a cast in PyTorch 2
    f"{NATIVE}elementwise_kernel<128, 2, at::native::gpu_kernel_impl<{COPY}>(int)>(int)": "direct_copy_kernel_cuda",
    # PyTorch: reductions
    f"{NATIVE}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float,"
    " at::native::sum_functor<float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, 4> >(int)": (
        "ReduceSum"
    ),
    f"{NATIVE}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >(int)": "ReduceMean",
    f"{NATIVE}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::nansum_functor<float> > >(int)": (
        "reduce_kernel"
    ),
    # PyTorch: the rest
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)": "LogSoftmax",
    "void <unnamed>::softmax_warp_backward<float, float, float, (int)1, (bool)0, (bool)0>(float*)": "SoftmaxGrad",
    f"{NATIVE}(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float,"
    " at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*)": "LogSoftmax",
    f"{NATIVE}(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)": "LayerNormalization",
    f"{NATIVE}(anonymous namespace)::vectorized_layer_norm_kernel<float, float, true>(int)": "RMSNormalization",
    f"{NATIVE}(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int)": "LayerNormalization",
    f"{NATIVE}(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)": "Concat",
    f"{NATIVE}_scatter_gather_elementwise_kernel<128, 4, at::native::_cuda_scatter_gather_internal_kernel<true,"
    " float>::operator()<at::native::ReduceAdd>(int)>(int)": "ScatterElements",
    f"{NATIVE}index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_kernel_impl"
    "<at::native::OpaqueType<8> >(int)>(int)>(long)": "Gather",
    f"{NATIVE}(anonymous namespace)::multi_tensor_apply_kernel<{NATIVE}TensorListMetadata<4>, {ADAM}, float>(int)": (
        "FusedOptimizer"
    ),
    f"{NATIVE}(anonymous namespace)::multi_tensor_apply_kernel<at::TensorListMetadata<1>,"
    " at::BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>, float>(int)": "Mul",
    f"{NATIVE}sbtopk::gatherTopK<float, unsigned int, 2, false>(int)": "TopK",
    # copies
    "Memcpy HtoD (Pageable -> Device)": "MemcpyHtoD",
    "[CUDA memcpy Device-to-Host]": "MemcpyDtoH",
    "[CUDA memcpy DtoD]": "MemcpyDtoD",
    "Memcpy PtoP (Device -> Device)": "MemcpyDtoD",
    "Memcpy HtoH (Pageable -> Pageable)": "MemcpyHtoH",
    "Memset (Device)": "Memset",
    "[CUDA memset]": "Memset",
    # ops are themselves
    "memset(float*)": "memset",
    "MatMul": "MatMul",
    "MemcpyHtoD": "MemcpyHtoD",
}

MANGLED = {
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEENS_6detail5ArrayIPcLi1EEEEEviT0_T1_": (
        "ConstantOfShape"
    ),
    "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEv"
    "ENKUlvE5_clEvEUlfE_NS_6detail5ArrayIPcLi2EEE23TrivialOffsetCalculatorILi1EjESC_NS0_6memory12LoadWithCastILi1EEENSD_"
    "13StoreWithCastILi1EEEEEviT_T0_T1_T2_T3_T4_": "Cast",
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfZNS0_11sum_functorIfffEclERNS_14Tensor"
    "IteratorEEUlffE_EEjfLi4EEEEEvT1_": "ReduceSum",
}

needs_demangler = pytest.mark.skipif(cuda_kernels._demangler() is None, reason="no libstdc++ here")


@pytest.mark.parametrize(("raw", "op"), OPS.items())
def test_a_kernel_is_the_op_that_its_name_says_or_keeps_its_name(raw: str, op: str) -> None:
    assert canonical(raw) == op
    assert canonical(op) == op


@needs_demangler
@pytest.mark.parametrize(("raw", "op"), MANGLED.items())
def test_a_mangled_name_means_what_the_demangled_one_means(raw: str, op: str) -> None:
    assert demangled(raw).startswith("void at::native::")
    assert canonical(raw) == canonical(demangled(raw)) == op


def test_without_a_demangler_a_name_is_read_as_far_as_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_kernels, "_demangler", lambda: None)
    raw = "_ZN12_GLOBAL__N_13opsILi3EEEvPf"
    assert (demangled(raw), reduced(raw), canonical(raw)) == (raw, "ops", "ops")
    conv = "_ZN7cutlass6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS_29Conv2dFpropActivationIteratorEEEEEvT_"
    assert canonical(conv) == "Conv"
    fill = "_ZN1a29vectorized_elementwise_kernelILi8E11FillFunctorIfEEEviT0_"
    assert canonical(fill) == "vectorized_elementwise_kernel"


@needs_demangler
@pytest.mark.parametrize("raw", ["_Z", "_Z3", "_Zé", "_Z3foo\0v", "_Znothing", "foo", ""])
def test_what_is_not_mangled_stays(raw: str) -> None:
    assert demangled(raw) == raw


@pytest.mark.parametrize(
    ("raw", "name"),
    {
        "void foo<int>(float*) [clone .constprop.0]": "foo",
        "foo(int) const": "foo",
        "auto a::b::foo<(a>b), 2>(decltype(x->y))": "foo",
        "void epilogue::impl::globalKernel<float>(int)": "epilogue::impl::globalKernel",
        "cudapy::__main__::kernel[abi:v1][abi:cw51cXTLSUwv1sDUaKthaaNgqamjgOR3W3CwAkMX](Array<float, 1>)": (
            "cudapy::__main__::kernel"
        ),
        "void <unnamed>::foo<1>(int)": "foo",
        "triton_red_fused__softmax_12": "triton_red_fused__softmax",
        "(int)": "(int)",
        "a plain name": "a plain name",
    }.items(),
)
def test_the_reduced_name_has_no_arguments_no_result_and_no_numbers(raw: str, name: str) -> None:
    assert reduced(raw) == name
    assert reduced(name) == name


def test_a_copy_of_cupy_says_its_dtypes() -> None:
    assert copied_dtypes("cupy_copy__float32_float16") == ("float32", "float16")
    assert copied_dtypes("cupy_copy_where__float32_bool_int8") == ("float32", "int8")
    for raw in ("cupy_copy__int_int32", "cupy_add__int8_int8_int8", "cupy_copy", "foo"):
        assert copied_dtypes(raw) is None


def test_every_op_of_the_tables_is_in_the_vocabulary() -> None:
    tables = [op for op, _, _ in cuda_kernels._KERNELS], cuda_kernels._FUNCTORS.values()
    ops = {*tables[0], *tables[1], *cuda_kernels._CUPY_FUNCTIONS.values()} - {cuda_kernels._PART}
    assert ops <= set(names.canonical_ops())


@given(st.text() | st.text("_ZNSTIE0123456789at<>(){}[], :*&~Kernelcupy_", max_size=200))
def test_any_text_has_an_answer(raw: str) -> None:
    for answer in (canonical(raw), reduced(raw), demangled(raw)):
        assert bool(answer) == bool(raw)
        assert answer == raw or answer.isprintable() or not raw.isprintable()


def expanding(levels: int) -> str:
    """Return a mangled name, each of whose types has twice the size of the one before; 20 of them have 36 MB."""
    types = ["S_", "S0_", *(f"S{digit}_" for digit in "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")]
    return "_Z1f1AIiiE" + "".join(f"S_I{type_}{type_}E" for type_ in types[1 : levels + 1])


@needs_demangler
def test_a_name_is_demangled_while_it_stays_small() -> None:
    assert demangled(expanding(3)).startswith("f(A<int, int>, A<A<int, int>, A<int, int> >")
    assert demangled(expanding(30)) == expanding(30)
    assert canonical(expanding(30)) == "f"


@pytest.mark.parametrize(
    "raw",
    {
        "letters": "a" * 1_000_000,
        "brackets": "<(" * 500_000 + ")>" * 9,
        "closed late": "<" * 8_000 + ")" * 8_000,
        "mangled": "_Z" + "S" * 1_000_000,
        "nested": "_ZN" + "1a" * 8_000 + "E",
        "expanding": expanding(30),
        "words": f"{NATIVE}unrolled_elementwise_kernel<{'direct_copy_kernel_cuda ' * 600}>",
        "cupy": "cupy_a" + "__a" * 5_000 + "!",
    }.values(),
    ids=lambda raw: raw[:8],
)
def test_a_hostile_name_takes_no_time(raw: str) -> None:
    began = time.process_time()
    assert canonical(raw)
    assert time.process_time() - began < 5  # the worst takes 0.3 s


def test_the_kernels_of_public_traces() -> None:
    counted: dict[str, int] = json.loads(shared("../sketches/cupti/kernel_names.json").read_text())
    ops = set(names.canonical_ops())
    found = {raw: canonical(raw) for raw in counted}
    assert (len(counted), sum(counted.values())) == (501, 87_401)
    assert sum(op in ops for op in found.values()) >= 358
    assert sum(counted[raw] for raw, op in found.items() if op in ops) >= 73_346
    for raw, op in found.items():
        assert canonical(op) == op
        assert reduced(reduced(raw)) == reduced(raw)


IS_PART_OF = {
    # A subtraction adds with the factor -1, a division by a number multiplies.
    ("Add", "Sub"),
    ("Mul", "Div"),
    ("MatMul", "Conv"),
    ("MatMul", "ConvGrad"),
    ("Cast", "Copy"),  # the profile without shapes does not tell them apart
}


@pytest.mark.parametrize(
    "trace", ["hta_a100_rank0_shapes", "hta_trace_diff_control", "hta_sampled_rank-0", "hta_alexnet_2023"]
)
def test_a_kernel_is_the_op_that_launched_it(trace: str) -> None:
    kernels = kineto.read(Place(shared(f"torch-cuda/{trace}.json.gz")), Options()).kernels
    # A graph of torch.compile launches all kinds of kernels.
    ops = set(names.canonical_ops()) - {"Memset", "MemcpyHtoD", "MemcpyDtoH", "MemcpyDtoD", "torch::graph"}
    pairs: Counter[tuple[str, str]] = Counter()
    for kernel in kernels or ():
        pairs[canonical(kernel.name), names.meaning(kernel.launched_by).op] += kernel.calls
    told = Counter({pair: calls for pair, calls in pairs.items() if ops.issuperset(pair)})
    assert told
    assert {(op, by) for op, by in told if op != by} <= IS_PART_OF
