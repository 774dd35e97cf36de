"""From which lines of the program the memory in use is."""

from __future__ import annotations

import pytest

from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.sites.chains import Chains, Frame

from ..conftest import ENVIRONMENT


def test_the_lines_of_memory_are_those_of_allocations_in_use_at_the_peak_and_at_the_end() -> None:
    chains = Chains()
    kept, temporary, late, outside = (chains.of_lines([Frame("net.py", "f", number)]) for number in (1, 2, 3, 4))
    log = EventLog(ENVIRONMENT, chains=chains)
    log.knows_memory = True
    steps: list[list[tuple[int, int | None]]] = [
        [(100, kept), (50, temporary), (-50, None), (70, temporary)],
        [(8, temporary), (-70, None), (20, late), (-8, None)],
        [(30, outside)],
    ]
    for allocations in steps:
        log.mark()
        for size, node in allocations:
            log.allocated(size, at=None if node is None else (node, False))
    profile = assemble([(log.freeze(), {1: 0, 2: 0})], [1])

    def lines(fact: str) -> dict[int, tuple[int, int | None]]:
        work = profile.work_by_site(fact)
        return {
            at.frames[0].line: (calls, work.get(at, (None,))[0]) for (at, _), calls in profile.sites(fact).items() if at
        }

    assert profile.peak_memory == (178,)
    assert lines("peak_memory") == {1: (1, 100), 2: (2, 78)}
    assert lines("held_memory") == {1: (1, 100), 3: (1, 20)}
    assert lines("allocations") == {1: (1, None), 2: (3, None), 3: (1, None)}


@pytest.mark.parametrize(
    ("allocations", "lines"),
    [
        ([(8, 1, 0), (8, 2, 0), (-8, None, 0)], {}),  # b = f(a); del a, or del b
        ([(90, 1, 0), (8, 2, 0), (8, 3, 0), (-8, None, 0)], {1: 90, None: 8}),
        ([(8, 1, 0), (8, 1, 0), (-8, None, 0)], {1: 8}),
        ([(8, 1, 7), (8, 2, 9), (-8, None, 9)], {1: 8}),  # what a call frees itself is its own
        ([(8, 1, 7), (8, 2, 9), (-8, None, 7)], {2: 8}),
        ([(8, 1, 0), (8, None, 0), (-8, None, 0)], {}),  # of another thread
        ([(-8, None, 0), (8, 1, 0)], {1: 8}),  # older memory
        ([(8, 1, 0), (None, 1, 0)], {}),
    ],
)
def test_memory_whose_line_may_be_another_has_none(
    allocations: list[tuple[int | None, int | None, int]], lines: dict[int | None, int]
) -> None:
    chains = Chains()
    log = EventLog(ENVIRONMENT, chains=chains)
    log.knows_memory = True
    for size, line, call in allocations:
        at = None if line is None else (chains.of_lines([Frame("net.py", "f", line)]), False)
        log.allocated(size, at=at, call=call)
    found = assemble([(log.freeze(), {0: 0})], [1]).work_by_site("held_memory")
    assert {at and at.frames[0].line: size for at, (size, _) in found.items()} == lines


def test_memory_below_the_beginning_of_a_step_is_no_peak() -> None:
    chains = Chains()
    log = EventLog(ENVIRONMENT, chains=chains)
    log.knows_memory = True
    log.allocated(-100)
    log.allocated(50, at=(chains.of_lines([Frame("net.py", "f", 1)]), False))
    profile = assemble([(log.freeze(), {0: 0})], [1])
    assert (profile.peak_memory, profile.work_by_site("peak_memory")) == ((0,), {})
