"""Read Chrome trace events, one piece of the file at a time: the format of Kineto, JAX, ONNX Runtime and MegEngine.

The format is UTF-8 JSON: an object whose ``traceEvents`` is an array of events (its other keys, before and after, are
the header), or that array alone. An event is an object: ``ph`` (``X``: it has ``ts`` and ``dur``), ``cat``, ``name``,
``pid``, ``tid``, ``args``.

A file of 10**6 events is 240 MB of JSON and 1 GB of Python objects, so it is decoded in pieces. The end of an event is
guessed, and decoding proves the guess: a piece that begins at an event is an array between ``[`` and ``]`` only if it
ends between two events. (A piece that ends in a string leaves the string open; one that ends in an event lets the
bracket close the wrong thing.)

Memory: at most `MOST_EVENT` bytes, and the objects that they decode to. A larger event or header is an error.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, NamedTuple, TypeVar

from ...errors import TraceError
from .place import Place

if TYPE_CHECKING:
    import msgspec

    E = TypeVar("E", bound=msgspec.Struct)
else:
    E = TypeVar("E")

# Bytes decoded at once. With 1 MiB reading takes a fifth longer: the objects do not fit into the processor's cache.
PIECE = 1 << 17
# Bytes of one event, or of the header: 4 MiB, which only a broken or hostile file exceeds.
MOST_EVENT = 1 << 22
# The name of a step in `torch.profiler` and torch_npu.
STEP = re.compile(r"ProfilerStep#(\d+)")
# The beginning of the remark on a cut file.
CUT = "partial: of the file"
# Ends of events tried in a piece before more of the file is read.
_GUESSES = 4
# Bytes at the end of a piece that are searched first for the end of an event.
_TAIL = 1 << 12
# Python converts no integer of more than 4300 digits.
_MOST_DIGITS = 4000
_BOM = b"\xef\xbb\xbf"
_CUT = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*(?=\{)")
_SPACE = re.compile(r"[ \t\r\n]*")
# Kineto wrote bandwidths of empty copies as C++ prints them (pytorch/kineto issue 105, PR 131). Strings come first, so
# that their content stays untouched.
_BARE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|(?<=[:,\[ \t\r\n])[-+]?(?:inf|nan|N/A)(?=[ \t\r\n,}\]])', re.DOTALL)
_MAYBE_BARE = re.compile(rb"[-+:,\[ \t\r\n](?:inf|nan|N/A)[ \t\r\n,}\]]")
_BARE_NUMBER = "numbers are written as a bare inf, nan or N/A: read as absent"
# Finds the ends of values, in text decoded as Latin-1: one character a byte. As floats, no numbers are too long.
_IN_LATIN_1 = json.JSONDecoder(parse_int=float)


def read_events(
    place: Place,
    event: type[E],
    header: dict[str, object] | None = None,
    partial: bool = False,
    remarks: list[str] | None = None,
    others: Sequence[type[msgspec.Struct]] = (),
) -> Iterator[list[E]]:
    """Yield the events of a chrome trace as *event*: a msgspec.Struct of the wanted fields, each with a default.

    If *event* has a tag, an event with another tag becomes the one of *others* with that tag.

    The keys of the file outside of the events go into *header*: keys before the events before the first list is
    yielded, keys after them at the end. If a value does not have the type of its field (null, text for a number, NaN),
    the field keeps its default, and *remarks* have their number. With *partial*, a cut file gives its complete events,
    and a remark.

    Raises TraceError, with the byte at which the file is broken. Uses less than 128 MiB, whatever the file holds.
    """
    decoder = _Decoder(event, others)
    with place.open() as file:
        stream = _Stream(place, file, partial)
        bare = stream.begin({} if header is None else header)
        yield from stream.pieces(decoder)
        yield from stream.end(decoder, bare, {} if header is None else header)
    if remarks is not None:
        remarks += [*stream.remarks, *decoder.remarks()]


class Head(NamedTuple):
    """The beginning of a chrome trace: its first 64 KiB, decoded."""

    header: dict[str, Any]
    """The keys before the events."""
    events: list[dict[str, Any]]
    """The events that are complete."""
    bare: bool
    """Whether the file is the array alone."""


def head(place: Place) -> Head | None:
    """Return the beginning of *place*, which tells its writer; None if it is no chrome trace."""
    try:
        content = place.head
    except TraceError:
        return None
    if content.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        start, bare = _start(content)
        header = {} if bare else _header(content[:start] + b"]}")
        events = _lenient(b"[" + content[start : start + _walk(content[start:]).end] + b"]")
    except (ValueError, RecursionError):
        return None
    return Head(header, [event for event in events if isinstance(event, dict)], bare)


class _Broken(ValueError):
    """An error in the file; `at` is the byte of the buffer."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.at = at


class _Stream:
    """The part of the file that is held in memory."""

    def __init__(self, place: Place, file: BinaryIO, partial: bool) -> None:
        self.remarks: list[str] = []
        self._place = place
        self._file = file
        self._partial = partial
        self._buffer = b""
        self._offset = 0
        """The buffer's position in the inflated file."""

    def begin(self, header: dict[str, object]) -> bool:
        """Read up to the first event; return whether the file is the array alone."""
        size = PIECE
        while True:
            grown = self._fill(size)
            if not self._offset and self._buffer.startswith(_BOM):
                self._forget(len(_BOM))
            try:
                start, bare = _start(self._buffer)
                break
            except _Broken as error:
                if not grown or len(self._buffer) == MOST_EVENT:
                    raise self._error(
                        'is neither a JSON object with a "traceEvents" array, nor an array', error
                    ) from None
            size *= 2
        if not bare:
            header.update(_header(self._buffer[:start] + b"]}"))
        self._forget(start)
        return bare

    def pieces(self, decoder: _Decoder[E]) -> Iterator[list[E]]:
        """Yield the events of each piece, until the file ends or no event ends within `MOST_EVENT` bytes."""
        size = PIECE
        while True:
            for end, following in _cuts(self._buffer):
                events = decoder.attempt(self._buffer, end)
                if events is not None:
                    yield events
                    del events
                    self._forget(following)
                    size = PIECE
                    break
            else:
                if len(self._buffer) == MOST_EVENT:
                    return
                size *= 2
            if not self._fill(size):
                return

    def end(self, decoder: _Decoder[E], bare: bool, header: dict[str, object]) -> Iterator[list[E]]:
        """Yield the remaining events, and read the keys after them."""
        end, after, error = _walk(self._buffer)
        if error:
            self._buffer, count = _repaired(self._buffer)
            if count:
                decoder.told(_BARE_NUMBER, count)
                end, after, error = _walk(self._buffer)
        events = decoder.attempt(self._buffer, end)
        if error is None and events is None:
            error = _Broken("an event that cannot be decoded", 0)
        if error is None:
            error = _behind(self._buffer, after, bare, header)
        if error and not self._partial:
            what = f"is cut off, or not JSON, behind event {decoder.count}"
            raise self._error(what, error, "; --partial reads the events before") from None
        if events:
            yield events
        if error:
            self.remarks.append(
                f"{CUT} behind byte {self._offset + end} nothing could be read ({error}); the"
                f" {decoder.count} whole events before it are all that this shows"
            )

    def _fill(self, size: int) -> bool:
        """Add up to *size* bytes to the buffer, at most to `MOST_EVENT`; return whether there were any."""
        size = min(size, MOST_EVENT - len(self._buffer))
        pieces = self._carefully(size) if self._partial else [self._file.read(size)]
        before = len(self._buffer)
        self._buffer = b"".join([self._buffer, *pieces])
        return len(self._buffer) > before

    def _carefully(self, size: int) -> Iterator[bytes]:
        # A cut gzip file raises in the read that reaches its end, and all bytes of that read are lost, so reads are
        # small.
        try:
            while size > 0 and (piece := self._file.read(min(size, 512))):
                size -= len(piece)
                yield piece
        except (EOFError, gzip.BadGzipFile, zlib.error):
            return

    def _forget(self, size: int) -> None:
        self._buffer = self._buffer[size:]
        self._offset += size

    def _error(self, what: str, error: _Broken, hint: str = "") -> TraceError:
        inflated = ", inflated" if self._place.is_compressed else ""
        return TraceError(
            f"{self._place}: {what}: {error} at byte {self._offset + error.at}{inflated}. Was it written and copied"
            f" whole?{hint}"
        )


class _Decoder(Generic[E]):
    """Decodes arrays of events: at once if all values have the types of their fields, else value by value."""

    def __init__(self, event: type[E], others: Sequence[type[msgspec.Struct]]) -> None:
        import msgspec

        self.count = 0
        """Events decoded."""
        self._odd: Counter[str] = Counter()
        self._event = event
        either = reduce(or_, others, event)
        self._decode = msgspec.json.Decoder(list[either]).decode  # type: ignore[valid-type]
        self._undecodable = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    def attempt(self, buffer: bytes, end: int) -> list[E] | None:
        """Return the events before *end*, or None if no event ends there."""
        piece = b"".join([b"[", memoryview(buffer)[:end], b"]"])
        try:
            events: list[E] = self._decode(piece)
        except self._undecodable:
            try:
                events = self._coerced(_lenient(piece))
            except (ValueError, RecursionError):
                repaired, count = _repaired(piece)
                return self._again(repaired, count) if count else None
        self.count += len(events)
        return events

    def told(self, what: str, count: int = 1) -> None:
        """Count an irregularity, for the remarks."""
        self._odd[what] += count

    def remarks(self) -> list[str]:
        """Return the irregularities with their numbers."""
        return [f"{count} {what}" for what, count in self._odd.items()]

    def _again(self, repaired: bytes, count: int) -> list[E] | None:
        events = self.attempt(repaired[1:-1], len(repaired) - 2)
        if events is not None:
            self.told(_BARE_NUMBER, count)
        return events

    def _coerced(self, values: list[object]) -> list[E]:
        objects = [value for value in values if isinstance(value, dict)]
        if len(objects) < len(values):
            self.told("of the events are not objects: left out", len(values) - len(objects))
        return [self._made(value, self._event) for value in objects]

    def _made(self, value: dict[str, Any], struct: Any) -> Any:
        """Return a *struct* of the values that have the type of their field."""
        kept: dict[str, Any] = {}
        for name, key, kind, is_struct in _fields(struct):
            found = value.get(key)
            if found is None:
                continue
            try:
                is_inner = is_struct and isinstance(found, dict)
                kept[name] = self._made(found, kind) if is_inner else _converted(found, kind)
            except (ValueError, RecursionError):
                self.told(f"values of {key!r} have an unexpected type: read as absent")
        return struct(**kept)


@cache
def _fields(struct: Any) -> list[tuple[str, str, Any, bool]]:
    """Return the name, JSON key and type of each field, and whether the type is a struct."""
    import msgspec

    return [
        (
            field.name,
            field.encode_name,
            field.type,
            isinstance(field.type, type) and issubclass(field.type, msgspec.Struct),
        )
        for field in msgspec.structs.fields(struct)
    ]


def _converted(found: object, kind: Any) -> object:
    """Return a value as *kind*: valid UTF-8, finite numbers. Raises ValueError."""
    import msgspec

    if isinstance(found, str):
        found = found.encode("utf-8", "replace").decode()
    if kind is msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(found))
    if type(found) is kind and not isinstance(found, float):
        return found
    if isinstance(found, float) and not math.isfinite(found):
        raise ValueError("not finite")
    return msgspec.convert(found, kind, strict=False)


class _Whole(NamedTuple):
    """The complete events at the beginning of some bytes."""

    end: int
    """The end of the last of them."""
    after: int
    """The end of the bracket that closes the array."""
    error: _Broken | None


def _walk(buffer: bytes) -> _Whole:
    """Find the end of each event, one after the other. This takes 10 us an event; guessing takes less."""
    text = buffer.decode("latin-1")
    end, at = 0, _skip(text, 0)
    if text[at : at + 1] == "]":
        return _Whole(0, at + 1, None)
    while True:
        try:
            end = _value(text, at)[1]
            at = _skip(text, end)
            if text[at : at + 1] == "]":
                return _Whole(end, at + 1, None)
            at = _skip(text, _expect(text, at, ","))
        except _Broken as error:
            return _Whole(end, end, error)


def _start(head: bytes) -> tuple[int, bool]:
    """Return the start of the first event, and whether the file is the array alone. Raises _Broken."""
    text = head.decode("latin-1")
    at = _skip(text, 0)
    if text[at : at + 1] == "[":
        return at + 1, True
    at = _expect(text, at, "{")
    while True:
        key, at = _value(text, _skip(text, at))
        at = _skip(text, _expect(text, at, ":"))
        if key == "traceEvents":
            return _expect(text, at, "["), False
        at = _skip(text, _value(text, at)[1])
        if text[at : at + 1] == "}":
            raise _Broken('its keys end without "traceEvents"', at)
        at = _expect(text, at, ",")


def _behind(buffer: bytes, after: int, bare: bool, header: dict[str, object]) -> _Broken | None:
    """Read the keys after the events into *header*; return the error in them, if any."""
    if bare:
        return _Broken("something behind the array", after) if buffer[after:].strip(b" \t\r\n") else None
    try:
        header.update(_header(b'{"traceEvents":[]' + buffer[after:]))
    except (ValueError, RecursionError) as error:
        return _Broken(f"the keys behind the events ({error})", after)
    return None


def _header(content: bytes) -> dict[str, Any]:
    keys = _lenient(content)
    if not isinstance(keys, dict) or keys.pop("traceEvents") != []:
        raise ValueError('"traceEvents" twice')
    return keys


def _cuts(buffer: bytes) -> Iterator[tuple[int, int]]:
    """Yield the possible ends of an event, each with the start of the next one; the last place first."""
    for start in (max(0, len(buffer) - _TAIL), 0):
        last = deque(_CUT.finditer(buffer, start), _GUESSES)
        if last or not start:
            break
    return ((match.start() + 1, match.end()) for match in reversed(last))


def _repaired(piece: bytes) -> tuple[bytes, int]:
    """Return *piece* with null for each bare inf, nan or N/A, and their number."""
    if not _MAYBE_BARE.search(piece):
        return piece, 0
    strings = 0

    def replacement(match: re.Match[bytes]) -> bytes:
        nonlocal strings
        if match[0][:1] != b'"':
            return b"null"
        strings += 1
        return match[0]

    repaired, count = _BARE.subn(replacement, piece)
    return repaired, count - strings


def _lenient(content: bytes) -> Any:
    """Decode JSON that may have NaN, broken UTF-8 and numbers of any length. Raises ValueError or RecursionError."""
    return json.loads(content.decode("utf-8", "replace"), parse_int=_integer)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _MOST_DIGITS else math.inf


def _value(text: str, at: int) -> tuple[Any, int]:
    """Decode the JSON value at *at*; return it and its end. Raises _Broken."""
    try:
        return _IN_LATIN_1.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise _Broken(error.msg.removesuffix(" at"), error.pos) from None
    except (RecursionError, ValueError):
        raise _Broken("a value that is nested too deeply", at) from None


def _expect(text: str, at: int, character: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != character:
        raise _Broken(f"expected {character!r}, found {text[at : at + 20]!r}", at)
    return at + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
