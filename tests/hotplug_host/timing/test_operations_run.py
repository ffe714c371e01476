"""Runs of CPU lists and cores, time limits of operations, and machines that change under the run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_host.errors import ExitCode
from hotplug_host.progress import CLEAR
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import SMT_CONTROL
from hotplug_host.timing.cycle import parse_operations
from hotplug_host.timing.operation import Operation
from hotplug_host.timing.plan import Settings
from hotplug_host.timing.runner import Runner
from hotplug_timer import cli
from hotplug_timer.reader import read_files
from tests.fakes.fakehost import FakeHost, FakeSysfs
from tests.hotplug_host.test_progress import Terminal
from tests.hotplug_host.timing.test_runner import failing, lines

Execute = Callable[..., str]


def parsed(*texts: str) -> tuple[Operation, ...]:
    return parse_operations(texts)


class WatchingSysfs(FakeSysfs):
    """Logs writes to a file, since they are done in a child, and calls something before one of them."""

    def __init__(self, host: FakeHost, before: Callable[[str, str], None] = lambda *_: None) -> None:
        super().__init__(host)
        self.before = before

    def write(self, name: str, text: str) -> None:
        with (self.host.root / "writes").open("a") as log:
            log.write(f"{name} {text}\n")
        self.before(name, text)
        super().write(name, text)

    @property
    def logged(self) -> list[str]:
        lines = (self.host.root / "writes").read_text().splitlines()
        return [line.replace("/sys/devices/system/cpu/", "").replace("/online", "") for line in lines]


def test_cpus_go_and_come_one_by_one(execute: Execute, host: FakeHost, settings: Settings) -> None:
    fs = WatchingSysfs(host)
    execute(fs, operations=parsed("cpus=1-7"), via="auto", iterations=2)
    one_round = [f"cpu{cpu} 0" for cpu in range(1, 8)] + [f"cpu{cpu} 1" for cpu in range(1, 8)]
    assert fs.logged == one_round * 2
    run = read_files([settings.output]).runs[0]
    assert [(item.operation, item.path, item.driver) for item in run.iterations] == [
        ("cpus=1-7:off", "per-cpu", "cpu-online"),
        ("cpus=1-7:on", "per-cpu", "cpu-online"),
    ] * 2
    assert [record["cpus_after"] for record in lines(settings.output)] == ["0", "0-7"] * 2


def test_one_way_is_timed_and_the_other_is_not(execute: Execute, host: FakeHost, settings: Settings) -> None:
    execute(operations=parsed("cpus=2-3:on"), via="auto", iterations=2)
    changes = [(record["cpus_before"], record["cpus_after"]) for record in lines(settings.output)]
    assert changes == [("0-1,4-7", "0-7")] * 2
    assert host.online == frozenset(range(8))


def test_a_cpu_of_the_list_that_stays_is_named(execute: Execute, host: FakeHost, settings: Settings) -> None:
    host.stick(3)
    failing(
        execute,
        ExitCode.OPERATION,
        "cpus=2-4:off, timed iteration 1: cpu3/online: Device or resource busy; CPUs 3-4 online but",
        operations=parsed("cpus=2-4"),
        via="auto",
    )
    assert host.online == frozenset(range(8))


@pytest.mark.parametrize("via", ["cpu-online", "ppc64_cpu"])
def test_cores_go_from_the_last(
    execute: Execute,
    tmp_path: Path,
    settings: Settings,
    use_ppc64_cpu: Callable[..., None],
    via: str,
) -> None:
    host = FakeHost.build(tmp_path / "lpar", cores=4, threads=2)
    host.write_control("off")
    for cpu in (6,):  # the last core is offline and takes no part
        host.set_cpu(cpu, False)
    use_ppc64_cpu(host)
    fs = WatchingSysfs(host)
    execute(fs, operations=parsed("cores-on=1", "cores-on=all"), via=via, iterations=1)
    recorded = lines(settings.output)
    assert [(record["cpus_before"], record["cpus_after"]) for record in recorded] == [
        ("0,2,4", "0"),
        ("0", "0,2,4"),
    ]
    assert {record["driver"] for record in recorded} == {via}
    if via == "ppc64_cpu":
        assert host.get("ppc64_cpu.log").split() == ["--cores-on=1", "--cores-on=3"]
    else:
        assert fs.logged == ["cpu4 0", "cpu2 0", "cpu2 1", "cpu4 1"]


def test_what_a_machine_cannot_do_is_refused_before_anything_is_recorded(
    execute: Execute, host: FakeHost, settings: Settings
) -> None:
    for text, words in (("cpus=7-8", "CPU 8 not online"), ("cores-on=3", "2 cores are online")):
        failing(execute, ExitCode.USAGE, words, operations=parsed(text), via="auto")
    assert not settings.output.exists()


def test_a_time_limit_of_its_own(
    execute: Execute, host: FakeHost, settings: Settings, use_ppc64_cpu: Callable[..., None]
) -> None:
    use_ppc64_cpu(host, path="per-cpu", pause=30)
    failing(
        execute,
        ExitCode.TIMEOUT,
        "smt=off, timed iteration 1: did not finish within 0.5 s",
        operations=parsed("smt=off@0.5", "smt=on"),
        via="ppc64_cpu",
    )
    (recorded,) = lines(settings.output, "run")
    assert recorded["operation_timeouts_s"] == {"smt=off": 0.5}
    assert isinstance(recorded["settings"], dict)
    assert recorded["settings"]["timeout_s"] == 20.0


# Machines that change under the run


class Once:
    """Calls something at the first write that has this text."""

    def __init__(self, text: str, act: Callable[[], None], flag: Path) -> None:
        self.text, self.act, self.flag = text, act, flag

    def __call__(self, name: str, text: str) -> None:
        # The flag is a file: the write is done in a child, which forgets.
        if text == self.text and name == SMT_CONTROL and not self.flag.exists():
            self.flag.touch()
            self.act()


def test_cores_added_offline_make_one_iteration_invalid(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    change = Once("off", lambda: host.add_core(online=False), tmp_path / "once")
    printed = execute(WatchingSysfs(host, change), iterations=2)
    recorded = lines(settings.output)
    assert [record["status"] for record in recorded] == ["invalid", "ok", "ok", "ok"]
    assert recorded[0]["error"] == (
        "the machine changed: possible CPUs were 0-7, are 0-11 and present CPUs were 0-7, are 0-11"
    )
    assert recorded[0]["path"] is None
    assert "none of them takes part, so the run goes on" in printed
    assert "1 of 4 switches are invalid and will not be compared" in printed
    end = lines(settings.output, "end")[0]
    assert (end["outcome"], end["restored"]) == ("complete", True)
    # What was added is left as it was.
    assert host.online == frozenset(range(8))


def test_cores_added_online_end_the_run(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    change = Once("on", lambda: host.add_core(online=True), tmp_path / "once")
    failing(
        execute,
        ExitCode.OPERATION,
        "present CPUs were 0-7, are 0-11; what was timed before that is kept; start a new run",
        fs=WatchingSysfs(host, change),
    )
    assert [record["status"] for record in lines(settings.output)] == ["ok", "invalid"]
    assert lines(settings.output, "end")[0]["restored"] is True
    assert host.online == frozenset(range(12))


def test_cores_removed_end_the_run_with_the_others_restored(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    change = Once("off", host.remove_core, tmp_path / "once")
    failing(execute, ExitCode.OPERATION, "present CPUs were 0-7, are 0-3", fs=WatchingSysfs(host, change))
    assert [record["status"] for record in lines(settings.output)] == ["invalid"]
    assert host.online == frozenset(range(4))
    assert lines(settings.output, "end")[0]["restored"] is True


def test_cores_removed_while_the_start_is_prepared(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    """The switch there is not recorded, so nothing is invalid; but the reason is told."""
    change = Once("on", host.remove_core, tmp_path / "once")
    failing(
        execute,
        ExitCode.OPERATION,
        "the machine changed: present CPUs were 0-7, are 0-3",
        fs=WatchingSysfs(host, change),
        operations=parsed("smt=off"),
    )
    assert [record["status"] for record in lines(settings.output)] == ["ok"]
    assert host.online == frozenset(range(4))


def test_a_change_between_iterations_makes_none_invalid(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\necho x >> {count}\n")
    hook.chmod(0o755)

    class Changing(FakeSysfs):
        def read(self, name: str) -> str:
            # After the second iteration's record was written.
            if settings.output.exists() and len(lines(settings.output)) == 2 and not count.exists():
                count.touch()
                host.add_core(online=False)
            return super().read(name)

    printed = execute(Changing(host))
    assert [record["status"] for record in lines(settings.output)] == ["ok"] * 4
    assert "the machine changed" in printed
    assert "so the run goes on" in printed


@pytest.mark.slow
def test_a_switch_in_progress_is_shown(
    host: FakeHost, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which one, how many CPUs are online, and what for; the start of the cycle as well."""
    monkeypatch.setattr("hotplug_host.child.TICK_S", 0.05)
    host.write_control("off")
    stop, terminal = StopRequest(), Terminal()
    Runner(replace(settings, iterations=1), FakeSysfs(host, pause=0.5), stop, terminal).execute()
    stop.close()
    shown = terminal.getvalue().split(CLEAR)
    for words in (
        "[1/2] before smt=off timed 1/1, smt=on: 5 CPUs online, 8 wanted",
        "[1/2] smt=off timed 1/1: 5 CPUs online, 2 wanted",
        "[2/2] smt=on timed 1/1: 5 CPUs online, 8 wanted",
    ):
        assert any(line.startswith(words) for line in shown), words


def test_what_was_timed_of_cpus_is_compared_and_reported(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    execute(operations=parsed("cpus=1-7"), via="auto", iterations=3)
    out = tmp_path / "report"
    arguments = ["report", str(settings.output), "--output-dir", str(out), "--line", "6.12"]
    assert cli.main(arguments) == ExitCode.OK
    summary = json.loads((out / "summary.json").read_text())
    assert summary["operations"] == ["cpus=1-7:off", "cpus=1-7:on"]
    assert len(summary["variants"]["stock"]["cpus=1-7:off_s"]) == 3
    assert "cpus=1-7:off" in (out / "report.html").read_text()
