"""What a call works on: `Signature`."""

from __future__ import annotations

from typing import NamedTuple

Shape = tuple[int, ...]


class Signature(NamedTuple):
    """Dtypes, shapes and layouts. None is what the source does not know; () says that there is no tensor."""

    input_dtypes: tuple[str, ...] | None = None
    """As the source spells them."""
    output_dtypes: tuple[str, ...] | None = None
    input_shapes: tuple[Shape, ...] | None = None
    output_shapes: tuple[Shape, ...] | None = None
    input_formats: tuple[str, ...] | None = None
    """Memory layouts: ``NCHW``."""
    output_formats: tuple[str, ...] | None = None

    @property
    def is_scalar(self) -> bool:
        """Whether all that it works on is known to have no dimensions."""
        return self.input_shapes is not None and not any((*self.input_shapes, *(self.output_shapes or ())))


UNKNOWN = Signature()
