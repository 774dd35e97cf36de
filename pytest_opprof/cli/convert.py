"""``opprof convert``: a saved profile in opprof's own format, or as a Chrome trace."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..frameworks.files import formats, own_format
from ..machine.atomic_write import gzipped, write_atomically
from ..profile.saved import SavedProfile
from ..timeline import chrome
from ..units import plural
from .inputs import reading
from .inputs.opened import Profiles, opened
from .inputs.reading import Asked
from .inputs.remote import location

_OUTPUT = "OUT.trace.json is a Chrome trace for a viewer, anything else opprof's own format; .gz behind it is gzipped"


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    convert = commands.add_parser("convert", help="write a profile in opprof's own format, or as a Chrome trace")
    convert.add_argument("file", type=location)
    reading.add_source(convert)
    convert.add_argument("-o", "--output", type=Path, required=True, help=_OUTPUT)
    convert.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    output = arguments.output.resolve()
    if output.exists() and not output.is_file():
        raise UsageError(f"{arguments.output}: is no file; name one to write")
    if not output.parent.is_dir():
        raise UsageError(f"{arguments.output}: there is no folder {output.parent}")
    asked = Asked.of(arguments, sites=True)
    found, saved = opened(arguments.file, asked, Profiles).one("convert")
    if output.exists() and output.samefile(arguments.file):
        raise UsageError(f"{arguments.output}: is the profile itself; write to another file")
    plain_name = arguments.output.name.removesuffix(".gz")
    as_chrome = plain_name.endswith(".trace.json")
    pieces = chrome_trace(asked, found, saved) if as_chrome else iter([own_format.dump(saved)])
    content = (piece.encode() for piece in pieces)
    try:
        write_atomically(output, content if plain_name == arguments.output.name else gzipped(content))
    except OSError as error:
        raise UsageError(f"{arguments.output}: cannot be written: {error.strerror or error}") from None
    what = "a Chrome trace" if as_chrome else f"{plural(len(saved.records), 'record')} in opprof's own format"
    print(f"wrote {arguments.output}: {what}")
    return False


def chrome_trace(asked: Asked, found: formats.Found, saved: SavedProfile) -> Iterator[str]:
    """Return the profile as a Chrome trace; where nobody knows when anything ran, say that its bars are sums."""
    timeline = reading.timeline_if_told(found, asked)
    if timeline is None:
        how = "a bar in the trace is the sum of an op's calls, and bars are laid end to end in the order of the profile"
        reading.say(found, f"{formats.format_of(found.format).title} {reading.NO_TIMES}: {how}")
        return iter([own_format.chrome(saved)])
    reading.check_steps(found, asked.steps, timeline)
    spans = chrome.of_steps(timeline, saved.steps) if asked.steps else timeline
    begin, end = timeline.extent(saved.steps) if asked.steps else (timeline.begin_ns, timeline.end_ns)
    memory = {device: each.between(begin, end) for device, each in timeline.memory.items()}
    return chrome.trace_of(spans, memory, timeline.begin_ns, saved.source)
