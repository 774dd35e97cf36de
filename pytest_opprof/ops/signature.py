"""The arguments and results of a call: `Signature`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from .dtypes import dtype

Shape = tuple[int, ...]


class Signature(NamedTuple):
    """Dtypes, shapes and layouts. None is unknown; () means that there is no tensor."""

    input_dtypes: tuple[str, ...] | None = None
    """In the source's spelling."""
    output_dtypes: tuple[str, ...] | None = None
    input_shapes: tuple[Shape, ...] | None = None
    output_shapes: tuple[Shape, ...] | None = None
    input_formats: tuple[str, ...] | None = None
    """Memory layouts: ``NCHW``."""
    output_formats: tuple[str, ...] | None = None

    @property
    def is_scalar(self) -> bool:
        """Whether all its tensors are known to have no dimensions."""
        return self.input_shapes is not None and not any((*self.input_shapes, *(self.output_shapes or ())))

    @property
    def dtypes_in(self) -> tuple[str, ...]:
        """The different dtypes that it reads, in one spelling; empty if unknown.

        A scalar beside larger tensors is left out: the 2.0 of ``x * 2.0`` is a float64 in PyTorch, but the work is not.
        """
        return _of_tensors(self.input_dtypes or (), self.input_shapes)

    @property
    def dtypes_out(self) -> tuple[str, ...]:
        """The different dtypes that it writes."""
        return _of_tensors(self.output_dtypes or (), self.output_shapes)

    @property
    def dtypes(self) -> str | None:
        """Its dtypes for baselines and tables; empty without tensors, None if unknown.

        >>> Signature(("FLOAT",), ("BF16",)).dtypes
        'float32->bfloat16'
        """
        return _dtypes(self)

    @property
    def text(self) -> str:
        """Dtypes, formats and input shapes as people write them.

        >>> Signature(("FLOAT",), ("BF16",), ((32, 64),)).text
        'FLOAT->BF16 [32,64]'
        """
        shapes = ",".join(f"[{','.join(map(str, shape))}]" for shape in self.input_shapes or ())
        dtypes = _arrow(self.input_dtypes, self.output_dtypes)
        formats = _arrow(self.input_formats, self.output_formats)
        return " ".join(filter(None, [dtypes, formats, shapes]))


UNKNOWN = Signature()


@lru_cache(maxsize=4096)
def _dtypes(signature: Signature) -> str | None:
    if signature.input_dtypes is None and signature.output_dtypes is None:
        return None
    formats = signature.input_formats or ()
    layout = next((f" {layout}" for layout in formats if layout.startswith("channels_last")), "")
    return _arrow(signature.dtypes_in or None, signature.dtypes_out or None) + layout


def _arrow(before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> str:
    """Return inputs and outputs in short: each different one once."""
    inputs, outputs = (",".join(dict.fromkeys(text or "?" for text in texts or ())) for texts in (before, after))
    return inputs if inputs == outputs or not outputs else f"{inputs}->{outputs}" if inputs else outputs


def _of_tensors(dtypes: Sequence[str], shapes: Sequence[Shape] | None) -> tuple[str, ...]:
    if shapes is not None and len(shapes) == len(dtypes) and any(shapes):
        dtypes = [dtype for dtype, shape in zip(dtypes, shapes) if shape]
    return tuple(dict.fromkeys(dtype(each) for each in dtypes if each))
