"""Where a body spends its time, by line of the program."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.measure.sampled import Sampler, timed_lines
from pytest_opprof.sites.chains import Frame
from pytest_opprof.sites.shown import Shown
from pytest_opprof.sites.tracer import Tracer

from .changed_lines import Changed

HERE = Path(__file__)
LINE = next(at for at, text in enumerate(HERE.read_text(encoding="utf-8").splitlines(), 1) if text.endswith("  # here"))


def waits_for(sampler: Sampler, looks: int) -> None:
    while sampler.looks < looks:
        threading.Event().wait(0.001)  # here


def test_the_line_at_which_the_program_is_gets_the_time() -> None:
    ticks = count(0, 10)
    with Sampler(Shown(HERE.parents[1]), lambda: next(ticks)) as sampler:
        waits_for(sampler, 20)
    (said, place), *_ = sampler.lines()  # under load a line beside it may have a look, too
    assert place == f"measure/test_sampled.py:{LINE}"
    assert said.endswith(
        f" of the time is at measure/test_sampled.py:{LINE} in waits_for `threading.Event().wait(0.001)  # here`"
    )


def test_a_line_that_holds_pythons_lock_gets_the_time_that_was_seen_at_the_next_one() -> None:
    ticks = count(0, 36)  # ns that 4 and 9 divide, however many looks there were
    sampler = Sampler(Shown(HERE.parents[1]), lambda: next(ticks))
    with sampler:
        waits_for(sampler, 20)
    file, name = str(HERE), "waits_for"
    seen, before, other = (Frame(file, each, line) for each, line in ((name, LINE), (name, LINE - 1), ("other", 1)))
    ns = sum(ns for line, ns in sampler._at.items() if line == seen)
    sampler._add([other], [0], None, ns)  # one that samples saw takes no others
    for times in ({}, {seen: ns, before: ns}, {before: ns // 5, other: ns}, {other: ns, seen: ns // 9}):
        sampler.correct(times)
        assert next(sampler.lines()).line == f"measure/test_sampled.py:{LINE}"
    sampler._add([other], [0], None, ns // 3 - ns)
    sampler.correct({before: ns // 4, seen: ns // 9, other: ns // 4})
    assert next(sampler.lines()).line == f"measure/test_sampled.py:{LINE}"
    sampler.correct({before: ns // 4, seen: ns // 9, other: ns // 4}, runs=2)
    assert next(sampler.lines()).line == f"measure/test_sampled.py:{LINE - 1}"


class Clock:
    """Takes 10 ns for each look at it, beside what the program says that it takes."""

    ns = 0

    def __call__(self) -> int:
        self.ns += 10
        return self.ns


def works(clock: Clock, rounds: int) -> None:
    for _ in range(rounds):
        clock.ns += 100
        helps(clock, 40)


def helps(clock: Clock, ns: int) -> None:
    clock.ns += ns // 2
    clock.ns += ns // 2


def test_a_run_line_by_line_has_the_time_of_each_line_of_a_function_and_of_others_at_their_first_one() -> None:
    clock, shown, functions = Clock(), Shown(HERE.parents[1]), {(str(HERE), "works")}
    times = timed_lines(lambda: works(clock, 3), shown, functions, clock)
    begin = works.__code__.co_firstlineno
    assert {(each.function, each.line): ns for each, ns in times.items() if ns} == {
        ("works", begin + 2): 300,
        ("helps", helps.__code__.co_firstlineno): 120,
    }
    assert {each.line - begin for each in times if each.function == "works"} == {1, 2, 3}


def test_a_run_line_by_line_that_is_not_seen_to_its_end_has_no_times() -> None:
    clock, shown, functions = Clock(), Shown(HERE.parents[1]), {(str(HERE), "works")}
    assert timed_lines(lambda: works(clock, 3), shown, functions, clock, most=15) == {}
    with pytest.raises(ZeroDivisionError):
        timed_lines(lambda: works(clock, 1 // 0), shown, functions)
    assert Tracer.unavailable() is None


def test_time_outside_of_the_project_is_no_lines(tmp_path: Path) -> None:
    with Sampler(Shown(tmp_path)) as sampler:
        waits_for(sampler, 3)
    assert [*sampler.lines()] == []


def test_its_thread_ends_where_the_body_raises() -> None:
    with pytest.raises(ZeroDivisionError), Sampler(Shown(HERE.parent)) as sampler:
        raise ZeroDivisionError
    assert sampler not in threading.enumerate()
    assert not [thread for thread in threading.enumerate() if thread.name == "opprof-sampler"]


def test_the_line_of_a_package_is_told_beside_the_line_that_called_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages"
    (package / "slowpoke").mkdir(parents=True)
    (package / "slowpoke" / "__init__.py").write_text("def work(wait, more):\n    while more():\n        wait(0.001)\n")
    monkeypatch.syspath_prepend(package)
    import slowpoke  # type: ignore[import-not-found]

    with Sampler(Shown(HERE.parents[1])) as sampler:
        slowpoke.work(threading.Event().wait, lambda: sampler.looks < 20)
    (said, _), *_ = sampler.lines()  # under load a line beside it may have a look, too
    assert said.endswith(", most at slowpoke/__init__.py:3 in work `wait(0.001)`")
    assert " is at measure/test_sampled.py:" in said


def test_lines_above_a_tool_that_calls_tests_lead_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that starts pytest may lie below the root directory: all of the time was below `.venv/bin/pytest`."""
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "pytest_caller.py").write_text("def call(test):\n    test()\n")
    monkeypatch.syspath_prepend(package)
    import pytest_caller  # type: ignore[import-not-found]

    with Sampler(Shown(HERE.parents[1])) as sampler:
        pytest_caller.call(lambda: waits_for(sampler, 20))
    below = Counter[str]()
    for line, ns in sampler._below.items():
        below[line.function] += ns
    ours = {"waits_for", "<lambda>"}
    above = sum(ns for function, ns in below.items() if function not in {*ours, "call"})
    assert min(below[each] for each in ours) > 2 * above, "under load a look may fall on a line above before it calls"


def test_the_line_that_most_of_the_time_is_below_comes_first_where_no_line_takes_most_itself() -> None:
    code = {name: number for number, name in enumerate(("copy", "step", "test"))}

    def add(chain: Sequence[str], ns: int) -> None:
        lines = [each.split(":") for each in chain]
        frames = [Frame(f"{name}.py", "forward", int(line)) for name, line in lines]  # functions of one name
        sampler._add(frames, [code[name] for name, _ in lines], None, ns)

    chains = {
        # The innermost first: half of the copy is in each of two lines, and it calls itself.
        ("copy:1", "step:5", "test:9"): 40,
        ("copy:2", "copy:1", "step:5", "test:9"): 44,
        ("step:6", "test:9"): 16,
    }
    sampler = Sampler(Shown(HERE.parent))
    for chain, ns in chains.items():
        add(chain, ns)
    below, *at = (each.text for each in sampler.lines())
    assert below.startswith("84% of the time is below step.py:5 in forward")
    assert [each.split(" in ")[0] for each in at] == [
        "44% of the time is at copy.py:2",
        "40% of the time is at copy.py:1",
    ]
    sampler._shown.test = "step.py"
    assert [each.text.split(" in ")[0] for each in sampler.lines()] == [each.split(" in ")[0] for each in at]
    add(["copy:2"], 80)
    assert [each.text.split(" in ")[0] for each in sampler.lines()] == [
        "69% of the time is at copy.py:2",
        "22% of the time is at copy.py:1",
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ["60% is at leaf.py:1", "40% is at leaf.py:2"]),
        ({"test.py": [9]}, ["100% is below test.py:9", "60% is at leaf.py:1", "40% is at leaf.py:2"]),
        ({"test.py": [9], "step.py": [5]}, ["100% is below step.py:5", "60% is at leaf.py:1", "40% is at leaf.py:2"]),
        ({"leaf.py": [1]}, ["60% is at leaf.py:1", "40% is at leaf.py:2"]),
        ({"leaf.py": [2]}, ["40% is at leaf.py:2", "60% is at leaf.py:1"]),  # too little of the time to be the cause
        ({"other.py": [1]}, ["60% is at leaf.py:1", "40% is at leaf.py:2"]),
    ],
)
def test_a_changed_line_that_most_of_the_time_is_below_comes_first(
    changed: Mapping[str, Sequence[int]], said: Sequence[str]
) -> None:
    sampler = Sampler(Changed(changed))
    for leaf, ns in ((1, 60), (2, 40)):
        names = {"leaf.py": leaf, "step.py": 5, "test.py": 9}
        sampler._add([Frame(file, "run", line) for file, line in names.items()], [0, 1, 2], None, ns)
    found = [each.text.partition(" in ")[0].replace(" of the time", "") for each in sampler.lines()]
    assert found == said


def shares(changed: Mapping[str, Sequence[int]], times: Mapping[Frame, int], runs: float | None) -> Sequence[str]:
    """Return the lines that 90 samples of a writer and 10 of its caller have after a run with these *times*."""
    sampler = Sampler(Changed(changed))
    sampler._add([WRITER, CALLER], [0, 1], None, 90)
    sampler._add([CALLER], [1], None, 10)
    sampler.correct(times, runs)
    return [each.text.partition(" in ")[0].replace(" of the time", "") for each in sampler.lines()]


WRITER, CALLER, CALLED = Frame("write.py", "write", 3), Frame("call.py", "call", 7), Frame("call.py", "call", 8)


@pytest.mark.parametrize(
    ("changed", "times", "runs", "said"),
    [
        ({}, {WRITER: 40, CALLED: 50, CALLER: 10}, 1, ["90% is at write.py:3"]),
        ({"call.py": [8]}, {WRITER: 40, CALLED: 50, CALLER: 10}, 1, ["50% is at call.py:8", "40% is at write.py:3"]),
        ({"call.py": [8]}, {WRITER: 85, CALLED: 5, CALLER: 10}, 1, ["85% is at write.py:3"]),
        ({"call.py": [8]}, {WRITER: 4, CALLED: 5, CALLER: 1}, 10, ["50% is at call.py:8", "40% is at write.py:3"]),
        ({"call.py": [8]}, {WRITER: 4, CALLED: 5, CALLER: 1}, None, ["50% is at call.py:8", "40% is at write.py:3"]),
        ({"call.py": [8]}, {CALLED: 5, CALLER: 1}, None, ["90% is at write.py:3"]),  # a cache is full then
        ({"call.py": [8]}, {}, None, ["90% is at write.py:3"]),
    ],
)
def test_a_changed_line_gets_the_samples_that_its_time_needs(
    changed: Mapping[str, Sequence[int]], times: Mapping[Frame, int], runs: float | None, said: Sequence[str]
) -> None:
    assert shares(changed, times, runs) == said


def test_a_function_that_few_samples_saw_gets_the_samples_of_its_caller_if_it_took_the_time() -> None:
    """`bytes +=` in a function without a loop is seen in the loop that calls it (smart_open's buffer)."""
    sampler = Sampler(Shown(HERE.parent))
    sampler._add([CALLER], [1], None, 96)
    sampler._add([CALLED], [1], None, 4)
    sampler._add([WRITER._replace(line=2), CALLER], [0, 1], None, 0)
    whole = {Frame("write.py", "write", 1): 80, CALLER: 2}
    assert sampler.hidden(whole) == {("write.py", "write")}
    sampler.correct({WRITER: 78, Frame("write.py", "write", 1): 2, CALLER: 2})
    assert [each.text.partition(" in ")[0] for each in sampler.lines()][:1] == ["98% of the time is at write.py:3"]
    assert sampler._below[CALLER] == 96
    assert sampler.hidden(whole) == set()


def test_a_line_that_calls_itself_by_a_generator_counts_once() -> None:
    sampler = Sampler(Changed({"call.py": [7]}))
    inside = CALLER._replace(function="<genexpr>")
    sampler._add([inside, CALLER], [0, 1], None, 90)
    sampler._add([CALLED], [1], None, 10)
    sampler.correct({CALLER: 90, inside: 0, CALLED: 10})
    assert [each.text.partition(" in ")[0] for each in sampler.lines()] == ["90% of the time is at call.py:7"]


def test_functions_of_changed_files_are_compared_where_much_of_the_time_is_below_them() -> None:
    for changed, functions in (({}, [{"write"}]), ({"call.py": [8]}, [{"write", "call"}, {"write"}])):
        sampler = Sampler(Changed(changed))
        sampler._add([WRITER, CALLER], [0, 1], None, 90)
        sampler._add([Frame("other.py", "rare", 1), Frame("call.py", "rarely", 9)], [2, 3], None, 9)
        sampler._add([WRITER], [0], None, 1)
        assert [{name for _, name in each} for each in sampler.functions] == [each | {"rare"} for each in functions]


def searches_and_writes(file: int) -> None:
    pattern, text = re.compile("a+b"), "a" * 700
    for _ in range(300):
        pattern.search(text)  # the work
        os.write(file, b"a")


def test_the_time_is_not_at_the_lines_that_give_up_pythons_lock() -> None:
    """A parser searches for milliseconds and writes in microseconds, but only the writes release the lock."""
    file, shown = os.open(os.devnull, os.O_WRONLY), Shown(HERE.parents[1])
    with Sampler(shown) as sampler:
        searches_and_writes(file)
    sampler.correct(timed_lines(lambda: searches_and_writes(file), shown, *sampler.functions))
    os.close(file)
    assert "`pattern.search(text)  # the work`" in next(sampler.lines()).text


@given(
    st.dictionaries(st.integers(0, 5), st.integers(0, 1000), min_size=1),
    st.dictionaries(st.integers(0, 5), st.integers(0, 1000)),
    st.sampled_from([0.5, 1, 10, None]),
    st.sets(st.integers(0, 5)),
)
def test_no_line_gets_more_than_all_time_however_long_a_run_line_by_line_takes(
    sampled: Mapping[int, int], timed: Mapping[int, int], runs: float | None, changed: set[int]
) -> None:
    lines = [Frame(f"{at // 3}.py", f"f{at // 2}", at + 1) for at in range(6)]
    sampler = Sampler(Changed({f"{file}.py": [at + 1 for at in changed if at // 3 == file] for file in (0, 1)}))
    for at, ns in sampled.items():
        sampler._add([lines[at]], [at], None, ns)
    sampler.correct({lines[at]: ns for at, ns in timed.items()}, runs)
    assert min(sampler._at.values()) >= 0
    assert sum(sampler._at.values()) == sum(sampled.values())


def test_a_function_that_half_of_its_samples_missed_gets_those_of_its_caller() -> None:
    """A concatenation in C, called in a loop: 75 % of the samples were at the loop (tornado's headers)."""
    sampler = Sampler(Shown(HERE.parents[1]))
    loop, start, joins = (
        Frame(str(HERE), "loops", 1),
        Frame(str(HERE), "adds", LINE - 1),
        Frame(str(HERE), "adds", LINE),
    )
    sampler._add([loop], [0], None, 75)
    sampler._add([start, loop], [1, 0], None, 25)
    times = {loop: 12, start: 30, joins: 58}
    assert sampler.hidden(times) == {(str(HERE), "adds")}
    sampler.correct(times)
    assert next(sampler.lines()).line == f"measure/test_sampled.py:{LINE}"
    sampler._add([start, loop], [1, 0], None, 70)
    assert not sampler.hidden({loop: 50, start: 50})
