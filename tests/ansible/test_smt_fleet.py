"""smt-fleet over its playbooks: fake hosts behind a stand-in for ssh, some of which do not come along."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.ansible.test_ab import OWNER, assert_back
from tests.ansible.test_guides import options_of
from tests.fakes import fake_lpar
from tests.fakes.fake_lpar import BIN, DEFAULT_CMDLINE, DEFAULT_RELEASE, NOWHERE, ROOT_HERE, FakeLpar
from tests.samples.costfiles import costs_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: smt-fleet, whose ansible-playbook has forks for its tasks; what is installed is run by the docs' tests.
WARM_FLEET = (sys.executable, "-m", "tests.fakes.warmfleet")
WARM_ENVIRONMENT = {"PLAYSERVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), **fake_lpar.TEMPLATES}
RANGE = r"[0-9.]+ to [0-9.]+ s"
TROUBLED = ["dead", "locked", "stuck", "unfit"]


@dataclass(frozen=True)
class Fleet:
    """Hosts that switch, and the first of them as the one whose variables hold."""

    folder: Path
    hosts: dict[str, FakeLpar]
    program: Sequence[str] = WARM_FLEET

    @property
    def first(self) -> FakeLpar:
        return next(iter(self.hosts.values()))

    def begin(self, *words: str, output: int = subprocess.PIPE) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*ROOT_HERE, *self.program, words[0], "--output-dir", "runs", *words[1:]],
            env={**self.first.environment(), **WARM_ENVIRONMENT},
            cwd=self.folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def call(self, *words: str) -> tuple[int, str]:
        with self.begin(*words) as controller:
            out, _ = controller.communicate()
        return controller.returncode, out

    def start(self, *words: str) -> tuple[int, str]:
        return self.call(*self.with_hosts(*words))

    def with_hosts(self, command: str, *words: str) -> list[str]:
        inventory, variables = self.first.options()[1::2]
        return [command, "-i", inventory, "-e", variables, *words]

    def kill_once(self, ready: Callable[[], bool], *words: str) -> None:
        """Start a run, and kill its controller once something is so."""
        with self.begin(*self.with_hosts(*words), output=subprocess.DEVNULL) as controller:
            try:
                while not ready():
                    assert controller.poll() is None
                    time.sleep(0.1)
            finally:
                os.killpg(controller.pid, signal.SIGKILL)

    def rows(self) -> dict[str, dict[str, Any]]:
        (run,) = (self.folder / "runs").iterdir()
        rows = json.loads((run / "summary.json").read_text())["hosts"]
        return {row["host"]: row for row in rows}

    def verdicts(self) -> dict[str, str]:
        return {name: row["verdict"] for name, row in self.rows().items()}


def fleet(folder: Path, names: Sequence[str]) -> Fleet:
    """Make hosts by their names; those of TROUBLED have their trouble."""
    hosts = {}
    for name in names:
        (folder / name).mkdir()
        hosts[name] = fake_lpar.build(folder / name).act()
    first = hosts[names[0]]
    first.hosts = {name: host.remote() for name, host in hosts.items()}
    for given in ("ab_variants", "hotplug_sysroot", "ab_staging_dir"):
        del first.variables[given]
    if "dead" in hosts:
        # By the real ssh, which finds no port there.
        first.hosts["dead"] = {**NOWHERE, "ansible_ssh_executable": "/usr/bin/ssh"}
    if "locked" in hosts:
        hosts["locked"].put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))
    if "stuck" in hosts:
        hosts["stuck"].stick(6)
    if "unfit" in hosts:
        hosts["unfit"].put("sys/kernel/rcu_normal", "1")
    return Fleet(folder, hosts)


def mend(made: Fleet) -> None:
    """Take the troubles away."""
    made.first.hosts["dead"] = made.hosts["dead"].remote()
    made.first.options()
    (made.hosts["locked"].staging / "lock.json").unlink()
    made.hosts["stuck"].stick()
    # The kernel takes its level for off now, and would not look at the CPUs again.
    made.hosts["stuck"].write_control("on")
    made.hosts["unfit"].put("sys/kernel/rcu_normal", "0")


@pytest.mark.parametrize("healthy", [2, pytest.param(16, marks=pytest.mark.hosts)])
def test_every_host_has_a_row_and_a_second_run_ends_it(tmp_path: Path, healthy: int) -> None:
    names = [f"lpar{number:02}" for number in range(1, healthy + 1)]
    made = fleet(tmp_path, [*names, *TROUBLED])
    everything = ("--batches", "100%", "--max-failed", "100")

    code, out = made.start("apply", "--level", "off", *everything)

    assert code == 6, out
    assert made.verdicts() == {
        **dict.fromkeys(names, "ok"),
        "dead": "unreachable",
        "locked": "unfit",
        "stuck": "LEFT-CHANGED",
        "unfit": "unfit",
    }
    rows = made.rows()
    assert [rows["stuck"][f"online_{when}"] for when in ("before", "after")] == ["0-7", "0,4,6-7"]
    assert [rows[names[0]][f"online_{when}"] for when in ("before", "after")] == ["0-7", "0,4"]
    assert [rows[names[0]][f"level_{when}"] for when in ("before", "after")] == ["on", "off"]
    assert "root@desk has been using this host since" in rows["locked"]["message"]
    assert "CPUs 6-7 online but should be offline" in rows["stuck"]["message"]
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "failed.txt").read_text().split() == TROUBLED

    mend(made)
    code, out = made.call("resume", "last")

    assert code == 0, out
    assert made.verdicts() == dict.fromkeys(made.hosts, "ok")
    for host in made.hosts.values():
        assert host.online == {0, 4}
    assert {made.hosts[name].get("ppc64_cpu.log") for name in names} == {"--smt=off"}, (
        "none is switched twice"
    )


def test_hosts_are_brought_back_beside_a_dead_and_a_locked_one(tmp_path: Path) -> None:
    names = ["lpar1", "lpar2", "lpar3"]
    made = fleet(tmp_path, ["dead", "locked", *names])
    trial = f"{DEFAULT_CMDLINE} hotplug_acceleration.variant=patched"
    for host in made.hosts.values():
        host.put("proc/cmdline", trial)

    code, out = made.start("rollback")

    assert code == 6, out
    assert made.verdicts() == {"dead": "unreachable", "locked": "LEFT-CHANGED", **dict.fromkeys(names, "ok")}
    assert "root@desk has been using this host since" in made.rows()["locked"]["message"]
    assert "the state of the host cannot be read" in made.rows()["dead"]["message"]
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "failed.txt").read_text().split() == ["dead", "locked"]
    assert made.hosts["locked"].get("proc/cmdline") == trial
    for name in names:
        assert_back(made.hosts[name])


def test_a_host_that_is_held_keeps_none_of_the_others_from_their_measurement(tmp_path: Path) -> None:
    made, kernels = measuring(tmp_path, ["locked", "lpar1"])
    variants = [word for kernel in kernels for word in ("--variant", kernel)]

    code, out = made.start("ab", *variants, "--boots", "2", "--iterations", "1")

    assert code == 3, out
    assert made.verdicts() == {"locked": "unfit", "lpar1": "ok"}


def test_an_unfit_host_keeps_none_of_the_others_from_the_change(tmp_path: Path) -> None:
    """Also where it is the first, and also of a resumed run; the first batch is of hosts that are fit."""
    made = fleet(tmp_path, ["locked", "lpar1", "lpar2"])

    code, out = made.start("apply", "--level", "off")

    assert code == 3, out
    assert made.verdicts() == {"locked": "unfit", "lpar1": "ok", "lpar2": "ok"}
    assert out.count("PLAY [Switch SMT") == 2, "lpar1 first"
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "failed.txt").read_text().split() == ["locked"]


@pytest.mark.hosts
def test_two_hundred_hosts_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With -s it prints the figures of docs/guides/operators/fleet.md, of the programs that are installed.

    One fake host stands for all.
    """
    seconds: dict[int, float] = {}
    megabytes: dict[int, float] = {}
    for count in (20, 200):
        folder = tmp_path / str(count)
        folder.mkdir()
        made = replace(fleet(folder, ["lpar1"]), program=[str(BIN / "smt-fleet")])
        made.first.hosts = {f"lpar{number}": made.first.remote() for number in range(count)}
        begin = time.monotonic()
        code, out = made.start("check", "--for", "switch")
        seconds[count] = time.monotonic() - begin
        assert code == 0, out
        assert list(made.verdicts().values()) == ["ok-unchanged"] * count
        megabytes[count] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        with capsys.disabled():
            sys.stdout.write(
                f"\n{count} hosts, forks=10: {seconds[count]:.0f} s, {megabytes[count]:.0f} MB at most\n"
            )
    assert seconds[200] < 15 * seconds[20]
    assert megabytes[200] - megabytes[20] < 180 * 0.5


def test_a_canary_that_fails_keeps_the_others_from_it(tmp_path: Path) -> None:
    made = fleet(tmp_path, ["lpar1", "lpar2", "lpar3"])
    made.hosts["lpar1"].stick(6)

    code, out = made.start("apply", "--level", "off")

    assert code == 6, out
    assert made.verdicts() == {"lpar1": "LEFT-CHANGED", "lpar2": "not-reached", "lpar3": "not-reached"}
    assert made.hosts["lpar2"].online == set(range(8))

    made.hosts["lpar1"].stick()
    made.hosts["lpar1"].write_control("on")
    code, out = made.call("resume", "last")

    assert code == 0, out
    assert out.count("PLAY [Switch SMT") == 2, "the first of them once more by itself"


def test_a_first_host_that_does_worse_after_the_soak_ends_the_run(tmp_path: Path) -> None:
    """Or has rebooted by itself; whatever share of a batch may fail."""
    made = fleet(tmp_path, ["reboots", "worse", "well", "later"])
    services = {"enabled": ["firewalld.service"], "active": ["firewalld.service"]}
    for host in made.hosts.values():
        host.put(f"units-{DEFAULT_RELEASE}.json", json.dumps(services))
    # What goes wrong after the change: the operator's tasks come right after it.
    (tmp_path / "after.yml").write_text(
        "- ansible.builtin.copy:\n"
        "    content: '{{ fleet_breaks[inventory_hostname][1] }}'\n"
        "    dest: '{{ hotplug_sysroot }}/{{ fleet_breaks[inventory_hostname][0] }}'\n"
        "  delegate_to: localhost\n"
        "  when: inventory_hostname in fleet_breaks\n"
    )
    made.first.variables |= {
        "fleet_hook_after": str(tmp_path / "after.yml"),
        "fleet_breaks": {
            "reboots": ["proc/sys/kernel/random/boot_id", "another"],
            "worse": [f"units-{DEFAULT_RELEASE}.json", json.dumps(services | {"active": []})],
        },
    }

    code, out = made.start("apply", "--level", "off", "--batches", "3", "--max-failed", "100")

    assert code == 6, out
    assert made.verdicts() == {
        "reboots": "LEFT-CHANGED",
        "worse": "LEFT-CHANGED",
        "well": "ok",
        "later": "not-reached",
    }
    rows = made.rows()
    assert "this one has rebooted by itself after the change" in rows["reboots"]["message"]
    assert rows["worse"]["message"] == (
        "the run ends with the first hosts: the host does worse than before: not running: firewalld.service;"
        " mend that, or name what may differ in ab_health_ignore"
    )
    healths = {name: row["health"] for name, row in rows.items()}
    assert healths == {
        "reboots": None,
        "worse": "not running: firewalld.service",
        "well": "as before",
        "later": None,
    }


def test_a_first_batch_that_no_operator_confirms_is_the_only_one(tmp_path: Path) -> None:
    """Also where its first host failed."""
    made = fleet(tmp_path, ["lpar1", "lpar2", "lpar3"])
    made.hosts["lpar1"].stick(6)
    flow = ("--batches", "2", "--max-failed", "50", "--confirm", "prompt")

    code, out = made.start("apply", "--level", "off", *flow)

    assert "without a yes, the other hosts are left alone" in " ".join(out.split())
    assert code == 6
    assert made.verdicts() == {"lpar1": "LEFT-CHANGED", "lpar2": "ok", "lpar3": "not-reached"}

    made.hosts["lpar1"].stick()
    made.hosts["lpar1"].write_control("on")
    code, out = made.call("resume", "last")

    assert code == 0, "two hosts are one batch"
    assert made.verdicts() == dict.fromkeys(made.hosts, "ok")


def test_the_look_at_the_first_batch_can_be_left_out(tmp_path: Path) -> None:
    made = fleet(tmp_path, ["lpar1", "lpar2"])

    code, out = made.start("apply", "--level", "off", "--confirm", "prompt", "--", "--skip-tags", "canary")

    assert code == 0, out
    assert made.verdicts() == {"lpar1": "ok", "lpar2": "ok"}
    assert "Look at them once more" not in out


def test_no_host_begins_after_the_window(tmp_path: Path) -> None:
    made = fleet(tmp_path, ["lpar1", "lpar2"])

    code, out = made.start("apply", "--level", "off", "--until", "2026-01-01T04:30", "--minutes", "10")

    assert code == 7, out
    assert made.verdicts() == {"lpar1": "not-reached", "lpar2": "not-reached"}

    shutil.rmtree(tmp_path / "runs")
    # As it is given to ansible-playbook.
    code, out = made.start("apply", "--level", "off", "-e", "fleet_window_end=2099-01-01T04:30")

    assert code == 7, out
    needs = (
        "fleet_window_end needs to know how long a host takes; give fleet_host_minutes, or fleet_costs_dir"
    )
    assert made.rows()["lpar1"]["message"] == needs
    assert made.hosts["lpar1"].online == set(range(8))


@pytest.mark.parametrize("command", ["apply", "regress"])
def test_a_host_that_is_at_work_when_the_window_passes_ends_its_work(tmp_path: Path, command: str) -> None:
    """The first host's hook, which runs once it has begun, brings the end of the window."""
    made, kernels = measuring(tmp_path, ["lpar1", "lpar2", "lpar3"])
    window, hook = tmp_path / "window", tmp_path / "before.yml"
    window.write_text(f"{datetime.now() + timedelta(hours=2):%Y-%m-%dT%H:%M}")
    content = {"content": "2026-01-01T04:30", "dest": str(window), "mode": "0644"}
    hook.write_text(json.dumps([{"ansible.builtin.copy": content, "delegate_to": "localhost"}]))
    made.first.variables |= {
        "fleet_window_end": f"{{{{ lookup('ansible.builtin.file', '{window}') }}}}",
        "fleet_hook_before": str(hook),
    }
    words = ("apply", "--level", "off") if command == "apply" else history(tmp_path, kernels)

    code, out = made.start(*words, "--minutes", "60")

    assert code == 7, out
    assert made.verdicts() == {"lpar1": "ok", "lpar2": "not-reached", "lpar3": "not-reached"}
    rows = made.rows()
    late = "not begun, as it could not be ready by 2026-01-01T04:30"
    assert [rows[name]["message"] for name in made.hosts] == [None, late, late]
    assert not made.hosts["lpar2"].commands()
    assert not made.hosts["lpar1"].has("var/lib/hotplug-acceleration/lock.json"), "it is given back"
    if command == "regress":
        assert len(list((tmp_path / "history").glob("runs/*/raw/lpar1/*.jsonl"))) == 3
        assert "TASK [ab : Ask the history]" in out


def test_hooks_of_the_operator_and_the_change_are_part_of_it(tmp_path: Path) -> None:
    made = fleet(tmp_path, ["lpar1", "lpar2"])
    made.hosts["lpar2"].stick(6)
    hooks = {}
    for name in ("before", "after"):
        file = tmp_path / f"{name}.yml"
        said = f"{name} {{{{ inventory_hostname }}}} lock={{{{ smt_switch_lock.owner | default('none') }}}}"
        file.write_text(f'- ansible.builtin.debug:\n    msg: "{said}"\n')
        hooks[f"fleet_hook_{name}"] = str(file)
    more = {**hooks, "fleet_change": "CHG42", "awx_job_id": 7, "awx_user_name": "ann"}
    words = [word for name, value in more.items() for word in ("-e", f"{name}={value}")]

    code, out = made.start("apply", "--level", "off", "--batches", "2", *words)

    assert code == 6, out
    assert [out.count(f"before {name} lock=none") for name in made.hosts] == [1, 1]
    assert out.count("after lpar1 lock=ann in AWX job 7 for CHG42") == 1
    assert "after lpar2" not in out


def measuring(folder: Path, names: Sequence[str]) -> tuple[Fleet, list[str]]:
    """Make hosts without trouble that measure, and kernels as `smt-fleet ab` takes them."""
    made = fleet(folder, names)
    del made.first.variables["ab_results_dir"]
    # The fake kernels of the first host are there for all of them.
    return made, [f"{name}={made.first.packed(name, arch='ppc64le')}" for name in ("stock", "patched")]


def test_kernels_are_compared_on_a_host_before_the_others(tmp_path: Path) -> None:
    made, kernels = measuring(tmp_path, ["lpar1", "lpar2", "lpar3"])
    made.hosts["lpar2"].put("fault", "jump-ignored")
    variants = [word for kernel in kernels for word in ("--variant", kernel)]
    short = ("-e", "ab_down_timeout=15", "-e", "ab_boot_timeout=30")

    code, out = made.start("ab", *variants, "--iterations", "1", *short)

    assert code == 5, out
    assert made.verdicts() == {"lpar1": "ok", "lpar2": "failed-restored", "lpar3": "not-reached"}
    assert out.count("Look at them once more") >= 1, "the first host is looked at before the next"
    (run,) = (tmp_path / "runs").iterdir()
    assert len(list((run / "raw/lpar1").glob("*.jsonl"))) == 4
    assert not (run / "raw/lpar3").exists()
    rows = made.rows()
    assert "the host never went down" in rows["lpar2"]["message"]
    assert [row["health"] for row in rows.values()] == ["as before", "as before", None]
    measured = rows["lpar1"]["measured_seconds"]
    assert {name: list(medians) for name, medians in measured.items()} == {
        "smt=off": ["stock", "patched"],
        "smt=on": ["stock", "patched"],
    }
    levels = [[row["level_before"], row["level_after"]] for row in rows.values()]
    assert levels == [["on", "on"]] * 3


@pytest.mark.parametrize("healthy", [3, pytest.param(19, marks=pytest.mark.hosts)])
def test_a_kernel_on_which_the_first_host_does_worse_stays_on_it(tmp_path: Path, healthy: int) -> None:
    others = [f"lpar{number:02}" for number in range(1, healthy + 1)]
    made, (_, kernel) = measuring(tmp_path, ["canary", *others])
    canary = made.hosts["canary"]
    canary.put("units-6.12-patched.json", json.dumps({"failed": ["multipathd.service"]}))

    code, out = made.start("deploy", "--kernel", kernel.partition("=")[2], "--batches", "1,5,10%")

    assert code == 5, out
    assert made.verdicts() == {"canary": "failed-restored", **dict.fromkeys(others, "not-reached")}
    row = made.rows()["canary"]
    assert "failed: multipathd.service" in row["message"]
    assert row["health"] == "as before", "on its own kernel"
    assert_back(canary)
    for name in others:
        assert made.hosts[name].get("proc/sys/kernel/osrelease") == DEFAULT_RELEASE
        assert ["systemctl", "kexec"] not in made.hosts[name].commands()
        assert not made.hosts[name].staging.exists()

    (canary.root / "units-6.12-patched.json").unlink()
    code, out = made.call("resume", "last")

    assert code == 0, out
    assert made.verdicts() == dict.fromkeys(made.hosts, "ok")
    for host in made.hosts.values():
        assert host.get("proc/sys/kernel/osrelease") == "6.12-patched"


#: Seconds for which ssh's own retries, of which there are more with it, ask a host that is gone.
BOOT_S = 25


@pytest.mark.parametrize(("forks", "silent"), [(1, 1), (2, 2)])
def test_no_host_leaves_its_kernel_because_others_are_waited_for_first(
    tmp_path: Path, forks: int, silent: int
) -> None:
    """Each that does not come up keeps a fork for the time of a boot, as long as a lone host's way back."""
    dead = [f"dead{number}" for number in range(1, silent + 1)]
    fine = [f"lpar{number}" for number in range(1, 4 - silent)]
    made, (_, kernel) = measuring(tmp_path, [*dead, *fine])
    for name in dead:
        made.hosts[name].put("fault", "hangs")

    code, out = made.start(
        *("deploy", "--kernel", kernel.partition("=")[2], "--batches", "3", "--max-failed", "100"),
        *("-e", f"ab_boot_timeout={BOOT_S}", "--", "--forks", str(forks)),
    )

    assert code == 6, out
    assert made.verdicts() == {**dict.fromkeys(dead, "LEFT-CHANGED"), **dict.fromkeys(fine, "ok")}
    for name in fine:
        assert made.hosts[name].get("proc/sys/kernel/osrelease") == "6.12-patched"
        timer = "hotplug-acceleration-fallback.timer"
        armed = re.search("OnBootSec=([0-9]+)", made.hosts[name].get(f"{timer}.unit"))
        assert armed
        assert BOOT_S < float(made.hosts[name].get(f"{timer}.ran")) < float(armed[1])


@pytest.mark.parametrize("command", ["deploy", "ab"])
def test_variables_that_are_texts_mean_the_same(tmp_path: Path, command: str) -> None:
    """AWX gives those of a survey as they are typed; `smt-fleet` has numbers."""
    made, kernels = measuring(tmp_path, ["lpar1", "lpar2"])
    words = {
        "deploy": ["--kernel", kernels[1].partition("=")[2]],
        "ab": [*(word for kernel in kernels for word in ("--variant", kernel)), "--boots", "2"],
    }
    in_order = ("--check", "--forks", "1")
    tomorrow = f"{datetime.now() + timedelta(days=1):%Y-%m-%dT%H:%M}"
    flow = ("--batches", "1,2", "--max-failed", "60", "--until", tomorrow, "--minutes", "30")
    code, planned = made.start(command, *words[command], *flow, "--", *in_order)
    assert code == 0, planned
    (run,) = (tmp_path / "runs").iterdir()
    given = json.loads((run / "variables.json").read_text())
    defaults = {
        name: option["default"]
        for name, option in options_of(("settings", "main"), ("fleet", "end"), (command, "main")).items()
        if option.get("type") in ("bool", "int") and "default" in option
    }
    # What follows -e wins over the variables of smt-fleet.
    texts = {name: as_text(value) for name, value in (defaults | given | made.first.variables).items()}

    result = made.first.play(f"{command}.yml", *in_order, **texts)

    assert result.code == 0, result.output
    assert result.output.strip() in planned
    assert [result.output.count(f"PLAY [{name}") for name in ("Leave hosts", "Measure variants")] == [
        2 * (command == "deploy"),
        2 * (command == "ab"),
    ]

    result = made.first.play(f"{command}.yml", **texts)

    assert result.code == 0, result.output
    for name, host in made.hosts.items():
        if command == "deploy":
            assert host.get("proc/sys/kernel/osrelease") == "6.12-patched"
        else:
            assert_back(host)
            assert [path.name for path in sorted((run / "raw" / name).iterdir())] == [
                *("01-stock.jsonl", "02-patched.jsonl", "03-patched.jsonl", "04-stock.jsonl")
            ]


def as_text(value: Any) -> Any:
    """A value as a survey gives it: choices and numbers are text, several of them a list of that."""
    if isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, list):
        return [as_text(one) for one in value]
    return value


def test_a_switch_whose_controller_is_gone_tells_how_far_it_is_and_what_it_took(tmp_path: Path) -> None:
    """The tool tells the first time after 30 s, and the one that goes on prints that."""
    pause = 40
    made = fleet(tmp_path, ["lpar1"])
    host = made.first
    host.install_ppc64_cpu(path="control", pause=pause)
    host.put("slow-timing", "")
    made.kill_once(lambda: host.has("ppc64_cpu.log"), "apply", "--level", "off")

    out, meanwhile = "", 0
    with made.begin("resume", "last") as controller:
        assert controller.stdout
        for line in controller.stdout:
            out += line
            if "[1/1]" in line and not meanwhile:
                meanwhile = len(host.online)

    assert controller.returncode == 0, out
    assert re.search(r"\[1/1\] smt=off: 5 CPUs online, 2 wanted, 3\d s so far", out)
    assert meanwhile == 5, "it comes while the switch goes on"
    assert host.get("ppc64_cpu.log").splitlines() == ["--smt=off"]
    assert made.verdicts() == {"lpar1": "ok"}
    assert pause < made.rows()["lpar1"]["switch_seconds"] < 2 * pause


def history(folder: Path, kernels: Sequence[str]) -> tuple[str, ...]:
    """The words of a regression run that keeps its history in a folder."""
    artifacts = [word for kernel in kernels for word in f"--{kernel}".split("=", 1)]
    return ("regress", *artifacts, "--dir", str(folder / "history"), "-e", "ab_iterations=1")


def test_a_history_is_kept_of_hosts_of_which_some_are_unfit(tmp_path: Path) -> None:
    """A host that is held or dead keeps none of the others from their measurement, though it is the first."""
    made, kernels = measuring(tmp_path, ["locked", "dead", "lpar1"])
    words = history(tmp_path, kernels)

    code, out = made.start(*words)

    assert code == 3, out
    assert made.verdicts() == {"locked": "unfit", "dead": "unreachable", "lpar1": "ok"}
    assert "TASK [ab : Ask the history]" in out
    runs = [json.loads(line) for line in (tmp_path / "history/history/runs.jsonl").read_text().splitlines()]
    failed = Counter((run["host"], bool(run["failed"])) for run in runs)
    assert failed == {("locked", True): 3, ("dead", True): 3, ("lpar1", False): 3}

    shutil.rmtree(tmp_path / "runs")
    made.hosts["lpar1"].put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))
    made.first.hosts.pop("dead")
    code, out = made.start(*words, "-e", "regress_run=next")

    assert code == 3, out
    assert made.verdicts() == {"locked": "unfit", "lpar1": "unfit"}
    assert "TASK [ab : Ask the history]" in out
    assert "root@desk has been using this host since" in made.rows()["lpar1"]["message"]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("command", ["ab", "regress"])
def test_a_run_whose_controller_was_killed_goes_on_with_what_is_pending(tmp_path: Path, command: str) -> None:
    """The host that was at work is rolled back first, as its lock is that of a dead run."""
    made, kernels = measuring(tmp_path, ["lpar1", "lpar2", "lpar3"])
    lpar1, lpar2, lpar3 = made.hosts.values()
    words = [word for kernel in kernels for word in ("--variant", kernel)]
    results = tmp_path / "results"
    where = ["--results", str(results)]
    if command == "regress":
        words = [word for kernel in kernels for word in f"--{kernel}".split("=", 1)]
        where = ["--dir", str(results)]

    def its_second_kernel_is_booted() -> bool:
        """There are results of the first one."""
        return lpar2.has("proc/cmdline") and "variant=patched" in lpar2.get("proc/cmdline")

    made.kill_once(its_second_kernel_is_booted, command, *words, *where, "-e", "ab_iterations=1")
    (run,) = (tmp_path / "runs").iterdir()

    code, out = made.call("status", run.name, "--format", "json")

    rows = {row["host"]: row for row in json.loads(out[out.index("{") :])["hosts"]}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "lpar1": "ok",
        "lpar2": "LEFT-CHANGED",
        "lpar3": "not-reached",
    }
    assert "its lease runs out in " in rows["lpar2"]["lock"]
    assert rows["lpar1"]["lock"] is None

    if command == "regress":
        # The next night's run, before a rollback, leaves that host as it is.
        given = (*words, *where, "-e", "ab_iterations=1", "--limit", "lpar1,lpar2")
        code, out = made.start(command, *given)
        assert code == 3, out
        (night,) = set((tmp_path / "runs").iterdir()) - {run}
        rows = json.loads((night / "summary.json").read_text())["hosts"]
        assert [row["verdict"] for row in rows] == ["ok-unchanged", "unfit"]
        runs = [json.loads(line) for line in (results / "history/runs.jsonl").read_text().splitlines()]
        kept = {(one["variant"], one["failed"] is None) for one in runs if one["host"] == "lpar2"}
        assert kept == {("stock", True), ("expedited", True), ("patched", False)}, "the dead run's are added"

    token = json.loads(lpar2.get("var/lib/hotplug-acceleration/lock.json"))["token"]
    lpar2.put(f"units-{DEFAULT_RELEASE}.json", json.dumps({"failed": ["srv.mount"]}))
    code, out = made.call("rollback", run.name, "-e", f"ab_break_lock={token}")
    assert code == 0, out
    (back,) = (tmp_path / "runs").glob("*-rollback")
    rows = json.loads((back / "summary.json").read_text())["hosts"]
    healths = {row["host"]: row["health"] for row in rows}
    assert healths == {"lpar1": None, "lpar2": "failed: srv.mount"}, "as the lock has it from before"
    done = [lpar1.commands(), sorted(results.glob("**/raw/lpar1/*"))]

    code, out = made.call("resume", run.name)

    # A history of one night is too short for a verdict, which is no failure here.
    assert code == 0, out
    assert [lpar1.commands(), sorted(results.glob("**/raw/lpar1/*"))] == done, "it is not touched again"
    expected = 4 if command == "ab" else 3
    for name, host in made.hosts.items():
        files = [path.read_text().splitlines()[-1] for path in results.glob(f"**/raw/{name}/*.jsonl")]
        assert [json.loads(line)["outcome"] for line in files] == ["complete"] * expected
        assert not host.staging.exists()
    if command == "ab":
        assert list((results / "aside-1/lpar2").iterdir()), "what the dead run measured is kept"
    rows = json.loads((run / "summary.json").read_text())["hosts"]
    assert [row["verdict"] for row in rows] == ["ok"] * 3
    assert len(lpar3.commands()) > 0


def test_costs_count_where_they_are_of_what_a_host_is(tmp_path: Path) -> None:
    """The others have the minutes that were given, which are too many here."""
    made = fleet(tmp_path, ["fits", "none", "other", "torn"])
    folder = tmp_path / "costs"
    file = costs_of(folder, "fits", DEFAULT_RELEASE, 8)
    costs_of(folder, "other", "6.4.0-vendor", 8)
    (folder / "torn.jsonl").write_text(file.read_text()[:900])
    costs = ("--costs", str(folder))

    code, out = made.start("check", "--for", "switch", *costs, "-e", "ab_switch_timeout=1")

    assert code == 0, out
    (checked,) = (tmp_path / "runs").iterdir()
    table = json.loads((checked / "preflight.json").read_text())
    rows = {row["host"]: row for row in table["hosts"]}
    by = re.escape(f"by {file}: {DEFAULT_RELEASE}, 8 CPUs")
    assert re.search(rf"smt=on \(stock\) {RANGE}, {by}", rows["fits"]["predicted"])
    # Where there are costs, the reason is beside what the fake hosts all have.
    reasons = {name: row["reasons"][-1]["text"] for name, row in rows.items()}
    assert re.fullmatch(
        rf"smt=off \(stock\) is predicted to take {RANGE}, and ab_switch_timeout ends it after 1 s"
        + re.escape(f" ({file}: {DEFAULT_RELEASE}, 8 CPUs, emulated)"),
        reasons["fits"],
    )
    assert rows["fits"]["verdict"] == "go-with-warnings"
    assert "costs" not in reasons["none"]
    wrong = f"other.jsonl has the costs of kernel 6.4.0-vendor, and the host runs {DEFAULT_RELEASE}"
    assert wrong in reasons["other"]
    assert "torn.jsonl: holds no results" in reasons["torn"]
    assert "## Predicted switches\n\n- fits: smt=off (stock)" in (checked / "preflight.md").read_text()

    window = ("--until", f"{datetime.now() + timedelta(minutes=30):%Y-%m-%dT%H:%M}", "--minutes", "60")
    apply = ("apply", "--level", "off", "--batches", "100%", *window, *costs)

    code, out = made.start(*apply)

    assert code == 7, out
    (run,) = (tmp_path / "runs").glob("*-apply")
    summary = json.loads((run / "summary.json").read_text())["hosts"]
    assert {row["host"]: row["verdict"] for row in summary} == {
        "fits": "ok",
        **dict.fromkeys(["none", "other", "torn"], "not-reached"),
    }
    flat = " ".join(out.split())
    assert re.search(rf"fits: smt=off \(expedited\) {RANGE}, by {re.escape(str(file))}", flat)
    assert f"other: no prediction: {folder}/{wrong}; measure the host" in flat
    assert f"none: no prediction: there is no {folder}/none.jsonl" in flat

    code, out = made.start(*apply[:5], *window[:2], *costs, "--limit", "none")

    assert code == 7, out
    unknown = "none: not begun, as how long it takes is not known; give fleet_host_minutes"
    assert unknown in " ".join(out.split())


def test_costs_are_held_against_the_kernels_that_are_booted(tmp_path: Path) -> None:
    made, kernels = measuring(tmp_path, ["lpar1"])
    file = costs_of(tmp_path / "costs", "lpar1", DEFAULT_RELEASE, 8)
    costs = ("--costs", str(file.parent), "--", "--check")

    code, out = made.start("deploy", "--kernel", kernels[1].partition("=")[2], *costs)

    assert code == 0, out
    assert f"lpar1: no switch, by {file}" in " ".join(out.split()), "all CPUs are online"

    code, out = made.start("ab", *(word for kernel in kernels for word in ("--variant", kernel)), *costs)

    assert code == 0, out
    assert re.search(rf"lpar1: \d+ x smt=off \(stock\) {RANGE}, \d+ x smt=on", " ".join(out.split()))

    code, out = made.start(*history(tmp_path, kernels), *costs)

    assert code == 0, out
    stock = rf"\d x smt=off \(stock\) {RANGE}, \d x smt=on \(stock\) {RANGE}"
    by_kind = rf"lpar1: {stock}, 2 x smt=off \(expedited\)"
    assert re.search(rf"{by_kind} {RANGE}", " ".join(out.split()))
