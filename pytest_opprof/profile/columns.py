"""The events of a profile as columns, and a table of the values that its rows share."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

# A time, size or FLOP count that the source does not know. Never zero: zero is a measurement.
ABSENT = -1
Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Columns:
    """A row for each event, or for several equal ones. A new fact about events is a column here."""

    key: NDArray[np.int32]
    """Index into a table of `OpKey`."""
    step: NDArray[np.int32]
    counted: NDArray[np.int64]
    """The number of calls of its op in the row: 0 for a part of one, more than 1 if a saved profile has only sums."""
    events: NDArray[np.int64]
    """The number of events of its raw name: 1, or more if a saved profile has only sums."""
    device_ns: NDArray[np.int64]
    """Self time; ABSENT if unknown."""
    bytes: NDArray[np.int64]
    """Bytes read and written; ABSENT if unknown."""
    flops: NDArray[np.int64] | None = None
    """Floating-point operations, ABSENT if unknown; None if they were not counted."""

    def __len__(self) -> int:
        return len(self.key)

    def chosen(self, rows: NDArray[np.bool_]) -> Columns:
        """Return the *rows* that are True."""
        chosen: list[Any] = [None if column is None else column[rows] for column in self._all()]
        return Columns(*chosen)

    @staticmethod
    def joined(parts: Sequence[Columns]) -> Columns:
        """Return the rows of all *parts*, in order; a column that one part lacks is ABSENT there."""
        if len(parts) == 1:
            return parts[0]

        def one(columns: Sequence[Any]) -> Any:
            if all(column is None for column in columns):
                return None
            known = zip(parts, columns)
            return np.concatenate([np.full(len(part), ABSENT) if each is None else each for part, each in known])

        return Columns(*[one(columns) for columns in zip(*(part._all() for part in parts))])

    def _all(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]


def numbered(values: Sequence[Value]) -> tuple[tuple[Value, ...], NDArray[np.int32]]:
    """Return the distinct *values*, and for each its index among them."""
    index: dict[Value, int] = {}
    numbers = [index.setdefault(value, len(index)) for value in values]
    return tuple(index), np.array(numbers, np.int32)
