from __future__ import annotations

import json
import re
from typing import Annotated

import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta, Struct

from pytest_opprof.profile.range import ALLOWED, Range
from pytest_opprof.results.json_schema import decoded, published


class Kept(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept."""

    calls: dict[str, Annotated[int, Meta(ge=1)]]
    by_dtype: str | dict[str, Range] = ""
    bytes: Range | None = None


def test_a_document_becomes_what_its_type_says() -> None:
    assert decoded({"calls": {"Add": 1}}, Kept) == Kept({"Add": 1})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "the file: the key 'calls' is missing"),
        ({"calls": {"Add": 0}}, "['calls']['Add']: is 0; allowed: 1 or more"),
        ({"calls": {"Add": "3"}}, """['calls']['Add']: is "3"; allowed: a whole number from 1"""),
        ({"calls": {"Add": 1.0}}, "['calls']['Add']: is 1.0; allowed: a whole number from 1"),
        ({"calls": None}, "['calls']: is null; allowed: an object"),
        ({"calls": {}, "more": 1}, "the file: the key 'more' is unknown; known: calls, by_dtype, bytes"),
        ({"calls": {}, "byte": 1}, "the file: the key 'byte' is unknown: did you mean 'bytes'?"),
        ([], "the file: is []; allowed: an object"),
        ({"calls": {}, "bytes": "1 KiB"}, f"""['bytes']: is "1 KiB"; allowed: {ALLOWED} or null"""),
        ({"calls": {}, "bytes": [1, 2, 3]}, f"['bytes']: is [1, 2, 3]; allowed: {ALLOWED} or null"),
        ({"calls": {}, "bytes": [5, 2]}, "['bytes']: is [5, 2]: the least comes first"),
        ({"calls": {}, "bytes": [1, None]}, "['bytes'][1]: is null; allowed: a whole number from 0 to 1e+18"),
        ({"calls": {}, "by_dtype": 3}, "['by_dtype']: is 3; allowed: a string or an object"),
        ({"calls": {}, "by_dtype": {"f4": -1}}, f"['by_dtype']['f4']: is -1; allowed: {ALLOWED}"),
        (
            {"calls": {}, "by_dtype": ["x" * 99]},
            f"""['by_dtype']: is ["{"x" * 58}...; allowed: a string or an object""",
        ),
    ],
)
def test_an_error_says_where_the_problem_is_what_is_given_and_what_is_allowed(document: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        decoded(document, Kept)


def test_a_published_schema_is_one_and_tells_its_name() -> None:
    schema = json.loads(published(Kept, "kept:1", "What is kept"))
    Draft202012Validator.check_schema(schema)
    assert (schema["$id"], schema["title"]) == ("urn:pytest-opprof:kept:1", "What is kept")
    assert [error.message for error in Draft202012Validator(schema).iter_errors({})] == [
        "'calls' is a required property"
    ]
