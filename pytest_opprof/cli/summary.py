"""``opprof summary``: a run for people and for the services of CI."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from . import reading

_FORMATS = ("markdown", "code-quality", "openmetrics", "benchmark")
_WHAT = (
    "write a run (--opprof-json) as Markdown, as GitLab's code quality, as OpenMetrics or for github-action-benchmark"
    " (customSmallerIsBetter)"
)


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser("summary", help="write a run for people and services of CI", description=_WHAT)
    parser.add_argument("run_json", type=Path, metavar="RUN.json", help="what pytest --opprof-json=RUN.json wrote")
    parser.add_argument("--format", choices=_FORMATS, default="markdown")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy behind them.
    from ..report import exports, markdown

    run = reading.run(arguments.run_json)
    write = {
        "markdown": markdown.markdown,
        "code-quality": exports.code_quality,
        "openmetrics": exports.openmetrics,
        "benchmark": exports.benchmark,
    }
    print(write[arguments.format](run), end="")
    return False
