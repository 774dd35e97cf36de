"""The rule for stored baselines on a device, at any tolerance: the same work again and again, and a slower product.

    python benchmarks/gate_device.py --device cuda [--runs 200] [--tolerance 5%] [--by 10%]

All runs are of one process, as those of ``opprof selfcheck``, whose work this is: what the device and the clock add to
the noise, without what processes differ by. Prints how many runs were called slower, faster, or had no verdict. An op
of its own may change by the same tolerance.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace

from pytest_opprof.cli.selfcheck.checks import Subject
from pytest_opprof.cli.selfcheck.workloads import Work, works
from pytest_opprof.frameworks.live.registry import threads_limited
from pytest_opprof.machine.allocator import keep_memory
from pytest_opprof.units import parse_share
from pytest_opprof.verdict.times.stored_rule import Rule
from pytest_opprof.verdict.tolerances import STORED


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--tolerance", default="5%")
    parser.add_argument("--by", default="10%")
    arguments = parser.parse_args()
    tolerance, by = (parse_share(getattr(arguments, name), f"--{name}") for name in ("tolerance", "by"))
    rule = Rule(replace(STORED, tolerance=tolerance, op_tolerance=tolerance))
    keep_memory()
    for work in works(arguments.device):
        with threads_limited([work.backend], 1):
            compare(work, arguments.runs, 1 + by, rule)


def compare(work: Work, runs: int, longer_by: float, rule: Rule) -> None:
    subject = Subject(work, longer_by, rule)
    print(f"{subject.environment}, tolerance {rule.tolerances.tolerance:.0%}")
    for longer, what in ((False, "unchanged"), (True, f"MatMul {longer_by - 1:+.0%}")):
        verdicts = Counter(subject.judged(longer).verdict.value for _ in range(runs))
        print(f"  {what:12} {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}", flush=True)


if __name__ == "__main__":
    main()
