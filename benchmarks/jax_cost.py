"""What measuring costs with JAX on the CPU, beside JAX by itself in the same run.

    python benchmarks/jax_cost.py

Each figure is the fastest of some repetitions; the sides of a ratio take turns.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.xla.live.backend import backend
from pytest_opprof.frameworks.xla.live.session import Session
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window

REPEATS, CALLS, WINDOWS = 15, 2_000, 500


def best(*sides: Callable[[], object]) -> list[float]:
    """Return the ms of each side."""
    found = [float("inf")] * len(sides)
    for _ in range(REPEATS):
        for index, side in enumerate(sides):
            begin = time.perf_counter()
            side()
            found[index] = min(found[index], 1e3 * (time.perf_counter() - begin))
    return found


def window(work: Callable[[], object], rounds: int = 1) -> Window:
    recorder, opened = Recorder([backend()], Options(), explicit=True), Window("w")
    with recorder.open(opened):
        for _ in range(rounds):
            with recorder.step(opened):
                work()
    return opened


def session(work: Callable[[], object]) -> None:
    bare = Session()
    work()
    bare.stop()


def files(work: Callable[[], object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options: Any = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        with jax.profiler.trace(folder, profiler_options=options):
            work()


def training_step() -> Callable[[], object]:
    def loss(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x.astype(jnp.bfloat16) @ weight.astype(jnp.bfloat16)).astype(jnp.float32)
        return (x**2).mean()

    step = jax.jit(lambda weights, x: [w - 0.1 * g for w, g in zip(weights, jax.grad(loss)(weights, x))])
    weights, x = [jnp.ones((256, 256)) for _ in range(3)], jnp.ones((64, 256))
    return lambda: jax.block_until_ready(step(weights, x))


def megabytes() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    step = training_step()
    tiny, x = jax.jit(lambda x: x + 1), jnp.ones(8)

    def calls() -> None:
        for _ in range(CALLS):
            tiny(x)
        jax.block_until_ready(tiny(x))

    for work in (step, calls):
        work()
    kernels = window(step).profile.stats("jax::kernel").calls[0]
    print(
        f"jax {jax.__version__}, {len(jax.local_devices())} devices, {os.cpu_count()} cores; ms, fastest of {REPEATS}"
    )

    print(f"\na window of one training step of {kernels} kernels, by how many programs are alive")
    print("programs   step   + session   + window   window/step   trace to files")
    for more in (0, 300):
        kept = [jax.jit(lambda x, n=n: x * n) for n in range(2, more + 2)]
        for function in kept:
            function(x)
        alive = len(jax.local_devices()[0].client.live_executables())
        bare, with_session, with_window, to_files = best(
            step, lambda: session(step), lambda: window(step), lambda: files(step)
        )
        print(f"{alive:8}{bare:7.2f}{with_session:12.2f}{with_window:11.2f}{with_window / bare:14.2f}{to_files:17.1f}")

    (bare,) = best(step)
    rounds = window(step, rounds=30).profile
    inside = min(rounds.host_ns) / 1e6
    print(
        f"\none of 30 rounds: {inside:.2f} ms, {inside / bare:.2f} of the step by itself (its time is what is judged)"
    )

    bare, with_session, with_window = best(calls, lambda: session(calls), lambda: window(calls))
    print(f"\n{CALLS} calls of a tiny program, us a call")
    print("by itself   + session   + window   window/session")
    figures = [1e3 * each / CALLS for each in (bare, with_session, with_window)]
    print(f"{figures[0]:9.1f}{figures[1]:12.1f}{figures[2]:11.1f}{with_window / with_session:17.2f}")

    nothing, waited = best(lambda: window(lambda: None), lambda: [backend().settle() for _ in range(100)])
    print(f"\nan empty window: {nothing:.2f} ms; one wait: {10 * waited:.1f} us")
    before = megabytes()
    for _ in range(WINDOWS):
        window(step)
    print(f"memory after {WINDOWS} more windows: +{megabytes() - before:.1f} MiB")


if __name__ == "__main__":
    main()
