"""What observing costs a call of NumPy, with its lines: a loop of small ops, plain and in a window.

Measures the shortest of many loops, as other work on the machine only adds.

python benchmarks/numpy_overhead.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live.backend import NumpyBackend, backend
from pytest_opprof.sites.chains import Chains

OPS = 500
TIMES = 40
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
