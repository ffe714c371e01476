import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import ROOT
from tests.fakes.fakehost import FakeHost


def start(host: FakeHost, output: Path, *options: str, pause: float = 0.0) -> subprocess.Popen[str]:
    environment = {**os.environ, "PATH": f"{host.root / 'bin'}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "tests.fakes.fakerun", str(host.root), str(pause)]
    command += [
        "smt=off",
        "smt=on",
        "--variant=stock",
        "--iterations=3",
        "--count-iterations=0",
        "--settle=0",
    ]
    return subprocess.Popen(
        [*command, f"--sysroot={host.root}", f"--output={output}", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
        start_new_session=True,
    )


def wait_for(condition: object, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, printed = process.communicate(timeout=60)
    return process.returncode, printed.splitlines()[-1]


def lines(output: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.read_text().splitlines()]


@pytest.mark.parametrize("via", ["ppc64_cpu", "smt-control"])
@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_a_signal_in_mid_switch_finishes_it_keeps_it_and_restores(
    host: FakeHost, tmp_path: Path, via: str, signum: signal.Signals, code: int
) -> None:
    host.install_ppc64_cpu(path="control", pause=0.3)
    output = tmp_path / "out.jsonl"
    process = start(host, output, f"--via={via}", pause=0.3)
    wait_for(lambda: host.online not in (frozenset(range(8)), {0, 4}))
    os.killpg(process.pid, signum)  # to the whole group, as Ctrl-C at a terminal does
    _, printed = process.communicate(timeout=60)
    assert process.returncode == code
    assert printed.count("waiting for the switch in progress; a second signal ends it") == 1
    last = printed.splitlines()[-1]
    assert last.startswith(f"hotplug-timer: error: stopped by {signum.name} after 1 of 6 switches; ")
    assert host.online == frozenset(range(8))
    assert host.control == "on"
    _, iteration, end = lines(output)
    assert (iteration["operation"], iteration["status"]) == ("smt=off", "ok")
    assert isinstance(iteration["seconds"], float)
    assert iteration["seconds"] >= 0.3
    assert (end["outcome"], end["restored"]) == ("interrupted", True)


def test_a_second_signal_ends_the_switch(host: FakeHost, tmp_path: Path) -> None:
    host.install_ppc64_cpu(path="per-cpu", pause=60)
    output = tmp_path / "out.jsonl"
    process = start(host, output, "--via=ppc64_cpu")
    wait_for((host.root / "half-way").exists)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    status, last = finish(process)
    assert status == 130
    assert "stopped by SIGINT after 0 of 6" in last
    assert host.online == frozenset(range(8))
    _, iteration, end = lines(output)
    assert (iteration["status"], iteration["seconds"]) == ("interrupted", None)
    assert iteration["detail"]["cpus_after"] == "0,4-7"
    assert (end["outcome"], end["restored"]) == ("interrupted", True)


def test_a_signal_while_settling_ends_at_once_and_resume_completes(host: FakeHost, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    process = start(host, output, "--via=smt-control", "--settle=60")
    wait_for(lambda: output.exists() and len(output.read_text().splitlines()) == 2)
    process.send_signal(signal.SIGTERM)
    status, _ = finish(process)
    assert status == 143
    assert host.online == frozenset(range(8))
    # A different settle time would be another experiment.
    status, last = finish(start(host, output, "--via=smt-control", "--resume"))
    assert status == 2
    assert "settle time was 60.0, is 0.0" in last
    text = output.read_text().replace('"settle_s":60.0', '"settle_s":0.0')
    output.write_text(text)
    assert finish(start(host, output, "--via=smt-control", "--resume"))[0] == 0
    done = [
        (record["index"], record["operation"]) for record in lines(output) if record["record"] == "iteration"
    ]
    assert done == [(index, name) for index in (1, 2, 3) for name in ("smt=off", "smt=on")]


def test_an_ignored_hangup_stays_ignored(host: FakeHost, tmp_path: Path) -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start(host, tmp_path / "out.jsonl", "--via=smt-control", "--iterations=1", pause=0.3)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_for(lambda: host.online not in (frozenset(range(8)), {0, 4}))
    process.send_signal(signal.SIGHUP)
    assert finish(process)[0] == 0


@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_during_prepare_begins_no_switch(host: FakeHost, tmp_path: Path, signals: int) -> None:
    output, log = tmp_path / "out.jsonl", tmp_path / "log"
    wait = "0.5" if signals == 1 else "60"
    hooks = (f"--prepare=sh -c 'touch {log}; sleep {wait}'", f"--cleanup=rm {log}")
    process = start(host, output, "--via=smt-control", *hooks)
    wait_for(log.exists)
    for _ in range(signals):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    status, last = finish(process)
    assert status == 143
    assert "stopped by SIGTERM after 0 of 6 switches" in last
    assert not log.exists()
    assert [record["record"] for record in lines(output)] == ["run", "end"]
    assert lines(output)[1]["outcome"] == "interrupted"
