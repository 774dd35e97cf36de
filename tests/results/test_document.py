"""The layout of JSON files that people review. How they are read: tests/baselines/files/test_file.py."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.results.document import laid_out

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
)


def test_an_op_and_numbers_are_on_the_line_of_their_key_and_other_objects_have_a_key_a_line() -> None:
    document = {
        "tests": {"test_a": {"body": {"ops": {"Cast": {"calls": 2, "bytes": {"b": 1, "a": [1, 2]}}}}}},
        "coarse": {"machine": {"wall_ms": [1.5, 2], "cpu_ms": [1, 2], "processes": 2}},
        "schema": 4,
    }
    assert laid_out(document).splitlines() == [
        "{",
        ' "coarse": {',
        '  "machine": {"cpu_ms": [1, 2], "processes": 2, "wall_ms": [1.5, 2]}',
        " },",
        ' "schema": 4,',
        ' "tests": {',
        '  "test_a": {',
        '   "body": {',
        '    "ops": {',
        '     "Cast": {"calls": 2, "bytes": {"a": [1, 2], "b": 1}}',
        "    }",
        "   }",
        "  }",
        " }",
        "}",
    ]


@given(st.dictionaries(st.text(), VALUES))
def test_it_is_the_same_document(document: dict[str, object]) -> None:
    text = laid_out(document)
    assert json.loads(text) == document
    assert text.endswith("}\n")
