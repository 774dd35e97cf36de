"""The rows of GPU profilers, which know no ops: kernels, copies and calls of the driver, by name and place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from operator import add
from typing import Literal

from ...errors import TraceError
from ...ops.cuda_calls import copied, starts_device_work
from ...ops.cuda_kernels import canonical, copied_dtypes, demangled, reduced
from ...profile.saved import SavedOp
from .place import Place

# Different rows: a program has some thousands, and each takes 1 KB.
MOST_DIFFERENT = 500_000
# Units of time, as Nsight writes them.
NS = {"ns": 1, "nsecond": 1, "us": 10**3, "usecond": 10**3, "ms": 10**6, "msecond": 10**6, "s": 10**9, "second": 10**9}
Kind = Literal["kernel", "copy", "call"]


def by_cupy(kernel: SavedOp) -> SavedOp:
    """Return *kernel* with its op: CuPy names kernels after NumPy's functions, and copies after both dtypes."""
    op = canonical(kernel.type)
    before, after = copied_dtypes(kernel.type) or (None, None)
    return kernel._replace(
        op=op if op != kernel.type else kernel.op,
        input_dtypes=(before,) if before else (),
        output_dtypes=(after,) if after else (),
    )


@dataclass(frozen=True, slots=True)
class Taken:
    """The time of some calls in ns, and the bytes that they moved; None is unknown."""

    calls: int
    ns: float | None
    least: float | None = None
    most: float | None = None
    nbytes: float | None = None

    @classmethod
    def of(cls, calls: int, ns: float, least: float, most: float, nbytes: float | None = None) -> Taken:
        """Return the sums of *calls*; a time that is NaN is unknown."""
        return cls(calls, _known(ns), _known(least), _known(most), nbytes)

    @classmethod
    def by_one(cls, ns: float | None, nbytes: float | None = None) -> Taken:
        """Return the time of one call."""
        return cls(1, ns, ns, ns, nbytes)

    def and_(self, other: Taken) -> Taken:
        """Return the sum of these calls and *other*."""
        return Taken(
            self.calls + other.calls,
            _together(add, self.ns, other.ns),
            _together(min, self.least, other.least),
            _together(max, self.most, other.most),
            _together(add, self.nbytes, other.nbytes),
        )


def _known(ns: float) -> float | None:
    return None if isnan(ns) else ns


def _together(of: Callable[[float, float], float], one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else of(one, other)


class GpuRows:
    """The rows of a profile; equal rows are added up."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._taken: dict[tuple[Kind, str, str], Taken] = {}

    def add(self, kind: Kind, name: str, place: str, taken: Taken) -> None:
        """Add a row. Raises TraceError if there are more different rows than any program has."""
        key = (kind, name, place)
        before = self._taken.get(key)
        self._taken[key] = taken if before is None else before.and_(taken)
        if len(self._taken) > MOST_DIFFERENT:
            raise TraceError(f"{self._place}: has more than {MOST_DIFFERENT} different names, which no program has")

    def records(self, driver: str) -> tuple[SavedOp, ...]:
        """Return the rows as records, in order of first appearance; *driver* is the place of calls."""
        return tuple(_record(*key, taken, driver) for key, taken in self._taken.items())


def _record(kind: Kind, name: str, place: str, taken: Taken, driver: str) -> SavedOp:
    if kind == "call":
        # A call that starts work of the device is not counted, because the work is.
        starts = starts_device_work(name)
        return SavedOp(
            name,
            name,
            calls=taken.calls,
            host_ns=taken.ns,
            host_least_ns=taken.least,
            host_most_ns=taken.most,
            counted=0 if starts else None,
            place=driver,
        )
    record = SavedOp(
        name,
        name,
        calls=taken.calls,
        device_ns=taken.ns,
        least_ns=taken.least,
        most_ns=taken.most,
        memory=taken.nbytes,
        place=place,
    )
    if kind == "copy":
        return record._replace(name=copied(name), type=copied(name))
    plain = demangled(name.removesuffix(".kd"))
    if plain.startswith("cupy_"):
        return by_cupy(record._replace(name=plain, type=plain))
    return record._replace(name=plain, type=reduced(plain))
