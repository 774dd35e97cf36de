"""Size and time of the page of a run, for runs of 52 and of 1,000 tests made of those of real ones.

    pytest --opprof --opprof-json=run.json && python benchmarks/html_report.py run.json

Every test is there as often as it takes, under another name; so the share of failing tests is that of the real run.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from time import perf_counter

import msgspec

from pytest_opprof.cli.inputs import reading
from pytest_opprof.report.html import run_page
from pytest_opprof.results.run_result import RunResult


def of_size(run: RunResult, tests: int) -> RunResult:
    module, _, name = "", "", ""
    made = []
    for number in range(tests):
        test = run.tests[number % len(run.tests)]
        module, _, name = test.id.partition("::")
        again = number // len(run.tests)
        made.append(msgspec.structs.replace(test, id=f"{module.removesuffix('.py')}_{again}.py::{name}"))
    return msgspec.structs.replace(run, tests=made)


def main() -> None:
    run = reading.run(Path(sys.argv[1]))
    run_page.html(of_size(run, 1))  # templates are compiled once
    failing = f"{len(run.failing)} of {len(run.tests)} fail"
    print(f"{failing}\n{'tests':>6} {'page':>9} {'gzip':>9} {'made in':>8}")
    for tests in (52, 1000):
        many = of_size(run, tests)
        begin = perf_counter()
        page = run_page.html(many).encode()
        took = perf_counter() - begin
        print(f"{tests:6} {len(page) / 1000:6.0f} kB {len(gzip.compress(page)) / 1000:6.0f} kB {took:6.2f} s")


if __name__ == "__main__":
    main()
