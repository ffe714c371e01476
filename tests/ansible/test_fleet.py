"""Hosts of several kinds in one play, and many of them: the fake ones are reached by a stand-in for ssh."""

from __future__ import annotations

import itertools
import json
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from smt_fleet import cli
from tests.ansible.test_ab import assert_back, assert_fails
from tests.fakes import fake_lpar
from tests.fakes.fake_lpar import ANSIBLE, BIN, DEFAULT_RELEASE, FakeLpar, PlayResult, files_below

# Modules are started, each in a Python of its own.
pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Fleet:
    """A POWER and an x86-64 host, and a kernel for each."""

    power: FakeLpar
    x86: FakeLpar
    kernels: dict[str, str]

    def play(self, playbook: str, *arguments: str, **variables: Any) -> PlayResult:
        return self.power.play(playbook, *arguments, **variables)

    def releases(self) -> list[str]:
        return [host.get("proc/sys/kernel/osrelease") for host in (self.power, self.x86)]


@pytest.fixture
def fleet(host: FakeLpar, tmp_path: Path) -> Fleet:
    beside = tmp_path / "beside"
    beside.mkdir()
    x86 = fake_lpar.build(beside)
    host.put("proc/sys/kernel/arch", "ppc64le")
    x86.put("proc/sys/kernel/arch", "x86_64")
    x86.put("sys/devices/system/cpu/smt/control", "off")
    x86.put("sys/devices/system/cpu/online", "0,8")
    host.hosts = {"lpar1": host.remote(), "bench1": x86.remote()}
    for given in ("ab_variants", "hotplug_sysroot", "ab_staging_dir"):
        del host.variables[given]
    kernels = {
        "ppc64le": str(host.packed("power", arch="ppc64le")),
        "x86_64": str(host.packed("x86", arch="x86_64")),
    }
    return Fleet(host, x86, kernels)


@pytest.mark.slow
def test_each_host_gets_the_kernel_for_what_it_is_and_is_timed_on_it(fleet: Fleet) -> None:
    before = [files_below(host.root) for host in (fleet.power, fleet.x86)]
    given = {"deploy_artifacts": fleet.kernels, "ab_variant_name": "deployed"}

    result = fleet.play("deploy.yml time.yml", "--check", **given)

    assert result.code == 0, result.output
    assert f"lpar1: would start 6.12-power with boot=kexec, from {DEFAULT_RELEASE}" in result.flat
    assert f"bench1: would start 6.12-x86 with boot=kexec, from {DEFAULT_RELEASE}" in result.flat
    assert [files_below(host.root) for host in (fleet.power, fleet.x86)] == before

    result = fleet.play("deploy.yml time.yml", **given, deploy_serial="100%")

    assert result.code == 0, result.output
    assert result.output.count("PLAY [Leave hosts on another kernel]") == 1
    assert fleet.releases() == ["6.12-power", "6.12-x86"]
    for name, release in (("lpar1", "6.12-power"), ("bench1", "6.12-x86")):
        (timed,) = (fleet.power.results / "raw" / name).glob("*.jsonl")
        assert timed.name == "01-deployed.jsonl"
        assert json.loads(timed.read_text().splitlines()[0])["host"]["kernel_release"] == release
    assert fleet.x86.get("sys/devices/system/cpu/online") == "0,8"

    result = fleet.play("deploy.yml", deploy_artifacts=fleet.kernels)

    assert result.code == 0, result.output
    assert [result.changed(name) for name in ("lpar1", "bench1")] == [0, 0]

    result = fleet.play("rollback.yml")

    assert result.code == 0, result.output
    assert_back(fleet.power)
    assert_back(fleet.x86)


#: While a host goes down or comes up, sudo may answer in place of the command. Once, here.
NO_ANSWER = """
case "$command" in
    *"stop hotplug-acceleration-fallback.timer"*)
        test -e {root}/answered || {{ : > {root}/answered; echo 'sudo: a password is required'; exit 1; }} ;;
esac
"""


@pytest.mark.slow
@pytest.mark.parametrize("answers", [True, False])
def test_a_host_keeps_its_kernel_while_one_beside_it_is_waited_for(fleet: Fleet, answers: bool) -> None:
    """Else the timer of its way back would go off: also where its first answer is none."""
    fleet.x86.put("fault", "jump-ignored")
    if not answers:
        ssh = fleet.power.root / "bin/ssh"
        text = ssh.read_text()
        ssh.write_text(text.replace("PATH=", NO_ANSWER.format(root=fleet.power.root) + "PATH=", 1))

    result = fleet.play(
        "deploy.yml", deploy_artifacts=fleet.kernels, deploy_serial=2, ab_down_timeout=15, ab_boot_timeout=30
    )

    # 15 s, and a little more where the machine is busy.
    assert_fails(result, "bench1: the host never went down: 1")
    assert fleet.releases() == ["6.12-power", DEFAULT_RELEASE]
    assert answers or fleet.power.get("answered") == ""
    assert float(fleet.power.get("hotplug-acceleration-fallback.timer.ran")) < 12


@pytest.mark.slow
def test_hosts_are_timed_side_by_side_when_told_to(fleet: Fleet) -> None:
    result = fleet.play("time.yml", ab_serial=2)

    assert result.code == 0, result.output
    assert result.output.count("PLAY [Time switches on the running kernel]") == 1
    assert [len(list((fleet.power.results / "raw" / name).iterdir())) for name in fleet.power.hosts] == [1, 1]

    fleet.power.put("timer-fault", "fails")

    result = fleet.play("time.yml", "--check")

    assert result.code == 0, result.output
    assert result.output.count("PLAY [Time switches on the running kernel]") == 2

    result = fleet.play("time.yml")

    assert_fails(result, "lpar1: the timing", "did not complete")
    assert "bench1: " not in result.output, "the next host is not touched"


@pytest.mark.slow
def test_a_run_of_ansible_playbook_has_the_rows_of_smt_fleet(
    switching: FakeLpar, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the folder that a variable names; a second run there goes on with it."""
    host, folder = switching, switching.work / "runs/of-tonight"
    unfit = host.beside("unfit").act()
    unfit.put("sys/kernel/rcu_normal", "1")
    host.hosts = {"fake": host.remote(), "unfit": unfit.remote()}
    for given in ("hotplug_sysroot", "ab_staging_dir"):
        del host.variables[given]
    inside = {**host.environment(), "SMT_FLEET_RUN": str(folder)}

    result = host.play("apply.yml", environment=inside, smt_switch_level="off")

    found = json.loads((folder / "summary.json").read_text())
    assert (found["over"], found["exit_code"]) == (True, 3), result.output
    assert {row["host"]: row["verdict"] for row in found["hosts"]} == {"fake": "ok", "unfit": "unfit"}
    assert (folder / "summary.md").read_text() in result.output
    told = {}
    for words in (["status"], ["report"], ["resume"]):
        code = cli.main([*words, str(folder)])
        told[words[0]] = (code, *capsys.readouterr())
    assert told["report"][:2] == told["status"][:2]
    assert told["report"][0] == 0
    assert "1 ok, 1 unfit" in told["report"][1]
    step = f"run apply.yml again with --limit @{folder / 'failed.txt'}"
    assert (told["resume"][0], step in told["resume"][2]) == (4, True)

    unfit.put("sys/kernel/rcu_normal", "0")
    result = host.play(
        "apply.yml", "--limit", f"@{folder / 'failed.txt'}", environment=inside, smt_switch_level="off"
    )

    assert result.code == 0, result.output
    assert json.loads((folder / "summary.json").read_text())["exit_code"] == 0


@pytest.mark.slow
def test_a_job_of_awx_ends_with_its_rows(switching: FakeLpar) -> None:
    """Also where it fails; ansible-runner is what AWX runs playbooks with."""
    host = switching
    host.put("sys/kernel/rcu_normal", "1")
    inventory, *variables = host.options(smt_switch_level="off", awx_job_id=7)[1:]
    project = ["--project-dir", str(ANSIBLE), "--inventory", inventory, "-p", "playbooks/apply.yml"]
    command = [str(BIN / "ansible-runner"), "run", str(host.work / "runner"), *project]

    result = host.run([*command, "--cmdline", shlex.join(variables)])

    assert result.code != 0
    assert "AWX job 7: 1 unfit" in result.output
    assert "| fake | " in result.output


#: Seconds that each command of a distant host takes longer: a sleep in the stand-in for ssh.
WAIT = 4.0


@dataclass(frozen=True)
class Survey:
    """A preflight of many hosts: how it was run, and how long it took."""

    hosts: int
    forks: int
    seconds: float
    at_once: int
    """So many commands waited at the same time, at the most."""
    verdicts: dict[str, str]

    @property
    def waits(self) -> float:
        """Seconds that the hosts together keep us waiting."""
        return self.hosts * WAIT

    def __str__(self) -> str:
        took = f"{self.seconds:.0f} s, waits of {self.waits:.0f} s, {self.at_once} at once"
        return f"{self.hosts} hosts, forks={self.forks}: {took}"


def survey(host: FakeLpar, hosts: int, forks: int) -> Survey:
    """Ask so many hosts; they only read, so that one stands for all."""
    host.hosts = dict.fromkeys((f"lpar{number:02}" for number in range(1, hosts + 1)), host.remote(WAIT))
    table = host.results / f"{hosts}-{forks}"
    begin = time.monotonic()
    host.waits.unlink(missing_ok=True)
    result = host.play(
        "preflight.yml", "--forks", str(forks), preflight_purpose="time", preflight_output_dir=str(table)
    )
    seconds = time.monotonic() - begin
    assert result.code == 0, result.output
    rows = json.loads((table / "preflight.json").read_text())["hosts"]
    changes = (1 if line == "begin" else -1 for line in host.waits.read_text().splitlines())
    return Survey(
        hosts,
        forks,
        seconds,
        max(itertools.accumulate(changes)),
        {row["host"]: row["verdict"] for row in rows},
    )


def side_by_side(host: FakeLpar, *shapes: tuple[int, int]) -> list[Survey]:
    """Ask five hosts one by one, and then hosts with forks as in SHAPES, which must save the waits."""
    runs = [survey(host, hosts, forks) for hosts, forks in ((5, 1), *shapes)]
    for run in runs:
        assert len(run.verdicts) == run.hosts
        assert set(run.verdicts.values()) == {"go"}
    # One after the other no wait is saved; side by side they overlap, and the controller's own work is left:
    # a slow or busy machine has more of it, so fifty hosts are held against ten times five one by one.
    alone, *others = runs
    assert (alone.at_once, alone.seconds > alone.waits) == (1, True)
    for run in others:
        assert 2 <= run.at_once <= run.forks
        if run.hosts == alone.hosts:
            assert run.seconds < alone.seconds - 2 * WAIT
        else:
            assert run.seconds < 0.5 * alone.seconds * run.hosts / alone.hosts
    return runs


@pytest.mark.slow
def test_hosts_are_asked_side_by_side(host: FakeLpar) -> None:
    side_by_side(host, (5, 5))


@pytest.mark.slow
@pytest.mark.hosts
def test_fifty_hosts_are_asked_side_by_side(host: FakeLpar, capsys: pytest.CaptureFixture[str]) -> None:
    """With -s it prints the figures of docs/guides/operators/preflight.md."""
    runs = side_by_side(host, (5, 5), (50, 10), (50, 50))
    with capsys.disabled():
        sys.stdout.write("".join(f"\n{run}" for run in runs) + "\n")
