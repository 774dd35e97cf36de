"""Which versions of JAX are measured; no JAX is needed to tell."""

from __future__ import annotations

import pytest

from pytest_opprof.frameworks.xla.live import backend as module


@pytest.mark.parametrize(
    ("installed", "is_known"),
    [
        ("0.4.35", False),
        ("0.7.1", False),
        ("0.7.2", True),
        ("0.7.2.dev20250801", True),
        ("0.10.2", True),
        ("1.0", True),
    ],
)
def test_jax_before_0_7_2_is_refused_by_its_version(
    monkeypatch: pytest.MonkeyPatch, installed: str, is_known: bool
) -> None:
    monkeypatch.setattr(module, "version", lambda name: installed)
    why = module.backend().unsupported()
    assert (why is None) is is_known
    assert is_known or (why or "").startswith(f"jax {installed} is installed, and opprof records jax 0.7.2 or newer")
