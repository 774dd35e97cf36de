"""The fields of rocprofv3's JSON, as msgspec types. Imported only when such a file is read."""

from __future__ import annotations

from msgspec import MsgspecError, Struct, json

from ....errors import TraceError
from ...files.place import Place


class Handle(Struct, gc=False, frozen=True):
    """The identifier of an agent or a queue."""

    handle: int = 0


class Agent(Struct, gc=False, frozen=True):
    """A device, or a CPU."""

    id: Handle = Handle()
    name: str = ""
    product_name: str = ""


class Symbol(Struct, gc=False, frozen=True):
    """A kernel of the program."""

    kernel_id: int = 0
    kernel_name: str = ""
    formatted_kernel_name: str = ""


class Operations(Struct, gc=False, frozen=True):
    """The names of the operations of one kind of records; a record has an index into them."""

    operations: tuple[str, ...] = ()


class Strings(Struct, gc=False, frozen=True):
    """The names that records refer to by number."""

    buffer_records: tuple[Operations, ...] = ()


class Dispatch(Struct, gc=False, frozen=True):
    """The kernel of a dispatch, and its agent and queue."""

    agent_id: Handle = Handle()
    queue_id: Handle = Handle()
    kernel_id: int = 0


class Record(Struct, gc=False, frozen=True):
    """A dispatch, a copy or a call; times are ns."""

    start_timestamp: int
    end_timestamp: int
    kind: int = 0
    operation: int = 0
    dispatch_info: Dispatch = Dispatch()
    dst_agent_id: Handle = Handle()
    src_agent_id: Handle = Handle()
    bytes: int = -1


class Records(Struct, gc=False, frozen=True):
    """All records of a process, by kind."""

    kernel_dispatch: list[Record] = []
    memory_copy: list[Record] = []
    hip_api: list[Record] = []


class Tool(Struct, gc=False, frozen=True):
    """A process."""

    agents: tuple[Agent, ...] = ()
    kernel_symbols: tuple[Symbol, ...] = ()
    strings: Strings = Strings()
    buffer_records: Records = Records()


class _Document(Struct, gc=False, rename={"tools": "rocprofiler-sdk-tool"}):
    tools: tuple[Tool, ...]


def decode(place: Place, most: int) -> tuple[Tool, ...]:
    """Return the recording of each process. Raises TraceError."""
    content = place.read(most)
    try:
        try:
            return json.decode(content, type=_Document).tools
        # Names of kernels are bytes, in any encoding. From msgspec 0.23 on the error is one of its own.
        except (UnicodeDecodeError, MsgspecError):
            return json.decode(content.decode("utf-8", "replace"), type=_Document).tools
    except (MsgspecError, RecursionError) as error:
        raise TraceError(f"{place}: is not a complete JSON file of rocprofv3: {error}. Was it copied whole?") from None
