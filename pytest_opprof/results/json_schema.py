"""Decode JSON documents into msgspec Structs, and generate their JSON Schemas.

Imported only to read a document: msgspec and jsonschema take longer to import than many tests run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..errors import suggestion
from ..profile.range import ALLOWED, MOST, BadRange, Range
from .plain import converted

if TYPE_CHECKING:
    from jsonschema import ValidationError

Kind = TypeVar("Kind")
_SHOWN = 60
"""Characters of a wrong value to show."""


def decoded(document: object, kind: type[Kind]) -> Kind:
    """Return *document*, plain JSON, as *kind*. Raises ValueError with the place, what is given and what is allowed."""
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
    """Yield each problem that JSON Schema finds in *document*: where, what is given, and what is allowed."""
    # Imported here, since its 50 ms should burden only broken files.
    from jsonschema import Draft202012Validator, validators

    # JSON Schema takes 1.0 for an integer, the files have none.
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    strict = validators.extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]
    for found in strict(msgspec.json.schema(kind, schema_hook=_schema)).iter_errors(document):
        error = _innermost(found)
        where = "".join(f"[{part!r}]" for part in error.absolute_path) or "the file"
        yield f"{where}: {_in_words(error)}"


def _innermost(error: ValidationError) -> ValidationError:
    """Return the error inside the alternative that the value comes closest to; of alternatives as a whole, *error*."""
    return max([error, *map(_innermost, error.context or ())], key=lambda each: len(each.absolute_path))


def _in_words(error: ValidationError) -> str:
    given: Any = error.instance
    schema: Any = error.schema
    rule, wanted = str(error.validator), error.validator_value
    if rule == "required":
        return f"the key {next(key for key in schema[rule] if key not in given)!r} is missing"
    if rule == "additionalProperties" and wanted is False:
        known = schema["properties"]
        unknown = next(key for key in given if key not in known)
        near = suggestion(unknown, known) or f"; known: {', '.join(known)}"
        return f"the key {unknown!r} is unknown{near}"
    return f"is {_json(given)}; allowed: {_LIMITS[rule].format(wanted) if rule in _LIMITS else _allowed(schema)}"


# The values that a keyword of JSON Schema allows.
_LIMITS = {
    "minimum": "{:.10g} or more",
    "maximum": "{:.10g} or less",
    "minItems": "a list of {} or more",
    "maxItems": "a list of at most {}",
    "minProperties": "an object of {} or more",
    "enum": "one of {}",
    "const": "{}",
}
_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a string",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}


def _allowed(schema: Mapping[str, Any]) -> str:
    """Return in words which values a *schema* allows."""
    choices, of_range = schema.get("anyOf", []), _schema(Range)["anyOf"]
    if choices[: len(of_range)] == of_range:
        return " or ".join([ALLOWED, *map(_allowed, choices[len(of_range) :])])
    if choices:
        return " or ".join(map(_allowed, choices))
    least, most = schema.get("minimum"), schema.get("maximum")
    bounds = "" if least is None else f" from {least:.10g}" if most is None else f" from {least:.10g} to {most:.10g}"
    return _TYPES[schema.get("type", "object")] + bounds


def _json(value: object) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def published(kind: type, name: str, title: str) -> str:
    """Return the text of *kind*'s JSON Schema, as the package publishes it."""
    head: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:pytest-opprof:{name}",
        "title": title,
    }
    return json.dumps({**head, **_alike(msgspec.json.schema(kind, schema_hook=_schema))}, indent=2) + "\n"


def _alike(schema: Any) -> Any:
    """Return *schema* as each version of Python and msgspec has it.

    Docstrings are dedented, as Python 3.13 does; earlier versions keep the code's indent. Defaults ``{}`` are left out:
    msgspec 0.23 has those of dataclasses, too.
    """
    if isinstance(schema, dict):
        kept = {key: value for key, value in schema.items() if (key, value) != ("default", {})}
        return {key: cleandoc(value) if key == "description" else _alike(value) for key, value in kept.items()}
    return [*map(_alike, schema)] if isinstance(schema, list) else schema
