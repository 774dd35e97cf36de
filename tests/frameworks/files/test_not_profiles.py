"""Files that are no profile and that people give all the same."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import formats
from pytest_opprof.frameworks.files.place import Place

DATA = Path(__file__).parents[2] / "data"


def tar(compression: str = "") -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=f"w:{compression}") as archive:
        archive.add(__file__, "a.json")
    return content.getvalue()


def zipped(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"NVIDIA Tegra Profiler Report 1.\n\x0bLocal", r"only nsys reads\. .*: nsys export --type sqlite 'a b'$"),
        (b"NVR\x00\x02\x00\x00\x00\x08\x07H\x04", r"only ncu reads\. .*: ncu --import 'a b' --csv --page raw"),
        (b"\x28\xb5\x2f\xfd\x04\x00", r"unzstd 'a b'$"),
        (b"\xfd7zXZ\x00\x00\x04", r"unxz 'a b'$"),
        (b"BZh91AY&SY", r"bunzip2 'a b'$"),
        (b"7z\xbc\xaf\x27\x1c\x00\x04", r"7z x 'a b'$"),
        (tar(), r"is a tar archive\. Unpack it and give the folder: tar -xf 'a b'$"),
        (tar("gz"), r"is a tar archive\. Unpack it and give the folder: tar -xf 'a b'$"),
        (zipped("profile/a.json"), r"is a zip archive\. Unpack it and give the folder: unzip 'a b'$"),
        (zipped("m/data.pkl", "m/code/__torch__.py"), r"a model saved by PyTorch, .*torch\.profiler, or export it to"),
        (zipped("m/models/model.json", "m/archive_format"), r"is a program saved by torch\.export, .* export it to"),
        (b"SQLite format 3\x00" + bytes(200) + b"CREATE TABLE rocpd_a", r"rocpd convert -f csv -i 'a b'$"),
        ((DATA / "jax-cpu" / "cast.jax_export").read_bytes(), r"saved by jax\.export; .*deserialize\(open\('a b'"),
        ((DATA / "jax-cpu" / "cast.mlirbc").read_bytes(), r"is a program in MLIR's bytecode; .*\.as_text\(\)$"),
        (b"digraph mindspore {", r"is a drawing of a graph; .* the \.ir file beside it"),
    ],
    ids="nsys ncu zstd xz bzip2 7z tar tar.gz zip torchscript pt2 rocpd jax.export mlirbc dot".split(),
)  # fmt: skip
def test_each_is_named_with_what_to_do_alone_and_in_a_folder(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a b").write_bytes(content)
    for path in (tmp_path / "a b", tmp_path):
        with pytest.raises(TraceError, match=message) as error:
            formats.find(Place(path))
        assert "\n" not in str(error.value)
    with pytest.raises(TraceError, match=message):
        formats.find(Place(tmp_path / "a b"), "torch")


@pytest.mark.torch
def test_what_pytorch_saves_is_named(tmp_path: Path) -> None:
    import torch

    class Half(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.half()

    torch.export.save(torch.export.export(Half(), (torch.ones(2),)), tmp_path / "a.pt2")
    torch.save(torch.ones(2), tmp_path / "a.pt")
    for name, by in (("a.pt2", r"torch\.export"), ("a.pt", "PyTorch")):
        with pytest.raises(TraceError, match=f"saved by {by}, not a profile"):
            formats.find(Place(tmp_path / name))


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents":[{"ph":"X","cat":"toplevel","name":"a","pid":1,"tid":1,"ts":1,"dur":2}]}',
        '[{"ph":"B","name":"a","pid":1,"tid":1,"ts":1}]',
    ],
)
def test_a_chrome_trace_of_an_unknown_profiler_is_called_one_with_what_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(
        TraceError, match=r"a Chrome trace that none of them wrote\. Read are events of category cpu_op"
    ):
        formats.find(Place(tmp_path / "a.json"))
