"""What does counting calls of Python functions cost? CPU time of the counting round against that of the plain body.

Goals: at most 3 times the body for Python functions, 4.5 with builtins, in code that does work. `objects` and
`bare_loop` do nothing but what is counted: the most that it can cost.

python benchmarks/python_calls.py [ROUNDS]
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time_ns

from pytest_opprof.python_calls import counter as counters
from pytest_opprof.sites.shown import Shown

SHOWN = Shown(Path(__file__).parent)


def encode() -> None:
    for _ in range(30):
        json.dumps([{"name": f"n{number}", "values": list(range(5))} for number in range(40)], indent=1)


def objects() -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

        def moved(self, by: int) -> Point:
            return Point(self.x + by)

    for _ in range(5000):
        Point(1).moved(2)


def bare_loop() -> None:
    total = 0
    for number in range(200_000):
        total += number


def pandas_groupby() -> None:
    import pandas as pd

    frame = pd.DataFrame({"key": [number % 5 for number in range(100)], "value": range(100)})
    for _ in range(10):
        frame.groupby("key").agg({"value": ["sum", "mean"]})
        frame.merge(frame, on="key")


def best_ns(body: Callable[[], None], rounds: int, count: Callable[[], counters.Counter] | None = None) -> int:
    times = []
    for _ in range(rounds):
        if count is None:
            begin = process_time_ns()
            body()
            times.append(process_time_ns() - begin)
        else:
            with count():
                begin = process_time_ns()
                body()
                times.append(process_time_ns() - begin)
    return min(times)


class OnlyFunctions(counters.Observer):
    """Counts calls of Python functions and nothing else, to see what these cost."""

    def on(self) -> None:
        if sys.version_info >= (3, 12):
            start = sys.monitoring.events.PY_START
            self._callbacks = {start: self._callbacks[start]}
        super().on()


def main(rounds: int) -> None:
    bodies = [encode, objects, bare_loop]
    if importlib.util.find_spec("pandas"):
        bodies.append(pandas_groupby)
    print(f"Python {sys.version.split()[0]}, best of {rounds}")
    print(f"{'body':16} {'plain':>10} {'functions':>10} {'all':>6} {'with lines':>11}")
    everything = counters.Observer
    for body in bodies:
        body()
        plain = best_ns(body, rounds)
        counters.Observer = OnlyFunctions
        functions = best_ns(body, rounds, lambda: counters.Counter(SHOWN))
        counters.Observer = everything
        both = best_ns(body, rounds, lambda: counters.Counter(SHOWN))
        lines = best_ns(body, rounds, lambda: counters.Counter(SHOWN, lines=True))
        ratios = [f"{each / plain:.1f}" for each in (functions, both, lines)]
        print(f"{body.__name__:16} {plain / 1e6:7.2f} ms {ratios[0]:>10} {ratios[1]:>6} {ratios[2]:>11}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
