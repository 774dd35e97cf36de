"""``opprof report``: a run, its shards or its ranks, as a page to read in a browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .inputs import reading
from .inputs.opened import RunFile, opened
from .inputs.reading import Asked
from .inputs.remote import location


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    what = "write a run (--opprof-json), its shards or its ranks, as one HTML file"
    parser = commands.add_parser("report", help="write a run as an HTML page", description=what)
    parser.add_argument(
        "runs", type=location, nargs="+", metavar="RUN.json", help="the JSON of pytest --opprof-json=RUN.json"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.html")
    reading.refuse_on(parser, "the JSON of a run has kilobytes for each rank, which this machine reads")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy and Jinja2 behind them.
    from ..report.html import page, run_page
    from ..results.merging import merged

    page.check_name(arguments.output, "-o")
    run = merged([opened(path, Asked(), RunFile).run for path in arguments.runs])
    page.write(arguments.output, run_page.html(run), "-o")
    return False
