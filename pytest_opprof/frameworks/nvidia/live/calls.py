"""The calls of CUDA in CUPTI's records, as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....ops import names
from .cupti_records import DRIVER, LOADING, OVERHEAD, RUNTIME, Table

_BEGIN_CAPTURE, _END_CAPTURE = "StreamBeginCapture", "StreamEndCapture"


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of CUDA: columns, ordered by time."""

    functions: tuple[str, ...]
    function: NDArray[np.int64]
    """Index into *functions*."""
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    correlation: NDArray[np.uint32]
    outer: NDArray[np.int64]
    """The index of the program's own call around each, as the runtime calls the driver; for the program's call, its
    own."""
    failed: NDArray[np.bool_]
    captured: NDArray[np.bool_]
    """Whether any thread captured a CUDA graph then: the call may start nothing, also in another thread."""
    loaded: NDArray[np.uint64]
    """The times at which code was loaded inside calls with another purpose, such as launches."""
    thread: NDArray[np.int64]

    def of(self, chosen: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Return a mask of the program's own calls of *chosen* functions."""
        wanted = np.array([*map(chosen, self.functions), False])
        found: NDArray[np.bool_] = wanted[self.function] & (self.outer == np.arange(len(self.function)))
        return found


def calls_of(records: Mapping[int, Table], function: Callable[[int, int], str]) -> Calls:
    """Return the calls in *records*; *function* returns the name for a kind of record and a callback number."""
    kinds = np.concatenate([np.full(len(records[kind]["start"]), kind) for kind in (RUNTIME, DRIVER)])
    columns = {name: np.concatenate([records[kind][name] for kind in (RUNTIME, DRIVER)]) for name in records[RUNTIME]}
    # A call comes before the calls inside it, even if they begin and end at the same time.
    order = np.lexsort((kinds != RUNTIME, ~columns["end"], columns["start"]))
    kinds, columns = kinds[order], {name: values[order] for name, values in columns.items()}
    numbers, function_of = np.unique(kinds.astype(np.int64) << 32 | columns["callback"], return_inverse=True)
    functions = tuple(function(number >> 32, number & 0xFFFFFFFF) for number in numbers.tolist())
    outer, overhead = np.arange(len(kinds)), records[OVERHEAD]
    by_capture = np.array([_captures(name) for name in functions] or [0])[function_of]
    by_capture[(by_capture > 0) & (columns["result"] != 0)] = 0  # that capture did not begin
    captured = np.cumsum(by_capture) > 0
    for thread in np.unique(columns["thread"]):
        own = np.flatnonzero(columns["thread"] == thread)
        outer[own] = own[_outer(columns["end"][own])]
    return Calls(
        functions,
        function_of,
        columns["start"],
        columns["end"],
        columns["correlation"],
        outer,
        columns["result"] != 0,
        captured,
        overhead["start"][np.isin(overhead["what"], LOADING)],
        columns["thread"].astype(np.int64),
    )


def _captures(function: str) -> int:
    return (_BEGIN_CAPTURE in function) - (_END_CAPTURE in function)


def _outer(end: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the outermost call around each call of a thread, ordered by time, or itself."""
    latest = np.maximum.accumulate(end)
    first = np.concatenate([[True], end[1:] > latest[:-1]])
    return np.maximum.accumulate(np.where(first, np.arange(len(end)), 0))


def synchronizes(function: str) -> bool:
    """Return True if a call of *function* waits for the GPU."""
    return names.meaning(function).op == "Synchronize"
