"""The key that distinguishes calls of ops: `OpKey`. A profile has a table of keys; events point into it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..ops.signature import UNKNOWN, Signature
from ..sites.chains import Frame
from ..sites.shown import Shown

# How ops are split: by canonical op, by name, by op and dtypes (and formats and shapes), or by op and line.
By = Literal["type", "name", "dtype", "shape", "site"]


class CallSite(NamedTuple):
    """The source of a call in the program."""

    frames: tuple[Frame, ...]
    """The lines on the way there, the innermost first; () if none of them is the user's."""
    is_backward: bool = False
    """Whether autograd called it, for the forward op of that line."""


class OpKey(NamedTuple):
    """Equal calls. None means that the source does not know: never empty, never zero.

    A new fact about ops is a field here, set by the log or the reader that knows it.
    """

    op: str
    """The canonical op that they count as: that of their owner (`attribution.owners`)."""
    raw: str
    """The framework's name, without the parts that change from run to run."""
    signature: Signature = UNKNOWN
    """Their arguments and results."""
    name: str | None = None
    """The source's name for this one op: a node of a graph."""
    place: str | None = None
    """Core type, stream or computing node."""
    site: CallSite | None = None


def line_of(site: CallSite | None, shown: Shown) -> str:
    """Return the calling line for tables; a call for a backward pass is marked."""
    if site is None or not site.frames:
        return "(no line of the program)" if site else "(no line known)"
    line = shown.site(site.frames)
    via = f" via {line.via}" if line.via else ""
    return f"{line}{via}{' (backward)' if site.is_backward else ''}"


def with_dtypes(op: str, dtypes: str | None) -> str:
    """Return the name of the calls of *op* with these *dtypes*, as in budgets.

    >>> with_dtypes("Cast", "float32->bfloat16"), with_dtypes("Synchronize", "")
    ('Cast[float32->bfloat16]', 'Synchronize')
    """
    return f"{op}[{dtypes}]" if dtypes else op
