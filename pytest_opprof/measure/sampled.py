"""Sample the lines of the program that take a body's time, every millisecond. Only for explanations."""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from time import perf_counter_ns
from types import CodeType, FrameType, TracebackType
from typing import final

from ..sites.chains import UNKNOWN, Chains, Frame, line_number
from ..sites.code import Kind, kinds
from ..sites.shown import Shown
from ..sites.tracer import Tracer
from ..units import format_share
from .memory.traced import Where, parts

_EACH_S = 0.001
# A line with less than this share of the time is not reported.
_NOTABLE = 0.2
# The most lines that are reported.
_LINES = 2
# A line that calls code with this share of the time is reported if no line takes as much itself: 84 % of a parser's
# time was in a copy that one line makes, and each line of the copy took less than 40 %.
_MOST = 0.5
# The most lines and functions to which a program comes in a run line by line: 3 s. The tracer's own limit is a loop of
# 30 ms: it hid markdown-it's joined fragments.
_MOST_MARKS = 3_000_000
# Python hands its lock over after this time; by default after 5 ms. A program that gives it up by itself before, to
# write or to poll, was sampled at these lines only: at 0.5 ms, 64 % of a parser's time was said to be in its writes.
_SWITCH_S = 0.000_01


@final
class Sampler:
    """A context in which another thread samples this one. A sample counts for the time since the one before.

    Code that holds the interpreter's lock stops the sampling thread; the time still counts for its line, since the
    program is still there when it releases the lock.
    """

    def __init__(self, shown: Shown, clock_ns: Callable[[], int] = perf_counter_ns) -> None:
        self.looks = 0
        """The number of samples so far."""
        self._shown = shown
        self._clock_ns = clock_ns
        self._over = threading.Event()
        self._of = threading.get_ident()
        self._thread = threading.Thread(target=self._look, name="opprof-sampler", daemon=True)
        self._samples = Counter[tuple[Frame, ...]]()
        """The time by the program's lines that it was at, the innermost first, each once; empty outside of these."""
        self._recursive = set[Frame]()
        """Lines of functions that called themselves: the line that calls one from outside is the cause."""
        self._inside: dict[Frame, Counter[Frame]] = {}
        """By line of the program: the innermost lines of packages that it called, which are not shown as its own."""
        self._switch_s = sys.getswitchinterval()

    def __enter__(self) -> Sampler:
        self._thread.start()
        sys.setswitchinterval(_SWITCH_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        sys.setswitchinterval(self._switch_s)

    def _look(self) -> None:
        last_ns = self._clock_ns()
        while not self._over.wait(_EACH_S):
            frame: FrameType | None = sys._current_frames().get(self._of)
            inside = None
            chain: list[Frame] = []
            codes: list[int] = []
            # Above the test are tools' frames, and a script that starts them may lie below the root directory.
            while frame is not None and kinds[frame.f_code.co_filename] is not Kind.TEST_TOOL:
                if self._shown.is_own(frame.f_code.co_filename):
                    chain.append(_line(frame))
                    codes.append(id(frame.f_code))
                elif not chain and inside is None and kinds[frame.f_code.co_filename] is Kind.TRACED:
                    inside = _line(frame)
                frame = frame.f_back
            now_ns = self._clock_ns()
            self._add(chain, codes, inside, now_ns - last_ns)
            last_ns, frame = now_ns, None
            self.looks += 1

    def _add(self, chain: Sequence[Frame], codes: Sequence[int], inside: Frame | None, ns: int) -> None:
        """Add a sample: the program's lines, the innermost first, with the identity of their code, and a package's
        line that the first one called.
        """
        if chain and inside:
            self._inside.setdefault(chain[0], Counter())[inside] += ns
        often = {code for code, number in Counter(codes).items() if number > 1}
        self._recursive.update(each for each, code in zip(chain, codes) if code in often)
        self._samples[tuple(dict.fromkeys(chain))] += ns  # in a recursion a line counts once

    @property
    def _at(self) -> Counter[Frame | None]:
        found = Counter[Frame | None]()
        for chain, ns in self._samples.items():
            found[chain[0] if chain else None] += ns
        return found

    @property
    def _below(self) -> Counter[Frame]:
        """The time of each line of the program, with the time of all that it called."""
        found = Counter[Frame]()
        for chain, ns in self._samples.items():
            for each in chain:
                found[each] += ns
        return found

    def _depth(self, line: Frame) -> float:
        """Return the number of the program's lines that led to a line, on average."""
        above = [(len(chain) - chain.index(line), ns) for chain, ns in self._samples.items() if line in chain]
        return sum(depth * ns for depth, ns in above) / max(sum(ns for _, ns in above), 1)

    @property
    def functions(self) -> list[set[tuple[str, str]]]:
        """The file and name of each function whose lines `correct` may compare: with functions of changed files that
        much of the time is below, and if these come to too many lines without them.
        """
        least = _NOTABLE * sum(self._samples.values())
        changed = {line[:2] for line, ns in self._below.items() if ns >= least and self._shown.changed(line.file)}
        first = {line[:2] for line, _ in self._at.most_common(_LINES) if line is not None}
        return [first | changed, first] if changed - first else [first]

    def hidden(self, times: Mapping[Frame, int]) -> set[tuple[str, str]]:
        """Return the file and name of the function that took most of the time by *times*, if half of the samples that
        its time needs did not see it.
        """
        took = Counter[tuple[str, str]]()
        for line, ns in times.items():
            took[line[:2]] += ns
        most = max(took, key=took.__getitem__, default=None)
        share = took[most] / max(took.total(), 1) if most else 0
        if most is None or share < _MOST:
            return set()
        seen = sum(ns for line, ns in self._below.items() if line[:2] == most)
        return {most} if seen < _MOST * share * sum(self._samples.values()) else set()

    def correct(self, times: Mapping[Frame, int], runs: float | None = 1) -> None:
        """Move samples of a line to the one that took their time by *times*, of a run line by line.

        Code that holds the interpreter's lock is seen where the lock is released: `bytes +=` or `in list` at the next
        call or turn of a loop, which may be a line below, or in the caller: then few samples are of the function.
        A changed line gets as many samples as its time needs, of any line whose time is less. Samples are of so many
        *runs*; None: of one that took another time, in which the same lines ran.
        """
        if runs is None:
            sampled = {line: ns for line, ns in self._at.most_common(_LINES) if line is not None}
            if not sampled or not times or not sampled.keys() <= times.keys():
                return
            runs = sum(self._samples.values()) / max(sum(times.values()), 1)
        hidden = self.hidden(times)
        elsewhere = {line: ns for line, ns in times.items() if line[:2] in hidden}
        for line, ns in self._at.most_common(_LINES):
            if line is None:
                continue
            beside = {each: times[each] for each in times if each[:2] == line[:2]} | elsewhere
            most = max(beside, key=beside.__getitem__, default=line)
            took, too_many = beside.get(most, 0), ns - round(beside.get(line, 0) * runs)
            if beside.get(line, 0) < _MOST * took and took * runs >= _MOST * ns and too_many > 0:
                self._move(line, most, too_many)
                self._inside.pop(line, None)
        for line in filter(self._is_changed, times):
            at = self._at
            lacks = round(times[line] * runs) - at[line]
            spare = {each: round(at[each] - ns * runs) for each, ns in times.items() if each != line}
            for each in sorted(spare, key=spare.__getitem__, reverse=True):
                if (ns := min(lacks, spare[each])) <= 0:
                    break
                self._move(each, line, ns)
                lacks -= ns

    def _move(self, line: Frame, to: Frame, ns: int) -> None:
        """Move *ns* of the samples of a line itself to another."""
        share = ns / max(self._at[line], 1)
        for chain, of_chain in [*self._samples.items()]:
            if chain[:1] == (line,):
                # A function that is not in the chain was called by the line.
                around = next((at + 1 for at, each in enumerate(chain) if each[:2] == to[:2]), 0)
                moved, part = (to, *(each for each in chain[around:] if each != to)), round(share * of_chain)
                self._samples[moved] += part
                self._samples[chain] -= part

    def _is_changed(self, line: Frame | None) -> bool:
        return line is not None and self._shown.is_changed(line.file, line.line)

    def lines(self) -> Iterator[Where]:
        """Yield in words the lines that took most of the time, with their share of it.

        The first is the innermost line that most of it is below: a line that changed, or any, unless one takes most of
        it itself.
        """
        at, below = self._at, self._below
        total = sum(at.values())
        most_at = max((ns for line, ns in at.items() if line is not None), default=0)
        most_below = {line for line, ns in below.items() if ns >= _MOST * total}
        around = {line for line in most_below if self._is_changed(line)}
        if not around and most_at < _MOST * total:
            around = most_below - self._recursive
        cause = max(around, key=self._depth, default=None)
        # A line of the test leads to everything, which says nothing beside a line that takes some of it.
        is_of_test = cause is not None and cause.file == self._shown.test and most_at >= _NOTABLE * total
        if cause is not None and at[cause] < _MOST * below[cause] and not is_of_test:
            site = self._shown.site([cause])
            share = format_share(below[cause] / total, 2)
            yield Where(f"{share} of the time is below {site} `{site.text}`", f"{site.file}:{site.line}")
        for frame, ns in sorted(at.most_common(_LINES), key=lambda each: not self._is_changed(each[0])):
            if frame is not None and ns >= _NOTABLE * total:
                site = self._shown.site([frame])
                inside = self._inside.get(frame, Counter()).most_common(1)
                most = [self._shown.site([line]) for line, of_line in inside if of_line >= _NOTABLE * total]
                of_package = "".join(f", most at {each} `{each.text}`" for each in most)
                told = f"{format_share(ns / total, 2)} of the time is at {site} `{site.text}`{of_package}"
                yield Where(told, f"{site.file}:{site.line}")


_PLACE = re.compile(r"[\d.]+% of the time is at (\S+:\d+)")


def within(said: Where, has: Callable[[str], bool]) -> list[Where]:
    """Return the lines in *said* that take time, of a function that *has* their place."""
    found = [(part, _PLACE.match(part)) for part in parts(said.text)]
    return [Where(part, place[1]) for part, place in found if place and has(place[1])]


def timed_lines(
    call: Callable[[], object],
    shown: Shown,
    functions: Collection[tuple[str, str]],
    clock_ns: Callable[[], int] = perf_counter_ns,
    most: int = _MOST_MARKS,
) -> Mapping[Frame, int]:
    """Run a body as a *call*, line by line in these *functions* (file, name), and return the time at each line, in ns.

    That of any other function is at its first line; that of packages is at the line that calls them. Empty if lines
    cannot be traced, or if the program comes to more than *most* lines.
    """
    if Tracer.unavailable():
        return {}
    chains, times, visits = Chains(), Counter[int](), Counter[int]()
    at, began_ns = UNKNOWN, 0

    def moved(node: int) -> None:  # pragma: no cover  # called by trace functions, where coverage is put aside
        nonlocal at, began_ns
        times[at] += clock_ns() - began_ns
        visits[at] += 1
        at, began_ns = node, clock_ns()

    def is_asked(code: CodeType) -> bool:  # pragma: no cover  # called by trace functions, too
        return (code.co_filename, code.co_name) in functions

    tracer = Tracer(chains, moved)
    tracer.follows, tracer.most_marks = is_asked, most
    began_ns = clock_ns()
    tracer.start(sys._getframe())
    try:
        call()
    finally:
        tracer.stop()
    if tracer.capped or tracer.replaced:
        return {}
    # A visit of the cheapest line is taken for the tracer's own time: 0.3 to 1 us, ten times that of most lines.
    of_tracer = min((times[node] / visits[node] for node in times if node != UNKNOWN), default=0)
    found = Counter[Frame]()
    for node, ns in times.items():
        if line := next((each for each in chains.frames(node) if shown.is_own(each.file)), None):
            found[line._replace(function=line.function.rpartition(".")[2])] += round(ns - visits[node] * of_tracer)
    return found


def _line(frame: FrameType) -> Frame:
    return Frame(frame.f_code.co_filename, frame.f_code.co_name, line_number(frame))
