from __future__ import annotations

import json
from typing import Annotated

import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta, Struct

from pytest_opprof.results.json_schema import decoded, published


class Kept(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept."""

    calls: dict[str, Annotated[int, Meta(ge=1)]]


def test_a_document_becomes_what_its_type_says() -> None:
    assert decoded({"calls": {"Add": 1}}, Kept) == Kept({"Add": 1})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "^the file: 'calls' is a required property$"),
        ({"calls": {"Add": 0}}, r"^\['calls'\]\['Add'\]: 0 is less than the minimum of 1$"),
        ({"calls": {}, "more": 1}, "^the file: .*'more' was unexpected"),
        ([], r"^the file: \[\] is not of type 'object'$"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_json_schema(document: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decoded(document, Kept)


def test_what_json_schema_would_let_pass_is_said_in_those_of_the_decoder() -> None:
    with pytest.raises(ValueError, match=r"^Expected `int`, got `float` - at `\$\.calls\[\.\.\.\]`$"):
        decoded({"calls": {"Add": 1.0}}, Kept)


def test_a_published_schema_is_one_and_tells_its_name() -> None:
    schema = json.loads(published(Kept, "kept:1", "What is kept"))
    Draft202012Validator.check_schema(schema)
    assert (schema["$id"], schema["title"]) == ("urn:pytest-opprof:kept:1", "What is kept")
    assert [error.message for error in Draft202012Validator(schema).iter_errors({})] == [
        "'calls' is a required property"
    ]
