"""``opprof selfcheck``: whether measurements on this machine are right, line by line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ... import __version__
from ...errors import BackendError
from ...frameworks.ascend.live import backend as ascend
from ...frameworks.live.registry import threads_limited
from ...frameworks.nvidia.live import driver
from ...machine.allocator import keep_memory
from ...report.escaping import terminal
from ...report.tables import document
from .checks import CHECKS, FAILED, NOT_DECIDED, OK, Found, Subject
from .workloads import Work, works


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report."""

    environment: str
    check: str
    result: Found

    def __str__(self) -> str:
        expected = f"expected {self.result.expected}; found " if self.result.expected else ""
        return f"{self.result.status:11}  {self.check:13}  {expected}{self.result.found}"


def check(work: Work) -> Iterator[Line]:
    """Yield the result of each check of *work*; a check that cannot be measured has failed."""
    with threads_limited([work.backend], 1):
        try:
            subject = Subject(work)
        except Exception as error:  # a framework may fail in any way, as may its profiler
            yield Line(work.framework, "first window", _broken(error))
            return
        for name, find in CHECKS.items():
            try:
                yield Line(subject.environment, name, find(subject))
            except Exception as error:  # the same
                yield Line(subject.environment, name, _broken(error))


def _broken(error: Exception) -> Found:
    kind = "" if isinstance(error, BackendError) else f"{type(error).__name__}: "
    return Found("to be measured", f"{kind}{error}", FAILED)


def run(arguments: argparse.Namespace) -> bool:
    """Print the report; return whether a check failed.

    Raises BackendError where the device is absent, and where no check failed but some could not be decided.
    """
    keep_memory()  # as the plugin does: getting memory is no time of an op
    device, why = _device(arguments.device)
    say: Callable[[str], None] = (lambda text: None) if arguments.json else _say
    try:
        found = works(device)
        first = next(found)
    except BackendError as error:
        other = "" if arguments.device else f". Without the {'NPU' if device == 'npu' else 'GPU'}: --device cpu"
        raise BackendError(f"selfcheck cannot run on {device}: {error}{other}") from None
    say(f"opprof selfcheck on {device}, {why}")
    lines: list[Line] = []
    for work in _chained(first, found):
        for line in check(work):
            if line.environment not in [before.environment for before in lines]:
                say(line.environment)
            say(f"  {line}")
            lines.append(line)
    if arguments.json:
        print(document({"schema": 1, "version": __version__, "device": device, "checks": [*map(_plain, lines)]}))
    return _concluded(lines, say)


def _chained(first: Work, rest: Iterator[Work]) -> Iterator[Work]:
    yield first
    yield from rest


def _device(asked: str | None) -> tuple[str, str]:
    """Return the device to check, and why that one."""
    if asked:
        return asked, "as asked"
    problem = driver.problem()
    if not problem:
        return "cuda", "there is a GPU"
    return ("cpu", f"no GPU to use: {problem}") if ascend.problem() else ("npu", "there is an NPU")


def _say(text: str) -> None:
    print(terminal(text), flush=True)


def _plain(line: Line) -> dict[str, Any]:
    return {"environment": line.environment, "check": line.check, **asdict(line.result)}


def _concluded(lines: Sequence[Line], say: Callable[[str], None]) -> bool:
    statuses = [line.result.status for line in lines]
    counted = [f"{statuses.count(status)} {status}" for status in (OK, FAILED, NOT_DECIDED) if status in statuses]
    say(f"opprof: {', '.join(counted)}")
    if FAILED not in statuses and NOT_DECIDED in statuses:
        raise BackendError("not all could be decided on this machine now; run opprof selfcheck again when it is quiet")
    return FAILED in statuses
