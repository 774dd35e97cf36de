"""Compute the reads, writes and FLOPs of a PyTorch op from the shapes of its arguments.

FLOPs are those of matrix products, convolutions, attention, recurrent layers and their gradients, a multiplication and
an addition being two, as in `torch.utils.flop_counter`. Other ops have none by convention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, prod

from ...ops import flops
from ...ops.names import meaning

Shape = tuple[int, ...]
# The shapes of the arguments, in order; None for an argument that is no tensor.
Shapes = Sequence[Shape | None]


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the shape of the result of an elementwise op.

    >>> broadcast([(8, 1, 3), (4, 1)])
    (8, 4, 3)
    """
    result: list[int] = []
    for place in range(1, max(map(len, shapes), default=0) + 1):
        sizes = [shape[-place] for shape in shapes if len(shape) >= place]
        result.append(next((size for size in sizes if size != 1), 1))
    return tuple(reversed(result))


def matmul(left: Shape, right: Shape) -> tuple[Shape, int]:
    """Return the shape of a matrix product, as in `torch.matmul` and `numpy.matmul`, and its FLOPs.

    >>> matmul((5, 2, 3), (3, 4)), matmul((3,), (3,))
    (((5, 2, 4), 120), ((), 6))
    """
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    result = (*broadcast([left[:-2], right[:-2]]), *rows, *columns)
    return result, 2 * prod(result) * (left[-1] if left else 1)


def _two(left: int, right: int) -> Callable[[Shapes], tuple[Shape, int] | None]:
    def product(shapes: Shapes) -> tuple[Shape, int] | None:
        a, b = shapes[left], shapes[right]
        return None if not a or not b else matmul(a, b)

    return product


def _linear(shapes: Shapes) -> tuple[Shape, int] | None:
    data, weight = shapes[0], shapes[1]
    return None if not data or not weight else matmul(data, tuple(reversed(weight)))


def _attention(shapes: Shapes) -> tuple[Shape, int] | None:
    query, key, value = shapes[:3]
    if not (query and key and value) or len(query) < 2:
        return None
    scores, first = matmul(query, (*key[:-2], key[-1], key[-2]))
    result, second = matmul(scores, value)
    return result, first + second


def _attention_grad(shapes: Shapes) -> tuple[Shape, int] | None:
    """Return the gradient of attention: five products, the scores again, and the gradients of value, scores, query
    and key.
    """
    query, key, value = shapes[1:4]
    forward = _attention([query, key, value])
    if forward is None or not (query and key and value):
        return None
    scores = 2 * prod(query) * key[-2]
    return query, 3 * scores + 2 * (forward[1] - scores)


def _recurrent(shapes: Shapes) -> tuple[Shape, int] | None:
    """Return the hidden states of a recurrent layer in one direction: each step multiplies by two weights."""
    data, of_input, of_hidden = shapes[:3]
    if not (data and of_input and of_hidden):
        return None
    return (*data[:-1], of_hidden[-1]), 2 * prod(data[:-1]) * (prod(of_input) + prod(of_hidden))


def _recurrent_grad(shapes: Shapes) -> tuple[Shape, int] | None:
    """Return the gradient of a recurrent layer: of each product two."""
    forward = _recurrent(shapes)
    return (shapes[0] or (), 2 * forward[1]) if forward else None


_PRODUCTS: Mapping[str, Callable[[Shapes], tuple[Shape, int] | None]] = {
    **dict.fromkeys(["aten::mm", "aten::bmm", "aten::matmul", "aten::mv", "aten::dot"], _two(0, 1)),
    **dict.fromkeys(["aten::_int_mm", "aten::_scaled_mm", "aten::vdot", "aten::chain_matmul"], _two(0, 1)),
    **dict.fromkeys(["aten::addmm", "aten::baddbmm", "aten::addmv", "aten::_addmm_activation"], _two(1, 2)),
    **dict.fromkeys(["aten::inner", "aten::linear", "aten::mkldnn_linear", "mkldnn::_linear_pointwise"], _linear),
    **dict.fromkeys(
        [
            "aten::_scaled_dot_product_flash_attention_for_cpu",
            "aten::_scaled_dot_product_flash_attention",
            "aten::_scaled_dot_product_efficient_attention",
            "aten::_scaled_dot_product_cudnn_attention",
            "aten::_scaled_dot_product_fused_attention_overrideable",
        ],
        _attention,
    ),
    **dict.fromkeys(
        [
            "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
            "aten::_scaled_dot_product_flash_attention_backward",
            "aten::_scaled_dot_product_efficient_attention_backward",
            "aten::_scaled_dot_product_cudnn_attention_backward",
        ],
        _attention_grad,
    ),
    "aten::mkldnn_rnn_layer": _recurrent,
    "aten::mkldnn_rnn_layer_backward": _recurrent_grad,
}
# The places of stride, padding, dilation, transposed (-2: always) and groups; -1: absent.
_CONVOLUTIONS: Mapping[str, tuple[int, int, int, int, int]] = {
    "aten::conv1d": (3, 4, 5, -1, 6),
    "aten::conv2d": (3, 4, 5, -1, 6),
    "aten::conv3d": (3, 4, 5, -1, 6),
    "aten::convolution": (3, 4, 5, 6, 8),
    "aten::_convolution": (3, 4, 5, 6, 8),
    "aten::convolution_overrideable": (3, 4, 5, 6, 8),
    "aten::mkldnn_convolution": (4, 3, 5, -1, 6),
    "aten::cudnn_convolution": (3, 2, 4, -1, 5),
    "aten::thnn_conv2d": (4, 5, -1, -1, -1),
    "aten::_slow_conv2d_forward": (4, 5, -1, -1, -1),
    "aten::conv_transpose1d": (3, 4, 7, -2, 6),
    "aten::conv_transpose2d": (3, 4, 7, -2, 6),
    "aten::conv_transpose3d": (3, 4, 7, -2, 6),
}
_CONVOLUTION_GRAD = "aten::convolution_backward"
# The ops whose FLOPs depend on more than shapes.
NEEDS_ATTRIBUTES = frozenset([*_CONVOLUTIONS, _CONVOLUTION_GRAD])
HAVE_FLOPS = frozenset([*_PRODUCTS, *NEEDS_ATTRIBUTES])


def _sizes(value: object, dimensions: int) -> Sequence[int] | None:
    """Return a stride (padding, dilation) for each dimension; None if a value is no number."""
    values = value if isinstance(value, (list, tuple)) else [value]
    if not values or not all(type(each) is int for each in values):
        return None
    return [*values] * dimensions if len(values) == 1 else [*values]


def _convolution(raw: str, shapes: Shapes, attributes: Sequence[object]) -> tuple[Shape, int] | None:
    data, weight = shapes[0], shapes[1]
    if not data or not weight or len(weight) < 3:
        return None
    dimensions = len(weight) - 2
    places = _CONVOLUTIONS[raw]

    def attribute(place: int, default: object) -> object:
        return default if place < 0 else attributes[place] if place < len(attributes) else None

    stride, padding, dilation = (_sizes(attribute(place, d), dimensions) for place, d in zip(places, ([1], [0], [1])))
    groups = attribute(places[4], 1)
    if stride is None or padding is None or dilation is None or type(groups) is not int:
        return None
    kernel, spatial = weight[2:], data[-dimensions:]
    batch = data[: len(data) - dimensions - 1]
    sizes_of = (spatial, stride, padding, dilation, kernel)
    if places[3] == -2 or attribute(places[3], False) is True:
        # Each element of the data meets the whole kernel. Padding of the result is ignored.
        taps = prod(spatial) * prod(kernel) * weight[0] * weight[1]
        size = ((n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in zip(*sizes_of))
        return (*batch, weight[1] * groups, *size), 2 * prod(batch) * taps
    sizes = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, s, p, d, k in zip(*sizes_of)]
    result = (*batch, weight[0], *sizes)
    return result, flops.convolution(weight, result)


def _convolution_grad(shapes: Shapes, attributes: Sequence[object]) -> tuple[Shape, int] | None:
    gradient, data, weight = shapes[:3]
    mask = attributes[-1] if attributes else None
    if not gradient or not data or not weight or not isinstance(mask, (list, tuple)) or len(mask) < 2:
        return None
    transposed = len(attributes) > 7 and attributes[7] is True
    positions = prod(data[1 - len(weight) + 1 :]) if transposed else prod(gradient[1 - len(weight) + 1 :])
    batch = prod(gradient[: len(gradient) - len(weight) + 1])
    one = 2 * batch * positions * prod(weight)
    return data, one * sum(bool(each) for each in mask[:2])


# The places of the reduced dimensions and of keepdim; with fewer arguments the op reduces all dimensions.
_REDUCTIONS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys("aten::sum aten::mean aten::prod aten::any aten::all aten::amax aten::amin".split(), (1, 2)),
    **dict.fromkeys("aten::argmax aten::argmin aten::logsumexp aten::max aten::min".split(), (1, 2)),
    **dict.fromkeys(["aten::var", "aten::std"], (1, 3)),
    "aten::linalg_vector_norm": (2, 3),
}
# Reductions that also return indices if they reduce one dimension; with two tensors they are elementwise.
_WITH_INDICES = frozenset(["aten::max", "aten::min"])
# The ops that make a tensor like another, without reading it.
FACTORIES = frozenset(
    """aten::empty_like aten::zeros_like aten::ones_like aten::full_like aten::rand_like aten::randn_like
    aten::randint_like aten::new_empty aten::new_empty_strided aten::new_zeros aten::new_ones aten::new_full""".split()
)
# Ops that write a sequence of numbers to their last argument, which has no elements before.
SEQUENCES = frozenset(["aten::arange", "aten::range"])
# The ops whose written bytes or FLOPs depend on more than shapes.
USE_ATTRIBUTES = frozenset([*NEEDS_ATTRIBUTES, *_REDUCTIONS, *FACTORIES, *SEQUENCES])


def _reduction(raw: str, shapes: Shapes, attributes: Sequence[object]) -> Shape | None:
    """Return the shape of the result; None if the arguments do not determine it, or there are several results."""
    data, (of_dimensions, of_keep) = shapes[0], _REDUCTIONS[raw]
    if data is None or not attributes:
        return None
    if len(attributes) <= of_keep:
        return () if len(shapes) < 2 or shapes[1] is None else None
    given, keep = attributes[of_dimensions], attributes[of_keep]
    every = given if isinstance(given, (list, tuple)) else [] if given is None else [given]
    dimensions = [each for each in every if isinstance(each, int)]
    if raw in _WITH_INDICES or type(keep) is not bool or len(dimensions) < len(every):
        return None
    gone = {each % len(data) for each in dimensions} if dimensions and data else set(range(len(data)))
    return tuple(1 if place in gone else size for place, size in enumerate(data) if keep or place not in gone)


def reduced_dtype(raw: str, dtype: str, attributes: Sequence[object]) -> str:
    """Return the dtype of a reduction of *dtype*; empty for other ops, and if it is unknown."""
    if raw not in _REDUCTIONS:
        return ""
    if raw in ("aten::any", "aten::all"):
        return "bool"
    if raw in ("aten::argmax", "aten::argmin"):
        return "int64"
    place = 1 if len(attributes) == 2 else 3
    if raw in ("aten::sum", "aten::mean", "aten::prod"):
        if len(attributes) > place and isinstance(given := attributes[place], int):
            return _SCALAR_TYPES.get(given, "")
        return "int64" if dtype.startswith(("int", "uint", "bool")) else dtype
    return dtype


def made(raw: str, shape: Shape, dtype: str, attributes: Sequence[object]) -> tuple[Shape, str] | None:
    """Return the shape and dtype of the tensor that one of `FACTORIES` makes like a *shape* of *dtype*; None if
    unknown.

    >>> made("aten::zeros_like", (2, 3), "float32", [None, 7, None, None, False, None])
    ((2, 3), 'float64')
    """
    # The dtype is followed by layout, device and pin_memory, and in ``_like`` ops by the memory format.
    place = len(attributes) - (5 if raw.endswith("_like") else 4)
    if place < 1:
        return None
    given, sizes = attributes[place], shape if raw.endswith("_like") else attributes[1]
    dtype = dtype if given is None else _SCALAR_TYPES.get(given, "") if isinstance(given, int) else ""
    if not dtype or not isinstance(sizes, (list, tuple)) or not all(type(size) is int for size in sizes):
        return None
    return tuple(sizes), dtype


def sequence(raw: str, dtype: str, attributes: Sequence[object]) -> Shape | None:
    """Return the shape of what one of `SEQUENCES` writes from begin, end and step; None if they are not known.

    >>> sequence("aten::arange", "int64", [0, 10, 3, None]), sequence("aten::range", "float32", [1, 4.5, 0.5, None])
    ((4,), (8,))
    """
    numbers = [each for each in attributes[:3] if isinstance(each, (int, float))]
    if len(numbers) < 3:
        return None
    try:
        begin, end, step = map(int, numbers) if dtype == "int64" else map(float, numbers)
        steps = (end - begin) / step
        return (max(floor(steps) + 1 if raw == "aten::range" else ceil(steps), 0),)
    except (ArithmeticError, ValueError):  # a step of 0, or a number that is none
        return None


# By the numbers of dtypes in PyTorch's profiler (`c10::ScalarType`).
_SCALAR_TYPES = {
    **dict(
        enumerate("uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool".split())
    ),
    15: "bfloat16",
}
# Ops whose result has the broadcast shape of their inputs.
_ELEMENTWISE = frozenset(
    """Abs Acos Acosh Add Addcdiv Addcmul And Asin Asinh Atan Atan2 Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr
    BitwiseXor Ceil Celu Clip Cos Cosh CumProd CumSum Div Dropout Elu EluGrad Erf Exp Expm1 Floor Gelu GeluGrad
    HardSigmoid HardSwish LeakyRelu LeakyReluGrad Log Log1p LogSigmoid LogSoftmax LogSoftmaxGrad Max Min Mish Mod Mul
    Neg Not Or Pow PRelu Reciprocal Relu ReluGrad Round Rsqrt Selu Sigmoid SigmoidGrad Sign Sin Sinh Softmax SoftmaxGrad
    Softplus SoftplusGrad Softsign Sqrt Sub Swish SwishGrad Tan Tanh TanhGrad Trunc Where Xor""".split()
)
_COMPARISONS = frozenset("Equal NotEqual Less LessOrEqual Greater GreaterOrEqual IsNaN IsInf And Or Not Xor".split())
_NORMS = frozenset(
    """LayerNormalization BatchNormalization GroupNormalization InstanceNormalization RMSNormalization""".split()
)


def result_of(raw: str, shapes: Shapes, attributes: Sequence[object] = ()) -> tuple[Shape | None, int | None]:
    """Return the shape of the result of the op *raw*, and its FLOPs; None if it cannot be derived.

    *attributes* are the arguments that are no tensors, in their places; `USE_ATTRIBUTES` need them.

    >>> result_of("aten::addmm", [(4,), (2, 3), (3, 4)])
    ((2, 4), 48)
    """
    if raw in _PRODUCTS and len(shapes) > 1:
        try:
            found = _PRODUCTS[raw](shapes)
        except (IndexError, ValueError):
            found = None
        return found or (None, None)
    if raw in _CONVOLUTIONS and len(shapes) > 1:
        return _convolution(raw, shapes, attributes) or (None, None)
    if raw == _CONVOLUTION_GRAD and len(shapes) > 2:
        return _convolution_grad(shapes, attributes) or (None, None)
    if raw in _REDUCTIONS and shapes:
        return _reduction(raw, shapes, attributes), None
    op = meaning(raw).op
    known = [shape for shape in shapes if shape is not None]
    if raw == "aten::embedding" and len(known) == 2:
        return (*known[1], *known[0][1:]), None
    if op in _NORMS and known:
        return known[0], None
    if (op in _ELEMENTWISE or op in _COMPARISONS) and known:
        return broadcast(known), None
    return None, None


def is_comparison(raw: str) -> bool:
    """Return True if the op's results have the dtype bool."""
    return meaning(raw).op in _COMPARISONS
