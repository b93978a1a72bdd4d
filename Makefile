# `make` alone lists the commands. Each sets up what it needs once, then runs.
# Works with GNU make 3.81 (the one on macOS) and newer. Without make: the README has the plain lines.

# Yours to set: the Python to build .venv from; TORCH=cpu on Linux without a GPU; a lesson's number, such as
# 03, to check or refresh; one of which you want a new copy; the folder of your copies; arguments handed on to
# JupyterLab or pytest; a browser; a package to look for a new version of; the room in which to plant faults.
PYTHON     ?=
TORCH      ?=
LESSON     ?=
FRESH      ?=
MY_LESSONS ?= my_lessons
ARGS       ?=
CHROMIUM   ?=
PACKAGE    ?=
ROOM       ?=
# The versions that everything was tested with, and what wrote them down: another may lay them out otherwise.
PINS       := transformer_course/constraints.txt
UV         := uv==0.13.9
export MY_LESSONS
# What Python has compiled is kept: every fresh interpreter, and there are some, then starts seconds sooner.
unexport PYTHONDONTWRITEBYTECODE

RUN     := .venv/bin/python
READY   := .venv/ready
LESSONS := $(wildcard notebooks/[0-9][0-9]_*.ipynb)
CHOSEN  := $(if $(LESSON),$(wildcard notebooks/$(LESSON)_*.ipynb))
COPY    := $(if $(LESSON),$(wildcard $(MY_LESSONS)/$(LESSON)_*.ipynb))

.DELETE_ON_ERROR:
.PHONY: help lab test cost check refresh hostile faults browser bench site lock clean known-lesson chromium

help:
	@echo 'Usage: make COMMAND'
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1#\2/p' Makefile | awk -F '#' '{ printf "%-12s%s\n", $$1, $$2 }'
	@echo
	@echo 'Set-up: PYTHON=python3.12 chooses the Python; TORCH=cpu spares Linux without a GPU gigabytes of CUDA.'

lab: $(READY)  ## open JupyterLab on your copies of the lessons (a new copy of one: FRESH=03; ARGS="--no-browser")
	@$(RUN) -m transformer_course.workspace $(if $(FRESH),--fresh '$(FRESH)') $(ARGS)

test: $(READY)  ## check everything: style, unit tests, every lesson as it is shipped (the gate itself: ARGS="-m gate")
	@git diff --quiet notebooks/ 2>/dev/null; [ $$? -ne 1 ] || echo 'Lessons in notebooks/ were changed. Your own work belongs in $(MY_LESSONS)/: make lab.'
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m pytest -n 2 $(ARGS)

cost: $(READY)  ## measure the CPU time of the tests, as a multiple of `import torch`
	$(RUN) -m tools.cost $(RUN) -m pytest -n 2 $(ARGS)

check: known-lesson $(READY)  ## run your copy of a lesson and compare it with the lesson as shipped: LESSON=03
	$(RUN) -m pytest $(or $(COPY),$(CHOSEN)) $(ARGS)

refresh: $(READY)  ## run the lessons and store what they print and draw; one lesson: LESSON=03
	$(RUN) -m tools.refresh $(LESSON)

hostile: $(READY)  ## the same tests without a network or a home, elsewhere, on the plainest arithmetic
	$(RUN) -m tools.hostile -n 2 $(ARGS)

faults: .venv/ready-faults  ## break the encoder, or ROOM=training, on purpose: what does no test notice? (a draw: ARGS=60)
	$(RUN) tools/faults.py $(or $(ROOM),encoder) $(ARGS)

browser: chromium .venv/ready-browser site  ## use the lessons and the site in a real browser, as a learner does
	$(RUN) -m pytest -n 2 --dist loadfile tests/browser $(ARGS)

site: .venv/ready-site site/node_modules/ready  ## build the web site into build/site; any static host can serve it
	$(RUN) site/build.py

bench: .venv/ready-bench  ## time the encoder beside other implementations of it, and what lesson 11's departures cost
	$(RUN) -m benchmarks.departures
	$(RUN) -m benchmarks.encoder_speed $(ARGS)

lock: $(READY)  ## look for new versions and write them to $(PINS); of one: PACKAGE=matplotlib
	$(RUN) -m uv pip compile pyproject.toml --all-extras \
	    $(if $(PACKAGE),--upgrade-package '$(PACKAGE)',--upgrade) \
	    --universal --fork-strategy fewest --python-version 3.11 \
	    --no-annotate --custom-compile-command 'make lock' --quiet --output-file $(PINS)

clean:  ## remove everything that these commands installed or cached; lessons and your copies stay
	rm -rf .venv build site/node_modules *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +


# Set-up. A stamp is written last, so that a set-up cut short is taken up again by the next command.

PYTHONS     = $(if $(PYTHON),'$(PYTHON)',python3.11 python3.12 python3.13 python3.14 python3 python)
FITS       := import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
NONE_FITS  := No Python 3.11 to 3.14 found. Install one, or name it: PYTHON=<path>.
CREATE_VENV = @for python in $(PYTHONS); do \
                  if "$$python" -c '$(FITS)' 2>/dev/null; then \
                      echo "Setting up $(@D) with $$python, once."; \
                      exec "$$python" -m venv $(@D); \
                  fi; \
              done; \
              echo '$(NONE_FITS)' >&2; exit 1

$(READY): pyproject.toml requirements.txt requirements-model.txt $(PINS) .ci/install.py
	@rm -f $@
	$(CREATE_VENV)
	$(RUN) .ci/install.py '$(UV)' $(TORCH)
	@# JupyterLab would ask on first start whether to fetch news, and look for updates: neither here.
	$(RUN) -m jupyterlab.labextensions disable --level=sys_prefix @jupyterlab/apputils-extension:announcements
	@touch $@

.venv/ready-faults: $(READY)
	$(RUN) -m pip install --constraint $(PINS) mutmut
	@touch $@

.venv/ready-bench: $(READY)
	@# torch is there already, in the version that $(PINS) names, so it stays as it is.
	$(RUN) -m pip install --constraint $(PINS) x-transformers
	@touch $@

.venv/ready-browser: $(READY)
	$(RUN) -m pip install --constraint $(PINS) playwright
	@touch $@

.venv/ready-site: $(READY)
	$(RUN) -m pip install --quiet --constraint $(PINS) \
	    sphinx myst-nb sphinx-book-theme onnx onnxscript onnxruntime
	@touch $@

site/node_modules/ready: site/package.json site/package-lock.json
	@command -v npm >/dev/null || { echo 'No npm found. Install Node.js 20 or newer.' >&2; exit 1; }
	npm ci --prefix site --ignore-scripts --no-audit --no-fund
	@touch $@

known-lesson:
	@test -n '$(CHOSEN)' || { echo 'Which lesson? Say for example: make check LESSON=03. There are:'; \
	    for lesson in $(notdir $(LESSONS)); do echo "  $${lesson%.ipynb}"; done; exit 1; } >&2

chromium:
	@for browser in $(if $(CHROMIUM),'$(CHROMIUM)',chromium chromium-browser google-chrome); do \
	    command -v "$$browser" >/dev/null && exit 0; done; \
	    echo 'No Chromium or Chrome found. Install one, or name it: CHROMIUM=<path>.' >&2; exit 1
