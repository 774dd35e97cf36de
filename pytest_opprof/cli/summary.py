"""``opprof summary``: a run for people and for the services of CI."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .inputs.opened import RunFile, opened
from .inputs.reading import Asked
from .inputs.remote import location

if TYPE_CHECKING:
    from ..results.run_result import RunResult

_FORMATS = ("markdown", "code-quality", "openmetrics", "benchmark")
_WHAT = (
    "write a run (--opprof-json), its shards or its ranks, as Markdown, GitLab code quality, OpenMetrics or for"
    " github-action-benchmark (customSmallerIsBetter)"
)


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser("summary", help="write a run for CI: Markdown, GitLab, OpenMetrics", description=_WHAT)
    parser.add_argument(
        "runs", type=location, nargs="+", metavar="RUN.json", help="the JSON of pytest --opprof-json=RUN.json"
    )
    parser.add_argument("--format", choices=_FORMATS, default="markdown")
    parser.add_argument(
        "--max-bytes", type=int, metavar="N", help="longest Markdown (default: 1024000; a comment on GitHub: 65536)"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy behind them.
    from ..report import exports, markdown
    from ..report.markdown import LEAST_BYTES
    from ..results.merging import merged

    most_bytes = arguments.max_bytes
    if most_bytes is not None and (arguments.format != "markdown" or most_bytes < LEAST_BYTES):
        raise UsageError(f"--max-bytes {most_bytes}: wants --format markdown, and at least {LEAST_BYTES}")
    run = merged([opened(path, Asked(), RunFile).run for path in arguments.runs])
    write: dict[str, Callable[[RunResult], str]] = {
        "markdown": partial(markdown.markdown, most_bytes=most_bytes or markdown.MOST_BYTES),
        "code-quality": exports.code_quality,
        "openmetrics": exports.openmetrics,
        "benchmark": exports.benchmark,
    }
    print(write[arguments.format](run), end="")
    return False
