"""Which line asked for an op of NumPy: each op, against ground truth that no frame tells."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live import callers
from pytest_opprof.frameworks.numpy.live.backend import backend
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.sites.chains import UNKNOWN, Chains

from ....sites import truth
from . import numpy_programs as programs

HERE = str(Path(programs.__file__))
Ops = Counter[tuple[str, int]]
"""How often an op of each raw name was asked for on a line of `numpy_programs`."""


def profiled(body: Callable[[Any], object], chains: Chains | None = None) -> OpProfile:
    """Return the profile of a *body*, given an array."""
    numpy = backend()
    x = np.arange(-8.0, 8.0).reshape(4, 4)
    with numpy.collect(Options(chains=chains)) as log:
        log.mark()
        body(x)
        log.mark()
    return assemble([(log.freeze(), {1: 0})], [1])


def told(profile: OpProfile) -> Ops:
    """Return every event by the innermost line of `numpy_programs`, or of rewritten ones."""
    found = Ops()
    for key in profile.columns.key.tolist():
        raw, site = profile.keys[key].raw, profile.keys[key].site
        lines = [frame.line for frame in site.frames if frame.file == HERE] if site else []
        found[raw, lines[0] if lines else 0] += 1
    return found


def true(body: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch) -> Ops:
    """Return what `told` should, of a *body* that is rewritten."""
    code = compile("0", HERE, "eval")
    with monkeypatch.context() as patch:
        patch.setattr(callers.Lines, "place", lambda lines, *_: lines.chains.node(UNKNOWN, code, truth.lines[-1]))
        return told(profiled(body, Chains()))


def facts_of(profile: OpProfile) -> dict[str, object]:
    """Return all that is known but times."""
    ops = {stats.op: (stats.calls, stats.bytes, stats.flops) for stats in (*profile.ops, profile.total)}
    return {**ops, "dtypes": profile.calls_by_dtype, "remarks": profile.remarks, "unseen": profile.unseen}


@pytest.fixture(scope="module")
def rewritten() -> Any:
    return truth.rewritten(programs)


each_case = pytest.mark.parametrize("name", [case.__name__ for case in programs.CASES])


@each_case
def test_each_op_is_on_its_line(name: str, rewritten: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(profiled(getattr(programs, name), Chains()))
    expected = true(getattr(rewritten, name), monkeypatch)
    assert sum(found.values()) > 3
    assert {key: (found[key], expected[key]) for key in {*found, *expected} if found[key] != expected[key]} == {}


@each_case
def test_the_sites_of_an_op_are_all_its_calls_and_nothing_else_changes(name: str) -> None:
    body = getattr(programs, name)
    without, profile = (profiled(body, chains) for chains in (None, Chains()))
    assert facts_of(profile) == facts_of(without)
    assert not without.has_sites
    for stats in profile.ops:
        assert sum(profile.sites(stats.op, counted_only=True).values()) == stats.most_calls
        assert all(site and site.frames and not site.is_backward for site, _ in profile.sites(stats.op))


def test_the_chain_ends_at_the_test_and_has_the_dtypes_of_its_calls() -> None:
    def body(x: Any) -> None:
        programs.narrowed(x)

    ((site, dtypes),) = profiled(body, Chains()).sites("Cast")
    assert site
    assert dtypes == "float64->float32"
    test = "test_the_chain_ends_at_the_test_and_has_the_dtypes_of_its_calls"
    functions = [frame.function.split(".")[-1] for frame in site.frames]
    assert functions == ["narrowed", "body", "profiled", test]


def test_the_worst_round_is_told_and_other_rounds_are_not() -> None:
    numpy = backend()
    x = np.ones(4)
    with numpy.collect(Options(chains=Chains())) as log:
        for rounds in (1, 3, 2):
            log.mark()
            for _ in range(rounds):
                x + 1
    profile = assemble([(log.freeze(), {1: 0, 2: 1, 3: 2})], [1, 1, 1])
    assert list(profile.sites("Add").values()) == [3]


def test_threads_have_lines_of_their_own() -> None:
    ready, go = threading.Semaphore(0), threading.Barrier(4)

    def work(x: Any) -> None:
        ready.release()
        go.wait()
        for _ in range(50):
            x + 1

    def body(x: Any) -> None:
        threads = [threading.Thread(target=work, args=(x,)) for _ in range(4)]
        for thread in threads:
            thread.start()
            # Under coverage a thread of Python 3.11 dies if another begins to be traced at the same moment.
            ready.acquire()
        for thread in threads:
            thread.join()
        x + 1

    found = profiled(body, Chains()).sites("Add")
    assert {site.frames[0].function.split(".")[-1]: calls for (site, _), calls in found.items() if site} == {
        "work": 200,
        "body": 1,
    }


def test_all_that_a_window_makes_has_lines_too() -> None:
    with backend().collect(Options(chains=Chains())) as log:
        log.mark()
        line = sys._getframe().f_lineno + 1
        np.ones(4).astype(np.float32)
    ((site, _),) = assemble([(log.freeze(), {1: 0})], [1]).sites("Cast")
    assert site
    assert site.frames[0].line == line
    assert len(site.frames) == 1


def test_nothing_traces_lines_for_numpy() -> None:
    before, during = sys.gettrace(), []
    profiled(lambda x: during.append(sys.gettrace()), Chains())
    assert during == [before]
