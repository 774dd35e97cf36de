"""The backend of JAX counts what XLA's own text of the program says, walked by other code (`hlo_walk`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.xla.hlo_module import HloModule
from pytest_opprof.frameworks.xla.kernels import kernel
from pytest_opprof.frameworks.xla.saved import hlo

from ....conftest import remarks_of
from ..hlo_walk import executed_ops
from .jax_measured import DEVICES, calls, measured, opcodes, start

pytestmark = pytest.mark.jax
Case = tuple[Callable[..., Any], tuple[Any, ...], dict[str, int]]


@pytest.fixture(autouse=True)
def _jax() -> None:
    start()


def cases() -> Mapping[str, Case]:
    """Return programs, their arguments, and what their text does not tell: devices, lengths of loops, branches."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def normal(*shape: int) -> Any:
        return jnp.asarray(np.random.default_rng(0).standard_normal(shape))

    def loss(weights: Any, x: Any, y: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x.astype(jnp.bfloat16) @ weight.astype(jnp.bfloat16)).astype(jnp.float32)
        return ((x - y) ** 2).mean()

    def train(weights: Any, x: Any, y: Any) -> Any:
        return [each - 0.1 * change for each, change in zip(weights, jax.grad(loss)(weights, x, y))]

    def attention(x: Any, *weights: Any) -> Any:
        query, key, value = (x @ weight for weight in weights)
        scores = jax.nn.softmax((query.astype(jnp.float16) @ key.astype(jnp.float16).T).astype(jnp.float32) / 8)
        return jax.nn.gelu(scores @ value) + x

    def scan(x: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ c).astype(jnp.bfloat16).astype(c.dtype), c.sum()), x, length=7)

    def sorts(pair: Any) -> Any:
        return lax.fori_loop(0, 5, lambda _, c: (jnp.sort(c[0], 0)[::-1] * 2, jnp.sort(c[1], 1)[:, ::-1] + 1), pair)

    def until(state: Any) -> Any:
        def more(state: Any) -> Any:
            return (state[1] < 9) & (state[0].sum() < 1e30)

        return lax.while_loop(more, lambda state: (jnp.tanh(state[0] @ state[0]), state[1] + 1), state)

    def total(x: Any) -> Any:
        return lax.psum(jnp.tanh(x @ x.T).astype(jnp.bfloat16), "d")

    mesh = jax.sharding.Mesh(jax.devices(), ("d",))
    one, every = jax.sharding.PartitionSpec("d"), jax.sharding.PartitionSpec()
    spread = jax.device_put(normal(64, 64), jax.sharding.NamedSharding(mesh, one))
    square = normal(64, 64)
    here, devices = dict[str, int](), {"devices": DEVICES}
    return {
        "a training step": (train, ([normal(64, 128), normal(128, 32)], normal(16, 64), normal(16, 32)), here),
        "attention": (attention, (square, square, square, square), here),
        "scan": (scan, (square,), here),
        "a loop that is one kernel": (lambda x: lax.fori_loop(0, 3, lambda i, c: c @ c + i, x), (normal(4, 4),), here),
        "a loop of unknown length": (until, ((square, 0),), {"trips": 9}),
        "a condition": (lambda x: lax.cond(x[0, 0] > 1e9, jnp.tanh, lambda x: x @ x, x), (square,), {"branch": 0}),
        "vmap": (jax.vmap(lambda a, b: jnp.linalg.norm(a @ b)), (normal(8, 16, 16), normal(8, 16, 16)), here),
        "sort": (lambda x: jnp.argsort(x, axis=0), (normal(300, 30),), here),
        "sorts in a loop": (sorts, ((normal(300, 30), normal(300, 30)),), here),
        "convolution": (
            jax.grad(lambda k, x: lax.conv_general_dilated(x, k, (2, 2), "SAME").sum()),
            (normal(8, 3, 3, 3), normal(2, 3, 16, 16)),
            here,
        ),
        "linear algebra": (lambda x: (jnp.linalg.qr(x), jnp.linalg.svd(x), jnp.fft.fft(x)), (normal(16, 16),), here),
        "random numbers": (lambda x: jax.random.normal(jax.random.key(3), (64, 64)) + x, (square,), here),
        "a large product": (lambda x: jnp.tanh(x @ x) @ x, (normal(600, 600),), here),
        "shard_map": (jax.shard_map(total, mesh=mesh, in_specs=one, out_specs=every), (spread,), devices),
        "sharded by jit": (lambda x: (x @ x.T).sum(0), (spread,), devices),
    }


NAMES = (
    "a training step",
    "attention",
    "scan",
    "a loop that is one kernel",
    "a loop of unknown length",
    "a condition",
    "vmap",
    "sort",
    "sorts in a loop",
    "convolution",
    "linear algebra",
    "random numbers",
    "a large product",
    "shard_map",
    "sharded by jit",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_has_the_ops_that_its_text_has(name: str) -> None:
    import jax

    function, arguments, about = cases()[name]
    devices = about.pop("devices", 1)
    compiled = jax.jit(function).lower(*arguments).compile()
    truth = {op: number * devices for op, number in executed_ops(compiled.as_text(), **about).items()}
    profile = measured(lambda: compiled(*arguments), lambda: None, lambda: [compiled(*arguments) for _ in range(2)])
    assert opcodes(profile) == truth
    assert opcodes(profile, step=1) == {}
    assert opcodes(profile, step=2) == {op: 2 * number for op, number in truth.items()}
    assert profile.stats("jax::program").calls == (1, 0, 2)


def test_the_names_are_those_of_the_cases() -> None:
    assert tuple(cases()) == NAMES


def test_eager_code_is_one_program_for_each_op() -> None:
    import jax.numpy as jnp

    x = jnp.ones((64, 64))
    found = calls(measured(lambda: (jnp.tanh(x + x) @ x).astype(jnp.int32)))
    assert found == {"Add": 1, "Tanh": 1, "MatMul": 1, "Cast": 1, "jax::kernel": 4, "jax::program": 4}


def test_an_op_has_what_it_works_on() -> None:
    import jax.numpy as jnp

    a, b = jnp.ones((8, 16)), jnp.ones((16, 4))
    a @ b, a.astype(jnp.bfloat16)
    profile = measured(lambda: (a @ b, a.astype(jnp.bfloat16)))
    product, cast = profile.stats("MatMul"), profile.stats("Cast")
    assert (product.flops, product.bytes) == ((2 * 8 * 16 * 4,), (4 * (8 * 16 + 16 * 4 + 8 * 4),))
    assert cast.bytes == ((4 + 2) * 8 * 16,)
    assert profile.calls_by_dtype["Cast"] == {"float32->bfloat16": (1,)}
    (key,) = (key for key in profile.keys if key.op == "MatMul")
    assert (key.signature.input_shapes, key.signature.output_shapes) == (((8, 16), (16, 4)), ((8, 4),))


def test_what_is_fused_counts_and_the_fusion_has_the_time_and_the_memory() -> None:
    import jax
    import jax.numpy as jnp

    x = jnp.ones((64, 64))
    fused = jax.jit(lambda x: (jnp.exp(x) * x).astype(jnp.bfloat16))
    fused(x)
    profile = measured(lambda: fused(x))
    found = {stats.op: stats for stats in profile.ops}
    (fusion,) = (op for op in found if op.endswith("_fusion"))
    assert {op: stats.calls for op, stats in found.items()} == dict.fromkeys(
        ["Exp", "Mul", "Cast", fusion, "jax::kernel", "jax::program"], (1,)
    )
    assert found["Exp"].device_ns is None
    assert found[fusion].device_ns == profile.total.device_ns
    assert (found["Cast"].bytes, found[fusion].bytes, profile.total.bytes) == ((0,), (6 * 64 * 64,), (6 * 64 * 64,))


def test_a_cast_of_a_number_is_a_part_of_what_needs_it_and_one_that_is_asked_for_is_not() -> None:
    import jax.numpy as jnp

    x, number = jnp.ones((8, 8)), jnp.float32(2)
    assert calls(measured(lambda: x + 1)).get("Cast", 0) == 0
    assert calls(measured(lambda: number.astype(jnp.bfloat16)))["Cast"] == 1


def test_a_reduce_and_a_compare_are_called_by_what_they_compute() -> None:
    import jax.numpy as jnp

    x = jnp.ones((8, 8))
    found = calls(measured(lambda: (x.max(0), x.sum(0), x < x.T, x != x.T)))
    assert {"ReduceMax", "ReduceSum", "Less", "NotEqual"} <= found.keys()


def test_a_small_loop_of_unknown_length_is_counted_once_and_that_is_said() -> None:
    import jax
    import jax.numpy as jnp

    x = jnp.ones((4, 4))
    loop = jax.jit(lambda x: jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: c @ c + 1, x))
    loop(x)
    profile = measured(lambda: loop(x))
    assert profile.stats("MatMul").calls == (1,)
    (remark,) = set(remarks_of(profile))
    assert remark.endswith("runs the body of a loop in one kernel: counted once, as its number of runs is unknown")


def test_a_loop_in_one_kernel_that_is_too_long_is_an_error() -> None:
    import jax
    import jax.numpy as jnp

    from pytest_opprof.errors import BackendError

    x = jnp.ones((4, 4))
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 60_000, lambda _, c: c @ c * 0.1, x))
    loop(x).block_until_ready()
    with pytest.raises(BackendError, match=r"a loop of jit__lambda runs more than 100,000 ops in one kernel. Make the"):
        measured(lambda: loop(x))


def test_the_time_of_a_kernel_that_other_threads_finish_is_all_of_it() -> None:
    import jax
    import jax.numpy as jnp

    x = jax.random.normal(jax.random.key(0), (400, 400))
    sort = jax.jit(lambda x: jnp.sort(x, axis=0))
    sort(x).block_until_ready()
    profile = measured(*[lambda: sort(x).block_until_ready()] * 3)
    assert profile.stats("Sort").calls == (1, 1, 1)
    # The call that hands the work over takes a twentieth of it.
    assert all(2 * ns > wall for ns, wall in zip(profile.stats("Sort").device_ns or (), profile.host_ns))


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(0, 3), (-1, 2)]])
@pytest.mark.parametrize(
    ("strides", "holes", "spread", "groups"),
    [
        ((1, 1), (1, 1), (1, 1), 1),
        ((2, 2), (1, 1), (1, 1), 1),
        ((1, 3), (1, 1), (2, 1), 2),
        ((2, 3), (3, 2), (1, 2), 1),
    ],
)
def test_a_convolution_and_its_gradients_have_the_flops_that_xla_counts(
    padding: Any, strides: tuple[int, int], holes: tuple[int, int], spread: tuple[int, int], groups: int, tmp_path: Path
) -> None:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def convolution(data: Any, kernel: Any) -> Any:
        labels = ("NHWC", "HWIO", "NHWC")
        given = padding if isinstance(padding, list) or max(holes) == 1 else [(1, 1), (2, 0)]
        return lax.conv_general_dilated(data, kernel, strides, given, holes, spread, labels, groups)

    def total(data: Any, kernel: Any) -> Any:
        return convolution(data, kernel).sum()

    found = []
    for function in (convolution, jax.grad(total, 0), jax.grad(total, 1)):
        compiled = jax.jit(function).lower(jnp.ones((2, 9, 8, 4)), jnp.ones((3, 2, 4 // groups, 6))).compile()
        program = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
        module = HloModule(program)
        names = {each.name for each in module.computations[module.entry].values()}
        kernels = filter(None, (kernel(module, name, names) for name in names))
        (live,) = (op.flops for each in kernels for op in each.ops if op.raw == "convolution")
        path = tmp_path / "program.txt"
        path.write_text(compiled.as_text())
        records = hlo.read(Place(path), Options()).records
        (saved,) = (each.computation for each in records if each.type == "convolution")
        assert live == saved == compiled.cost_analysis()["flops"]
        found.append(live)
    assert found == found[:1] * 3
