"""The meaning of a CUDA kernel's name.

A kernel has the op that it *is*, whichever op launched it: a gemm is a `MatMul`, also inside a convolution. If the name
does not tell, or if an op takes several kernels (the passes of a sort, the last step of a split gemm), the kernel that
does the work has the op and the others keep their own names, so that an op is not counted twice. The program's own op
may have another name: PyTorch subtracts by adding with the factor -1, and its relu is a clip.

Sources of the spellings: the kernels of public PyTorch traces of 2020 to 2026 with the ops that launched them, the
sources of PyTorch (``aten/src/ATen/native/cuda``), and the kernel names in CuPy 14.2.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

from . import names, vocabulary
from .cuda_calls import copied

# Characters of a name that are read; the longest of 501 public ones has 5,123.
_LONGEST = 1 << 14
# Characters that a demangled name may have: it takes 0.3 s.
_MOST_DEMANGLED = 1 << 24
# Names. A program has some hundreds of kernels.
_REMEMBERED = 2048


def demangled(raw: str) -> str:
    """Return *raw* in C++ spelling; unchanged if it is not mangled, too expensive, or without a demangler.

    CUPTI gives mangled names; Kineto and nsys have demangled them already.
    """
    if not (raw.startswith("_Z") and raw.isascii() and raw.isprintable() and _is_worth_demangling(raw)):
        return raw
    demangle = _demangler()
    return (demangle and demangle(raw.encode())) or raw


def reduced(raw: str) -> str:
    """Return the name without the parts that change between builds and calls: template arguments, parameters, numbers.

    Namespaces are dropped too, if the last part of the name is telling enough.

    >>> reduced("void at::native::reduce_kernel<512, 1>(float*)"), reduced("triton_poi_fused_add_3")
    ('reduce_kernel', 'triton_poi_fused_add')
    """
    return _parts(raw[:_LONGEST])[0] or raw


def canonical(raw: str) -> str:
    """Return the op of the kernel, copy or memset *raw*; the reduced name if it does not tell.

    >>> canonical("volta_sgemm_64x64_nt"), canonical("cupy_copy__float64_float32"), canonical("my_kernel(float*)")
    ('MatMul', 'Cast', 'my_kernel')
    """
    return _canonical(raw[:_LONGEST]) or raw


@lru_cache(_REMEMBERED)
def moved(activity: str) -> str:
    """Return the op of work that counts wherever it happens: a copy, a set, a collective; empty for other kernels.

    >>> moved("Memcpy HtoD (Pageable -> Device)"), moved("ncclDevKernel_AllReduce_Sum(int)"), moved("my_kernel(float*)")
    ('MemcpyHtoD', 'ncclDevKernel_AllReduce_Sum', '')
    """
    if _COPIES.fullmatch(activity):
        return copied(activity)
    return activity.partition("(")[0] if is_nccl(activity) else ""


def copied_dtypes(raw: str) -> tuple[str, str] | None:
    """Return the source and target dtype of a CuPy kernel that copies an array; None for any other kernel."""
    kernel = _CUPY.fullmatch(raw)
    words = kernel["dtypes"].split("_") if kernel and kernel["dtypes"] else []
    if not kernel or kernel["name"] != "copy" or len(words) < 2 or words[0] in _CUPY_SCALARS:
        return None
    return words[0], words[-1]


_SUBSTITUTION = re.compile(r"S[0-9A-Z]{0,4}_")
_PARAMETER = re.compile(r"T\d{0,4}_")
_PACK = re.compile(r"Dp|sp")
_IDENTIFIER = re.compile(r"[1-9]\d{0,4}")
# In the spellings of libstdc++, NVIDIA's and old demanglers.
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::")


def _is_worth_demangling(raw: str) -> bool:
    """Return True by a bound of the demangled size: 200 characters can stand for gigabytes.

    Each substitution may repeat everything before it, and a pack its pattern for each of its elements.
    """
    if len(raw) > _LONGEST:
        return False
    doublings, packs = len(_SUBSTITUTION.findall(raw)), len(_PACK.findall(raw))
    size: int = len(raw) ** (1 + packs) * (1 + len(_PARAMETER.findall(raw)))
    return size << doublings <= _MOST_DEMANGLED


@cache
def _demangler() -> Callable[[bytes], str] | None:
    """Return the demangler of libstdc++, if available."""
    try:
        demangle, free = ctypes.CDLL("libstdc++.so.6").__cxa_demangle, ctypes.CDLL(None).free
    except (OSError, AttributeError, TypeError):  # no such library; on Windows CDLL(None) is a TypeError
        return None
    demangle.restype, demangle.argtypes = ctypes.c_void_p, [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    free.restype, free.argtypes = None, [ctypes.c_void_p]

    def call(mangled: bytes) -> str:
        found = demangle(mangled, None, None, None)
        try:
            return ctypes.string_at(found).decode("utf-8", "replace") if found else ""
        finally:
            free(found)

    return call


def _read_mangled(raw: str) -> tuple[str, str]:
    """Return the name, and the rest after it, of a mangled name that is not demangled."""
    path: list[str] = []
    at, nested = (3, True) if raw.startswith("_ZN") else (2, False)
    while (nested or not path) and (size := _IDENTIFIER.match(raw, at)):
        at = size.end() + int(size[0])
        path.append(raw[size.end() : at])
    return "::".join(part for part in path if not part.startswith("_GLOBAL__N_")), raw[at:]


_CLOSES = {">": "<", ")": "(", "}": "{", "]": "["}
_BRACKET = re.compile(r"[<>(){}\[\]]")
# Names that mean nothing without their namespace: ``cutlass::Kernel``.
_GENERIC = re.compile(r"(?:device_?)?kernel\d*|globalKernel|operator", re.IGNORECASE)
# Copies and sets in the spelling of Kineto and the summaries of nsys.
_COPIES = re.compile(r"Mem(?:cpy|set)(?: .*)?|\[CUDA mem(?:cpy|set)\b.*")


@lru_cache(_REMEMBERED)
def _parts(raw: str) -> tuple[str, str]:
    """Return the reduced name, and the template arguments of the kernel."""
    if _COPIES.fullmatch(raw):
        return copied(raw), ""
    text = demangled(raw)[:_LONGEST]
    outside, arguments = _read_mangled(text) if text.startswith("_Z") else _ungrouped(text)
    # The text before the name is the type of its result.
    words = [word for word in outside.split() if word != "const"] if outside != text else [outside]
    return names.stable(_short(words[-1] if words else "")), arguments


def _short(name: str) -> str:
    last = name.rpartition("::")[2]
    return name if _GENERIC.fullmatch(last) else last


def _ungrouped(text: str) -> tuple[str, str]:
    """Return the text outside of all brackets, and the text in the last pair of angle brackets."""
    plain = _ANONYMOUS.sub("", text).replace("->", "")
    outside: list[str] = []
    arguments, begin = "", 0
    for start, end in _groups(plain):
        outside.append(plain[begin:start])
        arguments = plain[start + 1 : end - 1] if plain[start] == "<" else arguments
        begin = end
    return "".join([*outside, plain[begin:]]), arguments


def _groups(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the outermost brackets; one without a partner is a comparison."""
    stack: list[tuple[str, int]] = []
    is_open = dict.fromkeys(_CLOSES.values(), 0)
    for bracket in _BRACKET.finditer(text):
        opener = _CLOSES.get(bracket[0])
        if opener is None:
            stack.append((bracket[0], bracket.start()))
            is_open[bracket[0]] += 1
        elif is_open[opener] and (opener != "<" or stack[-1][0] == "<"):
            found, start = "", 0
            while found != opener:
                found, start = stack.pop()
                is_open[found] -= 1
            if not stack:
                yield start, bracket.end()


# In place of an op: a kernel that prepares or ends the work of another one.
_PART = ""
_ARCHITECTURE = r"(?:cudnn_)?(?:(?:infer|train)_)?(?:maxwell|pascal|volta|turing|ampere|hopper|sm\d+)"
_CUTLASS = r"cutlass\w*::(?:Kernel2?|device_kernel)"
# The op, the whole reduced name, and how the template arguments begin.
_KERNELS = tuple(
    (op, re.compile(name), re.compile(arguments))
    for op, name, arguments in (
        # cuDNN and cuBLAS. wgrad and dgrad are the gradients by weights and data; scudnn's ``relu`` is forward, also
        # without a relu; its winograd kernels are used in both directions.
        (_PART, r"\w*_execute_split_k_kernel\w*", ""),
        ("Conv", r"\w*xmma_fprop_\w+", ""),
        ("ConvGrad", r"\w*xmma_[dw]grad_\w+", ""),
        ("Conv", rf"{_ARCHITECTURE}_scudnn_(?!winograd)\w*(?:_relu_|_3dconv_fprop_)\w+", ""),
        ("ConvGrad", rf"{_ARCHITECTURE}_scudnn_\w*_stridedB_\w+", ""),
        (
            "Conv",
            r"(?:im|ex)plicit_convolve_[sdh]gemm|conv2d_grouped_direct_kernel|conv_depthwise\dd_forward_kernel",
            "",
        ),
        ("ConvGrad", r"dgrad_engine|wgrad_alg\d_engine|[dw]grad2d_grouped_direct_kernel", ""),
        ("ConvGrad", r"conv_depthwise\dd_(?:backward|grad_weight)_kernel", ""),
        ("Conv", _CUTLASS, r"cutlass_\w*fprop_|.*ImplicitGemm.*Conv[23]dFprop"),
        ("ConvGrad", _CUTLASS, r"cutlass_\w*[dw]grad_|.*ImplicitGemm.*Conv[23]d[DW]grad"),
        ("MatMul", _CUTLASS, r"cutlass_\w*gemm_|cutlass\w*::gemm::kernel::|INS_4gemm6kernel"),
        ("MatMul", rf"{_ARCHITECTURE}_\w*gemm_\w+|nvjet_\w+", ""),
        ("MatMul", r"magma_[sdcz]gemm\w*_kernel|gemmk1_kernel|gemmSN_[NTC]{2}_kernel\w*|[sdcz]gemm_largek_\w+", ""),
        ("MatMul", r"gemvNSP_kernel\w*|gemv2[TN]_kernel\w*|internal::gemvx::kernel", ""),
        ("MatMul", r"dot_kernel", r".*cublasDotParams"),
        ("MatMul", r"Cijk_A\w+", ""),  # Tensile, AMD's
        ("BatchNormalization", r"bn_fw_(?:tr|inf)_\w+|batchnorm_fwtr_\w+|batch_norm_transform_input_kernel", ""),
        ("BatchNormalizationGrad", r"bn_bw_\w+|batchnorm_bwtr_\w+|batch_norm_backward_kernel", ""),
        # PyTorch. A third argument of the norm's kernels marks the RMS norm.
        ("RMSNormalization", r"vectorized_layer_norm_kernel", r"[^<>]+, (?:true|\(bool\)1)$"),
        ("RMSNormalizationGrad", r"layer_norm_grad_input_kernel\w*", r"[^<>]+, (?:true|\(bool\)1)$"),
        ("LayerNormalization", r"vectorized_layer_norm_kernel|LayerNormForwardCUDAKernel|cuApplyLayerNorm", ""),
        ("LayerNormalizationGrad", r"layer_norm_grad_input_kernel\w*", ""),
        ("LogSoftmax", r"softmax_warp_forward", r"(?:[^,]+, ){4}(?:true|\(bool\)1)"),
        ("Softmax", r"softmax_warp_forward", r"(?:[^,]+, ){4}(?:false|\(bool\)0)"),
        ("LogSoftmaxGrad", r"softmax_warp_backward", r"(?:[^,]+, ){4}(?:true|\(bool\)1)"),
        ("SoftmaxGrad", r"softmax_warp_backward", r"(?:[^,]+, ){4}(?:false|\(bool\)0)"),
        ("LogSoftmax", r"cunn_(?:Spatial)?SoftMaxForward\w*", r".*\bLogSoftMaxForwardEpilogue"),
        ("Softmax", r"cunn_(?:Spatial)?SoftMaxForward\w*", r".*\bSoftMaxForwardEpilogue"),
        ("LogSoftmaxGrad", r"cunn_(?:Spatial)?SoftMaxBackward\w*", r".*\bLogSoftMaxBackwardEpilogue"),
        ("SoftmaxGrad", r"cunn_(?:Spatial)?SoftMaxBackward\w*", r".*\bSoftMaxBackwardEpilogue"),
        ("Attention", r"flash_fwd_(?:splitkv_)?kernel|fmha_cutlassF_\w+|cudnn_generated_\w+_flash_fprop_\w+", ""),
        ("AttentionGrad", r"flash_bwd_dq_dk_dv_\w+|fmha_cutlassB_\w+|cudnn_generated_\w+_flash_bprop_\w+", ""),
        ("Concat", r"CatArrayBatchedCopy\w*", ""),
        ("Gather", r"indexSelect(?:Large|Small)Index", ""),
        ("ScatterND", r"indexFunc(?:Large|Small)Index", ""),
        ("ScatterElements", r"_scatter_gather_elementwise_kernel", r".*_internal_kernel<(?:true|\(bool\)1)"),
        ("GatherElements", r"_scatter_gather_elementwise_kernel", r".*_internal_kernel<(?:false|\(bool\)0)"),
        ("GatherGrad", r"embedding_backward_feature_kernel", ""),
        ("MaxPool", r"max_pool_forward_n\w+", ""),
        ("MaxPoolGrad", r"max_pool_backward_n\w+", ""),
        ("AveragePool", r"avg_pool[23]d_out_cuda_frame\w*|adaptive_average_pool\w*", ""),
        ("AveragePoolGrad", r"avg_pool2d_backward_out_cuda_frame\w*|(?:atomic_)?adaptive_average_gradinput\w*", ""),
        ("Dropout", r"fused_dropout_kernel(?:_vec)?", ""),
        ("NegativeLogLikelihoodLoss", r"cunn_ClassNLLCriterion_updateOutput_kernel|nll_loss_forward_\w+", ""),
        ("NegativeLogLikelihoodLossGrad", r"cunn_ClassNLLCriterion_updateGradInput_kernel|nll_loss_backward_\w+", ""),
        ("SearchSorted", r"searchsorted_cuda_kernel", ""),
        ("Trilu", r"triu_tril_kernel", ""),
        ("TopK", r"gatherTopK", ""),
        # One kernel, one sort. Larger ones take a kernel for each digit.
        ("Sort", r"bitonicSortKVInPlace|radixSortKVInPlace|DeviceRadixSortSingleTileKernel", ""),
        ("CumSum", r"DeviceScanKernel|tensor_kernel_scan_\w+", r".*(?:\bcub::Sum\b|\bstd::plus<)"),
        ("CumProd", r"DeviceScanKernel|tensor_kernel_scan_\w+", r".*\bstd::multiplies<"),
        # Not DeviceReduceSingleTileKernel, which may be the end of this one.
        ("ReduceSum", r"Device(?:Segmented)?ReduceKernel", r".*(?:\bcub::Sum\b|\bstd::plus<)"),
        ("ReduceMax", r"Device(?:Segmented)?ReduceKernel", r".*\bcub::Max\b"),
        ("ReduceMin", r"Device(?:Segmented)?ReduceKernel", r".*\bcub::Min\b"),
        ("ReduceSum", r"reduce_kernel", r".*\bsum_functor<"),
        ("ReduceProd", r"reduce_kernel", r".*\bprod_functor<"),
        ("ReduceMean", r"reduce_kernel", r".*\bMeanOps<"),
        ("ArgMax", r"reduce_kernel", r".*\bArgMaxOps<"),
        ("ArgMin", r"reduce_kernel", r".*\bArgMinOps<"),
        ("ReduceMax", r"reduce_kernel", r".*\b(?:MaxOps|MaxNanFunctor)<"),
        ("ReduceMin", r"reduce_kernel", r".*\b(?:MinOps|MinNanFunctor)<"),
        ("ReduceL2", r"reduce_kernel", r".*\bNormTwoOps<"),
        ("ReduceAll", r"reduce_kernel", r".*\band_kernel_cuda\b"),
        ("ReduceAny", r"reduce_kernel", r".*\bor_kernel_cuda\b"),
        ("FusedOptimizer", r"multi_tensor_apply_kernel", r".*\b(?:Adam|Fused(?:Adam|Sgd|Adagrad)Math)Functor<"),
        ("Add", r"multi_tensor_apply_kernel", r".*\bBinaryOp\w+<.*\bstd::plus<"),
        ("Sub", r"multi_tensor_apply_kernel", r".*\bBinaryOp\w+<.*\bstd::minus<"),
        ("Mul", r"multi_tensor_apply_kernel", r".*\bBinaryOp\w+<.*\bstd::multiplies<"),
        ("Div", r"multi_tensor_apply_kernel", r".*\bBinaryOp\w+<.*\bstd::divides<"),
        # If a copy's dtypes differ, the cast shows in how the elements are loaded.
        ("Cast", r"unrolled_elementwise_kernel", r".*\bdirect_copy_kernel_cuda\b.*\bLoadWithCast<"),
        ("Copy", r"unrolled_elementwise_kernel", r".*\bdirect_copy_kernel_cuda\b.*\bLoadWithoutCast\b"),
        ("Copy", r"vectorized_elementwise_kernel", r".*\bdirect_copy_kernel_cuda\b"),
        ("Copy", r"elementwise_kernel\w*", r".*\bgpu_kernel_impl_nocast<.*\bdirect_copy_kernel_cuda\b"),
    )
)


@lru_cache(_REMEMBERED)
def _canonical(raw: str) -> str:
    name, arguments = _parts(raw)
    for op, kernel, wanted in _KERNELS:
        if kernel.fullmatch(name) and wanted.match(arguments):
            return op or name
    if _ELEMENTWISE.fullmatch(name) and (functor := _functor(arguments)):
        return _functor_op(functor) or functor
    return _cupy_op(name) or _xla_op(name) or name


_ELEMENTWISE = re.compile(r"(?:\w+_)?elementwise(?:_grid_stride)?_kernel\w*")
_FUNCTOR = re.compile(
    r"\b(?:\w+Functor\w*|\w+_kernel(?:_\w+)?|\w+_cuda(?:_\w+)?|\w+CUDAKernelImpl|launch_clamp_scalar)\b"
)
_AROUND_FUNCTORS = re.compile(
    r"(?:[AB]Unary|Binary)Functor|gpu_(?:index_)?kernel\w*|distribution_\w+|uniform_and_transform"
)
_FUNCTOR_STEM = re.compile(
    r"(?:CUDAFunctor(?:On(?:Self|Other))?_)?(\w+?)(?:_scalar|_tensor)?"
    r"(?:_kernel_cuda|_cuda_kernel|_kernel_impl|_kernel|_cuda_out|Functor)?"
)
# Functors that are not named after the op. The others are: MulFunctor, sigmoid_kernel_cuda, CUDAFunctor_add.
# CompareEqFunctor is equal and not equal, threshold_kernel_impl a threshold and its gradient: these keep their names.
_FUNCTORS = {
    "MulScalarFunctor": "Mul",
    "CompareGEFunctor": "GreaterOrEqual",
    "CompareGTFunctor": "Greater",
    "CompareLEFunctor": "LessOrEqual",
    "CompareLTFunctor": "Less",
    "GeluCUDAKernelImpl": "Gelu",
    "GeluBackwardCUDAKernelImpl": "GeluGrad",
    "launch_clamp_scalar": "Clip",
    "mse_kernel_cuda": "MSELoss",
    "mse_backward_cuda_kernel": "MSELossGrad",
    "pow_tensor_scalar_kernel_impl": "Pow",
    "div_true_kernel_cuda": "Div",
    **dict.fromkeys(["bfloat16_copy_kernel_cuda", "float16_copy_kernel_cuda"], vocabulary.CAST),
    **dict.fromkeys(["bfloat16tofloat32_copy_kernel_cuda", "float16tofloat32_copy_kernel_cuda"], vocabulary.CAST),
}


def _functor(arguments: str) -> str:
    """Return the function that an elementwise kernel applies to each element; empty unless it is one."""
    if "," not in arguments:  # still mangled
        return ""
    found = {name for name in _FUNCTOR.findall(arguments) if not _AROUND_FUNCTORS.fullmatch(name)}
    return found.pop() if len(found) == 1 else ""


def _functor_op(functor: str) -> str:
    stem = _FUNCTOR_STEM.fullmatch(functor)
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", stem[1]).lower() if stem else ""
    op = _FUNCTORS.get(functor) or _known(f"aten::{snake}")
    return op if op != vocabulary.COPY else ""  # it may be a cast


def _known(raw: str) -> str:
    """Return the vocabulary's op for a framework's function; empty if unknown."""
    op = names.meaning(raw).op
    return "" if op == raw else op


# ``cupy_add__float32_float_float32`` is a ufunc and its dtypes (a scalar has no digits), ``cupy_sum`` a reduction.
_CUPY = re.compile(
    r"cupy_(?:cub_)?(?P<name>[a-z]\w*?)(?:_with_dtype)?(?:_kernel)?(?:_pass1)?"
    r"(?:_where)?(?:__(?P<dtypes>[a-z]+\d*(?:_[a-z]+\d*)*))?"
)
_CUPY_SCALARS = frozenset(["int", "uint", "float", "complex"])
# Kernels of CuPy that are not named after NumPy's function, or whose function is not in the vocabulary of NumPy.
_CUPY_FUNCTIONS = {
    "arange": "Range",
    "linspace": "Range",
    "take_scalar": "Gather",
    "choose_clip": "Gather",
    "getitem_mask": "Gather",
    "scatter_add": "ScatterND",
}


def _cupy_op(name: str) -> str:
    kernel = _CUPY.fullmatch(name)
    if not kernel:
        return ""
    if kernel["name"] == "copy" and kernel["dtypes"]:
        copied = copied_dtypes(name)
        # A scalar copied to each element fills an array.
        return "ConstantOfShape" if not copied else vocabulary.COPY if copied[0] == copied[1] else vocabulary.CAST
    return _CUPY_FUNCTIONS.get(kernel["name"]) or _known(f"numpy.{kernel['name']}")


# ``wrapped_convert_2`` is an instruction of XLA alone, ``loop_add_fusion`` and ``gemm_fusion_dot_3`` are several.
_XLA = re.compile(
    r"(?:(?P<parts>[a-z]\w*?)_)?(?P<fusion>fusion(?:_[a-z]\w*?)?)(?:_\d+)*|wrapped_(?P<op>[a-z]\w*?)(?:_\d+)*"
)


def _xla_op(name: str) -> str:
    """Return the op of a kernel of XLA (JAX); of several instructions in one: MatMul for a product, else their
    names.
    """
    kernel = _XLA.fullmatch(name)
    if not kernel:
        return ""
    if kernel["op"]:
        return _known(kernel["op"])
    if kernel["parts"] == "gemm":
        return "MatMul"
    return "_".join(filter(None, [kernel["parts"], kernel["fusion"]]))


def is_nccl(kernel: str) -> bool:
    """Return True for a kernel of NCCL (or RCCL): all versions say ``nccl...Kernel...``.

    >>> is_nccl("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), is_nccl("nccl:all_reduce")
    (True, False)
    """
    return kernel.startswith("nccl") and "Kernel" in kernel.partition("(")[0]
