"""What watching costs an op of NumPy: a loop of small ops on watched arrays against the same on plain ones.

python benchmarks/numpy_overhead.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from pytest_opprof.backends.contract import Options
from pytest_opprof.backends.numpy.backend import backend

OPS = 20_000
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
    numpy = backend()
    plain = np.ones((4, 4))
    watched = numpy.watch(plain)
    print(f"{'op':24} {'plain us':>9} {'watched us':>11} {'more us':>9}")
    for name, use in USES.items():
        bare = min(loop(use, plain) for _ in range(5))
        with numpy.collect(Options()):
            seen = min(loop(use, watched) for _ in range(5))
        print(f"{name:24} {bare:9.2f} {seen:11.2f} {seen - bare:9.2f}")
    print("goal: at most 8 us an op on top of the op")


def loop(use: Callable[[np.ndarray], object], x: np.ndarray) -> float:
    begin = time.perf_counter()
    for _ in range(OPS):
        use(x)
    return (time.perf_counter() - begin) / OPS * 1e6


if __name__ == "__main__":
    main()
