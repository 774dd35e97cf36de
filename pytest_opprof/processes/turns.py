"""Two live processes, each with its own version of the code, that run the same tests by turns, round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from ..errors import BackendError
from ..profile.op_counts import listed
from ..results.plain import converted, plain
from .child import Child, Command, TookTooLong, ready, started
from .collection import Collection, Wanted
from .request import USUAL, Request

# By test, the reports of its phases as pytest serialises them.
Reports = dict[str, list[dict[str, Any]]]
# The tests of a pair, or a function that chooses them when its last side has collected.
Choose = Wanted | Callable[[Collection], Wanted]


def side_command(
    name: str,
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    trees: Mapping[str, str],
    *,
    is_base: bool,
) -> Command:
    """Return the command that starts a side; *trees* are the arguments of `side.misplaced`."""
    return Command(name, words, folder, {"kind": "side", "trees": dict(trees), "is_base": is_base}, environment)


@dataclass(slots=True)
class SideRun:
    """The tests that a side collected, and the reports of those it ran."""

    collected: list[str] = field(default_factory=list)
    reports: Reports = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    """By file, its collection error."""
    borrowed: list[str] = field(default_factory=list)
    """The compiled modules of the other side's tree that it imported."""


class Running:
    """The processes of pairs that run at once, in threads: Ctrl-C, which only the main thread sees, ends them all."""

    def __init__(self) -> None:
        self._children: list[Child] = []
        self._is_over = False

    def add(self, child: Child) -> None:
        """Add a process, which may not have connected yet; end it at once if the run has ended meanwhile."""
        self._children.append(child)
        if self._is_over:
            child.end()

    def end(self) -> None:
        """End all processes."""
        self._is_over = True
        for child in self._children:
            child.hang_up()
        for child in self._children:
            child.end()


def run_at_once(
    pairs: Sequence[tuple[Sequence[Command], Choose]],
    swapped: bool,
    request: Request = USUAL,
) -> list[SideRun]:
    """Run several pairs of sides at the same time, each with its own tests, and return the results of both sides.

    Raises BackendError like `run`, for the first pair that cannot be run.
    """
    if len(pairs) == 1:
        return run(*pairs[0], swapped, request)
    running = Running()
    with ThreadPoolExecutor(len(pairs)) as executor:
        try:
            futures = [executor.submit(run, *pair, swapped, request, running) for pair in pairs]
            ran = [future.result() for future in futures]
        except BaseException:
            running.end()
            raise
    return joined(ran)


def joined(pairs: Sequence[Sequence[SideRun]]) -> list[SideRun]:
    """Return pairs that ran different tests as one; each process has collected every test."""
    return [
        SideRun(
            sides[0].collected,
            {test: each for side in sides for test, each in side.reports.items()},
            sides[0].errors,
            list(dict.fromkeys(name for side in sides for name in side.borrowed)),
        )
        for sides in zip(*pairs)
    ]


def run(
    sides: Sequence[Command],
    wanted: Choose,
    swapped: bool,
    request: Request = USUAL,
    running: Running | None = None,
) -> list[SideRun]:
    """Run the *wanted* tests on the *sides* that have them, by turns; *swapped*: the second one goes first.

    *running*: the other pairs that run at the same time.

    Raises BackendError, with the reason, if a side ends early, hangs, or imports packages from elsewhere. Both
    processes are gone when this returns.
    """
    commands = []
    for side in sides:
        is_last = side is sides[-1]  # the working tree, which fails
        told = {
            "request": plain(request if is_last else structs.replace(request, causes=False)),
            "describes": is_last and not isinstance(wanted, Wanted),
        }
        commands.append(replace(side, told={**side.told, **told}))
    with started(commands[::-1] if swapped else commands, running.add if running else None) as children:
        ran = take_turns(children, wanted)
        return ran[::-1] if swapped else ran


@dataclass(eq=False)
class _Side:
    """A running side."""

    child: Child
    ran: SideRun = field(default_factory=SideRun)
    test: str = ""
    """The running test."""
    wanted: frozenset[str] = frozenset()
    """The tests that it has to run."""
    is_alone: bool = False
    """Whether nothing may run beside its test."""

    def hear(self) -> None:
        """Wait for its next question. Raises BackendError, naming the test, if it died or takes too long."""
        try:
            self.child.hear()
        except BackendError as error:
            at = f", in {self.test}" if self.test else ""
            if isinstance(error, TookTooLong) and not self.ran.collected:
                at = (
                    f", before its tests were collected ({self.child.last_line}). conftest.py files run on both sides"
                    " at once: can they share a port or a lock?"
                )
            raise BackendError(f"{error}{at}") from None

    def go_on(self) -> None:
        """Let it begin a test, run a round, or end the test."""
        match self.asks:
            case ["begin", test]:
                self.test = test
            case ["end", test, reports]:
                self.ran.reports[test], self.test, self.is_alone = reports, "", False
        self.child.answer()

    def is_to_run(self, test: str) -> bool:
        """Return True if it has yet to run a test."""
        return test in self.wanted and test not in self.ran.reports

    @property
    def asks(self) -> list[Any]:
        """The question that it waits on; empty while it runs."""
        return self.child.asks

    @property
    def is_over(self) -> bool:
        """Whether it has run all its tests."""
        return self.asks[:1] == ["bye"]


def take_turns(children: Sequence[Child], wanted: Choose) -> list[SideRun]:
    """Let the sides run their tests, in turns if times are judged; never the same test at the same time.

    The first of *children* goes first, the last describes its tests to a *wanted* that chooses. Raises BackendError
    like `run`.
    """
    sides = [_Side(child) for child in children]
    for side in reversed(sides):  # the working tree first: of an error in the command both die
        side.hear()
    wanted = _share_tests(sides, wanted)
    if wanted.in_turns:
        _run_in_turns(sides, wanted.tests)
    else:
        _run_at_will(sides)
    for side in sides:
        _check_place(side)
        if side.wanted - side.ran.reports.keys():
            side.child.answer()
            raise side.child.ended()
    return [side.ran for side in sides]


def _run_in_turns(sides: Sequence[_Side], tests: Sequence[str]) -> None:
    """Let one side run at a time, round by round, and none past a test that the other one still runs."""
    order = {test: number for number, test in enumerate(tests)}
    rounds = 0
    while True:
        for side in sides:
            if not side.asks:
                side.hear()
        waiting = [side for side in sides if not side.is_over]
        if not waiting:
            return
        asked = {side.asks[0] for side in waiting}
        if "end" in asked or "turn" in asked:
            rounds += _one_goes_on([side for side in waiting if side.asks[0] != "begin"], rounds)
        else:
            first = min(order.get(side.asks[1], -1) for side in waiting)
            for side in waiting:
                if order.get(side.asks[1], -1) == first:
                    side.go_on()


def _run_at_will(sides: Sequence[_Side]) -> None:
    """Let the sides run at the same time, but not the same test: it may need a port or a file for itself.

    The last side runs each test first.
    """
    while waiting := [side for side in sides if not side.is_over]:
        for side in waiting:
            if side.asks and _may_go_on(side, [other for other in waiting if other is not side], sides[-1]):
                side.go_on()
        running = {side.child: side for side in waiting if not side.asks}
        for child in ready([*running]):
            running[child].hear()


# Of a shorter test a slowdown is some times as long, and a shared core hides it only in part; nearly every test of a
# suite would wait for a shorter time.
_LONG_NS = 5_000_000


def _may_go_on(side: _Side, others: Sequence[_Side], last: _Side) -> bool:
    """Return True if a *side* may continue while the *others* do, of which the *last* runs each test first.

    A test that took long there runs with nothing beside it on the other sides: its coarse time is compared, and a
    shared core would make it longer (up to 1.6 times), so that a slowdown is missed.
    """
    if any(other.is_alone for other in others):
        return False
    match side.asks:
        case ["begin", test]:
            return last not in others or not last.is_to_run(test)
        case ["turn"] if side is not last and _took_ns(last.ran.reports.get(side.test, ())) >= _LONG_NS:
            side.is_alone = all(other.asks for other in others)
            return side.is_alone
    return True


def _took_ns(reports: Iterable[Mapping[str, Any]]) -> int:
    """Return the longest coarse time in the *reports* of a test."""
    windows = [window for report in reports if "opprof" in report for window in report["opprof"]["windows"]]
    return max((max(window["coarse"]["wall_ns"]) for window in windows if window.get("coarse")), default=0)


def _share_tests(sides: Sequence[_Side], wanted: Choose) -> Wanted:
    """Tell each side which of the tests that it has it runs. Return all."""
    for side in sides:
        if side.is_over:
            side.child.answer()
            raise side.child.ended()
        _, side.ran.collected, side.ran.errors, *described = side.asks
        if described and not isinstance(wanted, Wanted):
            wanted = wanted(converted(described[0], Collection))
    assert isinstance(wanted, Wanted)
    for side in sides:
        has = {*side.ran.collected}
        tests = [test for test in wanted.tests if test in has]
        side.wanted = frozenset(tests)
        how = {"closely": [*wanted.closely], "later": [*wanted.later], "rounds": {**wanted.rounds}}
        side.child.answer({"tests": tests, "everything": wanted.everything, **how})
    return wanted


def _one_goes_on(sides: Sequence[_Side], rounds: int) -> int:
    """Let the side whose turn it is continue: of four rounds one takes the first and the last. Return the rounds
    run.
    """
    for side in sides:
        if side.asks[0] == "end":
            side.go_on()
            return 0
    sides[(rounds + 1) // 2 % 2 if len(sides) > 1 else 0].child.answer()
    return 1


def _check_place(side: _Side) -> None:
    side.ran.borrowed = side.asks[2]
    if misplaced := side.asks[1]:
        raise BackendError(
            f"{side.child.name} did not test its own files: it imported {listed(misplaced)}. If it"
            " is an installed package, both sides use the same one. Install the revision beside it:"
            " --opprof-against-install='pip install --no-deps .', or name a Python that has it:"
            " --opprof-against-python=EXE"
        )
