"""Decode JSON documents into msgspec Structs, and generate their JSON Schemas.

Imported only to read a document: msgspec and jsonschema take longer to import than many tests run.
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
    """Return *document*, plain JSON, as *kind*. Raises ValueError with the problem and its place."""
    try:
        return converted(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        # JSON Schema takes 3 s a megabyte but has better error texts, so it only explains what msgspec rejects.
        cause = error.__cause__
        told = f"{_place_of(cause.value, document)}: {cause}" if isinstance(cause, BadRange) else str(error)
        raise ValueError(next(problems(document, kind), told)) from None


def _place_of(value: object, document: object) -> str | None:
    """Return the path of *value*, the very object, in *document*."""
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
    told = "In one round; [least, most] if rounds differ, varies if processes do."
    return {"description": told, "anyOf": [number, both, varying]}


def problems(document: object, kind: type) -> Iterator[str]:
    """Yield each problem that JSON Schema finds in *document*, with its place."""
    # Imported here, since its 50 ms should burden only broken files.
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(msgspec.json.schema(kind, schema_hook=_schema)).iter_errors(document):
        where = "".join(f"[{part!r}]" for part in error.absolute_path) or "the file"
        yield f"{where}: {error.message[:200]}"


def published(kind: type, name: str, title: str) -> str:
    """Return the text of *kind*'s JSON Schema, as the package publishes it."""
    head: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:pytest-opprof:{name}",
        "title": title,
    }
    return json.dumps({**head, **_dedented(msgspec.json.schema(kind, schema_hook=_schema))}, indent=2) + "\n"


def _dedented(schema: Any) -> Any:
    """Return *schema* with docstrings dedented as Python 3.13 does; earlier versions keep the code's indent."""
    if isinstance(schema, dict):
        return {key: cleandoc(value) if key == "description" else _dedented(value) for key, value in schema.items()}
    return [*map(_dedented, schema)] if isinstance(schema, list) else schema
