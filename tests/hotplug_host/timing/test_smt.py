"""The smt command without kills: they are in test_timer_guardian."""

import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.guardian import lock_settings
from hotplug_host.rcu import FQS_DELAYS, RCU_EXPEDITED, RCU_NORMAL
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import SMT_CONTROL
from hotplug_host.timing.expedite import default_delays, plan_settings
from hotplug_host.timing.operation import SmtLevel
from hotplug_host.timing.smt import SmtSettings, SmtSwitch
from hotplug_timer import cli
from tests import ROOT
from tests.fakes.fakehost import FakeHost, FakeSysfs

FIRST, NEXT = FQS_DELAYS


@pytest.fixture
def host(host: FakeHost) -> FakeHost:
    return host.add_fqs_delays()


class LoggingSysfs(FakeSysfs):
    """Logs every write to a file, as most are done by other processes; ACT is called before each."""

    def __init__(self, host: FakeHost, act: Callable[[str, str], None] = lambda *_: None) -> None:
        super().__init__(host)
        self.act = act

    def write(self, name: str, text: str) -> None:
        self.act(name, text)
        super().write(name, text)
        with (self.host.root / "writes").open("a") as log:
            log.write(f"{name.rpartition('/')[2]}={text}\n")

    @property
    def logged(self) -> list[str]:
        return self.host.get_or("writes").split()


def switch(
    fs: FakeSysfs, level: str = "off", *, expedite: bool = True, tune_fqs: bool = False, **changes: object
) -> str:
    stop, stream = StopRequest(), io.StringIO()
    settings = SmtSettings(
        operation=SmtLevel(level),
        expedite=expedite,
        tune_fqs=tune_fqs,
        dry_run=bool(changes.get("dry_run")),
        as_json=bool(changes.get("as_json")),
        timeout_s=float(str(changes.get("timeout_s", 20))),
        via=str(changes.get("via", "smt-control")),
    )
    try:
        SmtSwitch(settings, fs, stop, stream).execute()
    finally:
        stop.close()
    return stream.getvalue()


def refused(code: ExitCode, words: str, act: Callable[[], object]) -> None:
    with pytest.raises(ToolError) as caught:
        act()
    assert words in str(caught.value)
    assert caught.value.code == code


def rcu(host: FakeHost) -> list[str]:
    return [host.get(name.lstrip("/")) for name in (RCU_EXPEDITED, FIRST, NEXT)]


def test_settings_are_changed_for_the_switch_only(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    fs = LoggingSysfs(host)
    switch(fs, tune_fqs=True)
    assert fs.logged == [
        "rcu_expedited=1",
        "jiffies_till_first_fqs=1",
        "jiffies_till_next_fqs=1",
        "control=off",
        "jiffies_till_next_fqs=3",
        "jiffies_till_first_fqs=3",
        "rcu_expedited=0",
    ]
    assert rcu(host) == ["0", "3", "3"]
    assert host.online == {0, 4}
    assert capsys.readouterr().out.startswith("smt=off: 2 of 8 CPUs online after 0.")


def test_a_host_that_is_there_is_left_alone(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    fs = LoggingSysfs(host)
    host.put("sys/kernel/rcu_expedited", "1")
    for dry_run in (True, False):
        switch(fs, "on", dry_run=dry_run)
        assert capsys.readouterr().out == "smt=on: 8 of 8 CPUs online as it is\n"
    assert fs.logged == []


def test_the_right_cpus_at_the_wrong_level_are_switched(host: FakeHost) -> None:
    """CPUs taken offline one by one leave smt/control as it was, and new ones would come by it."""
    for cpu in (1, 2, 3, 5, 6, 7):
        host.set_cpu(cpu, False)
    fs = LoggingSysfs(host)
    switch(fs, expedite=False)
    assert fs.logged == ["control=off"]
    assert host.control == "off"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda host: host.add_core(online=True), "smt=off: 3 of 12 CPUs online after 0."),
        (lambda host: host.add_core(online=False), "smt=off: 2 of 12 CPUs online after 0."),
        (lambda host: host.remove_core(), "smt=off: 1 of 4 CPUs online after 0."),
    ],
    ids=["added", "added offline", "removed"],
)
def test_cores_that_come_or_go_meanwhile_have_the_level_too(
    host: FakeHost, change: Callable[[FakeHost], None], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = switch(LoggingSysfs(host, once(host, change)), expedite=False)
    assert capsys.readouterr().out.startswith(said)
    assert "the machine changed: " in printed
    assert "smt=off holds there" in printed


def test_a_core_that_comes_at_another_level_fails_the_switch(host: FakeHost) -> None:
    """After the kernel has gone through the others."""

    class Late(FakeSysfs):
        def write(self, name: str, text: str) -> None:
            super().write(name, text)
            if text == "off":
                host.add_core(online=True)

    problem = "the machine changed: possible CPUs were 0-7, are 0-11 and present CPUs were 0-7, are 0-11; CPU"
    refused(ExitCode.OPERATION, problem, lambda: switch(Late(host), expedite=False))


def once(host: FakeHost, change: Callable[[FakeHost], None]) -> Callable[[str, str], None]:
    """Return what changes the machine when it is told to switch."""

    def act(name: str, text: str) -> None:
        if (name, text) == (SMT_CONTROL, "off"):
            change(host)

    return act


def test_json_says_what_words_say(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    fs = FakeSysfs(host)
    answers = []
    for dry_run in (True, False, False):
        switch(fs, dry_run=dry_run, as_json=True)
        answers.append(json.loads(capsys.readouterr().out))
    planned, switched, there = answers
    assert [answer["changed"] for answer in answers] == [True, True, False]
    assert (planned["seconds"], planned["dry_run"], there["seconds"]) == (None, True, 0.0)
    assert planned["said"][-1].startswith("would switch to smt=off with smt-control")
    assert switched["operation"] == "smt=off"
    assert switched["seconds"] > 0
    assert switched["said"] == [f"smt=off: 2 of 8 CPUs online after {switched['seconds']:.3f} s, expedited"]


def test_without_tune_fqs_the_delays_are_left_alone(host: FakeHost) -> None:
    fs = LoggingSysfs(host)
    switch(fs, "2")
    assert fs.logged == ["rcu_expedited=1", "control=2", "rcu_expedited=0"]
    assert host.online == {0, 1, 4, 5}


def test_a_plain_switch_touches_nothing_else(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    fs = LoggingSysfs(host)
    switch(fs, expedite=False)
    assert fs.logged == ["control=off"]
    assert "expedited" not in capsys.readouterr().out


def test_a_delay_of_one_jiffy_is_left_alone(host: FakeHost) -> None:
    for name, value in ((FIRST, "0"), (NEXT, "1")):
        host.put(name.lstrip("/"), value)
    fs = LoggingSysfs(host)
    printed = switch(fs, tune_fqs=True)
    assert fs.logged == ["rcu_expedited=1", "control=off", "rcu_expedited=0"]
    assert printed.count("is 1 or less as it is") == 2


def test_a_dry_run_says_what_it_would_write_and_writes_nothing(
    host: FakeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    fs = LoggingSysfs(host)
    switch(fs, tune_fqs=True, dry_run=True)
    assert fs.logged == []
    root = host.root
    assert capsys.readouterr().out.splitlines() == [
        f"would write 1 to {root}{RCU_EXPEDITED}, which is 0, and put 0 back after the switch",
        f"would write 1 to {root}{FIRST}, which is 3, and put 3 back after the switch",
        f"would write 1 to {root}{NEXT}, which is 3, and put 3 back after the switch",
        "would switch to smt=off with smt-control: online are CPUs 0-7, afterwards 0,4",
    ]


def test_the_dry_run_in_the_documentation_is_real(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs/guides/operators/switch-faster.md").read_text("utf-8")
    (block,) = re.findall(r"```console\n\$ hotplug-timer (smt .*--dry-run\n.*?)```", text, re.S)
    command, shown = block.split("\n", 1)
    # The page shows a host without ppc64_cpu.
    arguments = [*command.split(), "--via=smt-control", f"--sysroot={host.root}"]
    assert cli.main(arguments) == ExitCode.OK
    assert capsys.readouterr().out.replace(str(host.root), "") == shown


def test_a_dry_run_needs_no_root(monkeypatch: pytest.MonkeyPatch, host: FakeHost) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(FakeSysfs, "is_host", True)
    switch(FakeSysfs(host), dry_run=True)
    refused(ExitCode.ENVIRONMENT, "needs root", lambda: switch(FakeSysfs(host)))


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            RCU_EXPEDITED,
            "1",
            "says 1 already, so somebody else holds it; grace periods are expedited",
        ),
        (RCU_EXPEDITED, "2", "says 2 already"),
        (RCU_NORMAL, "1", "forbids expedited grace periods"),
        (FIRST, "100", "says 100, and the kernel's own choice is 1 or 2 or 3, so somebody else holds it"),
        (NEXT, "soon", "is not there; switch without --tune-fqs"),
    ],
)
def test_a_value_that_somebody_holds_is_refused(
    host: FakeHost, name: str, value: str, words: str, dry_run: bool
) -> None:
    host.put(name.lstrip("/"), value)
    fs = LoggingSysfs(host)
    refused(ExitCode.ENVIRONMENT, words, lambda: switch(fs, tune_fqs=True, dry_run=dry_run))
    assert fs.logged == []


def test_a_kernel_that_cannot_is_refused(host: FakeHost) -> None:
    (host.root / RCU_EXPEDITED.lstrip("/")).unlink()
    refused(ExitCode.ENVIRONMENT, "without --expedite", lambda: switch(FakeSysfs(host)))
    switch(FakeSysfs(host), expedite=False)


def test_two_at_a_time_are_refused(host: FakeHost) -> None:
    fs = LoggingSysfs(host)
    with lock_settings(fs):
        refused(ExitCode.ENVIRONMENT, "another hotplug-timer smt --expedite", lambda: switch(fs))
    assert fs.logged == []
    switch(fs)


@pytest.mark.parametrize(("value", "left"), [("2", "2"), ("0", "0")])
def test_a_value_changed_during_the_switch_is_left_and_told(
    host: FakeHost, capsys: pytest.CaptureFixture[str], value: str, left: str
) -> None:
    def meddle(name: str, text: str) -> None:
        if name == SMT_CONTROL:
            host.put(RCU_EXPEDITED.lstrip("/"), value)

    fs = LoggingSysfs(host, meddle)
    refused(
        ExitCode.OPERATION,
        f"smt=off is done; but {host.root}{RCU_EXPEDITED} says {value}, not the 1 that was written there:"
        " somebody else changed it, so it was left alone (before it was changed it said 0)",
        lambda: switch(fs, tune_fqs=True),
    )
    # The others are back.
    assert rcu(host) == [left, "3", "3"]
    assert capsys.readouterr().out.startswith("smt=off: 2 of 8")


def test_a_value_changed_just_before_the_write_is_refused(host: FakeHost) -> None:
    """Between the look and the write of the second one."""

    def meddle(name: str, text: str) -> None:
        if name == RCU_EXPEDITED and text == "1":
            host.put(FIRST.lstrip("/"), "7")

    fs = LoggingSysfs(host, meddle)
    refused(
        ExitCode.ENVIRONMENT,
        f"cannot change RCU settings: {host.root}{FIRST} said 3 and says 7 now: somebody else changed it",
        lambda: switch(fs, tune_fqs=True),
    )
    assert rcu(host) == ["0", "7", "3"]
    assert host.online == frozenset(range(8))
    assert fs.logged == ["rcu_expedited=1", "rcu_expedited=0"]


def test_a_write_that_is_refused_restores_the_others(host: FakeHost) -> None:
    def refuse(name: str, text: str) -> None:
        if name == NEXT:
            raise PermissionError(1, os.strerror(1))

    fs = LoggingSysfs(host, refuse)
    refused(
        ExitCode.ENVIRONMENT,
        f"cannot write 1 to {host.root}{NEXT}: Operation not permitted; nothing was done",
        lambda: switch(fs, tune_fqs=True),
    )
    assert rcu(host) == ["0", "3", "3"]
    assert "control=off" not in fs.logged


def test_a_value_that_does_not_come_back_is_told(host: FakeHost) -> None:
    def refuse(name: str, text: str) -> None:
        if (name, text) == (RCU_EXPEDITED, "0"):
            raise PermissionError(1, os.strerror(1))

    refused(
        ExitCode.OPERATION,
        f"smt=off is done; but cannot write 0 back to {host.root}{RCU_EXPEDITED}: Operation not permitted",
        lambda: switch(LoggingSysfs(host, refuse), tune_fqs=True),
    )
    assert rcu(host) == ["1", "3", "3"]


def test_a_switch_that_fails_restores_and_names_the_cpus(host: FakeHost) -> None:
    host.stick(6)
    fs = LoggingSysfs(host)
    refused(
        ExitCode.OPERATION,
        "smt=off: Device or resource busy; CPUs 6-7 online but should be offline; look at the kernel log",
        lambda: switch(fs, tune_fqs=True),
    )
    assert rcu(host) == ["0", "3", "3"]


def test_a_switch_that_takes_too_long_restores(host: FakeHost, use_ppc64_cpu: Callable[..., None]) -> None:
    use_ppc64_cpu(host, path="per-cpu", pause=30)
    refused(
        ExitCode.TIMEOUT,
        "smt=off: did not finish within 0.5 s",
        lambda: switch(FakeSysfs(host), via="ppc64_cpu", timeout_s=0.5),
    )
    assert rcu(host) == ["0", "3", "3"]


def test_a_partial_switch_is_no_success_whatever_ppc64_cpu_says(
    host: FakeHost, use_ppc64_cpu: Callable[..., None]
) -> None:
    use_ppc64_cpu(host, path="per-cpu", lie=True)
    host.stick(5)
    refused(
        ExitCode.OPERATION,
        "CPU 5 online but should be offline",
        lambda: switch(FakeSysfs(host), via="ppc64_cpu"),
    )


@pytest.mark.parametrize(("level", "online"), [("on", range(8)), ("off", range(4))])
def test_x86_with_smt_off(tmp_path: Path, level: str, online: range) -> None:
    """CPUs that are offline do not show their core there."""
    host = FakeHost.build(tmp_path / "x86", cores=4, threads=2, machine="x86_64").add_fqs_delays()
    host.write_control("off")
    switch(FakeSysfs(host), level)
    assert host.online == frozenset(online)
    assert rcu(host) == ["0", "3", "3"]


def test_x86_with_smt_off_and_a_number(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path / "x86", cores=4, threads=2, machine="x86_64").add_fqs_delays()
    host.write_control("off")
    refused(ExitCode.USAGE, "say on or off", lambda: switch(FakeSysfs(host), "2"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["max"], "unknown operation 'smt=max'"),
        (["off", "--tune-fqs"], "--tune-fqs goes with --expedite"),
        (["off", "--timeout=0"], "argument --timeout: '0' is not a number of seconds"),
        (["8", "--dry-run"], "it has 1, 2, 3, 4 threads per core"),
    ],
)
def test_what_makes_no_switch_is_refused(
    host: FakeHost, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert cli.main(["smt", *arguments, f"--sysroot={host.root}"]) == ExitCode.USAGE
    assert words in capsys.readouterr().err
    assert host.online == frozenset(range(8))


@given(st.integers(1, 8192))
def test_the_kernels_own_delays_grow_with_the_cpus(cpus: int) -> None:
    delays = default_delays(frozenset(range(cpus)))
    assert delays == (1 + cpus // 256, 2 + cpus // 256, 3 + cpus // 256)


def test_a_large_machines_own_delay_is_not_somebody_elses(host: FakeHost) -> None:
    host.put("sys/devices/system/cpu/possible", "0-1919")
    for name in FQS_DELAYS:
        host.put(name.lstrip("/"), "8")
    plan = plan_settings(FakeSysfs(host), tune_fqs=True)
    assert [(setting.before, setting.during) for setting in plan.settings] == [
        ("0", "1"),
        ("8", "1"),
        ("8", "1"),
    ]


def test_what_was_left_on_a_large_machine_is_named(host: FakeHost) -> None:
    """One jiffy is no kernel's choice there: who set it was killed together with its guardian."""
    host.put("sys/devices/system/cpu/possible", "0-1919")
    host.put(FIRST.lstrip("/"), "1")
    refused(
        ExitCode.ENVIRONMENT,
        "says 1, and the kernel's own choice is 8 or 9 or 10, so somebody else holds it",
        lambda: plan_settings(FakeSysfs(host), tune_fqs=True),
    )
