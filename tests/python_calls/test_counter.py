"""Counts of real Python functions: exact, in all threads, and without a trace afterwards."""

from __future__ import annotations

import functools
import gc
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_opprof.python_calls import tally
from pytest_opprof.python_calls.counted import PythonCalls
from pytest_opprof.python_calls.counter import Counter
from pytest_opprof.python_calls.names import LOOP, other_versions
from pytest_opprof.sites.shown import Shown

HERE = Shown(Path(__file__).parent)
TELLS_LOOPS = sys.version_info >= (3, 12)
needs_loops = pytest.mark.skipif(not TELLS_LOOPS, reason="Python tells of loops from 3.12 on")
needs_monitoring = pytest.mark.skipif(not TELLS_LOOPS, reason="sys.monitoring is there from Python 3.12 on")
needs_setprofile = pytest.mark.skipif(TELLS_LOOPS, reason="sys.setprofile counts before Python 3.12")


def helper(values: list[int], value: int) -> int:
    return values.index(value)


def by_rows(values: list[int]) -> int:
    total = 0
    for value in values:
        total += helper(values, value)
    return total


def numbers(count: int):
    yield from range(count)


def counted(function, *arguments, lines=False, only=None) -> PythonCalls:
    with Counter(HERE, lines, only) as counter:
        function(*arguments)
    return counter.result()


def own(name: str) -> str:
    return f"{__name__}.{name}"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="only Python 3.11 can get that slow")
def test_counting_that_takes_too_long_ends_and_says_so():
    def until_nobody_counts() -> None:
        while sys.getprofile() is not None:
            helper([1], 1)

    def until_it_is_copied_no_more() -> str:  # nothing here is an event of the profiler
        text = ""
        for value in range(500_000):
            text += str(value)
        return text

    for code in (until_nobody_counts, until_it_is_copied_no_more):
        with Counter(HERE, limit_s=0.01) as counter:
            code()
        found = counter.result()
        assert (found.total, found.uncounted[:23]) == (0, "it took more than 0 s, ")
    assert counted(by_rows, [1]).total == 3


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="only Python 3.11 can get that slow")
def test_counting_that_takes_too_long_keeps_the_lines_that_it_found():
    def until_nobody_counts() -> None:
        while sys.getprofile() is not None:
            helper([1], 1)

    with Counter(HERE, lines=True, limit_s=0.01) as counter:
        until_nobody_counts()
    found = counter.result()
    assert found.uncounted
    assert {each.function for each in found.lines} >= {own("helper"), "list.index"}
    assert found.looked_up > 10


@needs_setprofile
def test_the_code_that_is_counted_sees_no_other_thread():
    before, seen = threading.enumerate(), []
    counted(lambda: seen.extend(threading.enumerate()))
    assert seen == before


def test_calls_of_python_functions_and_builtins_are_counted_by_name():
    found = counted(by_rows, list(range(50)))
    assert found.functions == {own("by_rows"): 1, own("helper"): 50, "list.index": 50}
    assert found.total == 101
    assert found.own == (own("by_rows"), own("helper"))
    assert found.versions == {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}


def test_the_same_code_has_the_same_calls_each_time():
    values = list(range(20))
    assert counted(by_rows, values) == counted(by_rows, values)


def test_a_generator_is_called_once_however_often_it_goes_on():
    found = counted(lambda: list(numbers(30)))
    assert found.functions[own("numbers")] == 1


def test_a_method_that_was_bound_before_has_the_name_of_its_type():
    append = [].append
    found = counted(lambda: [append(1), append(2)])
    assert found.functions["list.append"] == 2


def test_an_object_whose_attributes_run_code_is_not_asked_for_any():
    class Proxy:
        def __call__(self) -> None:
            pass

        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

    proxy = Proxy()
    found = counted(lambda: proxy())
    assert sum(calls for name, calls in found.functions.items() if name.endswith("__call__")) == 1


@needs_loops
def test_a_loop_without_a_call_is_told_by_its_rounds():
    def loop() -> int:
        total = 0
        for number in numbers_held:
            total += number
        return total

    numbers_held = range(1000)
    found = counted(loop)
    assert found.loops == {own("test_a_loop_without_a_call_is_told_by_its_rounds.<locals>.loop"): 1000}
    assert found.iterations == 1000


@needs_setprofile
def test_rounds_of_loops_are_not_known_before_python_3_12():
    assert counted(by_rows, [1]).loops is None


def test_a_full_collection_that_the_code_asks_for_is_an_amount():
    found = counted(lambda: [gc.collect() for _ in range(3)])
    assert found.collections == 3
    assert counted(lambda: gc.collect(0)).collections == 0


def test_garbage_is_not_collected_by_itself_while_calls_are_counted():
    seen = []

    def makes_cycles() -> None:
        seen.append(gc.isenabled())
        for _ in range(5000):
            cycle: list[object] = []
            cycle.append(cycle)

    assert counted(makes_cycles).collections == 0
    assert seen == [False]
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        counted(by_rows, [1])
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_calls_of_a_thread_that_begins_meanwhile_count():
    def in_threads() -> None:
        threads = [threading.Thread(target=by_rows, args=([1, 2, 3],)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert counted(in_threads).functions[own("helper")] == 6


@needs_monitoring
def test_the_calls_of_a_thread_that_began_before_count():
    begin, done, end = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begin.wait()
        by_rows([1, 2, 3])
        done.set()
        end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        found = counted(lambda: (begin.set(), done.wait()))
    finally:
        end.set()
        thread.join()
    assert found.functions[own("helper")] == 3


def test_frames_of_pytest_do_not_count():
    def raises() -> None:
        with pytest.raises(ValueError, match="is not in list"):
            helper([1], 2)

    found = counted(raises)
    assert not [name for name in found.functions if name.startswith(("_pytest", "pytest"))]
    assert found.functions[own("helper")] == 1


def state() -> object:
    if TELLS_LOOPS:
        tools = [sys.monitoring.get_tool(each) for each in range(6)]
        return tools, gc.isenabled(), len(gc.callbacks)
    return sys.getprofile(), getattr(threading, "_profile_hook", None), gc.isenabled(), len(gc.callbacks)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_all_is_as_before_after_whatever_the_code_raises(error: type[BaseException]):
    def fails() -> None:
        raise error("as it would without us")

    before = state()
    with pytest.raises(error, match="as it would without us"):
        counted(fails)
    assert state() == before
    assert counted(by_rows, [1]).functions[own("helper")] == 1


def test_what_fails_in_the_observer_fails_no_test(monkeypatch: pytest.MonkeyPatch):
    def breaks(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("pytest_opprof.python_calls.tally.Tally.begin", breaks)
    before = state()
    found = counted(by_rows, [1, 2])
    assert "RuntimeError: a defect" in found.uncounted
    assert found.functions == {}
    assert state() == before


@needs_monitoring
def test_who_holds_the_ids_of_monitoring_is_named():
    for number, name in ((3, "coverage"), (4, "a debugger")):
        sys.monitoring.use_tool_id(number, name)
    try:
        found = counted(by_rows, [1])
    finally:
        for number in (3, 4):
            sys.monitoring.free_tool_id(number)
    assert "by coverage and a debugger" in found.uncounted
    assert not found.functions


@needs_setprofile
def test_who_holds_the_profile_function_is_named():
    def traces(*_: object) -> None:
        pass

    sys.setprofile(traces)
    try:
        found = counted(by_rows, [1])
        assert sys.getprofile() is traces
    finally:
        sys.setprofile(None)
    assert "sys.setprofile is in use, by" in found.uncounted
    assert "traces" in found.uncounted


def test_lines_of_the_project_that_call_are_found():
    found = counted(by_rows, list(range(50)), lines=True)
    called = {(each.line.text, each.function): each.calls for each in found.lines if each.function != LOOP}
    assert called["total += helper(values, value)", own("helper")] == 50
    assert called["return values.index(value)", "list.index"] == 50
    assert {each.caller for each in found.lines} >= {own("by_rows"), own("helper")}


def calls_then_calls_others(values: list[int]) -> None:
    for value in values:
        helper(values, value)
    for _ in values:
        sorted(())


def test_lines_of_very_many_calls_are_estimated_from_some_of_them_the_last_ones_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tally, "MOST_FRAMES", 2_000)
    found = counted(calls_then_calls_others, list(range(10_000)), lines=True)
    assert 1_000 < found.looked_up < 3_000
    assert PythonCalls().with_lines(found).looked_up == found.looked_up
    lines = {each.function: each.calls for each in found.lines}
    for function in (own("helper"), "list.index", "builtins.sorted"):
        assert found.functions[function] == 10_000
        assert lines[function] == pytest.approx(10_000, rel=0.1)
    assert not counted(by_rows, list(range(50)), lines=True).looked_up


def test_a_function_of_few_calls_has_all_its_lines_where_others_have_some(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tally, "MOST_FRAMES", 200)
    found = counted(calls_then_calls_others, list(range(90)), lines=True)
    assert found.looked_up
    assert {each.calls for each in found.lines if each.function != LOOP} == {90, 1}


def test_lines_of_packages_lead_only_to_functions_that_are_asked_for():
    def writes() -> None:
        json.dumps({"a": [1]}, indent=1)

    found = counted(writes, lines=True, only={"json.encoder.JSONEncoder.encode", "json.encoder.encode"})
    named = {each.function.rpartition(".")[2]: each.direct for each in found.lines if each.function != LOOP}
    assert named == {"writes": True, "dumps": True, "encode": False}


def test_a_package_that_calls_has_the_line_of_the_project_that_called_it():
    def writes() -> str:
        return json.dumps({"a": [1, 2]}, indent=1)

    found = counted(writes, lines=True)
    lines = [each for each in found.lines if each.function.startswith("json.encoder")]
    assert lines
    assert {each.line.text for each in lines} == {'return json.dumps({"a": [1, 2]}, indent=1)'}
    assert not any(each.direct for each in lines)


PROGRAM = """
import json, re, sys
from pathlib import Path
from pytest_opprof.python_calls.counter import Counter
from pytest_opprof.sites.shown import Shown

def body():
    words = {word: len(word) for word in ("alpha beta gamma " * 20).split()}
    text = json.dumps(sorted(words))
    return re.sub("[a-c]", lambda match: match[0].upper(), text)

body()
with Counter(Shown(Path.cwd())) as counter:
    body()
found = counter.result()
print(json.dumps([found.total, found.iterations, found.functions, found.uncounted]))
"""


def run(tmp_path: Path, seed: int, *before: str) -> list[object]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": path}
    environment.pop("COVERAGE_PROCESS_START", None)
    command = [sys.executable, *before, str(program)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.processes
def test_three_processes_with_three_hash_seeds_count_alike(tmp_path: Path):
    found = [run(tmp_path, seed) for seed in (0, 1, 2)]
    assert found[0] == found[1] == found[2]
    assert found[0][0] > 50
    assert found[0][3] == ""


@pytest.mark.processes
def test_coverage_beside_changes_no_count(tmp_path: Path):
    pytest.importorskip("coverage")
    alone, beside = run(tmp_path, 0), run(tmp_path, 0, "-m", "coverage", "run")
    assert beside == alone


def test_other_versions_are_named_and_packages_of_one_side_are_none():
    assert other_versions({"python": "3.12", "numpy": "2.0"}, {"python": "3.12", "pandas": "3"}) == ""
    assert other_versions({"python": "3.12"}, {"python": "3.13"}) == "python 3.13 (baseline: 3.12)"


def test_only_what_the_target_does_counts_from_its_begin_to_its_return():
    def around() -> None:
        helper([1], 1)
        by_rows([1, 2])
        helper([1], 1)

    with Counter(HERE, target=by_rows.__code__) as counter:
        around()
    assert counter.result().functions == {own("by_rows"): 1, own("helper"): 2, "list.index": 2}


def test_a_target_that_does_not_run_is_said():
    before = state()
    with Counter(HERE, target=by_rows.__code__) as counter:
        helper([1], 1)
    assert "did not see the test function run" in counter.result().uncounted
    assert state() == before


def test_a_method_of_a_compiled_pattern_has_the_name_of_its_module():
    pattern = re.compile("a")
    match = pattern.match
    found = counted(lambda: (pattern.search("a"), match("a")))
    assert found.functions["re.Pattern.match"] == found.functions["re.Pattern.search"] == 1


@functools.lru_cache
def cached(number: int) -> int:
    return number


@needs_monitoring
def test_a_cached_function_that_is_asked_is_told_from_one_that_runs():
    cached(1)
    found = counted(lambda: [cached(1), cached(1)])
    assert found.functions[own("cached") + " (cached)"] == 2
    assert own("cached") not in found.functions
