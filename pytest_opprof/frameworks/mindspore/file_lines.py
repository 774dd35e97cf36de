"""Parse the lines of MindSpore's CPU profiler, live and saved: the calls of an op, and a launch.

``cpu_op_execute_timestamp_0.txt`` has a line for each op, with all its calls; start in ns, duration in ms, a float32
with 6 significant digits: ``Default/fc/Cast-op0;HostCpuOps;start,duration,thread start,duration,thread ...``.

``cpu_framework_0.txt`` has a line for each launch, in order: ``Cast;Cast-op0;graph;input_1:[4, 3];input_2:NoShape;``.
Its name is the last part of the full name. Name and type are empty for launches on PyNative's short path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ...ops.signature import Shape

_NUMBER = re.compile(r"-op\d+$")
_LAUNCH = re.compile(rb"([^;\n]*);([^;\n]*);\d+;((?:input_\d+:[^;\n]*;)*)\s*")
_INPUT = re.compile(rb":([^;]*);")
_SHAPE = re.compile(rb"\[((?:-?\d{1,18}(?:, ?-?\d{1,18})*)?)\]")
# The content of an input besides shapes: a number is ``NoShape``, an axis ``TupleShape(NoShape, NoShape)``.
_NO_TENSOR = re.compile(rb"(?:NoShape|TupleShape\(|\)|, )*")
# 12 days: no call takes longer.
_MOST_MS = 1e9


def op_type(name: str) -> str:
    """Return the op type in a full name.

    >>> op_type("Default/fc-Dense/MatMul-op1"), op_type("Cast")
    ('MatMul', 'Cast')
    """
    return _NUMBER.sub("", name.rpartition("/")[2])


def starts_and_times(calls: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """Return the starts and the durations of *calls*, in ns. Raises ValueError or OverflowError for an invalid call.

    >>> starts_and_times([b"1700000000000000000,0.0125,0"])
    ([1700000000000000000], [12500])
    """
    starts, times, threads = zip(*(call.split(b",") for call in calls), strict=True)
    milliseconds = list(map(float, times))
    if not (all(map(bytes.isdigit, starts + threads)) and 0 <= min(milliseconds) <= sum(milliseconds) < _MOST_MS):
        raise ValueError("a call is start (ns),duration (ms),thread")
    return list(map(int, starts)), list(map(round, map((1e6).__mul__, milliseconds)))


def threads_of(calls: Sequence[bytes]) -> list[int]:
    """Return the numbers of the threads of calls that `starts_and_times` reads.

    >>> threads_of([b"1700000000000000000,0.0125,3"])
    [3]
    """
    return [int(call.rpartition(b",")[2]) for call in calls]


@lru_cache(4096)
def launch(line: bytes) -> tuple[bytes, tuple[Shape, ...]]:
    """Return the last part of a launch's name, and the shapes of its tensor inputs.

    Lines repeat if a program does: 10 us for a new one.

    Raises ValueError for an invalid launch.

    >>> launch(b"MatMul;MatMul-op0;7;input_1:[16, 64];input_2:[64, 8];input_3:NoShape;")
    (b'MatMul-op0', ((16, 64), (64, 8)))
    """
    match = _LAUNCH.fullmatch(line)
    inputs = _INPUT.findall(match[3]) if match else []
    if not match or not all(_NO_TENSOR.fullmatch(_SHAPE.sub(b"", cell)) for cell in inputs):
        raise ValueError("a launch is op_type;op_name;graph_id;input_1:[2, 3];...")
    sizes = [found for cell in inputs for found in _SHAPE.findall(cell)]
    return match[2], tuple(tuple(map(int, found.split(b","))) if found else () for found in sizes)
