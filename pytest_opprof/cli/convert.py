"""``opprof convert``: a saved profile in opprof's own format, or as a Chrome trace."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..machine.atomic_write import write_atomically
from ..readers import own_format
from . import reading

_OUTPUT = "OUT.trace.json is a Chrome trace for a viewer, anything else opprof's own format; .gz behind it is gzipped"


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    convert = commands.add_parser("convert", help="write a profile in opprof's own format, or as a Chrome trace")
    convert.add_argument("file", type=Path)
    reading.add_source(convert)
    convert.add_argument("-o", "--output", type=Path, required=True, help=_OUTPUT)
    convert.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    output = arguments.output.resolve()
    if output.exists() and not output.is_file():
        raise UsageError(f"{arguments.output}: is no file; name one to write")
    if not output.parent.is_dir():
        raise UsageError(f"{arguments.output}: there is no folder {output.parent}")
    saved = reading.read_one(arguments, arguments.file, arguments.rank, arguments.steps, "convert", sites=True)
    if output.exists() and output.samefile(arguments.file):
        raise UsageError(f"{arguments.output}: is the profile itself; write to another file")
    plain_name = arguments.output.name.removesuffix(".gz")
    as_chrome = plain_name.endswith(".trace.json")
    content = (own_format.chrome(saved) if as_chrome else own_format.dump(saved)).encode()
    try:
        write_atomically(output, content if plain_name == arguments.output.name else gzip.compress(content, 6, mtime=0))
    except OSError as error:
        raise UsageError(f"{arguments.output}: cannot be written: {error.strerror or error}") from None
    as_what = "as a Chrome trace" if as_chrome else "in opprof's own format"
    print(f"wrote {arguments.output}: {len(saved.records)} records {as_what}")
    return False
