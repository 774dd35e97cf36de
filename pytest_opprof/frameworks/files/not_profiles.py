"""Files that often lie beside profiles and that opprof does not read: a description of each, with a remedy.

They are recognised by their content. The magic numbers of Nsight are from reports of Nsight Systems 2022 to 2025 and
Nsight Compute 2024; the others are from the specifications of the formats (PKZIP's APPNOTE, POSIX's ustar, RFC 8878 for
zstd, MLIR's bytecode).
"""

from __future__ import annotations

import re
import shlex

from ...timeline.chrome import BEGINNING
from .chrome_events import head
from .place import Place

_RECORD = "Record a run with {}, or export it to ONNX, whose ops opprof counts"
_BY_MAGIC = (
    (
        b"NVIDIA Tegra Profiler Report",
        "is a report of Nsight Systems, which only nsys reads. Export it: nsys export --type sqlite {name}",
    ),
    (
        b"NVR\0",
        "is a report of Nsight Compute, which only ncu reads. Export it: ncu --import {name} --csv --page raw"
        " > profile.csv",
    ),
    (
        b"ML\xefR",
        "is a program in MLIR's bytecode; opprof counts the ops of its text. Save that instead:"
        " jax.jit(f).lower(*args).as_text()",
    ),
    (
        b"digraph ",
        "is a drawing of a graph; opprof counts the ops of the .ir file beside it, if MindSpore wrote it",
    ),
    (b"\x28\xb5\x2f\xfd", "is compressed by zstd; opprof reads gzip. Unpack it: unzstd {name}"),
    (b"\xfd7zXZ\0", "is compressed by xz; opprof reads gzip. Unpack it: unxz {name}"),
    (b"BZh", "is compressed by bzip2; opprof reads gzip. Unpack it: bunzip2 {name}"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive. Unpack it and give the folder: 7z x {name}"),
)
_STABLEHLO = re.compile(rb"StableHLO_v\d")
# The names of the files in a zip archive.
_ZIPPED = re.compile(rb"PK\x03\x04.{26}([\w./\-]+)", re.DOTALL)


def explained(place: Place) -> str:
    """Return a description of the file and a remedy in one line; "" if it may be a profile."""
    start, name = place.head, shlex.quote(place.path.name)
    for magic, what in _BY_MAGIC:
        if start.startswith(magic):
            return what.format(name=name)
    if start.startswith(BEGINNING.encode()):
        return f"is a trace that opprof wrote for a viewer: opprof open {name}"
    if start.startswith(b"PK\x03\x04"):
        return _zipped(b" ".join(_ZIPPED.findall(start)).decode("ascii"), name)
    if start[257:262] == b"ustar":
        return f"is a tar archive. Unpack it and give the folder: tar -xf {name}"
    if b"\0\0" in start[:4] and _STABLEHLO.search(start):  # a flatbuffer: it begins with a small number
        return (
            "is a program saved by jax.export; opprof counts the ops of its text. Save that instead:"
            f" print(jax.export.deserialize(open({place.path.name!r}, 'rb').read()).mlir_module())"
        )
    if start.startswith(b"SQLite format 3\0") and b"rocpd_" in start:
        return f"is a database of rocprofv3. Convert it: rocpd convert -f csv -i {name}"
    return ""


def _zipped(names: str, archive: str) -> str:
    if "archive_format" in names or "models/model.json" in names:
        return f"is a program saved by torch.export, not a profile. {_RECORD.format('torch.profiler')}"
    if "code/__torch__" in names or "data.pkl" in names:
        return f"is a model saved by PyTorch, not a profile. {_RECORD.format('torch.profiler')}"
    return f"is a zip archive. Unpack it and give the folder: unzip {archive}"


def unknown_timeline(place: Place) -> str:
    """Return the readable kinds of Chrome traces, for a trace of an unknown program; "" for other files."""
    found = head(place)
    if found is None or not any("ph" in event for event in found.events):
        return ""
    return (
        ": it is a Chrome trace that none of them wrote. Read are events of category cpu_op (PyTorch), with args.hlo_op"
        " (JAX), and of category Node with args.op_name (ONNX Runtime)"
    )
