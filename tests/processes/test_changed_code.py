"""Which lines of the working tree differ from another revision, from what git says."""

from __future__ import annotations

import ast
import difflib

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.processes.changed_code import ranges_of, whole_statements

DIFF = """\
diff --git a b.py a b.py
index 4a..5b 100644
--- a b.py\t
+++ a b.py\t
@@ -2 +2,2 @@ def f():
-    return x
+++ a trap.py
+@@ -1 +9 @@
@@ -9,3 +9,0 @@
-gone
diff --git gone.py gone.py
deleted file mode 100644
--- gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git ä.py ä.py
--- ä.py
+++ ä.py
@@ -0,0 +1 @@
+new
\\ No newline at end of file
"""


def test_added_lines_count_and_of_removed_ones_the_line_after_them():
    found = ranges_of(DIFF)
    del found["/dev/null"]  # of a file that is gone
    assert found == {"a b.py": [range(2, 4), range(10, 11)], "ä.py": [range(1, 2)]}


SOURCE = """\
@cached
@other
def f(a,
      b):
    total = sum(
        a,
        b,
    )
    if (a and
            b):
        return total
    match a:
        case (1 |
              2):
            return 1
        case _:
            return 2
"""


def lines(*changed: int) -> set[int]:
    ranges = [range(each, each + 1) for each in changed]
    return {line for each in whole_statements(SOURCE.encode(), ranges) for line in each}


def test_a_changed_argument_changes_the_whole_call():
    assert lines(7) == {5, 6, 7, 8}
    assert lines(11) == {11}


def test_of_a_statement_with_a_body_the_header_changes():
    assert lines(4) == {3, 4}
    assert lines(10) == {9, 10}
    assert lines(1) == {1}


def test_source_that_is_no_python_keeps_the_changed_lines():
    for source in (b"def f(:\n", b"\0", b"\xff\xfe"):
        assert whole_statements(source, [range(1, 2)]) == [range(1, 2)]


LINES = st.lists(st.sampled_from(["x = 1", "y = (", "2)", "", "if x:", "    z()", "@@ -1 +1 @@", "+++ b"]), max_size=12)


@given(LINES, LINES)
def test_each_line_that_differs_is_among_them(before: list[str], now: list[str]):
    diff = [*difflib.unified_diff(before, now, "a", "b", n=0, lineterm="")]
    found = ranges_of("\n".join(["diff --git a b", *diff]))
    changed = {line for each in found.get("b", []) for line in each}
    opcodes = difflib.SequenceMatcher(None, before, now).get_opcodes()
    added = {line + 1 for tag, _, _, begin, end in opcodes if tag != "equal" for line in range(begin, end)}
    removed = {begin + 1 for tag, _, _, begin, end in opcodes if tag == "delete"}
    assert added | removed == changed


@given(LINES, st.integers(1, 12))
def test_whole_statements_have_the_lines_that_changed(source: list[str], line: int):
    text = "\n".join(source)
    found = {each for span in whole_statements(text.encode(), [range(line, line + 1)]) for each in span}
    assert line in found
    try:
        ast.parse(text)
    except SyntaxError:
        assert found == {line}
