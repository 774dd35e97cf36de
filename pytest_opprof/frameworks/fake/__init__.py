"""A fake device, for tests of marks, reports and CI set-ups: `pytest_opprof.backends.fake`."""
