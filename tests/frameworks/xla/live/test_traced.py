"""What JAX traced for the programs that ran, and the memory that one needs: the same whatever was traced before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.xla.live.backend import backend
from pytest_opprof.frameworks.xla.live.traced import Traced
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.sites.chains import Chains

from .jax_measured import measured, start

pytestmark = pytest.mark.jax


@pytest.fixture(autouse=True)
def _jax() -> None:
    start()
    backend().begin_run()


def unrolled(times: int) -> Callable[[Any], Any]:
    """Return a compiled function that XLA optimises to the same program, however long its trace is."""
    import jax

    def step(x: Any) -> Any:
        for _ in range(times):
            x = x + 0.0 * times
        return x * 2

    return jax.jit(step)


def traced(*bodies: Callable[[], object]) -> tuple[int, ...] | None:
    return measured(*bodies).counted("program_ops")


def test_a_longer_trace_is_more_ops_also_in_rounds_that_trace_nothing() -> None:
    import jax.numpy as jnp

    x = jnp.ones(16)
    short, long = unrolled(10), unrolled(200)
    short(x)
    long(x)
    first = traced(lambda: short(x), lambda: short(x))
    second = traced(lambda: long(x), lambda: long(x))
    assert first
    assert second
    assert first[0] == first[1] < 50
    assert second[0] == second[1] > 200


def test_a_program_counts_once_however_often_a_round_calls_it() -> None:
    import jax.numpy as jnp

    x = jnp.ones(17)
    step = unrolled(20)
    once = traced(lambda: step(x))
    assert once
    assert once == traced(lambda: [step(x) for _ in range(5)])


def test_a_function_that_is_made_anew_counts_each_time() -> None:
    import jax.numpy as jnp

    x = jnp.ones(18)
    (once,) = traced(lambda: unrolled(30)(x)) or (0,)
    assert traced(lambda: [unrolled(30)(x) for _ in range(3)]) == (3 * once,)


def test_a_range_of_the_user_does_not_count_a_program_twice() -> None:
    import jax.numpy as jnp

    x = jnp.ones(19)
    step = unrolled(40)
    (once,) = traced(lambda: step(x)) or (0,)
    recorder = Recorder([backend()], Options())
    window = Window("1", recorder)
    with recorder.open(window), recorder.step(window):
        step(x)
        recorder.enter("mine")
        step(x)
        recorder.leave("mine")
    assert window.profile.counted("program_ops") == (once,)


def test_a_window_without_a_program_has_none() -> None:
    assert traced(lambda: None) == (0,)


def test_what_was_compiled_before_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax.numpy as jnp

    x = jnp.ones(20)
    step = unrolled(50)
    step(x)
    monkeypatch.setattr(backend(), "_traced", Traced())
    assert traced(lambda: step(x)) is None


def test_it_counts_from_the_import_of_jax_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A package made up: this process has imported JAX.
    package = tmp_path / "made_up"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "compiler.py").write_text("def compile_or_get_cached(backend, computation): return computation\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("pytest_opprof.frameworks.xla.live.traced._MODULE", "made_up.compiler")
    finders = list(sys.meta_path)
    Traced().listen()
    import made_up.compiler

    assert sys.meta_path == finders
    assert made_up.compiler.compile_or_get_cached.__qualname__ == "Traced._watch.<locals>.counted"


def lines(profile: OpProfile) -> dict[int | None, int]:
    return {site.frames[0].line if site else None: number for (site, _), number in profile.sites("program_ops").items()}


def test_the_line_that_calls_a_program_has_its_ops() -> None:
    import jax.numpy as jnp

    x = jnp.ones(21)
    short, long = unrolled(10), unrolled(100)

    def body() -> None:
        short(x)
        long(x)

    body()
    recorder = Recorder([backend()], Options())
    recorder.chains = Chains()
    window = Window("1", recorder)
    with recorder.open(window), recorder.step(window):
        body()
    found, first = lines(window.profile), body.__code__.co_firstlineno
    assert list(found) == [first + 1, first + 2]
    assert (sum(found.values()),) == window.profile.counted("program_ops")


def test_temporary_memory_is_that_of_the_program_that_needs_most() -> None:
    import jax
    import jax.numpy as jnp

    def program(size: int) -> tuple[Any, int]:
        made = jax.jit(lambda x: jnp.sort(jnp.broadcast_to(x, (size, 16)), axis=0)[0] + jnp.sort(x))
        x = jnp.ones(16)
        known = made.lower(x).compile().memory_analysis().temp_size_in_bytes
        return lambda: made(x), known

    (small, fewer), (large, more) = program(10_000), program(50_000)
    assert fewer < more
    assert measured(small, large).counted("temporary_memory") == (fewer, more)

    def both() -> None:
        small()
        large()
        small()

    assert measured(both).counted("temporary_memory") == (more,)
    assert measured(lambda: None).counted("temporary_memory") == (0,)
