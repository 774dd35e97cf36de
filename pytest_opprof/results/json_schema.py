"""JSON documents as msgspec Structs: decoded into them, and described by JSON Schemas that are made of them.

Imported only where a document is read: msgspec and jsonschema take longer than many a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, TypeVar

import msgspec

Kind = TypeVar("Kind")


def decoded(document: object, kind: type[Kind]) -> Kind:
    """Return *document*, plain JSON, as *kind*. Raises ValueError, which says what is wrong and where."""
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        # JSON Schema takes 3 s a megabyte, and finds better words: it is asked what is wrong, not whether.
        raise ValueError(next(problems(document, kind), str(error))) from None


def problems(document: object, kind: type) -> Iterator[str]:
    """Yield what JSON Schema says is wrong with *document*: where, and what."""
    # Imported here: 50 ms that only a broken file should cost.
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(msgspec.json.schema(kind)).iter_errors(document):
        where = "".join(f"[{part!r}]" for part in error.absolute_path) or "the file"
        yield f"{where}: {error.message[:200]}"


def published(kind: type, name: str, title: str) -> str:
    """Return the text of the JSON Schema of *kind*, as the package publishes it."""
    head: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:pytest-opprof:{name}",
        "title": title,
    }
    return json.dumps({**head, **_dedented(msgspec.json.schema(kind))}, indent=2) + "\n"


def _dedented(schema: Any) -> Any:
    """Return *schema* with its docstrings as Python 3.13 compiles them: those before keep the indent of the code."""
    if isinstance(schema, dict):
        return {key: cleandoc(value) if key == "description" else _dedented(value) for key, value in schema.items()}
    return [*map(_dedented, schema)] if isinstance(schema, list) else schema
