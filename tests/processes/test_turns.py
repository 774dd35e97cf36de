"""Two sides take turns: scripted ones, in threads of this process, that speak the real protocol over real sockets."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.processes import child
from pytest_opprof.processes.child import Child
from pytest_opprof.processes.collection import Collection, Wanted
from pytest_opprof.processes.parent import Parent
from pytest_opprof.processes.turns import SideRun, take_turns
from pytest_opprof.results.plain import plain

Script = Callable[[Parent], None]
Sides = Callable[..., list[Child]]


class Ended:
    """Stands for the process of a side: a thread has none. It has ended by the time anybody asks."""

    def wait(self, timeout_s: float | None = None) -> int:
        return 0


@pytest.fixture
def sides() -> Iterator[Sides]:
    """Start a thread for each script, and return the sides that they are."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:
        connections = []

        def run(script: Script) -> None:
            parent = Parent({"kind": "side", "port": server.getsockname()[1], "hello": []})
            try:
                script(parent)
            except pytest.exit.Exception:
                pass  # what `ask` raises in a process that nobody waits for any more

        def start(*scripts: Script) -> list[Child]:
            children = []
            for name, script in zip(("base", "now"), scripts):
                threads.submit(run, script)
                child = Child(name, Ended(), io.BytesIO(b"collecting\n= it broke =\n"))  # type: ignore[arg-type]
                child.connection = server.accept()[0]
                connections.append(child.connection)
                while child.connection.recv(1) != b"\n":
                    pass  # hello
                children.append(child)
            return children

        yield start
        for connection in connections:
            connection.close()


def side(
    name: str, log: list[str], tests: dict[str, int], ends_before: str = "", misplaced: Sequence[str] = ()
) -> Script:
    """Return what a side does that has these *tests* of so many rounds, and writes in *log* what it runs."""

    def run(parent: Parent) -> None:
        for test in parent.ask("tests", list(tests), {f"{name}.py": "no module"})["tests"]:
            if test == ends_before:
                return
            parent.ask("begin", test)
            log.append(f"{name} begins {test}")
            for _ in range(tests[test]):
                parent.ask("turn")
                log.append(f"{name} {test}")
            parent.ask("end", test, [{"of": name}])
        parent.ask("bye", list(misplaced), [])

    return run


def rounds(log: list[str]) -> list[str]:
    return [line for line in log if "begins" not in line]


def test_of_four_rounds_a_side_takes_the_first_and_the_last(sides: Sides) -> None:
    log: list[str] = []
    take_turns(sides(side("A", log, {"t": 4}), side("B", log, {"t": 4})), Wanted(["t"]))
    assert rounds(log) == ["A t", "B t", "B t", "A t", "A t", "B t", "B t", "A t"]


def test_the_first_child_goes_first(sides: Sides) -> None:
    log: list[str] = []
    base, now = sides(side("A", log, {"t": 1}), side("B", log, {"t": 1}))
    take_turns([now, base], Wanted(["t"]))
    assert rounds(log) == ["B t", "A t"]


def test_the_answers_are_in_the_order_of_the_children_and_each_ones_own(sides: Sides) -> None:
    base, now = take_turns(sides(side("A", [], {"t": 1, "gone": 1}), side("B", [], {"t": 1, "new": 1})), Wanted(["t"]))
    assert base == SideRun(["t", "gone"], {"t": [{"of": "A"}]}, {"A.py": "no module"})
    assert now == SideRun(["t", "new"], {"t": [{"of": "B"}]}, {"B.py": "no module"})


def test_neither_begins_a_test_before_the_other_has_ended_the_one_before(sides: Sides) -> None:
    log: list[str] = []
    both = sides(side("A", log, {"t": 1, "u": 1}), side("B", log, {"t": 3, "u": 1}))
    take_turns(both, Wanted(["t", "u"]))
    assert log.index("A begins u") > max(index for index, line in enumerate(log) if line == "B t")


def test_a_test_that_one_side_lacks_is_run_by_the_other_alone(sides: Sides) -> None:
    log: list[str] = []
    base, now = take_turns(sides(side("A", log, {"u": 1}), side("B", log, {"t": 2, "u": 1})), Wanted(["t", "u"]))
    assert rounds(log)[:2] == ["B t", "B t"]
    assert (list(base.reports), list(now.reports)) == (["u"], ["t", "u"])


def test_no_side_runs_a_test_that_is_not_wanted(sides: Sides) -> None:
    log: list[str] = []
    take_turns(sides(side("A", log, {"t": 1, "u": 1}), side("B", log, {"t": 1, "u": 1})), Wanted(["u"]))
    assert rounds(log) == ["A u", "B u"]


def test_the_last_side_describes_its_tests_to_a_function_that_chooses_from_them(sides: Sides) -> None:
    found = Collection([], [], True, [], [])

    def describes(parent: Parent) -> None:
        wanted = {"tests": ["u"], "everything": True, "closely": ["u"], "later": ["u"], "rounds": {"u": 30}}
        assert parent.ask("tests", ["t", "u"], {}, plain(found)) == wanted
        parent.ask("begin", "u")
        parent.ask("end", "u", [])
        parent.ask("bye", [], [])

    asked: list[Collection] = []

    def choose(collection: Collection) -> Wanted:
        asked.append(collection)
        return Wanted(["u"], everything=collection.everything, closely=["u"], later=["u"], rounds={"u": 30})

    base, now = take_turns(sides(side("A", [], {"u": 1, "v": 1}), describes), choose)
    assert asked == [found]
    assert ([*base.reports], [*now.reports]) == (["u"], ["u"])


def test_tests_whose_times_are_not_judged_run_at_the_same_time(sides: Sides) -> None:
    together = Barrier(2, timeout=60)

    def alone_with(test: str) -> Script:
        def run(parent: Parent) -> None:
            assert parent.ask("tests", [test], {})["tests"] == [test]
            parent.ask("begin", test)
            parent.ask("turn")
            together.wait()  # in the middle of both
            parent.ask("end", test, [])
            parent.ask("bye", [], [])

        return run

    base, now = take_turns(sides(alone_with("t"), alone_with("u")), Wanted(["t", "u"], in_turns=False))
    assert ([*base.reports], [*now.reports]) == (["t"], ["u"])


def test_no_test_runs_on_both_sides_at_the_same_time(sides: Sides) -> None:
    """It may need a port or a file for itself."""
    log: list[tuple[str, str]] = []

    def logs(parent: Parent) -> None:
        for test in parent.ask("tests", list("tuvw"), {})["tests"]:
            parent.ask("begin", test)
            log.append(("begin", test))
            parent.ask("turn")
            log.append(("end", test))
            parent.ask("end", test, [])
        parent.ask("bye", [], [])

    take_turns(sides(logs, logs), Wanted(list("tuvw"), in_turns=False))
    for test in "tuvw":
        assert [what for what, each in log if each == test] == ["begin", "end", "begin", "end"]


@pytest.mark.parametrize("in_turns", [True, False])
def test_a_side_that_ends_in_a_test_is_named(sides: Sides, in_turns: bool) -> None:
    """As by pytest.exit() in a test, after which nothing says that the test has ended."""

    def exits(parent: Parent) -> None:
        parent.ask("tests", ["t"], {})
        parent.ask("begin", "t")
        parent.ask("bye", [], [])

    with pytest.raises(BackendError, match=r"^base ended early"):
        take_turns(sides(exits, side("B", [], {"t": 1})), Wanted(["t"], in_turns=in_turns))


@pytest.mark.parametrize(("took_ms", "is_alone"), [(4, False), (5, True)])
def test_the_base_runs_a_test_alone_that_took_long_in_the_working_tree(
    sides: Sides, took_ms: int, is_alone: bool
) -> None:
    """A shared core would make its coarse time longer, and hide a slowdown."""
    windows = [{"coarse": {"wall_ns": [took_ms * 1_000_000]}}]
    reports = [{"when": "setup"}, {"when": "call", "opprof": {"windows": windows}}]
    in_the_base, beside, over = Event(), Event(), Event()

    def base(parent: Parent) -> None:
        parent.ask("tests", ["t"], {})
        parent.ask("begin", "t")
        parent.ask("turn")
        in_the_base.set()
        assert beside.wait(0.3 if is_alone else 60) is not is_alone
        parent.ask("end", "t", reports)
        over.set()
        parent.ask("bye", [], [])

    def now(parent: Parent) -> None:
        parent.ask("tests", ["t", "u"], {})
        for test in "tu":
            parent.ask("begin", test)
            parent.ask("turn")
            if test == "u" and not is_alone:
                assert in_the_base.wait(60)
            if in_the_base.is_set() and not over.is_set():
                beside.set()
            parent.ask("end", test, reports)
        parent.ask("bye", [], [])

    take_turns(sides(base, now), Wanted(["t", "u"], in_turns=False))


@pytest.mark.parametrize("in_turns", [True, False])
def test_a_side_that_hangs_in_a_test_is_named_with_it(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, in_turns: bool
) -> None:
    released = Event()

    def hangs(parent: Parent) -> None:
        parent.ask("tests", ["t"], {})
        parent.ask("begin", "t")
        released.wait()

    both = sides(side("A", [], {"u": 1}), hangs)
    monkeypatch.setattr(child, "PATIENCE_S", 0.5)
    with pytest.raises(BackendError, match=r"^now took more than 0 s, in t$"):
        take_turns(both, Wanted(["t", "u"], in_turns=in_turns))
    released.set()


def test_rounds_go_on_in_turns_from_test_to_test(sides: Sides) -> None:
    """Or the side that begins would begin each test of one round, and always find the same caches."""
    log: list[str] = []
    tests = dict.fromkeys("tuv", 1)
    take_turns(sides(side("A", log, tests), side("B", log, tests)), Wanted(list(tests)))
    assert [line[0] for line in rounds(log)] == ["A", "B", "B", "A", "A", "B"]


def test_a_side_that_ends_early_is_named_with_the_last_that_it_printed(sides: Sides) -> None:
    both = sides(side("A", [], {"t": 1, "u": 1}, ends_before="u"), side("B", [], {"t": 1, "u": 1}))
    with pytest.raises(BackendError, match=r"^base ended early \(it broke\)$"):
        take_turns(both, Wanted(["t", "u"]))


def test_a_side_that_did_not_collect_is_named(sides: Sides) -> None:
    def broken(parent: Parent) -> None:
        parent.ask("bye", [], [])

    with pytest.raises(BackendError, match=r"^now ended early"):
        take_turns(sides(side("A", [], {"t": 1}), broken), Wanted(["t"]))


def test_a_side_that_skips_the_rest_of_its_tests_is_named(sides: Sides) -> None:
    """As one does that stops at its first failure."""

    def stops(parent: Parent) -> None:
        parent.ask("tests", ["t"], {})
        parent.ask("bye", [], [])

    with pytest.raises(BackendError, match=r"^now ended early"):
        take_turns(sides(side("A", [], {"t": 1}), stops), Wanted(["t"]))


@pytest.mark.parametrize(("number", "said"), [(1, "m0. If"), (5, "m0, m1, m2 and 2 more. If")])
def test_a_side_that_tested_the_files_of_the_other_is_no_comparison(sides: Sides, number: int, said: str) -> None:
    wrong: list[Any] = [f"m{each}" for each in range(number)]
    both = sides(side("A", [], {"t": 1}, misplaced=wrong), side("B", [], {"t": 1}))
    with pytest.raises(BackendError) as error:
        take_turns(both, Wanted(["t"]))
    assert str(error.value).startswith(f"base did not test its own files: it imported {said}")


def test_a_side_that_does_not_start_is_told_with_what_it_printed(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "PATIENCE_S", 0.001)
    asked = Event()

    def hangs(_: Parent) -> None:
        asked.wait()

    (base,) = sides(hangs)
    with pytest.raises(BackendError) as raised:
        take_turns([base], Wanted(["test_a"]))
    asked.set()
    said = str(raised.value)
    assert said.startswith("base took more than 0 s, before its tests were collected (it broke). conftest.py files run")
