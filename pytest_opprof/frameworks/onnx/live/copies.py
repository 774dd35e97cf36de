"""Copies of sessions for profiling: ONNX Runtime profiles only a session that was made for that, and only once.

A copy is made of the same model, with the options and providers of its session. Tested: 1.20 to 1.32.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import BackendError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_WHY = (
    "ONNX Runtime profiles a session only if it was made for that, so opprof runs a copy, made of the same model, of"
    " each session that a window runs"
)
# Marks a tensor in another file: the key ``location`` of its ``external_data``.
_EXTERNAL = b"\n\x08location"
_UNKNOWN_OP = "is not a registered function/op"


def described(session: InferenceSession) -> str:
    """Return a name for the session."""
    path = getattr(session, "_model_path", None)
    model = session.get_modelmeta()
    return f"the session of {path}" if path else f"the session of {model.graph_name or 'a model'!r} (made of bytes)"


def version(session: InferenceSession) -> tuple[int, ...]:
    """Return the version of the model's file, which changes if it is replaced; empty for a model in bytes."""
    try:
        found = os.stat(session._model_path or "")
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def profiled_copy(session: InferenceSession, prefix: str, threads: int) -> InferenceSession:
    """Return a copy of *session* that writes its profile to a file whose path begins with *prefix*.

    Its ops use at most *threads* threads; 0: as many as the session's. Raises BackendError.
    """
    handle: Any = session._sess
    path, content = getattr(session, "_model_path", None), getattr(session, "_model_bytes", None)
    if not path and not content:
        raise BackendError(
            f"{described(session)} keeps neither the path nor the bytes of its model (a model package, or bytes that"
            f" the program dropped), and cannot be copied. {_WHY}: make the session of a path, or keep its bytes"
        )
    # The handle's options are those that the session was made with, even if the program changed its object since.
    options = handle.session_options
    _profile(options, prefix, threads)
    try:
        try:
            copy = _made(session, options)
        except Exception as error:
            given = session._sess_options_initial
            # Only that object knows libraries of custom ops. It may also know weights that were given as tensors and
            # are freed by now, so a model with external weights is not loaded with it.
            if _UNKNOWN_OP not in str(error) or given is None or _has_external_tensors(path, content):
                raise
            with _lent(given, options):
                copy = _made(session, given)
    except Exception as error:
        lost = f": {path} is not there (now in {Path.cwd()})" if path and not os.path.exists(path) else f": {error}"
        raise BackendError(
            f"{described(session)} cannot be copied{lost}. {_WHY}: its model and the files that belong to it have to"
            " stay as they were when the session was made. With tensors or custom ops that a copy cannot get, leave the"
            " test out: @pytest.mark.opprof(False)"
        ) from error
    if _facts(copy) != _facts(session):
        raise BackendError(
            f"a copy of {described(session)} has other inputs, outputs, metadata or providers than the session: the"
            f" model was replaced since. {_WHY}: leave the model as it was when the session was made"
        )
    return copy


def _profile(options: Any, prefix: str, threads: int) -> None:
    options.enable_profiling, options.profile_file_prefix = True, prefix
    options.optimized_model_filepath = ""  # the session has written it
    for pool in ("intra_op_num_threads", "inter_op_num_threads") if threads else ():
        setattr(options, pool, min(getattr(options, pool) or threads, threads))  # 0: one for each core


def _made(session: InferenceSession, options: Any) -> InferenceSession:
    # Not from onnxruntime, because a program may have replaced it there.
    from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession

    settings = session.get_provider_options()
    return InferenceSession(
        session._model_path or session._model_bytes,
        options,
        providers=[(name, settings.get(name, {})) for name in session.get_providers()],
        read_config_from_model=int(session._read_config_from_model),
        enable_fallback=0,
    )


@contextmanager
def _lent(given: Any, options: Any) -> Iterator[None]:
    """Give the object *given* the values of *options*, until the context ends."""
    before = _values(given)
    try:
        for name, value in _values(options).items():
            setattr(given, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(given, name, value)


def _values(options: Any) -> dict[str, Any]:
    found = {name: getattr(options, name) for name in dir(options) if not name.startswith("_")}
    return {name: value for name, value in found.items() if not callable(value)}


def _has_external_tensors(path: str | None, content: bytes | None) -> bool:
    return _EXTERNAL in (content or Path(path or "").read_bytes())


def _facts(session: InferenceSession) -> tuple[object, ...]:
    model = session.get_modelmeta()
    ends = [(end.name, end.type, end.shape) for end in [*session.get_inputs(), *session.get_outputs()]]
    known = (model.graph_name, model.producer_name, model.domain, model.version, model.custom_metadata_map)
    return (ends, known, session.get_providers())


def same(left: object, right: object) -> bool:
    """Return True if the results of two runs are the same bits. Incomparable results are not the same."""
    import numpy as np

    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        return left.tolist() == right.tolist() if left.dtype == object else left.tobytes() == right.tobytes()
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if hasattr(left, "numpy") and hasattr(right, "numpy"):
        try:
            return same(left.numpy(), right.numpy())
        except RuntimeError:
            return False  # of a dtype that NumPy does not have
    if hasattr(left, "__len__") and hasattr(right, "__len__") and not isinstance(left, (str, bytes)):
        return len(left) == len(right) and all(map(same, iter(left), iter(right)))  # type: ignore[call-overload]
    return left == right
