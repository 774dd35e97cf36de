"""The bytes that arrays of a window ask for: exact, in all threads, and the handler of memory stays NumPy's own."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live import hook
from pytest_opprof.frameworks.numpy.live.backend import NumpyBackend
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.memory import MemoryUse

KIB = np.zeros(128)


def uses(*bodies: Any, memory: bool | None = None) -> tuple[MemoryUse, ...] | None:
    with NumpyBackend().collect(Options(memory=memory)) as log:
        for body in bodies:
            log.mark()
            body()
        log.mark()
    steps = {number + 1: number for number in range(len(bodies))}
    return assemble([(log.freeze(), steps)], [1] * len(bodies)).memory


def test_the_peak_is_that_of_arrays_which_live_at_the_same_time() -> None:
    def one_after_the_other() -> None:
        for _ in range(3):
            np.empty(1000)

    def at_once() -> None:
        kept = [np.empty(1000) for _ in range(3)]
        del kept

    assert uses(one_after_the_other, at_once) == (MemoryUse(8000, 0, 3), MemoryUse(24000, 0, 3))


def test_what_is_still_in_use_at_the_end_is_held() -> None:
    kept: list[Any] = []
    assert uses(lambda: kept.append(np.empty(1000)), kept.clear) == (MemoryUse(8000, 8000, 1), MemoryUse(0, -8000, 0))


def test_an_array_in_a_cycle_that_nobody_holds_is_not_held() -> None:
    def body() -> None:
        cycle: list[Any] = [np.empty(1000)]
        cycle.append(cycle)

    assert uses(body) == (MemoryUse(8000, 0, 1),)


def test_a_temporary_of_an_expression_counts() -> None:
    (plain,) = uses(lambda: np.add(KIB, KIB)) or ()
    (wasteful,) = uses(lambda: np.tile(KIB, 10).reshape(10, -1).sum(axis=0)) or ()
    assert (plain.peak, plain.net) == (1024, 0)
    assert (wasteful.peak or 0) >= 10 * 1024


def test_arrays_that_are_resized_count_with_their_new_size() -> None:
    def body() -> None:
        array = np.empty(1000)
        array.resize(4000, refcheck=False)
        kept.append(array)

    kept: list[Any] = []
    (use,) = uses(body) or ()
    assert use.peak is not None
    assert abs(use.peak - 32000) < 64
    assert uses(lambda: np.fromiter(range(5000), float)) == uses(lambda: np.fromiter(range(5000), float))


def test_threads_count_too() -> None:
    def work() -> None:
        for _ in range(1000):
            np.empty(100)

    def body() -> None:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    (use,) = uses(body) or ()
    assert (use.net, use.allocations) == (0, 4000)
    assert 800 <= (use.peak or 0) <= 3200


def test_the_name_of_the_handler_stays_and_nobody_counts_where_nobody_asks() -> None:
    names: list[str] = []
    core: Any = np.core if np.__version__.startswith("1.") else np._core
    assert uses(lambda: names.append(core.multiarray.get_handler_name()), memory=False) is None
    assert uses(lambda: names.append(core.multiarray.get_handler_name())) is not None
    assert names == ["default_allocator"] * 2
    counted = hook._hook().counted
    assert counted is not None
    np.empty(100)
    assert counted.taken().allocations == 0


PROGRAM = """
    import numpy as np
    import pytest

    X = np.ones((100, 100))

    @pytest.mark.opprof
    def test_sums():
        kept = []
        for number in range(10):
            kept{keep} (X - number)
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("few_plugins")
def test_ten_temporaries_that_live_at_once_fail_a_test_of_as_many_calls_and_unchanged_code_passes(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(test_memory=PROGRAM.format(keep=" ="))
    pytester.runpytest_subprocess("--opprof", "--opprof-update").assert_outcomes(passed=1)
    pytester.runpytest_subprocess("--opprof").assert_outcomes(passed=1)
    pytester.makepyfile(test_memory=PROGRAM.format(keep=" += [None]; kept[-1] ="))
    result = pytester.runpytest_subprocess("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*peak memory: 781 KiB (baseline: 156 KiB)*"])
