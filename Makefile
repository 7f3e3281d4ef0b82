# Works on a machine that has Python 3.11 or newer, make and a C compiler.
#
#   make demo      compile the shipped MNIST network to C and ONNX, verify it, classify the test images
#   make test      the test suite, JOBS=2 files at a time
#   make nightly   what takes long and seldom fails besides; no test starts after MINUTES=60
#   make fuzz      inputs that nobody should write for every reader and command; BLRC_FUZZ_INPUTS=100000 for more
#   make check     formatting, lint and types (as Linux, Windows and macOS have them)
#   make oldest    train, export, verify and compile with the oldest versions that pyproject.toml promises
#   make format    rewrite the sources as `make check` wants them
#   make results   train what has no record in docs/results yet (hours of CPU; goes on where it was stopped), measure,
#                  draw docs/results.md; DATA=DIR has MNIST's files, else they are downloaded
#   make results-cifar10  the same for CIFAR-10 at a quarter of the width: about four CPU hours of training (it goes
#                  on where it was stopped), half an hour of evaluation
#   make targets   verify the exported C on every machine in emulators, write docs/targets.md
#   make imported  import networks of other people (it downloads some, and trains one and those of make larq; DATA=DIR has MNIST's files and
#                  CIFAR10=DIR the other's), compare them with their originals, and write docs/imported.md
#   make larq      install Larq and tf2onnx for two of them (Python 3.10 or 3.11) in an environment of their own
#   make notorch   export, verify, bench and compile in an environment without torch, onnx and onnxruntime
#   make consumers run the ONNX file in every runtime that reads it (about 1.3 GB of them), write docs/consumers.md
#   make bench     the C at every level of x86-64 beside ONNX Runtime (float32, int8) and PyTorch on common layers and
#                  two networks; BENCH_JSON=FILE and BENCH_PLOT=FILE.svg write the table and a figure
#   make lce       install Larq Compute Engine for them (Python 3.10 or 3.11) in an environment of its own
#   make performance  measure all of docs/performance.md on this machine (some minutes) and write it
#   make docs      the documentation as a site in build/site, with strict links
#   make dist      sdist and wheel in dist/
#   make clean     remove what was built, and caches
#   make distclean remove the virtual environments too
#
# PYTHON=python3.12 picks the interpreter. PIP_TORCH passes options to the installation of torch, for example
# PIP_TORCH="--index-url https://download.pytorch.org/whl/cpu" for the small build without GPU support.

PYTHON    ?= python3
PIP_TORCH ?=
JOBS      ?= 2
BIN       := .venv/bin
ORT117    := .venv-ort117
PACKAGERS := .venv-packagers
OLDEST    := .venv-oldest
NOTORCH   := .venv-notorch
LCE       := .venv-lce
LARQ      := .venv-larq
CONSUMERS := .venv-consumers
CONSUMERS_CI  := ort121 ort131 openvino web
CONSUMERS_ALL := $(CONSUMERS_CI) opencv4 opencv5 tinygrad
WITH_LCE   = $(if $(wildcard $(LCE)/.installed),BLRC_LCE_PYTHON=$(LCE)/bin/python)

.PHONY: demo test nightly fuzz check oldest notorch format results results-cifar10 targets imported bench performance farm
.PHONY: farm-summary docs dist clean distclean ort117 packagers larq lce consumers consumers-ci
.DELETE_ON_ERROR:

# torch goes first and by itself, so that its options touch no other package.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt $(PIP_TORCH) torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

# The oldest ONNX Runtime that is promised to load our files. It needs NumPy 1, so it cannot live in .venv; tests call
# its interpreter as a subprocess. Without it those tests skip, with a reason; where CI=true they fail.
ort117: $(ORT117)/.installed

$(ORT117)/.installed: constraints-ort117.txt
	rm -rf $(ORT117)
	{ $(PYTHON) -m venv $(ORT117) \
	  && $(ORT117)/bin/python -m pip install --quiet -r constraints-ort117.txt \
	  && touch $@; } \
	|| { rm -rf $(ORT117); echo "note: onnxruntime 1.17 could not be installed; its tests will be skipped"; [ "$$CI" != true ]; }

# The tools of ecosystems that pack our libraries. They pin what our own environment has in other versions.
packagers: $(PACKAGERS)/.installed

$(PACKAGERS)/.installed: constraints-packagers.txt
	rm -rf $(PACKAGERS)
	{ $(PYTHON) -m venv $(PACKAGERS) \
	  && $(PACKAGERS)/bin/python -m pip install --quiet -r constraints-packagers.txt \
	  && touch $@; } \
	|| { rm -rf $(PACKAGERS); echo "note: the packagers could not be installed; their tests will be skipped"; [ "$$CI" != true ]; }

# The oldest versions that pyproject.toml promises, apart from torch, of which the tested version serves.
oldest: $(OLDEST)/.installed .venv/.installed
	$(BIN)/mypy --strict --python-executable $(OLDEST)/bin/python --cache-dir .mypy_cache/oldest blrc
	$(OLDEST)/bin/python tests/environments/main_path.py

$(OLDEST)/.installed: pyproject.toml constraints-oldest.txt constraints.txt
	rm -rf $(OLDEST)
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet $(PIP_TORCH) $$(grep '^torch==' constraints.txt)
	$(OLDEST)/bin/python -m pip install --quiet -r constraints-oldest.txt
	touch $@

# What "pip install blrc" brings: no torch, onnx nor onnxruntime. Tests run the main path with its interpreter.
$(NOTORCH)/.installed: pyproject.toml constraints.txt
	rm -rf $(NOTORCH)
	$(PYTHON) -m venv $(NOTORCH)
	$(NOTORCH)/bin/python -m pip install --quiet -c constraints.txt -e .
	touch $@

notorch: .venv/.installed $(NOTORCH)/.installed
	$(BIN)/python -m pytest tests/project/test_without_torch.py

# Runtimes that read the ONNX file, each in an environment of its own, and what tests need of them. Without one its tests
# skip, with a reason; where CI=true they fail.
consumers-ci: $(CONSUMERS_CI:%=$(CONSUMERS)/%/.installed)

consumers: .venv/.installed ort117 $(CONSUMERS_ALL:%=$(CONSUMERS)/%/.installed)
	$(BIN)/python tools/pages/consumers.py

$(CONSUMERS)/web/.installed: constraints-consumers/web/package.json constraints-consumers/web/package-lock.json
	rm -rf $(CONSUMERS)/web
	mkdir -p $(CONSUMERS)/web
	{ cp $^ $(CONSUMERS)/web \
	  && npm ci --prefix $(CONSUMERS)/web --silent --no-audit --no-fund --ignore-scripts \
	  && touch $@; } \
	|| { rm -rf $(CONSUMERS)/web; echo "note: onnxruntime-web could not be installed; its tests will be skipped"; [ "$$CI" != true ]; }

$(CONSUMERS)/%/.installed: constraints-consumers/%.txt
	rm -rf $(CONSUMERS)/$*
	{ $(PYTHON) -m venv $(CONSUMERS)/$* \
	  && $(CONSUMERS)/$*/bin/python -m pip install --quiet -r $< \
	  && touch $@; } \
	|| { rm -rf $(CONSUMERS)/$*; echo "note: $* could not be installed; its tests will be skipped"; [ "$$CI" != true ]; }

# Larq Compute Engine, which `make bench` and `make performance` then time too. Its TensorFlow wants NumPy 1.
lce: $(LCE)/.installed

# Larq itself and tf2onnx, with which `make imported` then trains and writes two networks.
larq: $(LARQ)/.installed

$(LCE)/.installed $(LARQ)/.installed: .venv-%/.installed: constraints-%.txt
	rm -rf .venv-$*
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet -r $<
	touch $@

test: .venv/.installed ort117 packagers $(NOTORCH)/.installed consumers-ci
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

# What takes long and seldom fails: the farm and the fuzzer whole; of the rest no test starts after so many minutes, and
# which ones come first changes from day to day.
MINUTES ?= 60

nightly: .venv/.installed ort117 packagers $(NOTORCH)/.installed consumers-ci
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m nightly tests/farm tests/fuzz
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m nightly --no-loadscope-reorder \
	    --ignore tests/farm --ignore tests/fuzz --minutes $(MINUTES)

fuzz: .venv/.installed
	$(BIN)/python -m pytest -q -s -m nightly tests/fuzz

check: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	for platform in linux win32 darwin; do $(BIN)/mypy --strict --platform $$platform blrc || exit 1; done

format: .venv/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: .venv/.installed
	$(BIN)/blrc export examples/mnist/mnist.pt --target c --target onnx -o build/demo --force
	$(BIN)/blrc verify build/demo --data examples/mnist/data

results: .venv/.installed
	$(BIN)/python tools/pages/results.py $(if $(DATA),--data $(DATA))

results-cifar10: .venv/.installed
	$(BIN)/python tools/pages/results.py cifar10 $(if $(DATA),--data $(DATA))

imported: .venv/.installed
	$(BIN)/python tools/pages/imported.py $(if $(DATA),--data $(DATA)) $(if $(CIFAR10),--cifar10 $(CIFAR10)) \
	    $(if $(FILES),--files $(FILES))

targets: .venv/.installed
	$(BIN)/python tools/pages/targets.py

bench: .venv/.installed
	$(WITH_LCE) $(BIN)/python benchmarks/bench.py $(if $(BENCH_JSON),--json $(BENCH_JSON)) $(if $(BENCH_PLOT),--plot $(BENCH_PLOT))

# Random networks under sanitizers and in emulators, by the CPU hour; LOG keeps what they said, and where to go on.
HOURS ?= 1
LOG ?= farm.jsonl
FARM = PYTHONPATH=.:tests $(BIN)/python tests/farm/run_farm.py --log $(LOG)

farm: .venv/.installed
	$(FARM) --hours $(HOURS)

farm-summary: .venv/.installed
	$(FARM) --summary

performance: .venv/.installed
	$(WITH_LCE) $(BIN)/python tools/pages/performance.py

.venv/.docs: .venv/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

dist: .venv/.installed
	rm -rf dist
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find blrc tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv $(OLDEST) $(NOTORCH) $(ORT117) $(PACKAGERS) $(LARQ) $(LCE) $(CONSUMERS)
