from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.ops.signature import Signature
from pytest_opprof.profile.kernels import UNKNOWN, Kernels, KernelStats, places, together
from pytest_opprof.profile.op_key import OpKey

NAMES = ("gemm", "copy", "sort")
OPS = ("MatMul", "Copy")
KEYS = [OpKey(op, name, Signature(dtypes)) for dtypes in (None, ("f32",)) for op in OPS for name in NAMES]
"""Of each name and op two, which differ in what kernels are not told apart by."""
Row = tuple[int, int, int, int, int, int, int]
"""Step, name, op, device, stream, grid x and time."""
BIG = 2**31 - 1


def kernels_of(rows: list[Row], calls: int = 1) -> Kernels:
    step, raw, op, device, stream, grid, ns = np.array(rows, np.int64).reshape(-1, 7).T
    key = raw + op * len(NAMES) + np.arange(len(rows)) % 2 * (len(KEYS) // 2)
    place = places(device, stream, [grid, np.minimum(grid, 1), np.minimum(grid, BIG)])
    return Kernels(step, key, place, np.full(len(rows), calls), ns)


def stats(rows: list[Row], steps: int = 1) -> tuple[KernelStats, ...]:
    return kernels_of(rows).summed().stats(KEYS, steps)


ROW = st.tuples(
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 1),
    st.sampled_from([0, 1, 999]),
    st.sampled_from([0, 7, 2**32 - 1]),
    st.sampled_from([0, 1, 2, 65535, BIG - 1, BIG]),
    st.one_of(st.just(UNKNOWN), st.integers(0, 10**12)),
)


@given(st.lists(ROW))
def test_rows_are_those_that_are_found_by_looking_at_one_kernel_after_the_other(rows: list[Row]) -> None:
    found: dict[tuple[int, ...], list[list[int]]] = defaultdict(lambda: [[], [], []])
    streams: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for step, raw, op, device, stream, grid, ns in rows:
        found[raw, op, device, grid][step].append(ns)
        streams[raw, op, device, grid] |= {stream} - {2**32 - 1}
    expected = set()
    for (raw, op, device, grid), by_step in found.items():
        times = [UNKNOWN if UNKNOWN in step else sum(step) for step in by_step if step]
        calls = [len(step) for step in by_step]
        expected.add(
            KernelStats(
                NAMES[raw],
                OPS[op],
                device,
                tuple(sorted(streams[raw, op, device, grid])),
                (grid, 1, grid) if grid else None,
                None,
                min(calls),
                max(calls),
                None if UNKNOWN in times else min(times),
            )
        )
    ours = stats(rows, 3)
    assert len(ours) == len(expected)
    assert set(ours) == expected


def test_the_most_expensive_kernel_is_the_first() -> None:
    rows = [(0, 0, 0, 0, 7, 1, 5), (0, 1, 0, 0, 7, 1, 9), (0, 2, 0, 0, 7, 1, UNKNOWN), (0, 1, 0, 0, 7, 1, 9)]
    assert [(found.kernel, found.fastest_ns) for found in stats(rows)] == [("copy", 18), ("gemm", 5), ("sort", None)]


def test_a_kernel_that_some_steps_lack_has_the_time_of_the_fastest_that_had_it() -> None:
    (found,) = stats([(1, 0, 0, 0, 7, 1, 50), (1, 0, 0, 0, 7, 1, 50), (2, 0, 0, 0, 7, 1, 60)], 3)
    assert (found.fewest_calls, found.most_calls, found.fastest_ns) == (0, 2, 60)


def test_of_the_intervals_of_a_part_those_of_a_window_are_kept_under_its_own_numbers() -> None:
    rows = [(step, 0, 0, 0, 7, 1, 10 + step) for step in range(4)]
    kept = kernels_of(rows).in_steps(np.array([-1, 0, 0, 2], np.int32), 2)
    assert (kept.step.tolist(), kept.device_ns.tolist()) == ([0, 0], [11, 12])


def test_parts_of_a_window_are_summed_under_the_names_they_share() -> None:
    one, other = kernels_of([(0, 0, 0, 0, 7, 1, 10)]), kernels_of([(0, 2, 1, 0, 8, 1, 10)])
    same, others = np.arange(len(KEYS)), np.zeros(len(KEYS), np.int32)
    found = together([one, None, other], [same, same, others])
    assert found is not None
    ((stats,),) = [found.stats(KEYS, 1)]
    assert (stats.kernel, stats.op, stats.streams, stats.most_calls, stats.fastest_ns) == (
        "gemm",
        "MatMul",
        (7, 8),
        2,
        20,
    )
    assert together([None], [same]) is None
