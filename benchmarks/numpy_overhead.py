"""What observing costs a call of NumPy, with its lines: a loop of small ops, plain and in a window, and at its end.

Measures the shortest of many loops, as other work on the machine only adds.

python benchmarks/numpy_overhead.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live.backend import NumpyBackend, backend
from pytest_opprof.sites.chains import Chains

OPS = 500
TIMES = 40
MANY = 100_000
USES: dict[str, Callable[[np.ndarray], object]] = {
    "x + x": lambda x: x + x,
    "x @ x": lambda x: x @ x,
    "x.astype('f4')": lambda x: x.astype("f4"),
    "x.sum()": lambda x: x.sum(),
    "np.concatenate([x, x])": lambda x: np.concatenate([x, x]),
    "np.asarray(x)": lambda x: np.asarray(x),
    "np.array(x, 'f4')": lambda x: np.array(x, "f4"),
}


def main() -> None:
    numpy, x = backend(), np.ones((4, 4))
    print(f"{'op':24} {'plain us':>9} {'observed us':>12} {'more us':>9}")
    for name, use in USES.items():
        bare = min(loop(use, x) for _ in range(TIMES))
        with numpy.collect(Options(chains=Chains())):
            seen = min(loop(use, x) for _ in range(TIMES))
        print(f"{name:24} {bare:9.2f} {seen:12.2f} {seen - bare:9.2f}")
    idle = min(window(numpy) for _ in range(TIMES))
    print(f"an idle window: {idle:.0f} us")
    print("goal: 2.5 us a call, 50 us an idle window")
    print(f"{MANY:,} calls, us of CPU a call: plain, observed, at the window's end, to its profile")
    for chains in (None, Chains()):
        each = [min(times) * 1e6 / MANY for times in zip(*(many(numpy, chains) for _ in range(5)))]
        told = "".join(f"{us:7.2f}" for us in each)
        print(f"{'without' if chains is None else 'with'} lines: {told}, in all x{sum(each[1:]) / each[0]:.1f}")


def many(numpy: NumpyBackend, chains: Chains | None) -> tuple[float, float, float, float]:
    """Return the CPU time of many mixed calls: plain, observed, and of both steps to their profile."""
    x, y = np.ones((4, 4)), np.ones(3, np.float32)

    def work() -> float:
        begin = time.process_time()
        for _ in range(MANY // 4):
            x + x, y * 2, np.sin(x), x.sum()
        return time.process_time() - begin

    plain = work()
    with ExitStack() as stack:
        log = stack.enter_context(numpy.collect(Options(chains=chains)))
        seen = work()
        begin = time.process_time()
    end = time.process_time()
    log.freeze()
    return plain, seen, end - begin, time.process_time() - end


def window(numpy: NumpyBackend) -> float:
    begin = time.perf_counter()
    with numpy.collect(Options()):
        pass
    return (time.perf_counter() - begin) * 1e6


def loop(use: Callable[[np.ndarray], object], x: np.ndarray) -> float:
    begin = time.perf_counter()
    for _ in range(OPS):
        use(x)
    return (time.perf_counter() - begin) / OPS * 1e6


if __name__ == "__main__":
    main()
