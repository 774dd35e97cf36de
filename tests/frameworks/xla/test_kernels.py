"""What XLA runs as one: the ops of kernels of programs of JAX 0.7 to 0.10, and of messages made by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from pytest_opprof.frameworks.xla import kernels as xla_kernels
from pytest_opprof.frameworks.xla.hlo_module import HloModule
from pytest_opprof.frameworks.xla.kernels import Kernel, kernel
from pytest_opprof.ops.signature import Signature

from ...protobuf_messages import field
from .jax_windows import VERSIONS, recorded


def of_entry(module: HloModule) -> dict[str, Kernel]:
    names = {each.name for each in module.computations[module.entry].values()}
    found = {name: kernel(module, name, names) for name in names}
    return {name: each for name, each in found.items() if each}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("program", ["casts", "small_loop", "sort"])
def test_the_kernels_of_a_program_have_the_ops_that_its_text_has(version: str, program: str) -> None:
    found = Counter(op.raw for each in of_entry(recorded(version).module(program)).values() for op in each.ops)
    assert found == recorded(version).steps[program]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_loop_in_one_kernel_has_its_ops_as_often_as_it_runs(version: str) -> None:
    module = recorded(version).module("small_loop")
    (loop,) = (each for each in of_entry(module).values() if each.name == "while")
    assert Counter(op.raw for op in loop.ops)["dot"] == 3
    assert (loop.alone, loop.guesses) == (None, ())


def module(*computations: bytes) -> HloModule:
    return HloModule(field(1, "jit_f") + b"".join(field(3, each) for each in computations) + field(6, 1))


def computation(number: int, *instructions: bytes) -> bytes:
    return b"".join(field(2, each) for each in instructions) + field(5, number)


def made(
    number: int,
    name: str,
    opcode: str,
    *operands: int,
    calls: tuple[int, ...] = (),
    more: bytes = b"",
    dtype: int = 11,
    sizes: tuple[int, ...] = (4,),
) -> bytes:
    of_type = field(2, dtype) + b"".join(field(3, size) for size in sizes)
    links = b"".join(field(36, each) for each in operands) + b"".join(field(38, each) for each in calls)
    return field(1, name) + field(2, opcode) + field(3, of_type) + field(35, number) + links + more


REGION = computation(9, made(90, "x", "parameter"), made(91, "y", "parameter"), made(92, "z", "maximum", 90, 91))


def one(*instructions: bytes) -> HloModule:
    return module(computation(1, made(1, "a", "parameter"), *instructions), REGION)


@pytest.mark.parametrize(
    ("instruction", "raw", "op"),
    [
        (made(2, "b", "reduce", 1, 1, calls=(9,)), "reduce", "ReduceMax"),
        (made(2, "b", "reduce", 1, 1), "reduce", ""),
        (made(2, "b", "compare", 1, 1, more=field(63, "LT")), "compare", "Less"),
        (made(2, "b", "custom-call", 1, more=field(28, "lapack_spotrf_ffi")), "lapack_spotrf_ffi", ""),
        (made(2, "b", "custom-call", 1), "custom-call", ""),
        (made(2, "b", "all-reduce-start", 1, calls=(9,)), "all-reduce", ""),
    ],
)
def test_an_op_is_called_by_what_it_does(instruction: bytes, raw: str, op: str) -> None:
    found = kernel(one(instruction), "b", {"b"})
    assert found is not None
    assert [(each.raw, each.op) for each in found.ops] == [(raw, op)]
    assert found.alone == 0


@pytest.mark.parametrize("opcode", ["parameter", "tuple", "while", "conditional", "all-reduce-done"])
def test_what_only_names_or_runs_others_is_no_kernel(opcode: str) -> None:
    assert kernel(one(made(2, "b", opcode, 1)), "b", {"b"}) is None


def test_an_op_has_its_types_its_bytes_and_its_flops() -> None:
    product = made(3, "c", "dot", 1, 2, more=field(30, field(1, b"\x01")), sizes=(2, 5))
    matrices = made(1, "a", "parameter", sizes=(2, 3)), made(2, "b", "parameter", sizes=(3, 5))
    found = kernel(module(computation(1, *matrices, product)), "c", {"c"})
    assert found is not None
    assert found.signature == Signature(("f32", "f32"), ("f32",), ((2, 3), (3, 5)), ((2, 5),))
    assert (found.nbytes, found.ops[0].flops) == (4 * (6 + 15 + 10), 2 * 2 * 3 * 5)


def test_bytes_of_dtypes_smaller_than_one_are_not_known() -> None:
    found = kernel(one(made(2, "b", "negate", 1, dtype=21)), "b", {"b"})
    assert found is not None
    assert found.nbytes is None


def test_an_op_and_views_are_that_op_and_two_ops_are_a_fusion() -> None:
    number = made(20, "p", "parameter", sizes=())
    inside = [number, made(21, "q", "broadcast", 20), made(22, "r", "convert", 20, sizes=())]
    one_op = computation(2, *inside, made(23, "s", "add", 20, 21))
    two_ops = computation(3, *inside, made(23, "t", "add", 20, 21), made(24, "u", "tanh", 23))
    fused = [made(number, f"f.{number}", "fusion", 1, calls=(number,)) for number in (2, 3)]
    both = module(computation(1, made(1, "a", "parameter", sizes=()), *fused), one_op, two_ops)
    first, second = (kernel(both, name, {name}) for name in ("f.2", "f.3"))
    assert first is not None
    assert second is not None
    assert [op.raw for op in first.ops] == ["broadcast", "convert", "add"]
    assert first.alone == 2
    assert (second.name, second.alone, [op.raw for op in second.ops][-2:]) == ("f", None, ["add", "tanh"])


SMALL = field(68, field(1, field(1, "xla_cpu_small_call") + field(2, "true")))
SIX_TIMES = field(43, '{"known_trip_count":{"n":"6"}}')


def of_call(*instructions: bytes, attributes: bytes = SMALL, ran: str = "") -> Kernel | None:
    """Return the kernel of a call of these instructions, which may run a body with the one op ``n``."""
    call = made(3, "c", "call", 1, calls=(2,), more=attributes)
    body = computation(4, made(40, "p", "parameter"), made(41, "n", "negate", 40))
    of_entry = computation(1, made(1, "a", "parameter"), call)
    return kernel(module(of_entry, computation(2, *instructions), body), "c", {"c", ran})


def test_a_small_loop_runs_its_body_as_often_as_xla_knows_and_else_once() -> None:
    found = of_call(made(20, "w", "while", 1, calls=(4, 4), more=SIX_TIMES))
    assert found is not None
    assert ([op.raw for op in found.ops], found.guesses) == (["negate"] * 6, ())
    found = of_call(made(20, "w", "while", 1, calls=(4, 4)), made(21, "i", "conditional", 1, calls=(4, 4)))
    assert found is not None
    assert ([op.raw for op in found.ops], found.guesses) == (
        ["negate"] * 3,
        ("each branch of a condition", "the body of a loop"),
    )


def test_a_small_loop_is_no_longer_than_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla_kernels, "MOST_OPS", 5)
    with pytest.raises(xla_kernels.TooManyOpsError, match="a loop of jit_f runs more than 5 ops in one kernel"):
        of_call(made(20, "w", "while", 1, calls=(4, 4), more=SIX_TIMES))


def test_any_other_call_has_events_inside_and_one_that_has_none_is_a_guess() -> None:
    fused = made(20, "f", "fusion", 1, calls=(4,))
    assert of_call(fused, attributes=b"", ran="n") is None
    found = of_call(fused, attributes=b"", ran="other")
    assert found is not None
    assert ([op.raw for op in found.ops], found.guesses) == (["negate"], ("a call",))
