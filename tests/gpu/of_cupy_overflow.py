"""More records than there is room for, in a process of its own: libcupti before 12.9 may crash here."""

from __future__ import annotations

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.nvidia.live import cupti

from .windows import cupy_or_skip, of_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


def test_dropped_records_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "BUFFER_BYTES", 1 << 16)
    monkeypatch.setattr(cupti, "MOST_BUFFERS", 4)
    cp = cupy_or_skip()
    x = cp.ones(64, cp.float32)
    with pytest.raises(BackendError, match="CUPTI dropped"):
        of_cuda(lambda: [cp.add(x, 1, out=x) for _ in range(20_000)])
    monkeypatch.undo()
    assert of_cuda(lambda: cp.add(x, 1, out=x)).stats("Add").calls == (1,)
