"""``--on dask://HOST:PORT``, ``--on ray://HOST:PORT``: the workers of a cluster read the profiles, one task a rank.

A task returns sums by op: some kilobytes, where a trace has megabytes. Dask and Ray run the tasks of a killed worker
on another one; this module only says which tasks there are.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ... import __version__
from ...errors import OpprofError, TraceError, UsageError
from ...frameworks.files import formats
from ...frameworks.files.place import Place
from ...frameworks.live.registry import learn_names
from ...profile.saved import SavedProfile
from .remote import Url, copied, files_of, shown

How = tuple[bool, bool, "Path | None"]
"""Whether in part, whether with sites, and the model."""
Read = tuple[formats.Found, "SavedProfile | TraceError"]
_Item = TypeVar("_Item")
_Value = TypeVar("_Value")
_DASK, _RAY = "dask://", "ray://"
_PATIENCE_S = 30
"""How long to wait for a scheduler, and for its first worker."""
_TRIES = 4
"""Ray gives a task up that ended so many workers, as Dask does by default."""
_STARTS = 4
"""Ray forks a server for each client while threads of gRPC run: on a busy machine some end at their start."""
_ONE_FILE = {"opprof", "torch", "onnxruntime", "nsys", "jax", "jax_xplane"}
"""Formats of which a file by itself is a profile, whatever lies beside it."""
_one_at_a_time = threading.Lock()
"""A worker may have several threads: two ranks would take twice the memory, and no less time."""


class _Empty(TraceError):
    """A file without content."""


def read(address: str, found: Sequence[formats.Found], how: How) -> list[SavedProfile | TraceError]:
    """Read profiles that workers find at the same paths; return each, or its error, in the order of *found*.

    Raises UsageError where the cluster cannot do that.
    """
    return _mapped(address, _read_path, found, how)


def read_urls(address: str, url: Url, source: str | None, rank: str | None, how: How) -> list[Read]:
    """Read the profiles that a URL names, each file by the worker that copies it. Raises UsageError and TraceError."""
    files = files_of(url)
    every = [each for of_file in _mapped(address, _read_url, files, (source, rank, how)) for each in of_file]
    read = [each for each in every if each[0].format]
    like = formats.called_like([found.place for found, _ in every], [found for found, _ in read])
    # A file that could not be copied may be a rank; an empty one is, where it is called like one.
    wrong = [
        (found, error)
        for found, error in every
        if isinstance(error, TraceError) and not found.format and (not isinstance(error, _Empty) or found.place in like)
    ]
    if wrong and (rank != "all" or not read):
        raise wrong[0][1]
    if not read:
        raise TraceError(f"{url}: holds no profile that opprof knows (opprof formats lists them)")
    for found, _ in read:
        if found.format not in _ONE_FILE:
            title = formats.format_of(found.format).title
            raise UsageError(
                f"{found}: a {title} may be several files, and with --on each worker reads"
                " one. Leave out --on, or copy the folder to where all workers see it, and name that"
            )
    return [*read, *wrong]


def _read_path(found: formats.Found, how: How) -> SavedProfile | TraceError:
    """Read a profile on a worker."""
    learn_names()
    if not found.place.path.exists():
        return TraceError(
            f"{found}: is not there on the worker {socket.gethostname()}. Workers need the folder at the same path,"
            " or a URL"
        )
    with _one_at_a_time:
        return _read(found, how)


def _read_url(url: str, what: tuple[str | None, str | None, How]) -> list[Read]:
    """Read the profiles of a file in a store on a worker; none where it has no profile."""
    source, rank, how = what
    learn_names()
    arguments = argparse.Namespace(file=Url(url))
    try:
        with _one_at_a_time, copied(arguments):
            place = Place(arguments.file)
            try:
                found = formats.find(place, source)
            except TraceError:
                if place.head.strip():
                    return []  # a folder of profiles has other files, too
                return [(formats.Found("", place), _Empty(f"{place}: is empty or broken. Was it copied whole?"))]
            chosen = [each for each in found if rank is None or not rank.isdecimal() or each.rank == int(rank)]
            return [(each, _read(each, how)) for each in chosen]
    except OpprofError as error:
        return [(formats.Found("", Place(Path(shown(url)))), TraceError(f"{error} (on {socket.gethostname()})"))]


def _read(found: formats.Found, how: How) -> SavedProfile | TraceError:
    try:
        return formats.read(found, *how)
    except TraceError as error:
        return error
    except MemoryError:
        return TraceError(f"{found}: takes more memory to read than the worker {socket.gethostname()} has")


def _mapped(address: str, work: Callable[..., _Value], items: Sequence[_Item], what: Any) -> list[_Value]:
    """Return the result of each item, in their order; say on a terminal how many are done."""
    connected = _dask if address.startswith(_DASK) else _ray
    with connected(address) as submit:
        done: list[_Value] = []
        try:
            for item, future in zip(items, submit([(work, item, what) for item in items])):
                try:
                    version, value = future.result()
                except Exception as error:
                    raise TraceError(f"{item}: the workers of {address} could not read it: {_said(error)}") from None
                if version != __version__:
                    raise UsageError(
                        f"--on {address}: a worker has pytest-opprof {version}, this is {__version__}; install the same"
                    )
                done.append(value)
                if sys.stderr.isatty():
                    print(f"\ropprof: read {len(done)} of {len(items)}", end="", file=sys.stderr, flush=True)
        finally:
            if done and sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        return done


def check(address: str) -> None:
    """Raise UsageError for an address that is none of a cluster."""
    if not any(address.startswith(scheme) and address[len(scheme) :] for scheme in (_DASK, _RAY)):
        raise UsageError(
            f"--on {address}: name a cluster of Dask (dask://127.0.0.1:8786) or Ray (ray://127.0.0.1:10001, or"
            " ray://auto on one of its machines)"
        )


_Job = tuple[Callable[..., Any], Any, Any]
_Submit = Callable[[Sequence[_Job]], Sequence[Any]]
"""Starts a task for each job, and returns their futures."""


def _versioned(job: _Job) -> tuple[str, Any]:
    work, item, what = job
    return __version__, work(item, what)


@contextmanager
def _dask(address: str) -> Iterator[_Submit]:
    """Connect to Dask's scheduler. Raises UsageError where there is none, or it has no worker."""
    distributed = _imported("distributed", "Dask", "dask", address)
    try:
        client = distributed.Client(f"tcp://{address[len(_DASK) :]}", timeout=_PATIENCE_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"--on {address}: there is no Dask scheduler: {_said(error)}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE_S)
        except TimeoutError:
            raise UsageError(f"--on {address}: the cluster has no worker; start some: dask worker HOST:PORT") from None
        futures: list[Any] = []

        def submit(jobs: Sequence[_Job]) -> Sequence[Any]:
            futures.extend(client.map(_versioned, jobs, pure=False))
            return futures

        try:
            yield submit
        finally:
            client.cancel(futures)


@contextmanager
def _ray(address: str) -> Iterator[_Submit]:
    """Connect to a Ray cluster. Raises UsageError where there is none, or it has no CPU."""
    ray = _imported("ray", "Ray", "ray", address)
    where = "auto" if address == f"{_RAY}auto" else address
    # Ray tries for over five minutes where nothing listens.
    server = urlsplit(address if where != "auto" else f"{_RAY}{os.environ.get('RAY_ADDRESS', '')}")
    try:
        if server.port:
            socket.create_connection((server.hostname, server.port), _PATIENCE_S).close()
        start = partial(ray.init, where, log_to_driver=False, logging_level="error", configure_logging=False)
        for left in reversed(range(_STARTS)):
            try:
                start()
                break
            except ConnectionAbortedError:
                if not left:
                    raise
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"--on {address}: there is no Ray cluster: {_said(error)}") from None
    try:
        if ray.cluster_resources().get("CPU", 0) < 1:
            raise UsageError(f"--on {address}: the cluster has no CPU; start a worker: ray start --address=HOST:PORT")
        task = ray.remote(_versioned).options(max_retries=_TRIES - 1)
        with redirect_stdout(sys.stderr):  # on which Ray says that a worker died
            yield lambda jobs: [task.remote(job).future() for job in jobs]
    finally:
        ray.shutdown()  # ends its tasks


def _imported(module: str, name: str, extra: str, address: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f"--on {address}: needs {name}: pip install 'pytest-opprof[{extra}]'") from None


def _said(error: BaseException) -> str:
    error = getattr(error, "cause", None) or error  # Ray's own has the worker's traceback
    # Ray's client has the traceback of its server: its last line says it.
    text = re.sub(r"Traceback \(most recent call last\):.*\n(?=\w+: )", "", str(error).strip(), flags=re.DOTALL)
    return f"{type(error).__name__}: {' '.join(text.split())[:300]}"
