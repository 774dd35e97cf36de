from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from pytest_opprof.backends import fake, registry
from pytest_opprof.errors import BackendError


def test_the_built_in_backends_are_found_and_load() -> None:
    assert {"numpy", "torch", "cuda", "fake"} <= set(registry.find())
    for name in ("numpy", "torch", "cuda", "fake"):
        assert registry.load(name).name == name


def test_automatic_choice_leaves_the_fake_device_out() -> None:
    assert "fake" not in {backend.name for backend in registry.load_all(None)}


def test_a_third_party_backend_is_found_and_one_that_breaks_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    points = (
        EntryPoint("mine", "pytest_opprof.backends.fake:backend", registry.GROUP),
        EntryPoint("broken", "no_such_module:backend", registry.GROUP),
    )
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert registry.load("mine") is fake.backend()
    with pytest.raises(
        BackendError, match=r"backend 'broken' \(no_such_module:backend\) does not load: ModuleNotFound"
    ):
        registry.load("broken")


def test_a_name_that_does_not_exist_is_an_error_with_the_nearest() -> None:
    with pytest.raises(
        BackendError, match=r"no backend 'toch': did you mean 'torch'\? Known: cuda, fake, numpy, torch\."
    ):
        registry.load("toch")


def test_a_chosen_backend_that_cannot_run_is_an_error_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake.FakeBackend, "unavailable", lambda self: "no device")
    with pytest.raises(BackendError, match="backend 'fake' cannot run here: no device"):
        registry.load_all(["fake"])


def test_outside_a_window_the_fake_device_does_nothing() -> None:
    assert fake.launch("Add") == -1
    fake.allocate(5)
