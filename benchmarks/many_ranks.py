"""The cost of many ranks after their traces are read: the results of all tasks, the comparison, text, JSON, page.

The traces are not read: each rank is made, with 60 ops in 5 steps and 20 collectives a step, in groups `tp` of 8 ranks
and `dp` of 64. With --on also the rate of a cluster's scheduler: tasks that return as much as a rank, and do nothing.

    python benchmarks/many_ranks.py 512 4096 16384                          # 3 minutes
    PYTHONPATH=benchmarks dask scheduler     # and: PYTHONPATH=benchmarks dask worker tcp://127.0.0.1:8786 --nthreads 1
    python benchmarks/many_ranks.py --on dask://127.0.0.1:8786 16384
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import pickle
import resource
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from pytest_opprof.cli.inputs import cluster
from pytest_opprof.cli.show.ranks import answer, page
from pytest_opprof.frameworks.files.formats import Found
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import Collective, SavedOp, SavedProfile

OPS, STEPS, COLLECTIVES, TP, DP = 60, 5, 20, 8, 64
HERE = Environment((("torch", "2.13.0"),), "NVIDIA H100")


def made(rank: int) -> SavedProfile:
    """Return a rank whose times differ from all others', with every seventh op once more on odd ranks."""
    records = [
        SavedOp(f"Op{op}", f"aten::op{op}", step=step, calls=1 + (op % 7 == 0) * (rank % 2), device_ns=1e6 + 37 * rank)
        for op in range(OPS)
        for step in range(STEPS)
    ]
    groups = ("dp", f"dp {rank % DP}"), ("tp", f"tp {rank // TP}")
    waits = [
        Collective("AllReduce", group, step, 2e6 - 37 * rank, kind)
        for step in range(STEPS)
        for kind, group in groups * (COLLECTIVES // len(groups))
    ]
    labels = tuple(str(step) for step in range(STEPS))
    return SavedProfile("torch", HERE, tuple(records), steps=labels, collectives=tuple(waits))


def profiles(ranks: int) -> Iterator[tuple[Found, SavedProfile]]:
    """Yield each rank as a worker sends it."""
    for rank in range(ranks):
        place = Place(Path(f"traces/rank{rank}.json"))
        yield Found("torch", place, rank), pickle.loads(pickle.dumps(made(rank)))


def of_all(ranks: int, output: str) -> tuple[float, int, int]:
    """Return the CPU time in s, the bytes of an *output* of all ranks, and the peak of memory in MiB."""
    every = [*profiles(ranks)] if output != "none" else []
    begin = time.process_time()
    form = "json" if output == "json" else "table"
    asked = argparse.Namespace(only_ops=None, format=form, side="auto", top=10, file=Path("traces"))
    said = ""
    if output == "page":
        said = page(every, asked)
    elif every:
        with contextlib.redirect_stderr(io.StringIO()):
            said = str(answer(every, asked)[0])
    return time.process_time() - begin, len(said), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@cache
def result() -> bytes:
    """Return the result of a rank, as it travels."""
    return pickle.dumps(made(1))


def nothing(rank: int, what: object) -> bytes:
    """Return as much as a rank, without reading any."""
    return result()


def rate(address: str, ranks: int) -> tuple[float, float]:
    """Return how long a cluster takes for as many tasks, in s: wall time, and CPU time of this process."""
    begin, cpu = time.monotonic(), time.process_time()
    cluster._mapped(address, nothing, range(ranks), None)
    return time.monotonic() - begin, time.process_time() - cpu


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks", type=int, nargs="+")
    parser.add_argument("--on")
    asked = parser.parse_args(arguments)
    print(f"a rank's result: {len(result()):,} bytes")
    print(f"{'ranks':>6} {'output':>6} {'CPU s':>7} {'kB':>9} {'MiB at most':>12}")
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:  # each has a peak of its own
        for ranks in asked.ranks:
            for output in ("none", "text", "json", "page"):
                cpu_s, nbytes, mib = pool.apply(of_all, (ranks, output))
                print(f"{ranks:6} {output:>6} {cpu_s:7.1f} {nbytes / 1000:9,.0f} {mib:12,}")
            if asked.on:
                wall_s, cpu_s = rate(asked.on, ranks)
                print(f"{ranks:6} tasks of {asked.on}: {wall_s:.1f} s, {cpu_s:.1f} s of CPU time here")


if __name__ == "__main__":
    main()
