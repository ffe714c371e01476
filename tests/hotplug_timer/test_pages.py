"""The commands of operators' pages on times, results, traces and histories, as they stand there.

In the order of each page, in one folder, on a fake host whose kernel switches. Playbooks are run elsewhere.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clock_check import cli as clock_check
from docpages.paths import DOCS
from hotplug_host.errors import ExitCode
from hotplug_host.timing import command as timing
from hotplug_timer import cli
from tests import ROOT
from tests.fakes.fakehost import FakeHost, FakeSysfs
from tests.lint.test_docs import command_lines
from tests.samples import tracefiles
from tests.samples.resultfiles import records, write

#: Commands of the page that are for the shell or an installed environment, or that a test of playbooks runs.
ELSEWHERE = (".", "cd", "ansible-playbook")
#: Sizes of what is measured, which are for an afternoon, and CPUs that the fake host has not.
SMALLER = {
    "1000000": "30",
    "10000000": "3000",
    "1000000000": "100000",
    "600": "3",
    "cpus=1-127": "cpus=1-7",
    "0-3": "0",
    "2-3": "0-1",
    "/dev/rtc0": "raw",
    "ppc64le": os.uname().machine,
}


def stock_and_patched(folder: Path) -> None:
    for name in ("stock", "patched", "a", "b"):
        seconds = 2.0 if name == "stock" else 1.0
        write(folder / f"{name}.jsonl", records(name, name, [seconds, 1.01 * seconds]))
    (folder / "traces").mkdir()
    tracefiles.write(folder / "traces/stock.smt=off.offcpu.dat", "offcpu", 300)


def nights(folder: Path) -> None:
    raw = folder / "results/raw/lab1"
    raw.mkdir(parents=True)
    write(raw / "stock.jsonl", records("night", "stock", [2.0, 2.01], [1.0, 1.01], hostname="lab1"))


def traces(folder: Path) -> None:
    (folder / "switch.folded").write_text("cpuhp/7;cpuhp_thread_fun;synchronize_rcu 1200\n")
    tracefiles.write(folder / "01-traced.smt=off.states.dat", "states", 300)


def examples(folder: Path) -> None:
    (folder / "docs").mkdir()
    (folder / "docs/examples").symlink_to(DOCS / "examples")


#: Of a night that has failed, as the page records one, and of the made-up history, which has a step.
ENDS = {
    "hotplug-timer history check --store results/history": ExitCode.OPERATION,
    "hotplug-timer history check --store docs/examples/history": ExitCode.REGRESSION,
}
PREPARED: dict[str, Callable[[Path], None]] = {
    "compare-results": stock_and_patched,
    "history": nights,
    "time-your-machine": lambda _: None,
    "trace": traces,
    "switch-faster": lambda _: None,
    "check-clocks": examples,
}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A fake host whose ppc64_cpu, trace-cmd and services are the first on PATH."""
    made = FakeHost.build(tmp_path / "host")
    made.add_tracing()
    made.add_fqs_delays()
    made.install_ppc64_cpu(path="control")
    text = tmp_path / "trace.txt"
    tracefiles.write(text, "offcpu", 300)
    programs = made.add_trace_cmd(text=text.read_text())
    (programs / "systemctl").write_text("#!/bin/sh\n")
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(timing, "Sysfs", lambda _root: FakeSysfs(made))
    return made


def on_host(words: list[str], host: FakeHost) -> int:
    """Run a program as the host would: switches are those of the fake host, clocks those of this machine."""
    command, output = (words[:-2], words[-1]) if ">" in words else (words, os.devnull)
    if "run" in command:
        command = [*command, "--sysroot", str(host.root), "--settle", "0"]
    with Path(output).open("w") as stream:
        return subprocess.run([sys.executable, *command[1:]], check=False, stdout=stream).returncode


def call(words: list[str], host: FakeHost) -> int:
    """Run one command of a page; returns its exit code."""
    program, arguments = words[0], words[1:]
    if program == "scp":
        # The other machine's folder is this one.
        return 0 if Path(arguments[0].rpartition(":")[2]).exists() else 1
    if program == "clock-check":
        return clock_check.main(arguments)
    if program == "ssh":
        return on_host(arguments[1:], host)
    if program.endswith(("python", "python3")):
        names = [str(ROOT / word) if word.startswith("tests/") else word for word in arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run([sys.executable, *names], check=False, env=environment).returncode
    assert program == "hotplug-timer", words
    return cli.main([*arguments, *(["--settle", "0"] if arguments[0] == "run" else [])])


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    # Half a minute of spinning threads.
    [pytest.param(page, marks=pytest.mark.hosts if page == "check-clocks" else ()) for page in PREPARED],
)
def test_the_commands_of_a_page_run_as_they_are(
    page: str, host: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    PREPARED[page](folder)
    ran = 0
    for line in command_lines((DOCS / f"guides/operators/{page}.md").read_text("utf-8")):
        given = [SMALLER.get(word, word) for word in shlex.split(line, comments=True)]
        words = [
            str(path) for word in given for path in (sorted(folder.glob(word)) if "*" in word else [word])
        ]
        if not words or words[0] in ELSEWHERE:
            continue
        assert call(words, host) == ENDS.get(line, ExitCode.OK), line
        ran += 1
    assert ran >= 2
