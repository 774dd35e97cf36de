"""JSON documents as msgspec Structs: decoded into them, and described by JSON Schemas that are made of them.

Imported only where a document is read: msgspec and jsonschema take longer than many a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from typing import Any, TypeVar

import msgspec

from ..profile.range import MOST, BadRange, Range
from .plain import converted

Kind = TypeVar("Kind")


def decoded(document: object, kind: type[Kind]) -> Kind:
    """Return *document*, plain JSON, as *kind*. Raises ValueError, which says what is wrong and where."""
    try:
        return converted(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        # JSON Schema takes 3 s a megabyte, and finds better words: it is asked what is wrong, not whether.
        cause = error.__cause__
        told = f"{_place_of(cause.value, document)}: {cause}" if isinstance(cause, BadRange) else str(error)
        raise ValueError(next(problems(document, kind), told)) from None


def _place_of(value: object, document: object) -> str | None:
    """Return where *value*, the very object, stands in *document*."""
    if value is document:
        return ""
    inside: Iterable[tuple[object, object]] = ()
    if isinstance(document, (dict, list)):
        inside = document.items() if isinstance(document, dict) else enumerate(document)
    for key, each in inside:
        if (found := _place_of(value, each)) is not None:
            return f"[{key!r}]{found}"
    return None


def _schema(kind: type) -> dict[str, Any]:
    if kind is not Range:
        raise NotImplementedError(kind)
    number = {"type": "integer", "minimum": 0, "maximum": MOST}
    both = {"type": "array", "items": number, "minItems": 2, "maxItems": 2}
    varying = {"type": "object", "properties": {"varies": both}, "required": ["varies"], "additionalProperties": False}
    told = "In one round; [least, most] where rounds differ, varies where processes do."
    return {"description": told, "anyOf": [number, both, varying]}


def problems(document: object, kind: type) -> Iterator[str]:
    """Yield what JSON Schema says is wrong with *document*: where, and what."""
    # Imported here: 50 ms that only a broken file should cost.
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(msgspec.json.schema(kind, schema_hook=_schema)).iter_errors(document):
        where = "".join(f"[{part!r}]" for part in error.absolute_path) or "the file"
        yield f"{where}: {error.message[:200]}"


def published(kind: type, name: str, title: str) -> str:
    """Return the text of the JSON Schema of *kind*, as the package publishes it."""
    head: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:pytest-opprof:{name}",
        "title": title,
    }
    return json.dumps({**head, **_dedented(msgspec.json.schema(kind, schema_hook=_schema))}, indent=2) + "\n"


def _dedented(schema: Any) -> Any:
    """Return *schema* with its docstrings as Python 3.13 compiles them: those before keep the indent of the code."""
    if isinstance(schema, dict):
        return {key: cleandoc(value) if key == "description" else _dedented(value) for key, value in schema.items()}
    return [*map(_dedented, schema)] if isinstance(schema, list) else schema
