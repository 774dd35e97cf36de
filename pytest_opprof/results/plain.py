"""Convert results to plain values for JSON and report objects, and back."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from ..profile.range import Range

Kind = TypeVar("Kind")


def plain(value: object) -> Any:
    """Return *value* as plain data for report objects and JSON."""
    return msgspec.to_builtins(value, enc_hook=as_json)


def converted(value: object, kind: type[Kind]) -> Kind:
    """Return a plain *value* as *kind*. Raises msgspec.ValidationError with the problem and its place."""
    return msgspec.convert(value, kind, dec_hook=of_json)


def as_json(value: Any) -> object:
    """Encode a class that JSON does not know: ranges, NumPy's numbers, subclasses of str."""
    return value.plain if isinstance(value, Range) else str(value) if isinstance(value, str) else value.item()


def of_json(kind: type, value: object) -> object:
    """Decode a JSON *value* into a *kind* that msgspec does not know; the inverse of `as_json`."""
    if kind is Range:
        return Range.of_plain(value)
    raise NotImplementedError(kind)
