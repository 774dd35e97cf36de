"""What tells the calls of one op from those of others: `OpKey`. A profile has a table of them; events point into it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Shape = tuple[int, ...]
By = Literal["type", "name", "shape"]
"""How ops are told apart: by canonical op, by name, or by op, dtypes, formats and shapes."""


class OpKey(NamedTuple):
    """Calls that are alike. None is what the source does not know: never empty, never zero.

    A new thing to know about ops is a field here, said by the log or the reader that knows it.
    """

    op: str
    """The canonical op that they count as: that of their owner (`attribution.owners`)."""
    raw: str
    """What the framework calls it, without what changes from run to run."""
    name: str | None = None
    """What the source calls this one op: a node of a graph."""
    input_dtypes: tuple[str, ...] | None = None
    """As the source spells them."""
    output_dtypes: tuple[str, ...] | None = None
    input_shapes: tuple[Shape, ...] | None = None
    output_shapes: tuple[Shape, ...] | None = None
    input_formats: tuple[str, ...] | None = None
    """Memory layouts: ``NCHW``."""
    output_formats: tuple[str, ...] | None = None
    place: str | None = None
    """Core type, stream or computing node."""

    @property
    def signature(self) -> str:
        """Dtypes, formats and input shapes as people write them.

        >>> OpKey("Cast", "Cast", input_dtypes=("FLOAT",), output_dtypes=("BF16",), input_shapes=((32, 64),)).signature
        'FLOAT->BF16 [32,64]'
        """
        shapes = ",".join(f"[{','.join(map(str, shape))}]" for shape in self.input_shapes or ())
        dtypes = _arrow(self.input_dtypes, self.output_dtypes)
        formats = _arrow(self.input_formats, self.output_formats)
        return " ".join(filter(None, [dtypes, formats, shapes]))


def _arrow(before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> str:
    """Return what goes in and comes out, in short: of several alike, one."""
    inputs, outputs = (",".join(dict.fromkeys(text or "?" for text in texts or ())) for texts in (before, after))
    return inputs if inputs == outputs or not outputs else f"{inputs}->{outputs}"
