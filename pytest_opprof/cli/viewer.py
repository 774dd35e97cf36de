"""``opprof open``: a profile in Perfetto's viewer, in the browser. The data stays on this machine.

Perfetto's page fetches the trace from here: its policy lets it read from 127.0.0.1:9001 and no other port, and this
server lets its origin and no other page read the answer.
"""

from __future__ import annotations

import argparse
import errno
import re
import secrets
import shutil
import threading
import webbrowser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..frameworks.files import formats
from ..frameworks.files.place import Place
from ..machine.scratch import scratch
from ..timeline.chrome import BEGINNING
from . import convert
from .inputs import reading
from .inputs.opened import Profiles, opened
from .inputs.reading import Asked
from .inputs.remote import location

_HOST, _PORT = "127.0.0.1", 9001
_UI = "https://ui.perfetto.dev"
_CHROME_TRACES = frozenset(["torch", "jax", "onnxruntime", "megengine_timeline", "ascend_timeline"])
"""Formats that are Chrome traces themselves: the viewer gets the file as it is, with all that opprof does not read."""


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "open",
        help="open a profile, or the trace of a failing test, in Perfetto's viewer",
        description="Opens the browser, and ends when the viewer has the trace. The data stays on this machine: the"
        f" viewer is a page of {_UI} that reads it from here.",
    )
    parser.add_argument("file", type=location, help="a profile, a folder with one, or a trace that opprof wrote")
    reading.add_source(parser)
    parser.add_argument(
        "--port",
        type=int,
        default=_PORT,
        help=f"serve on another port, for a viewer of your own: Perfetto's page reads from {_PORT} alone",
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    """Serve the profile until the viewer has it."""
    with _listening(arguments.port) as server, scratch() as folder:
        found, path = formats.Found("", Place(arguments.file)), arguments.file
        asked = (arguments.source, arguments.rank, arguments.steps, arguments.stage, arguments.partial, arguments.model)
        if any(asked) or not found.place.head.startswith(BEGINNING.encode()):
            found, saved = opened(path, Asked.of(arguments), Profiles).one("open")
            path = found.place.path
            in_part = found.place.is_folder or arguments.steps or arguments.partial
            if in_part or found.format not in _CHROME_TRACES:
                path = Path(folder, "trace.json")
                with path.open("w", encoding="utf-8") as file:
                    file.writelines(convert.chrome_trace(Asked.of(arguments), found, saved))
        server.serve_trace(path, found)
        trace = f"http://{_HOST}:{server.server_port}{server.path}"
        url = f"{_UI}/#!/?url={trace}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"{url}\nwaiting until the viewer has fetched the trace from {_HOST} (Ctrl-C ends it)", flush=True)
        if not webbrowser.open(url):
            reading.say(found, "no browser could be started: open the address above yourself")
        server.fetched.wait()
        server.shutdown()
    print("the viewer has the trace")
    return False


def _listening(port: int) -> _Server:
    try:
        return _Server((_HOST, port), _Handler)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            why = "is in use, perhaps by another opprof open. End that; Perfetto's page reads from no other port"
        else:
            why = f"cannot be served on: {error}"
        raise UsageError(f"port {port} of {_HOST} {why}") from None


class _Server(ThreadingHTTPServer):
    """Serves one file at an address that nobody guesses."""

    def serve_trace(self, path: Path, found: formats.Found) -> None:
        """Serve the file in *path*, called after the profile."""
        self.file = path
        name = re.sub(r"[^\w.-]+", "-", found.place.path.name, flags=re.ASCII).strip("-") or "trace"
        self.path = f"/{secrets.token_urlsafe(9)}/{name}"
        self.fetched = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    """Answers the viewer's request for the trace; 404 to all others."""

    server: _Server

    def do_GET(self) -> None:
        """Send the trace."""
        if not self._is_asked_for():
            return
        with self.server.file.open("rb") as file:
            self._answer(200, {"Content-Length": str(self.server.file.stat().st_size)})
            shutil.copyfileobj(file, self.wfile)
        self.server.fetched.set()

    def do_OPTIONS(self) -> None:
        """Answer the question of a browser before a public page may read from this machine."""
        if self._is_asked_for():
            self._answer(204, {"Access-Control-Allow-Private-Network": "true", "Access-Control-Allow-Methods": "GET"})

    def _is_asked_for(self) -> bool:
        # Another host name would be that of a page whose name was made to mean this machine (DNS rebinding).
        mine = self.headers.get("Host") == f"{_HOST}:{self.server.server_port}" and self.path == self.server.path
        if not mine:
            self.send_error(404)
        return mine

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Access-Control-Allow-Origin": _UI, "Cache-Control": "no-store", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Keep the terminal quiet."""
