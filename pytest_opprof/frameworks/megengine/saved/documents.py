"""The fields of MegEngine's two documents, as msgspec types. Imported only when such a file is read.

Numbers have bounds, so that no sum becomes ``inf``: a number outside of them is a broken file.
"""

from __future__ import annotations

from math import nan
from typing import Annotated, Any, TypeVar

from msgspec import DecodeError, Meta, Raw, Struct, ValidationError, json

from ....errors import TraceError

Seconds = Annotated[float, Meta(ge=-1, le=1e6)]
Microseconds = Annotated[float, Meta(ge=-1e12, le=1e12)]
Size = Annotated[int, Meta(ge=0, le=1 << 60)]
Shapes = tuple[tuple[Size, ...], ...]
Document = TypeVar("Document")


class Span(Struct, gc=False):
    """The start, first kernel (-1: none) and end of an operator, on one computing node or thread."""

    start: Seconds
    kern: Seconds
    end: Seconds


class Param(Struct, gc=False):
    """The parameters of an operator."""

    mode: Any = ""


class Footprint(Struct, gc=False):
    """The size and work of an operator."""

    in_shapes: Shapes | None = None
    out_shapes: Shapes | None = None
    memory: Size | None = None
    computation: Size | None = None
    # Subtensor has a list.
    param: Param | list[Any] | str | float | bool | None = None

    @property
    def mode(self) -> str:
        """The ``mode``, which identifies the op of an operator that can be several."""
        mode = self.param.mode if isinstance(self.param, Param) else ""
        return mode if isinstance(mode, str) else ""


class Operator(Struct, gc=False):
    """An operator of the graph."""

    name: str
    type: str
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


class Layout(Struct, gc=False):
    """The memory layout of a variable; only its dtype is read."""

    dtype: str = ""


class Plan(Struct, gc=False):
    """The memory that was planned for a variable."""

    layout: Layout | None = None


class Var(Struct, gc=False):
    """A variable of the graph."""

    mem_plan: Plan | None = None


class Profiler(Struct, gc=False):
    """Times and footprints by operator. They stay JSON, which takes a fifth of the memory."""

    device: dict[str, Raw]
    host: dict[str, Raw] = {}
    opr_footprint: dict[str, Raw] = {}


class Graph(Struct, gc=False):
    """The compiled graph."""

    operator: dict[str, Raw]
    var: dict[str, Var] = {}
    comp_seq: tuple[str, ...] = ()


class GraphProfile(Struct, gc=False):
    """The document of the graph profiler."""

    profiler: Profiler
    graph_exec: Graph


class Event(Struct, gc=False):
    """A Chrome trace event."""

    ph: str
    name: str = ""
    tid: int | str = 0
    ts: Microseconds = nan
    cat: str = ""
    args: Raw = Raw(b"{}")


class Timeline(Struct, gc=False):
    """The document of the imperative profiler."""

    traceEvents: list[Event]  # noqa: N815


class OpArgs(Struct, gc=False, rename={"identifier": "__id__", "name": "__name__"}):
    """``args`` of an event of an op, without the op's own parameters; other events have no ``__id__``."""

    identifier: int | None = None
    name: str = ""
    mode: Any = ""


class Named(Struct, gc=False):
    """``args`` of the event that names a thread."""

    name: str = ""


class Tensor(Struct, gc=False):
    """``args`` of an event of a tensor."""

    name: str = ""
    shape: str = ""
    dtype: str = ""
    device: str = ""


OPERATOR, FOOTPRINT = json.Decoder(Operator), json.Decoder(Footprint)
SPANS = json.Decoder(dict[str, Span])
OP_ARGS, TENSOR, NAMED = json.Decoder(OpArgs), json.Decoder(Tensor), json.Decoder(Named)
GRAPH_PROFILE, TIMELINE = json.Decoder(GraphProfile), json.Decoder(Timeline)


def decode(decoder: json.Decoder[Document], content: bytes | Raw, place: object, hint: str = "") -> Document:
    """Return *content* decoded. Raises TraceError, with *hint* if the file may be cut."""
    try:
        return decoder.decode(content)
    except ValidationError as error:
        raise TraceError(f"{place}: is not as MegEngine writes it: {error}") from None
    except (DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{place}: is not a complete JSON document: {error}; was it copied whole?{hint}") from None
    except RecursionError:
        raise TraceError(f"{place}: is nested too deep for a profile of MegEngine") from None
    except MemoryError:
        raise TraceError(f"{place}: is too large for the memory at hand") from None
