"""What is inside a fused kernel, from the backend to the report: it counts, and has no time of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FUSED = """
import pytest
from pytest_opprof.backends import fake
from pytest_opprof.profile.columns import ABSENT

def work():
    fusion = fake.launch("ynn_fusion", device_ns=66_000)
    for _ in range(2):
        fake.launch("Cast", device_ns=ABSENT, inside=fusion)
    fake.launch("MatMul", device_ns=34_000)
"""


def test_it_counts_its_time_is_not_known_and_the_total_is_right(
    pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(FUSED + "@pytest.mark.op_budget(Cast=1)\ndef test_a(): work()\n")
    suite("--opprof").stdout.fnmatch_lines(
        [
            "  Cast: 2 calls (budget: 1)",
            "Cast        2        -              -        over budget",
            "ynn_fusion  1        66 us          66%",
            "MatMul      1        34 us          34%",
            "total device time: 100 us",
        ]
    )


@pytest.mark.parametrize("limit", ["5 us", "5%"])
def test_a_limit_on_its_time_cannot_be_checked(
    pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult], limit: str
) -> None:
    pytester.makepyfile(FUSED + f"@pytest.mark.op_budget(Cast={limit!r})\ndef test_a(): work()\n")
    suite("--opprof").stdout.fnmatch_lines([f"*device time of Cast ({limit}) cannot be checked: fake does not*"])
