"""JAX's explanations of what it traces again, as its log words them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pytest_opprof.frameworks.xla.live.misses import Misses, reason

TEXT = """TRACING CACHE MISS at test_a.py:9 (test_a):
  never seen function:
    <lambda> id=139 defined at {}:694
"""


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/venv/lib/python3.12/site-packages/equinox/_ad.py", "equinox/_ad.py"),
        ("/home/me/project/model.py", "/home/me/project/model.py"),
        (str(Path.cwd() / "models" / "mlp.py"), str(Path("models", "mlp.py"))),
    ],
)
def test_a_function_of_a_package_is_placed_in_that(file: str, shown: str) -> None:
    record = logging.LogRecord("jax", logging.WARNING, "", 0, TEXT.format(file), (), None)
    misses, said = Misses(), list[str]()
    with misses.told(lambda function, at, why: said.append(f"{function}: {why}")):
        misses.filter(record)
        assert said == []
        misses.filter(record)
    assert said == [f"<lambda> ({shown}:694): another function is defined there each time"]


def test_the_program_of_opprof_itself_is_not_the_tests() -> None:
    text = TEXT.replace("<lambda> id=139", "opprof_fence").format("fence.py")
    misses, said = Misses(), list[str]()
    with misses.told(lambda function, at, why: said.append(function)):
        for _ in range(2):
            misses.filter(logging.LogRecord("jax", logging.WARNING, "", 0, text, (), None))
    assert said == []


def test_each_argument_that_differs_is_told_apart() -> None:
    text = """TRACING CACHE MISS at test_a.py:7 (test_a):
  for f defined at test_a.py:4
  all previously seen cache keys differ. For the closest previous key:
  different input types:
  * at d['a'], now f32[] and before i32[]
  * at d['b'], now f32[3] and before f32[2]
"""
    unexplained = f"{text.partition('  different')[0]}  cache miss explanation unavailable"
    assert reason(unexplained).startswith("its arguments have the types and the structure of before")
    assert reason(text) == (
        "different input types: at d['a'], now f32[] and before i32[]; at d['b'], now f32[3] and before f32[2]"
    )
