"""A run on a fake host: settings come back on every way out, and what is wrong is said with its exit code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hotplug_host import clocksource
from hotplug_host.clocks.cpus import usable_cpus
from hotplug_host.clocks.probe import Probe
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.held import Held, holding
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from tests.fakes.fakeclocks import CLOCKSOURCE, CPU, CPUFREQ, CPUS, FakeClocks, calls_of, replies, write_probe

Run = Callable[..., tuple[int, str, str]]
AS_FOUND = [("1000000", "3000000", "schedutil")] * len(CPUS)


def records(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["record"] == kind]


def kernel_file(host: FakeClocks, name: str) -> str:
    return str(host.root / name)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def test_every_clocksource_is_a_variant_and_the_first_comes_back(
    host: FakeClocks, run: Run, tmp_path: Path, output: Path
) -> None:
    current = kernel_file(host, f"{CLOCKSOURCE}/current_clocksource")
    probe = write_probe(
        tmp_path / "p",
        replies(),
        f"open({str(tmp_path / 'seen')!r}, 'a').write(open({current!r}).read().strip() + ' ')",
    )
    code, out, err = run(
        "scale", "--clocksource=all", "--threads=1", "--path=vdso", "--iterations=2", f"--probe={probe}",
        f"--output={output}",
    )  # fmt: skip
    assert code == 0, err
    assert (tmp_path / "seen").read_text().split() == ["tsc", "tsc", "hpet", "hpet", "acpi_pm", "acpi_pm"]
    assert host.clocksource == "tsc"
    assert [line["variant"] for line in records(output, "run")] == ["tsc", "hpet", "acpi_pm"]
    assert [line["detail"]["clock"]["found"] for line in records(output, "run")] == ["tsc"] * 3
    assert [(line["outcome"], line["restored"]) for line in records(output, "end")] == [
        ("complete", True)
    ] * 3
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [
        [name, "scale/vdso/1-thread", "2"] for name in ("tsc", "hpet", "acpi_pm")
    ]
    # 25 ms for 10^6 calls of each thread.
    assert {line["seconds"] for line in records(output, "iteration")} == {0.025}


def test_iterations_go_through_all_operations_and_warm_up_counts_not(
    run: Run, probe: Path, output: Path
) -> None:
    code, out, _ = run(
        "scale", "--threads=1,2", "--iterations=2", "--warmup=1", f"--probe={probe}", f"--output={output}"
    )
    assert code == 0
    operations = [f"scale/{path}/{n}" for path in ("vdso", "syscall") for n in ("1-thread", "2-threads")]
    lines = records(output, "iteration")
    assert [line["operation"] for line in lines] == operations * 3
    assert [line["phase"] for line in lines] == ["warmup"] * 4 + ["timed"] * 8
    assert {row.split()[2] for row in out.splitlines()[1:]} == {"2"}


def test_more_threads_than_cpus_are_noted(run: Run, probe: Path) -> None:
    _, _, err = run("scale", f"--threads={len(CPUS) + 1}", f"--probe={probe}", "--iterations=1")
    assert f"up to {len(CPUS) + 1} threads share {len(CPUS)} CPUs" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ["--clocksource=hpte"],
            2,
            "--clocksource hpte: this kernel has no such clocksource now; choose from",
        ),
        (
            ["--clocksource=all", "--variant=stock"],
            2,
            "--variant stock cannot name 3 clocksources; leave it out",
        ),
        (["--cpus=0-99999"], 2, "offline, or not for this process; usable are CPU"),
        (["--cpus=3-1"], 2, "--cpus 3-1: CPU range '3-1' runs backwards"),
        (["--cpus="], 2, "--cpus names no CPU"),
        (["--probe=/missing/probe"], 2, "--probe /missing/probe: no such file"),
    ],
)
def test_what_there_is_not_is_refused(
    host: FakeClocks, run: Run, probe: Path, *, arguments: list[str], code: int, words: str
) -> None:
    got, out, err = run("scale", f"--probe={probe}", *arguments)
    assert (got, out) == (code, "")
    assert words in err
    assert err.count("\n") == 1
    assert host.clocksource == "tsc"


@pytest.mark.parametrize(
    "option", ["--threads=0", "--threads=x", "--seconds=0", "--iterations=0", "--settle=-1"]
)
def test_numbers_that_are_none_are_refused(run: Run, option: str) -> None:
    code, out, err = run("scale", option)
    assert (code, out) == (ExitCode.USAGE, "")
    assert err.startswith("clock-check scale: error: ") or err.startswith("clock-check: error: ")


def test_without_clocksources_in_sysfs_the_clock_is_measured_and_not_switched(
    host: FakeClocks, run: Run, probe: Path, output: Path
) -> None:
    for name in ("current_clocksource", "available_clocksource"):
        (host.root / CLOCKSOURCE / name).unlink()
    code, _, err = run("order", f"--probe={probe}", "--clocksource=hpet")
    assert code == ExitCode.ENVIRONMENT
    assert "does not say which clocksources there are; measure the current one, without --clocksource" in err
    code, _, err = run("order", f"--probe={probe}", f"--output={output}")
    assert code == 0, err
    (record,) = records(output, "run")
    assert (record["variant"], record["detail"]["clock"]["clocksource"]) == ("unknown", None)


def test_a_clocksource_the_kernel_does_not_take_is_an_environment_fault(
    host: FakeClocks, run: Run, probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the kernel does with one unfit for high-resolution timers: the write succeeds, and nothing changes.
    monkeypatch.setattr(Sysfs, "write", lambda *_: None)
    code, _, err = run("scale", "--clocksource=hpet", f"--probe={probe}")
    assert code == ExitCode.ENVIRONMENT
    assert "current_clocksource says tsc after hpet was written to it; nothing was done" in err
    assert host.clocksource == "tsc"


def test_only_root_changes_settings_of_a_real_host(monkeypatch: pytest.MonkeyPatch, host: FakeClocks) -> None:
    class Real(Sysfs):
        is_host = True  # type: ignore[assignment]

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    fs = Real(host.root)
    wanted = clocksource.plan(clocksource.read_clocksources(fs), "hpet")
    with (
        pytest.raises(ToolError, match="changing clocksources needs root; run it again with sudo") as caught,
        holding(fs, wanted, clocksource.PURPOSE, 60.0, Held()),
    ):
        pass
    assert caught.value.code == ExitCode.ENVIRONMENT
    assert set(usable_cpus(fs, None)) <= os.sched_getaffinity(0)
    # Nothing to change needs no root.
    with holding(fs, (), clocksource.PURPOSE, 60.0, Held()):
        pass


def test_two_runs_do_not_switch_clocksources_at_once(host: FakeClocks, run: Run, probe: Path) -> None:
    fs, held = Sysfs(host.root), Held()
    wanted = clocksource.plan(clocksource.read_clocksources(fs), "hpet")
    with holding(fs, wanted, clocksource.PURPOSE, 60.0, held):
        code, _, err = run("scale", "--clocksource=acpi_pm", f"--probe={probe}")
        assert code == ExitCode.ENVIRONMENT
        assert "another clock-check --clocksource is at work; wait until it is done" in err
    assert (held.problems, host.clocksource) == ([], "tsc")


@pytest.mark.parametrize(
    ("command", "bend", "words"),
    [
        ("order", {"violations": 3}, "3 of 10000000 calls returned less than one that had returned before"),
        (
            "drift",
            {"offset_ns": 4000},
            f"CPU {CPUS[-1]}'s clock is at least 3.92e-06 s ahead of CPU {CPUS[0]}'s",
        ),
        ("drift", {"jump_ns": 5_000_000}, "jumps against raw on CPU"),
        ("drift", {"jump_ns": -5_000_000}, "jumps against raw on CPU"),
    ],
)
def test_a_clock_that_is_wrong_fails_with_all_that_was_seen(
    run: Run, tmp_path: Path, output: Path, *, command: str, bend: dict[str, int], words: str
) -> None:
    if len(CPUS) < 2:
        pytest.skip("one CPU has no other to differ from")
    probe = write_probe(tmp_path / "p", replies(**bend))
    code, out, err = run(command, f"--probe={probe}", f"--output={output}")
    assert code == ExitCode.OPERATION
    assert words in err.splitlines()[-1]
    assert err.endswith("do not rely on this clock\n")
    lines = records(output, "iteration")
    assert {line["status"] for line in lines} == {"failed"}
    assert words in lines[0]["error"]
    assert len(out.splitlines()) == len(lines) + 1
    assert records(output, "end")[0]["outcome"] == "complete"


def test_a_cpu_taken_offline_ends_the_run_and_is_named(
    host: FakeClocks, run: Run, tmp_path: Path, output: Path
) -> None:
    gone = f"open({kernel_file(host, f'{CPU}/online')!r}, 'w').write('{CPUS[0]}')"
    if len(CPUS) < 2:
        pytest.skip("one CPU does not go offline")
    probe = write_probe(tmp_path / "p", replies(), gone)
    code, _, err = run("scale", "--clocksource=hpet", f"--probe={probe}", f"--output={output}")
    assert code == ExitCode.OPERATION
    assert f"scale/vdso/1-thread: CPU {CPUS[1]} went offline; what was measured before is kept" in err
    assert [line["status"] for line in records(output, "iteration")] == ["invalid"]
    assert (records(output, "end")[0]["outcome"], records(output, "end")[0]["restored"]) == ("failed", True)
    assert host.clocksource == "tsc"


def test_a_probe_that_finds_no_cpu_says_which(run: Run, tmp_path: Path, output: Path) -> None:
    said = "sys.stderr.write('cannot run on CPU 5: Invalid argument\\n'); sys.exit(3)"
    probe = write_probe(tmp_path / "p", replies(), said)
    code, _, err = run("scale", f"--probe={probe}", f"--output={output}")
    assert code == ExitCode.OPERATION
    assert "cannot run on CPU 5: Invalid argument" in err
    (line,) = records(output, "iteration")
    assert (line["status"], line["seconds"], line["detail"]) == ("invalid", None, {})


def test_threads_that_were_moved_make_it_invalid(run: Run, tmp_path: Path, output: Path) -> None:
    probe = write_probe(tmp_path / "p", replies(moved=True))
    code, _, err = run("order", f"--probe={probe}", f"--output={output}")
    assert code == ExitCode.OPERATION
    assert f"threads were moved away from CPU {CPUS[-1]}" in err
    assert [line["status"] for line in records(output, "iteration")] == ["invalid"]


def test_a_clocksource_that_changes_meanwhile_is_left_and_told(
    host: FakeClocks, run: Run, tmp_path: Path, output: Path
) -> None:
    current = kernel_file(host, f"{CLOCKSOURCE}/current_clocksource")
    probe = write_probe(tmp_path / "p", replies(), f"open({current!r}, 'w').write('acpi_pm')")
    code, _, err = run("scale", "--clocksource=hpet", f"--probe={probe}", f"--output={output}")
    assert code == ExitCode.OPERATION
    assert "the clocksource was hpet and is acpi_pm: somebody changed it, or the kernel did" in err
    assert "so it was left alone (before it was changed it said tsc)" in err
    assert host.clocksource == "acpi_pm"
    assert records(output, "end")[0]["restored"] is False


@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("time.sleep(60)", ExitCode.TIMEOUT, "a measurement did not finish within 0.3 s; raise --timeout"),
        ("os.kill(os.getpid(), 9)", ExitCode.OPERATION, "clock-probe was killed by SIGKILL"),
        ("sys.exit(1)", ExitCode.ENVIRONMENT, "clock-probe failed: it does not say why"),
        ("sys.exit(2)", ExitCode.INPUT, "clock-probe is another program, or of another version"),
        ("print('hello')", ExitCode.INPUT, "clock-probe is another program, or of another version"),
        ("print(1)", ExitCode.INPUT, "clock-probe is another program, or of another version"),
        ("print('{}')", ExitCode.INPUT, "clock-probe is another program, or of another version"),
        ("os.close(1); time.sleep(60)", ExitCode.OPERATION, "clock-probe was killed by SIGKILL"),
    ],
)
def test_a_probe_that_fails_is_a_fault_of_its_own(
    host: FakeClocks, run: Run, tmp_path: Path, *, statement: str, code: int, words: str
) -> None:
    probe = write_probe(tmp_path / "p", replies(), statement)
    timeout = ["--timeout=0.3"] if code == ExitCode.TIMEOUT else []
    got, _, err = run("scale", "--clocksource=hpet", f"--probe={probe}", *timeout)
    assert (got, host.clocksource) == (code, "tsc")
    assert words in err


def test_a_probe_of_another_machine_is_told_from_a_missing_one(run: Run, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"\x7fELF, but of what")
    foreign.chmod(0o755)
    code, _, err = run("scale", f"--probe={foreign}")
    assert code == ExitCode.ENVIRONMENT
    assert "clock-probe does not run on this machine" in err


def test_a_result_file_is_never_written_over(host: FakeClocks, run: Run, probe: Path, output: Path) -> None:
    output.write_text("precious")
    code, _, err = run("scale", "--clocksource=hpet", f"--probe={probe}", f"--output={output}")
    assert (code, output.read_text()) == (ExitCode.USAGE, "precious")
    assert err.endswith(f"{output} exists; name another --output\n")
    assert host.clocksource == "tsc"


def test_drift_needs_its_reference(run: Run, tmp_path: Path, probe: Path) -> None:
    code, _, err = run("drift", "--reference=/dev/ptp99", f"--probe={probe}")
    assert code == ExitCode.ENVIRONMENT
    assert "--reference /dev/ptp99: no such device; look for /dev/rtc* and /dev/ptp*, or use raw" in err
    refusal = "sys.stderr.write('cannot read /dev/null as a clock: Invalid argument\\n'); sys.exit(4)"
    refusing = write_probe(tmp_path / "p", replies(), f"if command == 'drift':\n    {refusal}")
    code, _, err = run("drift", "--reference=/dev/null", f"--probe={refusing}")
    assert code == ExitCode.ENVIRONMENT
    assert "cannot read /dev/null as a clock: Invalid argument; name another --reference, or run it" in err


def test_a_reference_with_too_few_samples_says_so(run: Run, tmp_path: Path) -> None:
    few = replies()
    few["drift"] = few["drift"][: 3 * len(CPUS)]
    code, _, err = run("drift", f"--probe={write_probe(tmp_path / 'p', few)}")
    assert code == ExitCode.ENVIRONMENT
    assert "3 samples of a CPU are too few to tell a rate; give more --seconds, or fewer --cpus" in err


# Frequency levels


def test_without_cpufreq_pstates_says_so(run: Run, probe: Path) -> None:
    code, out, err = run("pstates", f"--probe={probe}")
    assert (code, out) == (ExitCode.ENVIRONMENT, "")
    assert "has no policies: this machine's frequencies are not the kernel's to set" in err


def test_every_level_is_held_and_the_limits_come_back(
    host: FakeClocks, run: Run, tmp_path: Path, output: Path
) -> None:
    host.add_cpufreq()
    folder = kernel_file(host, f"{CPUFREQ}/policy0")
    look = (
        f"with open({str(tmp_path / 'seen')!r}, 'a') as seen:\n"
        f"    seen.write(' '.join(open({folder!r} + '/scaling_' + name).read().strip()"
        " for name in ('min_freq', 'max_freq', 'governor')) + '\\n')"
    )
    probe = write_probe(tmp_path / "p", replies(), look)
    code, out, err = run("pstates", f"--probe={probe}", f"--output={output}")
    assert code == 0, err
    seen = list(dict.fromkeys((tmp_path / "seen").read_text().splitlines()))
    assert seen == [f"{level} {level} schedutil" for level in (3000000, 2000000, 1000000)]
    assert host.limits() == AS_FOUND
    lines = records(output, "iteration")
    assert [line["operation"] for line in lines] == [
        f"pstates/raw/{level}-kHz" for level in (3000000, 2000000, 1000000)
    ]
    assert {tuple(line["detail"]["drift"]["frequencies_khz"].values()) for line in lines} == {
        (1234567,) * len(CPUS)
    }
    assert len(out.splitlines()) == 4


def test_levels_beyond_the_limits_are_left_out(host: FakeClocks, run: Run, probe: Path) -> None:
    host.add_cpufreq(maximum=2000000)
    code, out, err = run("pstates", f"--probe={probe}")
    assert code == 0
    assert "left out, as they are beyond the limits that are set: 3000000 kHz" in err
    assert [row.split()[1] for row in out.splitlines()[1:]] == [
        "pstates/raw/2000000-kHz",
        "pstates/raw/1000000-kHz",
    ]


def test_a_driver_that_lists_no_levels_is_walked_in_steps(host: FakeClocks, run: Run, probe: Path) -> None:
    host.add_cpufreq(levels="")
    code, out, _ = run("pstates", f"--probe={probe}")
    assert code == 0
    assert [row.split()[1].split("/")[2] for row in out.splitlines()[1:]] == [
        f"{level}-kHz" for level in (3000000, 2500000, 2000000, 1500000, 1000000)
    ]


# Killed in the middle

WAIT = "open({marker!r}, 'w').close(); time.sleep(60)"


@pytest.fixture
def started(host: FakeClocks, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start clock-check as a process, and return once its probe is at work."""
    processes = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        marker = tmp_path / "at-work"
        probe = write_probe(tmp_path / "slow", replies(), WAIT.format(marker=str(marker)))
        # As the bundle does; the controller's command line loads more than a second.
        code = "import sys; from hotplug_host.clocks.command import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, *arguments, f"--probe={probe}"]
        process = subprocess.Popen(
            [*command, f"--sysroot={host.root}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        processes.append(process)
        until(marker.exists)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGKILL, -9)],
)
def test_the_clocksource_comes_back_whoever_ends_it(
    host: FakeClocks,
    started: Callable[..., subprocess.Popen[str]],
    output: Path,
    signum: signal.Signals,
    code: int,
) -> None:
    process = started("scale", "--clocksource=hpet", f"--output={output}")
    assert host.clocksource == "hpet"
    process.send_signal(signum)
    _, err = process.communicate(timeout=60)
    until(lambda: host.clocksource == "tsc")
    assert process.returncode == code
    if signum != signal.SIGKILL:
        assert f"stopped by {signum.name}; what was finished is kept" in err
        (end,) = records(output, "end")
        assert (end["outcome"], end["restored"]) == ("interrupted", True)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_limits_and_clocksource_come_back_together(
    host: FakeClocks, started: Callable[..., subprocess.Popen[str]], signum: signal.Signals
) -> None:
    host.add_cpufreq()
    process = started("pstates", "--clocksource=acpi_pm")
    until(lambda: host.limits() != AS_FOUND)
    assert host.clocksource == "acpi_pm"
    process.send_signal(signum)
    process.communicate(timeout=60)
    until(lambda: (host.clocksource, host.limits()) == ("tsc", AS_FOUND))


@pytest.mark.parametrize("before", [True, False], ids=["before-it-runs", "while-it-runs"])
def test_the_probe_ends_with_the_tool(native: Path, tmp_path: Path, before: bool) -> None:
    """Killed, the tool leaves no loop behind that would eat the machine."""
    number, go = tmp_path / "pid", tmp_path / "go"
    held = tmp_path / "held-probe"
    held.write_text(
        f'#!/bin/sh\necho $$ >{number}\nuntil [ -e {go} ]; do sleep 0.01; done\nexec {native} "$@"\n'
    )
    held.chmod(0o755)
    tool = os.fork()
    if tool == 0:
        with contextlib.suppress(BaseException):
            Probe(str(held), StopRequest()).run(
                ["scale", f"--cpus={CPUS[0]}", f"--duration={600 * 10**9}"], 600
            )
        os._exit(0)
    try:
        until(lambda: number.exists() and bool(number.read_text()))
        pid = int(number.read_text())
        if not before:
            go.touch()
            until(lambda: Path(f"/proc/{pid}/exe").readlink() == native and _used_ticks(pid) > 2)
    finally:
        os.kill(tool, signal.SIGKILL)
        os.waitpid(tool, 0)
    go.touch()
    try:
        until(lambda: not _runs(pid), 5.0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _used_ticks(pid: int) -> int:
    """Return the ticks that a process has run in user mode."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_a_probe_is_called_with_the_cpus_and_what_was_asked_for(run: Run, probe: Path) -> None:
    run("order", "--calls=1234", "--threads=3", "--path=syscall", f"--cpus={CPUS[0]}", f"--probe={probe}")
    assert calls_of(probe) == [
        ["order", "--cpus", str(CPUS[0]), "--threads=3", "--path=syscall", "--calls=1234"]
    ]


def test_selftest_tells_how_many_checks_passed(run: Run, probe: Path) -> None:
    assert run("selftest", f"--probe={probe}") == (0, "21 checks, all passed\n", "")


def test_a_policy_whose_cpus_are_offline_is_left_alone(host: FakeClocks, run: Run, probe: Path) -> None:
    host.add_cpufreq()
    host.put(f"{CPUFREQ}/policy9/affected_cpus", "")
    assert run("pstates", f"--probe={probe}")[0] == 0


def test_selftest_can_be_stopped(started: Callable[..., subprocess.Popen[str]]) -> None:
    process = started("selftest")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (
        130,
        "clock-check: error: stopped by SIGINT; nothing was changed\n",
    )
