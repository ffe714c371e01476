# Every target is a line or two that call a tool; `make` alone lists them.
PYTEST = .venv/bin/python -m pytest --durations=10 --durations-min=5
# Tests take a millisecond or a minute: a worker that has none left takes over half of another's. They wait, too:
# three workers keep two cores busy, and four where plays wait for each other.
PARALLEL = $(PYTEST) -n 3 --dist worksteal
PLAYS = $(PYTEST) -n 4 --dist worksteal
# A guest that boots keeps one core busy, a browser too, and the compiler waits for make: two files of tests at a
# time, each with its own.
FILES = $(PYTEST) -n 2 --dist loadfile
# What make test runs, the cheap parts first; each is a target of its own.
PARTS = lint test-unit test-pages test-playbooks test-kernel-lab

# Where this is set, each of a thousand short processes would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

help:        ## list the targets
	@sed -nE 's/^([a-z-]+): .*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26
demo: setup  ## the whole job: build, boot, deploy by kexec, time stock against patched, report
	.venv/bin/lpar-lab demo
test: setup-tests  ## all parts: linters, unit tests, pages in a browser, playbooks, kernel builds, guests in QEMU
	@MAKE="$(MAKE)" tests/parts.sh $(PARTS)
test-quick: setup-python  ## in seconds: the quick ones of the unit tests and playbooks, and ruff
	$(PARALLEL) --hypothesis-profile=quick -m "not (slow or linter or browser or kernel or lab)"
lint: setup-python  ## the linters, a type checker, and what the documentation has to hold
	$(PARALLEL) tests/lint/test_linters.py tests/lint -m "not browser"
test-unit: setup-python  ## unit tests, also the slow ones
	$(PARALLEL) --ignore=tests/lint --ignore=tests/ansible -m "not (linter or browser or kernel or lab or hosts)"
test-pages: setup-tests  ## pages in a browser
	$(FILES) -m browser
test-playbooks: setup-tests  ## playbooks on fake hosts, and in the image for AWX
	$(PLAYS) tests/ansible -m "not (linter or browser or kernel or lab or hosts)"
test-kernel-lab: setup  ## test-kernel and test-lab at the same time: the longest guest, of the demo, leaves a core idle
	$(FILES) -m "kernel or lab and not hosts"
test-kernel: setup  ## kernel builds, and the disk of guests
	$(FILES) -m kernel
test-lab: setup  ## guests in QEMU
	$(FILES) -m "lab and not hosts"
test-hosts: setup-tests  ## what happens to hosts: faults, traces, boot loader, x86-64, both architectures in one play; hours of guests
	$(PYTEST) -m hosts
validate: setup-validation  ## prove the kernel series: hours; what has passed is passed over, so it goes on where it ended
	.venv/bin/kernel-qualify all --resume
readme:      ## put the results of the last demo into the README and the tutorial
	.venv/bin/python tools/docs/refresh.py results/demo
docs:        ## write what the documentation has from the tools: outputs, reference pages
	.venv/bin/python tools/docs/refresh.py
lock:        ## update the locked Python packages (needs uv)
	tools/setup/lock.sh
setup:       ## install what building and booting needs
	tools/setup/setup.sh lab
setup-python:  ## install what the unit tests need
	tools/setup/setup.sh python
setup-tests: ## install what all tests need
	tools/setup/setup.sh tests
setup-validation: ## install what proving the series needs
	tools/setup/setup.sh validation
clean:       ## remove results and the Python environment; caches stay, see docs/guides/contributors/lab.md
	rm -rf results .venv

.PHONY: help demo test $(PARTS) test-kernel test-lab test-hosts test-quick validate readme docs lock setup setup-python setup-tests setup-validation clean
