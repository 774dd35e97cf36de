"""Programs made up by Hypothesis: functions and generators that call each other, and raise."""

from __future__ import annotations

import sys

from hypothesis import strategies as st


def blocks(simple: list[str]) -> st.SearchStrategy[list[str]]:
    """Return lines of Python made of *simple* statements."""
    one = st.sampled_from(simple).map(str.splitlines)

    def nested(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
        block = inner.map(lambda lines: [f"    {line}" for line in lines])
        return st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda blocks: [line for block in blocks for line in block]),
            st.tuples(block, block, block).map(
                lambda b: ["try:", *b[0], "except ValueError:", *b[1], "finally:", *b[2]]
            ),
            block.map(lambda b: ["with scope():", *b]),
            block.map(lambda b: ["for each in [0, 1]:", *b]),
            st.tuples(block, block).map(lambda b: ["if op(False):", *b[0], "else:", *b[1]]),
        )

    return st.recursive(one, nested, max_leaves=6)


@st.composite
def sources(draw: st.DrawFn) -> str:
    """Return the source of functions that call those defined before them, some of them generators."""
    lines: list[str] = []
    plain, generators = ["op"], ["echo(2)"]
    for number in range(4):
        is_generator = draw(st.booleans())
        simple = ["op()", "op(\n    op(),\n    op())", "raise ValueError", "return op()", "[op(each) for each in 'ab']"]
        simple += [f"op({name}(), op())" for name in plain]
        for name in generators:
            simple += [f"for each in {name}:\n    op(each)", f"op(sum(op(1) for each in {name}), op())"]
            simple += [f"some = {name}\nop(next(some, 0))\nsome.close()\nop()"]
            if sys.version_info >= (3, 12):  # before, the rest of the line is not certain
                simple += [f"some = {name}\nop(next(some, 0))\nop(some.throw(ValueError()), op())"]
        if is_generator:
            simple += ["yield op()", "op((yield), op())", *(f"op((yield from {name}), op())" for name in generators)]
        body = draw(blocks(simple))
        lines += [f"def f{number}():", *(f"    {line}" for line in body), *(["    yield"] if is_generator else [])]
        (generators if is_generator else plain).append(f"f{number}()" if is_generator else f"f{number}")
    calls = [f"    op({name}())" for name in plain] + [f"    op(list({name}))" for name in generators]
    return "\n".join([*lines, "def main():", *(line for call in calls for line in _guarded(call))])


def _guarded(line: str) -> list[str]:
    return ["    try:", f"    {line}", "    except (ValueError, RuntimeError):", "        op()"]
