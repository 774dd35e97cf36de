"""The commands of ``opprof`` that work on saved profiles: show, diff, check, convert, formats."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path
from typing import Any

from . import listing, profiles_judge, profiles_read, profiles_show, traces
from .errors import UsageError


def add(commands: Any) -> None:
    """Add the commands to the parser's *commands*. They return whether they found something."""
    show = commands.add_parser("show", help="show what a saved profile holds, op by op", description=_SHOW)
    show.add_argument("file", type=Path, help="a profile, or a folder with one")
    _add_source(show)
    _add_question(show)
    show.set_defaults(run=profiles_show.show)

    diff = commands.add_parser("diff", help="compare two saved profiles; exit 1 when the second is worse")
    diff.add_argument("base", type=Path, help="the profile before")
    diff.add_argument("now", type=Path, help="the profile after")
    _add_source(diff)
    diff.add_argument("--base-steps", metavar="STEPS", help="other steps of the profile before")
    diff.add_argument("--base-rank", metavar="N", help="another rank of the profile before")
    diff.add_argument("--tolerance", default="10%", help="how much slower is slower (default: 10%%)")
    diff.add_argument("--floor", default="20 us", help="a smaller change of time is none (default: 20 us)")
    diff.add_argument("--by", choices=("type", "name", "shape"), default="type", help="what an op is (default: type)")
    diff.add_argument("-t", "--top", type=int, default=10, metavar="K", help="unchanged ops to show (default: 10)")
    diff.add_argument("--format", choices=("table", "markdown", "json"), default="table")
    diff.set_defaults(run=profiles_judge.diff)

    check = commands.add_parser("check", help="judge a saved profile by a budget; exit 1 when it is exceeded")
    check.add_argument("file", type=Path)
    _add_source(check)
    check.add_argument(
        "--budget",
        action="append",
        required=True,
        metavar="KEY=LIMIT",
        help="a limit as in the op_budget mark: Cast=10, MatMul=3..5, device_time=5ms, 'aten::*conv*=0'; repeatable",
    )
    check.add_argument("--allow-inferred", action="store_true", help="judge op types that were guessed from names")
    check.set_defaults(run=profiles_judge.check)

    convert = commands.add_parser("convert", help="write a profile in opprof's own format, or as a Chrome trace")
    convert.add_argument("file", type=Path)
    _add_source(convert)
    convert.add_argument("-o", "--output", type=Path, required=True, help=_OUTPUT)
    convert.set_defaults(run=_convert)

    formats = commands.add_parser("formats", help="list the profiles that can be read")
    formats.set_defaults(run=_formats)


_OUTPUT = "OUT.trace.json is a Chrome trace for a viewer, anything else opprof's own format; .gz behind it is gzipped"
_SHOW = "Filters do not change the totals above the table. Times have units: 100us, 1.5ms."


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", metavar="FORMAT", help="read it as this format, whatever it looks like")
    parser.add_argument("--rank", metavar="N", help="which rank (or 'all'), of a folder with several")
    parser.add_argument("--steps", metavar="STEPS", help="only these steps: 2-4 or 2,3,4")
    parser.add_argument("--partial", action="store_true", help="read what is whole of a file that was cut")


def _add_question(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-t",
        "--top",
        type=int,
        default=3,
        metavar="K",
        help="rows to show (default: 3; 0 is all)",
    )
    add("--name", metavar="REGEX", help="ops whose name this is found in, anywhere: '^conv' anchors it")
    add("--type", action="append", default=[], metavar="OP", help="ops of this type, canonical or raw; repeatable")
    add("--input-dtype", default="", metavar="DTYPE", help="ops with an input of this dtype")
    add("--order-by", default="time", metavar="[+]COLUMN", help="from the largest; + from the smallest (default: time)")
    add("--aggregate-by", choices=("type", "op"), help="one row for each raw type or canonical op")
    add("--aggregate", choices=("sum", "max", "min", "mean"), help="how (default: sum); alone: one row for all")
    add("--time", choices=("end", "kern"), default="end", help="until the op's end, or only until its first kernel")
    add("--min-time", metavar="TIME", help="ops of at least this time")
    add("--max-time", metavar="TIME", help="ops of at most this time")
    add("--side", choices=("device", "host", "both"), default="device", help="whose time (default: device)")
    add("--kernels", action="store_true", help="the list of kernels instead: calls, total, average, launched by")
    add("--copy-time", action="store_true", help="also the time of the copies among the ops")
    add("--only-ops", action="store_true", help="only name, type and id, an op a line")
    add("--format", choices=listing.FORMATS, default="table")


def _convert(arguments: argparse.Namespace) -> bool:
    from .baselines import write_atomically
    from .traces import opprof

    output = arguments.output.resolve()
    if output.exists() and not output.is_file():
        raise UsageError(f"{arguments.output}: is no file; name one to write")
    if not output.parent.is_dir():
        raise UsageError(f"{arguments.output}: there is no folder {output.parent}")
    trace = profiles_read.read_one(arguments, arguments.file, arguments.rank, arguments.steps, "convert")
    if output.exists() and output.samefile(arguments.file):
        raise UsageError(f"{arguments.output}: is the profile itself; write to another file")
    plain_name = arguments.output.name.removesuffix(".gz")
    as_chrome = plain_name.endswith(".trace.json")
    content = (opprof.chrome(trace) if as_chrome else opprof.dump(trace)).encode()
    try:
        write_atomically(output, content if plain_name == arguments.output.name else gzip.compress(content, 6, mtime=0))
    except OSError as error:
        raise UsageError(f"{arguments.output}: cannot be written: {error.strerror or error}") from None
    as_what = "as a Chrome trace" if as_chrome else "in opprof's own format"
    print(f"wrote {arguments.output}: {len(trace.records)} records {as_what}")
    return False


def _formats(arguments: argparse.Namespace) -> bool:
    width = max(map(len, traces.FORMATS))
    for name in traces.FORMATS:
        module = traces.module(name)
        untried = "; as documented, not tried on recordings" if hasattr(module, "AS_DOCUMENTED") else ""
        print(f"{name:{width}}  {module.TITLE}{untried}")
    return False
