"""schedule.yml against a fake control node: units that systemd takes, and what is refused."""

from __future__ import annotations

import configparser
import subprocess

import pytest

from tests.ansible.refusals import Case, Refusals, refuse
from tests.ansible.test_ab import assert_fails
from tests.fakes.fake_lpar import BIN, REPO, FakeLpar, files_below

pytestmark = pytest.mark.timeout(300)

SERVICE, TIMER = "etc/systemd/system/hotplug-regress.service", "etc/systemd/system/hotplug-regress.timer"


@pytest.fixture
def node(host: FakeLpar) -> FakeLpar:
    """A control node with what a schedule needs."""
    become_node(host)
    return host


def become_node(host: FakeLpar) -> None:
    """Make it one, with the variables for a schedule."""
    (host.root / "etc/systemd/system").mkdir(parents=True)
    (host.work / "inventory.yml").write_text("{}")
    (host.work / "regress.json").write_text("{}")
    host.variables = {
        "schedule_host": "fake",
        "schedule_user": "root",
        "schedule_dir": str(host.work / "regress"),
        "schedule_inventory": str(host.work / "inventory.yml"),
        "schedule_vars_file": str(host.work / "regress.json"),
        "schedule_bin_dir": str(BIN),
        "schedule_unit_dir": str(host.root / "etc/systemd/system"),
    }


def unit(host: FakeLpar, path: str) -> dict[str, dict[str, str]]:
    """A unit's sections; of a setting that is there several times, the last."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(host.root / path)
    return {section: dict(parser[section]) for section in parser.sections()}


def acts(host: FakeLpar) -> list[str]:
    """What systemd was told to do."""
    words = [command[1:] for command in host.commands() if command[0] == "systemctl"]
    return [" ".join(one) for one in words if one[0] not in ("show", "is-enabled", "is-system-running")]


@pytest.mark.slow
def test_a_schedule_is_installed(node: FakeLpar) -> None:
    result = node.play("schedule.yml")

    assert result.code == 0, result.output
    assert acts(node) == ["daemon-reload", "enable hotplug-regress.timer", "start hotplug-regress.timer"]
    timer = unit(node, TIMER)
    assert timer["Timer"] == {
        "OnCalendar": "*-*-* 02:00:00",
        "RandomizedDelaySec": "30min",
        "FixedRandomDelay": "true",
        "Persistent": "false",
    }
    assert timer["Install"] == {"WantedBy": "timers.target"}
    service = unit(node, SERVICE)["Service"]
    assert (service["User"], service["SuccessExitStatus"]) == ("root", "9")
    assert service["ExecStart"].split() == [
        str(REPO / "ansible/regress.sh"),
        str(node.work / "regress"),
        "-i",
        str(node.work / "inventory.yml"),
        "-e",
        f"@{node.work / 'regress.json'}",
    ]
    assert service["ReadWritePaths"] == str(node.work / "regress")
    environment = (node.root / SERVICE).read_text()
    assert f"Environment=XDG_CACHE_HOME={node.work}/regress/cache\n" in environment, "a build needs a cache"
    assert (node.work / "regress").is_dir()
    assert "Next elapse" in result.output
    assert list((node.work / "tmp").iterdir()) == []


@pytest.mark.slow
def test_a_schedule_is_installed_once_and_removed_once(node: FakeLpar) -> None:
    assert node.play("schedule.yml").code == 0
    before = files_below(node.root)
    del before[node.root / "commands.log"]

    result = node.play("schedule.yml")

    assert result.code == 0, result.output
    assert result.changed() == 0
    assert len(acts(node)) == 3
    assert {path: text for path, text in files_below(node.root).items() if path in before} == before

    result = node.play("schedule.yml", schedule_state="absent")

    assert result.code == 0, result.output
    assert acts(node)[3:] == [
        "disable hotplug-regress.timer",
        "stop hotplug-regress.timer",
        "daemon-reload",
    ]
    assert not list((node.root / "etc/systemd/system").iterdir())
    assert (node.work / "regress").is_dir(), "the history stays"

    result = node.play("schedule.yml", schedule_state="absent")

    assert result.code == 0, result.output
    assert result.changed() == 0


@pytest.mark.slow
def test_the_units_are_ones_that_systemd_takes(node: FakeLpar) -> None:
    """By systemd-analyze of this machine, which the playbook asks, too."""
    metrics = node.work / "metrics/hotplug.prom"
    more = {"schedule_metrics": str(metrics), "schedule_name": "nightly", "schedule_until": "06:00"}
    assert node.play("schedule.yml", **more).code == 0
    units = sorted((node.root / "etc/systemd/system").iterdir())
    assert [path.name for path in units] == ["nightly.service", "nightly.timer"]

    verified = analyze("verify", "--recursive-errors=no", *map(str, units))

    assert (verified.returncode, verified.stderr) == (0, "")
    assert f"regress.sh {node.work}/regress --until 06:00 -i " in units[0].read_text()
    assert f"-e regress_metrics={metrics}" in units[0].read_text()
    assert f"ReadWritePaths={node.work}/regress {node.work}/metrics\n" in units[0].read_text()
    exposure = analyze("security", "--offline=yes", "--threshold=40", str(units[0]))
    assert exposure.returncode == 0, exposure.stdout


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_check_mode_changes_nothing_and_is_honest(node: FakeLpar) -> None:
    result = node.play("schedule.yml", "--check")

    assert result.code == 0, result.output
    assert result.changed() == 2, "the directory and the units"
    assert "hotplug-regress.timer would start a run as" in result.flat
    assert acts(node) == []
    assert not (node.work / "regress").exists()
    assert list((node.root / "etc/systemd/system").iterdir()) == []
    assert list((node.work / "tmp").iterdir()) == []
    assert node.play("schedule.yml").code == 0

    result = node.play("schedule.yml", "--check", schedule_on_calendar="Mon 03:00")

    assert result.changed() == 1
    assert unit(node, TIMER)["Timer"]["OnCalendar"] == "*-*-* 02:00:00"

    result = node.play("schedule.yml", "--check", schedule_state="absent")

    assert result.changed() == 2, "the timer and the units"
    assert (node.root / TIMER).exists()


@pytest.mark.slow
def test_without_systemd_there_is_no_schedule(node: FakeLpar) -> None:
    (node.root / "bin/systemctl").write_text("#!/bin/sh\necho offline; exit 1\n")

    assert_fails(node.play("schedule.yml"), "systemd does not run here, it reports 'offline'")
    assert not list((node.root / "etc/systemd/system").iterdir())


@pytest.mark.slow
def test_units_that_systemd_refuses_are_not_installed(node: FakeLpar) -> None:
    wrapper = node.root / "bin/systemd-analyze"
    wrapper.write_text(
        "#!/bin/sh\n"
        '[ "$1" != verify ] || sed -i s/oneshot/oneshoot/ "$3"\n'
        'exec /usr/bin/systemd-analyze "$@"\n'
    )
    wrapper.chmod(0o755)

    assert_fails(node.play("schedule.yml"), "systemd refuses the units:", "oneshoot", "nothing was installed")
    assert not list((node.root / "etc/systemd/system").iterdir())
    assert list((node.work / "tmp").iterdir()) == []


REFUSED = [
    Case(
        "lacking",
        [
            "there is no user nobody_at_all",
            "/nowhere/bin/ansible-playbook, /nowhere/bin/hotplug-timer, /nowhere/vars.json: not there",
            "schedule_on_calendar: Failed to parse calendar specification '*-*-* 25:00'",
            "schedule_randomized_delay: Failed to parse time span '30 parsecs'",
        ],
        {
            "schedule_user": "nobody_at_all",
            "schedule_vars_file": "/nowhere/vars.json",
            "schedule_bin_dir": "/nowhere/bin",
            "schedule_on_calendar": "*-*-* 25:00",
            "schedule_randomized_delay": "30 parsecs",
        },
    ),
    Case(
        "variables",
        [
            "schedule_name is 'a/b'",
            "schedule_user is ''; name the user that has the ssh keys",
            "schedule_until is '6 am'; give a time of the day as 06:00",
            "schedule_dir, schedule_inventory: not what goes into a unit; give absolute paths",
        ],
        {
            "schedule_user": "",
            "schedule_dir": "regress",
            "schedule_inventory": "/a b",
            "schedule_name": "a/b",
            "schedule_until": "6 am",
        },
    ),
]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    """One run that refuses all control nodes."""
    work = tmp_path_factory.mktemp("refusals")
    return refuse(work, "schedule.yml", REFUSED, become_node, schedule_host="smt_hosts")


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_is_refused(refusals: Refusals, case: Case) -> None:
    """All that is wrong is named at once, and no unit is written."""
    refusals.check(case)
