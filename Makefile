# Two commands do all set-up on a fresh machine: make demo, make test. Needs Python 3.10 or newer (make PYTHON=python3.12).
# TORCH=no leaves PyTorch out of the tests, which on Linux is gigabytes of CUDA unless its CPU build is installed before.
# SLOW=yes runs the tests that take more than 2 s, too; SLOW=only runs these alone.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= yes
SLOW ?= no
BIN = $(VENV)/bin
PIP = python -m pip --disable-pip-version-check --quiet
RUN = python

.PHONY: demo test test-arm64 test-gpu lint types coverage wheel performance mutation schemas reference docs clean

demo: $(VENV)/installed
	$(BIN)/python examples/demo.py

test: $(VENV)/installed-test$(if $(filter no,$(TORCH)),-without-torch)
	$(BIN)/$(RUN) -m pytest -n auto --maxprocesses=8 --dist worksteal $(if $(filter no,$(SLOW)),-m "not slow")$(if $(filter only,$(SLOW)),-m slow) $(ARGS)

# make test-jax, test-onnxruntime, test-mindspore, test-remote (stores, Dask): what the other tests do without, in a venv of its own.
test-%: .venv-%/installed
	.venv-$*/bin/$(RUN) -m pytest -n auto --maxprocesses=4 -m $* $(ARGS) $(if $(filter remote,$*),tests/cli,tests/frameworks)

.PRECIOUS: .venv-%/installed
.venv-%/installed: pyproject.toml
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/$(PIP) install --editable ".[test,test-$*]"
	@touch $@

# The NumPy backend's machine code for arm64, by Debian's emulator: its tests. RELEASE=trixie: on Python 3.13.
test-arm64:
	tests/frameworks/numpy/live/emulated_arm64.sh $(ARGS)

# On a machine with an NVIDIA GPU: its tests, with PyTorch, CuPy, Numba and JAX of PYTHON, where it has them, else with PyTorch and CuPy of the
# package index. Without a network: `pip wheel --wheel-dir DIR . hatchling editables` elsewhere, then `make test-gpu WHEELS=DIR`.
test-gpu: .venv-gpu/installed
	OPPROF_REQUIRE_GPU=1 .venv-gpu/bin/python -m pytest -m gpu -s $(ARGS)

# Packages of PYTHON are seen by a .pth file: those of another venv are not "system" packages.
.venv-gpu/installed: pyproject.toml
	$(PYTHON) -m venv .venv-gpu
	$(PYTHON) -c "import site; print(*site.getsitepackages(), sep='\n')" > .venv-gpu/python.pth
	mv .venv-gpu/python.pth .venv-gpu/lib/python*/site-packages
	.venv-gpu/bin/$(PIP) install $(if $(WHEELS),--no-index --find-links $(WHEELS) --editable .,--editable ".[test-gpu]")
	@touch $@

lint: $(VENV)/installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml examples/*/.github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/zizmor --offline --quiet .github action.yml examples

types: $(VENV)/installed-lint
	$(BIN)/mypy

# After make test RUN="coverage run".
coverage:
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# The built wheel, in an environment that has nothing else of this tree; what each extra needs is there to install.
wheel:
	rm -rf dist build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/$(PIP) wheel --no-deps --wheel-dir dist .
	build/wheel/bin/$(PIP) install dist/*.whl
	cd build/wheel && bin/opprof --version && bin/opprof ops Cast && bin/python ../../examples/demo.py numpy_filter
	build/wheel/bin/opprof show tests/data/megengine/smallconv.json.gz -o build/wheel/profile.html
	for extra in cuda,jax,onnx,remote,dask,ray cupy cupy-cuda12 mindspore; do \
	  build/wheel/bin/$(PIP) install --dry-run "pytest-opprof[$$extra]" || exit 1; done

# Our own op counts against our own baselines.
performance: $(VENV)/installed-test
	$(BIN)/python -m pytest --opprof $(ARGS) tests/performance

# Which random changes of the rules no test notices: make mutation ARGS="--number 120 --seed 3". Not in CI: 3 to 25 s each.
mutation: $(VENV)/installed-test
	$(BIN)/python benchmarks/mutation.py $(ARGS)

# The published JSON Schemas of baselines, from the types they are decoded into; a test compares them.
schemas: $(VENV)/installed
	$(BIN)/python -m pytest_opprof.baselines.files.file_types

# docs/reference from the code; a test compares them.
reference: $(VENV)/installed
	$(BIN)/python -m tests.docs.reference

# The documentation as a site. Its search needs a server: from disk, browsers let no page read its index.
docs: $(VENV)/installed-docs reference
	$(BIN)/zensical build --strict --clean
	@echo "open build/site/index.html, or with the search: python -m http.server --directory build/site"

$(VENV)/installed-docs: $(VENV)/python pyproject.toml
	$(BIN)/$(PIP) install --editable ".[docs]"
	@touch $@ $(VENV)/installed

$(VENV)/python:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 10) and 'needs Python 3.10 or newer: make PYTHON=python3.x')"
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/python pyproject.toml
	$(BIN)/$(PIP) install --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/python pyproject.toml
	$(BIN)/$(PIP) install --editable ".[test,test-torch]"
	@touch $@ $(VENV)/installed

$(VENV)/installed-test-without-torch: $(VENV)/python pyproject.toml
	$(BIN)/$(PIP) install --editable ".[test]"
	@touch $@ $(VENV)/installed

$(VENV)/installed-lint: $(VENV)/python pyproject.toml
	$(BIN)/$(PIP) install --editable ".[lint]"
	@touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build dist
