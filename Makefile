# Every target is a line or two that call a tool; `make` alone lists them.
PYTEST = .venv/bin/python -m pytest
# Tests take a millisecond or a minute: a worker that has none left takes over half of the other's.
PARALLEL = $(PYTEST) -n 2 --dist worksteal

help:        ## list the targets
	@sed -nE 's/^([a-z-]+): .*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26
demo: setup  ## the whole job: build, boot, deploy by kexec, time stock against patched, report
	.venv/bin/lpar-lab demo
test: setup-tests  ## unit tests, pages in a browser, kernel builds, guests in QEMU
	$(PARALLEL) -m "not kernel and not lab"
	$(PYTEST) -m "(kernel or lab) and not hosts"
test-hosts: setup-tests  ## what happens to hosts: faults, boot loader, both architectures in one play; an hour of guests
	$(PYTEST) -m hosts
test-quick: setup-python  ## unit tests and linters only: no browser, no kernel, no guest
	$(PARALLEL) -m "not browser and not kernel and not lab"
validate: setup-validation  ## prove the kernel series: hours; what has passed is passed by, so it goes on where it ended
	$(PYTEST) tests/validation --resume
lint: setup-python  ## the linters only
	$(PYTEST) tests/lint
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

.PHONY: help demo test test-hosts test-quick validate lint readme docs lock setup setup-python setup-tests setup-validation clean
