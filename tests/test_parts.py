"""`make test` runs all its parts and prints how long each took, whatever the parts do."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests import ROOT

PARTS = ROOT / "tests/parts.sh"
ROW = re.compile(r"^([a-z-]+) +(passed|failed|interrupted) +\d+:\d\d$", re.MULTILINE)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a `make` whose target bad fails, and whose target long takes a minute."""
    make = tmp_path / "make"
    make.write_text(
        f'#!/bin/sh\ntouch "{tmp_path}/$2"\n'
        'case $2 in bad) exit 2 ;; long) exec sleep 60 ;; esac\necho "in $2 with $1"\n'
    )
    make.chmod(0o755)
    return {**os.environ, "MAKE": str(make)}


def run(environment: dict[str, str], *parts: str) -> tuple[int, str]:
    done = subprocess.run(
        [PARTS, *parts], env=environment, stdout=subprocess.PIPE, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout


def test_parts_run_in_order_and_are_listed_at_the_end(environment: dict[str, str]) -> None:
    code, printed = run(environment, "quick", "slow")
    assert code == 0
    assert printed.index("in quick with --no-print-directory") < printed.index("in slow with")
    assert ROW.findall(printed) == [("quick", "passed"), ("slow", "passed"), ("total", "passed")]


def test_a_part_that_fails_stops_no_other_one(environment: dict[str, str]) -> None:
    code, printed = run(environment, "bad", "good")
    assert code == 1
    assert "in good" in printed
    assert ROW.findall(printed) == [("bad", "failed"), ("good", "passed"), ("total", "failed")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_it_with_what_there_is(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """A terminal and `timeout` send it to all processes."""
    process = subprocess.Popen(
        [PARTS, "good", "long", "never"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "long").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, number)
    printed, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert ROW.findall(printed) == [("good", "passed"), ("long", "interrupted"), ("total", "failed")]
    assert not (tmp_path / "never").exists()


def test_every_part_is_a_target_and_no_test_is_in_none_of_them() -> None:
    """By the marks and folders that the Makefile gives to pytest."""
    makefile = (ROOT / "Makefile").read_text()
    (parts,) = re.findall(r"^PARTS = (.*)$", makefile, re.MULTILINE)
    recipes = {part: re.findall(rf"^{part}:.*\n\t(.*)$", makefile, re.MULTILINE) for part in parts.split()}
    assert all(len(found) == 1 for found in recipes.values())
    assert f"--ignore=tests/lint --ignore=tests/ansible -m {UNIT}" in recipes["test-unit"][0]
    assert f"tests/ansible -m {UNIT}" in recipes["test-playbooks"][0]
    assert recipes["lint"][0].endswith('tests/lint -m "not browser"')
    assert recipes["test-pages"][0].endswith("-m browser")
    assert recipes["test-kernel-lab"][0].endswith('-m "kernel or lab and not hosts"')
    assert re.search(r"^test-kernel:.*\n\t.* -m kernel$", makefile, re.MULTILINE)
    assert re.search(r'^test-lab:.*\n\t.* -m "lab and not hosts"$', makefile, re.MULTILINE)
    assert re.search(r"^test-hosts:.*\n\t.* -m hosts$", makefile, re.MULTILINE), "not of make test"


UNIT = '"not (linter or browser or kernel or lab or hosts)"'
