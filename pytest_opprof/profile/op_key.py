"""What tells the calls of one op from those of others: `OpKey`. A profile has a table of them; events point into it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..ops.signature import UNKNOWN, Signature
from ..sites.chains import Frame
from ..sites.shown import Shown

By = Literal["type", "name", "dtype", "shape", "site"]
"""How ops are told apart: by canonical op, by name, by op and dtypes (and formats and shapes), or by op and line."""


class CallSite(NamedTuple):
    """Where the program asked for an op."""

    frames: tuple[Frame, ...]
    """The lines on the way there, the innermost first; () where it was none of the user's."""
    is_backward: bool = False
    """Whether autograd asked for it, for what was computed there."""


class OpKey(NamedTuple):
    """Calls that are alike. None is what the source does not know: never empty, never zero.

    A new thing to know about ops is a field here, said by the log or the reader that knows it.
    """

    op: str
    """The canonical op that they count as: that of their owner (`attribution.owners`)."""
    raw: str
    """What the framework calls it, without what changes from run to run."""
    signature: Signature = UNKNOWN
    """What they work on."""
    name: str | None = None
    """What the source calls this one op: a node of a graph."""
    place: str | None = None
    """Core type, stream or computing node."""
    site: CallSite | None = None


def line_of(site: CallSite | None, shown: Shown) -> str:
    """Return the line that asked, as tables have it; what is asked for a backward pass says so."""
    if site is None or not site.frames:
        return "(no line of the program)" if site else "(no line known)"
    line = shown.site(site.frames)
    via = f" via {line.via}" if line.via else ""
    return f"{line}{via}{' (backward)' if site.is_backward else ''}"


def with_dtypes(op: str, dtypes: str | None) -> str:
    """Return what to call the calls of *op* that have these *dtypes*, as budgets do.

    >>> with_dtypes("Cast", "float32->bfloat16"), with_dtypes("Synchronize", "")
    ('Cast[float32->bfloat16]', 'Synchronize')
    """
    return f"{op}[{dtypes}]" if dtypes else op
