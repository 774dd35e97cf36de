"""Lines that ask for JAX's ops: those inside of a program, by what XLA keeps of them, and those that called it."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.sites.chains import Chains

from ....conftest import remarks_of

pytestmark = pytest.mark.jax


def measured(run: Any) -> OpProfile:
    from pytest_opprof.frameworks.xla.live.backend import backend

    run()
    with backend().collect(Options(chains=Chains())) as log:
        run()
    return log.freeze()


def lines(profile: OpProfile, op: str) -> list[tuple[str, int, int] | None]:
    """Return the function, the line below its first, and the calls of each place."""
    return [
        (site.frames[0].function.rpartition(".")[2], site.frames[0].line, calls) if site and site.frames else None
        for (site, _), calls in profile.sites(op).items()
    ]


def test_ops_of_a_compiled_function_have_the_lines_inside_of_it() -> None:
    import jax
    import jax.numpy as jnp

    def half(x: Any) -> Any:
        return x.astype(jnp.float16)

    def step(x: Any) -> Any:
        x = half(x)
        return jnp.exp(x) @ x

    x = jnp.ones((8, 8))
    compiled = jax.jit(step)
    profile = measured(lambda: compiled(x).block_until_ready())
    first = step.__code__.co_firstlineno
    assert ("half", half.__code__.co_firstlineno + 1) in [each[:2] for each in lines(profile, "Cast") if each]
    assert lines(profile, "Exp") == [("step", first + 2, 1)]
    frames = [frame for site, _ in profile.sites("Cast") if site for frame in site.frames]
    assert ("step", first + 1) in [(frame.function.rpartition(".")[2], frame.line) for frame in frames]


def callers(profile: OpProfile, op: str) -> dict[tuple[int, ...], int]:
    """Return the calls by the lines of this file, the innermost first."""
    return {
        tuple(frame.line for frame in site.frames if frame.file == __file__) if site else (): calls
        for (site, _), calls in profile.sites(op).items()
    }


def test_eager_ops_have_the_line_that_called_them_also_where_jax_has_one_program_for_both() -> None:
    import jax.numpy as jnp

    x = jnp.ones((8, 8))

    def eager() -> None:
        for _ in range(3):
            x @ x
        (x @ x).block_until_ready()

    profile = measured(eager)
    first = eager.__code__.co_firstlineno
    assert profile.stats("MatMul").most_calls == 4
    for op in ("MatMul", "jax::program", "jax::kernel"):
        assert {lines[0]: calls for lines, calls in callers(profile, op).items()} == {first + 2: 3, first + 3: 1}


def test_ops_of_a_compiled_function_have_the_line_that_called_it_too() -> None:
    import jax
    import jax.numpy as jnp

    def step(x: Any) -> Any:
        return jnp.exp(x) @ x

    x = jnp.ones((8, 8))
    compiled = jax.jit(step)

    def train() -> None:
        compiled(x)
        compiled(x)

    profile = measured(train)
    inside, calls = step.__code__.co_firstlineno + 1, train.__code__.co_firstlineno
    found = callers(profile, "MatMul")
    assert {lines[:2]: calls for lines, calls in found.items()} == {(inside, calls + 1): 1, (inside, calls + 2): 1}


def test_what_is_compiled_has_the_line_that_made_it_compile() -> None:
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(lambda x: jnp.exp(x) + 1)
    sizes = iter([4, 5, 6])

    def widened() -> None:
        x = jnp.zeros(next(sizes))
        compiled(x)

    profile = measured(widened)
    first = widened.__code__.co_firstlineno
    for op in ("jax::compile", "jax::program"):
        assert {lines[0]: calls for lines, calls in callers(profile, op).items()}[first + 2] == 1


def test_what_another_thread_calls_has_no_caller() -> None:
    from concurrent.futures import ThreadPoolExecutor

    import jax.numpy as jnp

    x = jnp.ones((8, 8))
    profile = measured(lambda: ThreadPoolExecutor(1).submit(lambda: (x @ x).block_until_ready()).result())
    assert callers(profile, "MatMul") == {(): 1}
    assert callers(profile, "jax::program") == {(): 1}
    why = "source lines of ops in other threads are unknown: only the thread that opened the window is traced"
    assert remarks_of(profile) == [why]
    assert remarks_of(measured(lambda: (x @ x).block_until_ready())) == []


def test_on_several_devices_ops_have_the_caller_where_it_is_known() -> None:
    """From jax 0.9 on, programs over all devices tell it; until 0.8, those on one do."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = jax.devices()
    spread = jax.device_put(jnp.ones(8 * len(devices)), NamedSharding(Mesh(devices, ("d",)), PartitionSpec("d")))
    x, there = jax.device_put(jnp.ones((8, 8)), devices[0]), jax.device_put(jnp.ones((8, 8)), devices[-1])
    exp, double = jax.jit(lambda x: jnp.exp(x)), jax.jit(lambda x: jnp.tanh(x))

    def train() -> None:
        exp(spread)
        double(x)
        double(there)

    profile = measured(train)
    line = train.__code__.co_firstlineno
    programs = callers(profile, "jax::program")
    assert {lines[0]: calls for lines, calls in programs.items()} == {line + 1: 1, line + 2: 1, line + 3: 1}
    assert {lines[1:2] for lines in callers(profile, "Exp")} <= {(line + 1,), ()}
    assert {lines[1:2] for lines in callers(profile, "Tanh")} <= {(line + 2,), (line + 3,), ()}


def test_what_a_function_inside_traced_first_for_another_program_has_no_line_of_that() -> None:
    """Up to jax 0.8 the program of the second has the first's lines for what both call."""
    import jax
    import jax.numpy as jnp

    dense = jax.jit(lambda x: jnp.sinh(x) @ x)
    x = jnp.ones((9, 9))

    def other() -> None:
        def step(x: Any) -> Any:
            return dense(x) + 1

        jax.jit(step)(x)

    def mine() -> Any:
        def step(x: Any) -> Any:
            return dense(x) * 2

        return jax.jit(step)

    other()
    compiled = mine()

    def train() -> None:
        compiled(x)

    profile = measured(train)
    found = {line for lines in callers(profile, "MatMul") for line in lines}
    wrong = range(other.__code__.co_firstlineno, mine.__code__.co_firstlineno)
    assert train.__code__.co_firstlineno + 1 in found
    assert not found & {*wrong}


def test_a_program_of_jax_called_in_a_function_of_its_name_has_the_line_of_its_caller() -> None:
    import jax.numpy as jnp

    x = jnp.ones((9, 8))

    def norm(x: Any) -> Any:
        return jnp.linalg.norm(x)

    def train() -> None:
        jnp.linalg.norm(x)

    norm(x)
    profile = measured(train)
    found = {line for lines in callers(profile, "Sqrt") for line in lines}
    assert train.__code__.co_firstlineno + 1 in found
    assert norm.__code__.co_firstlineno + 1 not in found
