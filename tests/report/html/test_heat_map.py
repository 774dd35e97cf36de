"""A heat map of ranks and steps."""

from __future__ import annotations

import re

from pytest_opprof.report.html.heat_map import heat_map

SCALE = 0.0, 80.0


def area(path: str) -> int:
    return sum(int(width) * int(height) for width, height in re.findall(r"h(\d+)v(\d+)", path))


def test_a_cell_is_as_strong_as_its_time_and_neighbours_that_are_alike_are_one() -> None:
    found = heat_map([[0, 0], [0, 80], [45, 80]], ["rank 0", "rank 1", "rank 2"], ["1", "2"], SCALE)
    assert found.paths == [
        (0.125, "M0 0h80v16h-80zM0 16h40v16h-40z"),
        (0.625, "M80 0h40v16h-40z"),
        (1.0, "M40 16h80v16h-80z"),
    ]
    assert (found.width, found.height) == (120, 32)
    assert [each.text for each in found.pointed] == ["rank 0: 0 ns", "rank 1: 0 ns to 80 ns", "rank 2: 45 ns to 80 ns"]


def test_many_ranks_and_steps_keep_its_size_and_a_single_long_time_is_seen() -> None:
    times = [[10.0] * 300 for _ in range(2_000)]
    times[999][77] = 80
    found = heat_map(times, [f"rank {rank}" for rank in range(2_000)], list(map(str, range(300))), SCALE)
    assert (found.width <= 1160, found.height <= 400) == (True, True)
    assert [(opacity, area(path)) for opacity, path in found.paths] == [
        (0.25, found.width * found.height - 4),
        (1.0, 4),
    ]
    (pointed,) = [each.text for each in found.pointed if "80 ns" in each.text]
    assert pointed == "rank 996 to rank 999: 10 ns to 80 ns"


def test_labels_are_of_ranks_at_powers_of_2_and_none_is_cut_at_the_edge() -> None:
    found = heat_map([[1.0]] * 512, [f"rank {rank}" for rank in range(512)], [""], SCALE)
    assert [each.text for each in found.columns] == [f"rank {rank}" for rank in range(0, 512, 64)]
    assert all(each.at + 60 <= found.width for each in found.columns)
