"""Lines that ask for JAX's ops: those of a program, by what XLA keeps of them; none where they could be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_opprof.backends.contract import Options
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.sites.chains import Chains

pytestmark = pytest.mark.jax


def measured(run: Any) -> OpProfile:
    from pytest_opprof.backends.jax.backend import backend

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
    chains = [site.frames for site, _ in profile.sites("Cast") if site]
    assert ("step", first + 1) in [(frames[-1].function.rpartition(".")[2], frames[-1].line) for frames in chains]


def test_ops_that_no_function_of_the_users_compiled_have_none() -> None:
    """JAX has one program for both lines, which says that it comes from the first."""
    import jax.numpy as jnp

    x = jnp.ones((8, 8))

    def eager() -> None:
        (x @ x).block_until_ready()
        (x @ x).block_until_ready()

    profile = measured(eager)
    assert profile.stats("MatMul").most_calls == 2
    assert set(lines(profile, "MatMul")) == {None}
