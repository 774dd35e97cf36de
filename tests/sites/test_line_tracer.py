from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.sites.chains import UNKNOWN, Chains
from pytest_opprof.sites.tracer import Tracer, unavailable

from . import ops, programs
from .ops import op


@pytest.fixture
def marks() -> list[int]:
    return []


@pytest.fixture
def tracer(marks: list[int]) -> Iterator[Tracer]:
    tracer = Tracer(Chains(), marks.append)
    yield tracer
    tracer.stop()


def functions(tracer: Tracer, node: int) -> list[str]:
    """Return the functions of a chain, the innermost first."""
    return [frame.function.split(".")[-1] for frame in tracer.chains.frames(node)]


def test_it_tells_each_line_to_which_the_program_comes_once(tracer: Tracer, marks: list[int]) -> None:
    tracer.start(sys._getframe())
    begin = sys._getframe().f_lineno
    for _ in range(2):
        programs.deep(0); programs.deep(0)  # fmt: skip  # noqa: E702
    end = sys._getframe().f_lineno
    tracer.stop()
    lines = [tracer.chains.frames(node)[0] for node in marks]
    deep = programs.deep.__code__.co_firstlineno + 1
    around = [begin, *[begin + 1, begin + 2, *[deep, begin + 2] * 2] * 2, begin + 1, end, end + 1]
    assert [frame.line for frame in lines] == [begin - 1, *around]


def test_it_knows_nothing_but_while_it_runs(tracer: Tracer, marks: list[int]) -> None:
    assert tracer.now == UNKNOWN
    tracer.start(sys._getframe())
    now = tracer.now
    tracer.stop()
    told = len(marks)
    programs.deep(1)
    assert now in marks
    assert tracer.now == UNKNOWN
    assert len(marks) == told
    assert (tracer.capped, tracer.replaced) == (False, False)


def test_a_chain_ends_where_the_test_was_called(tracer: Tracer) -> None:
    def helper() -> int:
        tracer.start(sys._getframe())
        return tracer.now

    test = "test_a_chain_ends_where_the_test_was_called"
    inside = helper()
    after = tracer.now  # the program came out of the function that opened the window
    tracer.stop()
    assert functions(tracer, inside) == ["helper", test]
    assert functions(tracer, after) == [test]


def test_a_generator_may_open_the_window_and_one_may_have_begun_before(tracer: Tracer) -> None:
    @contextlib.contextmanager
    def opened() -> Iterator[None]:
        tracer.start(sys._getframe())
        yield
        op()

    some = programs.begun()
    next(some)
    with ops.listening(tracer) as heard, opened():
        op()
        op(list(some))
    assert len(heard) == 6
    assert all(now == there for now, there in heard)
    assert functions(tracer, heard[1][0]) == [
        "begun",
        "test_a_generator_may_open_the_window_and_one_may_have_begun_before",
    ]


def test_where_a_window_ends_in_an_exception_the_next_can_begin(tracer: Tracer, marks: list[int]) -> None:
    with pytest.raises(ZeroDivisionError):
        try:
            tracer.start(sys._getframe())
            op(1 / 0)
        finally:
            tracer.stop()
    assert tracer.now == UNKNOWN
    tracer.stop()  # has ended already
    again = Tracer(Chains(), marks.append)
    again.start(sys._getframe())
    assert functions(again, again.now)
    again.stop()


def test_a_second_one_is_refused_while_the_first_runs(tracer: Tracer) -> None:
    assert unavailable() is None
    tracer.start(sys._getframe())
    assert unavailable() == "call sites are being traced already; one window at a time can do so, in one thread"
    with pytest.raises(BackendError, match="are being traced already"):
        Tracer(Chains(), print).start(sys._getframe())
    with pytest.raises(BackendError, match="are being traced already"):
        tracer.start(sys._getframe())
    assert tracer.now


def test_other_threads_do_not_matter(tracer: Tracer, marks: list[int]) -> None:
    def work() -> None:
        turn.wait()
        programs.deep(3)
        done.set()

    turn, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=work)
    tracer.start(sys._getframe())
    programs.deep(0)
    thread.start()
    before = len(marks)
    turn.set(); done.wait(); after, now = len(marks), tracer.now  # fmt: skip  # noqa: E702
    thread.join()
    tracer.stop()
    assert after == before + 1
    assert functions(tracer, now) == ["test_other_threads_do_not_matter"]
    assert ["deep"] not in [functions(tracer, node) for node in marks]


def test_the_function_that_runs_may_end_in_another_thread(tracer: Tracer) -> None:
    nodes = []

    def both(is_other: bool = False) -> None:
        if not is_other:
            thread = threading.Thread(target=both, args=[True])
            thread.start(); thread.join(); nodes.append(tracer.now)  # fmt: skip  # noqa: E702

    tracer.start(sys._getframe())
    both()
    tracer.stop()
    assert functions(tracer, nodes[0]) == ["both", "test_the_function_that_runs_may_end_in_another_thread"]


def test_an_interrupt_of_the_program_leaves_it_tracing(tracer: Tracer) -> None:
    lines = []
    tracer.start(sys._getframe())
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        lines.append(tracer.chains.frames(tracer.now)[0].line - sys._getframe().f_lineno)
    programs.deep(1)
    lines.append(tracer.chains.frames(tracer.now)[0].line - sys._getframe().f_lineno)
    tracer.stop()
    assert lines == [0, 0]
    assert not tracer.replaced


def test_an_interrupt_while_it_tells_a_line_reaches_the_program() -> None:
    def tell(node: int) -> None:
        if functions(tracer, node)[0] == "deep":
            raise KeyboardInterrupt

    before = sys.gettrace()
    tracer = Tracer(Chains(), tell)
    with pytest.raises(KeyboardInterrupt):
        try:
            tracer.start(sys._getframe())
            programs.deep(1)
        finally:
            tracer.stop()
    assert sys.gettrace() is before
    assert unavailable() is None
    assert tracer.replaced == (sys.version_info < (3, 12))  # sys.settrace gives up a function that raises


def test_an_error_where_the_window_opens_leaves_nothing_behind() -> None:
    def tell(node: int) -> None:
        raise KeyboardInterrupt

    before = sys.gettrace()
    with pytest.raises(KeyboardInterrupt):
        Tracer(Chains(), tell).start(sys._getframe())
    assert sys.gettrace() is before
    assert unavailable() is None


def test_it_gives_up_where_there_are_too_many_lines(marks: list[int]) -> None:
    tracer, before = Tracer(Chains(), marks.append), sys.gettrace()
    tracer.most_marks = 10
    tracer.start(sys._getframe())
    for _ in range(10):
        programs.deep(1)
    assert tracer.capped
    assert tracer.now == UNKNOWN
    tracer.stop()
    assert len(marks) == 11
    assert UNKNOWN not in marks[:-1]
    assert marks[-1] == UNKNOWN
    assert (tracer.capped, tracer.replaced) == (True, False)
    assert sys.gettrace() is before


def test_in_code_that_it_does_not_follow_the_program_stays_where_that_began_or_went_on(marks: list[int]) -> None:
    def other() -> Iterator[int]:
        op()
        op()
        yield 0
        op()

    def followed() -> None:
        op()
        op(list(other()))

    tracer = Tracer(Chains(), marks.append)
    tracer.follows = lambda code: code is followed.__code__
    here = sys._getframe().f_lineno
    tracer.start(sys._getframe())
    followed()
    tracer.stop()
    begin = other.__code__.co_firstlineno
    lines = [tracer.chains.frames(node)[0].line for node in marks]
    assert [line - begin for line in lines if line < here] == [7, 8, 0, 8, 3, 8]


HEAVY = """
from tests.sites.ops import op

def work(n):
    return op(n)

for n in range(100):
    work(n)
if FAILS:
    raise ImportError
"""


@pytest.mark.parametrize("fails", [False, True])
def test_the_import_of_an_installed_module_is_one_line(
    tracer: Tracer, marks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "opprof_heavy.py").write_text(HEAVY.replace("FAILS", str(fails)))
    monkeypatch.syspath_prepend(installed)
    monkeypatch.delitem(sys.modules, "opprof_heavy", raising=False)
    tracer.start(sys._getframe())
    with contextlib.suppress(ImportError):
        import opprof_heavy
    line = sys._getframe().f_lineno - 1
    during = len(marks)
    if not fails:
        opprof_heavy.work(1)
    tracer.stop()
    assert {tracer.chains.frames(node)[0].line for node in marks[:during]} >= {line}
    assert "work" not in [frame.function for node in marks[:during] for frame in tracer.chains.frames(node)]
    assert ("work" in [tracer.chains.frames(node)[0].function for node in marks[during:]]) is not fails


@pytest.mark.processes
@pytest.mark.parametrize("core", ["ctrace", "pytrace", "sysmon"])
def test_coverage_goes_on_after_the_window(core: str, tmp_path: Path) -> None:
    if core == "sysmon" and sys.version_info < (3, 12):
        pytest.skip("needs Python 3.12")
    Path(tmp_path, "subject.py").write_text(SUBJECT)
    Path(tmp_path, "run.py").write_text(RUN)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    environment |= {"COVERAGE_CORE": core, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "run.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    window = [6, 14, 15] if sys.version_info < (3, 12) else []  # lines that it misses
    assert json.loads(done.stdout) == [line for line in (1, 2, 3, 5, 6, *range(9, 18), 20, 21) if line not in window]


SUBJECT = """import sys
from pytest_opprof.sites.chains import Chains
from pytest_opprof.sites.tracer import Tracer

def inside():
    return 1


def test():
    before = 1
    tracer = Tracer(Chains(), lambda node: None)
    before += 1
    tracer.start(sys._getframe())
    before += inside()
    tracer.stop()
    before += 1
    return after()


def after():
    return 1
"""
RUN = """import coverage
measured = coverage.Coverage(data_file=None, include=["subject.py"])
measured.start()
import subject
subject.test()
measured.stop()
print(sorted(measured.get_data().lines(subject.__file__)))
"""
