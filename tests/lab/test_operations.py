"""The playbooks for production hosts, over ssh, against a small POWER guest."""

import json

import pytest

from tests.lab.labtools import Lab

# The stock kernel and the base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(2700)]

GUEST = "operated"
SHAPE = ("--cores", "2", "--threads", "2")


@pytest.fixture(scope="module")
def guest(lab: Lab) -> str:
    """A running guest of 2 cores x SMT2."""
    lab.must("up", GUEST, *SHAPE, timeout=2400)
    return GUEST


def online(lab: Lab) -> str:
    asked = (
        "cat /sys/devices/system/cpu/online /sys/kernel/rcu_expedited;"
        " ls /var/lib/hotplug-acceleration 2>/dev/null || true"
    )
    return " ".join(lab.must("ssh", GUEST, "--", asked, timeout=300).split())


def test_preflight_knows_an_lpar(guest: str, lab: Lab) -> None:
    output = lab.folder / "preflight"
    done = lab.play(
        "preflight.yml", guest, {"preflight_purpose": "time", "preflight_output_dir": str(output)}
    )
    assert done.returncode == 0, done.stdout[-4000:]
    (row,) = json.loads((output / "preflight.json").read_text())["hosts"]
    facts = row["facts"]
    assert (row["host"], row["verdict"].startswith("go")) == (guest, True)
    assert (facts["machine"], facts["cpus"]["secondary"]) == ("ppc64le", "1,3")
    assert facts["cpus"]["threads_per_core"] == 2
    assert facts["platform"]["hypervisor"] == "PowerVM or compatible"
    assert facts["ppc64_cpu"]["switches_by"] in ("smt/control", "cpuN/online")
    assert facts["ppc64_cpu"]["version"]
    assert facts["workloads"]["confined"] == []
    assert online(lab) == "0-3 0"


def test_the_running_kernel_is_timed_and_the_guest_as_it_was(guest: str, lab: Lab) -> None:
    results = lab.folder / "timing"
    done = lab.play("time.yml", guest, {"ab_iterations": 1, "ab_settle": 0, "ab_results_dir": str(results)})
    assert done.returncode == 0, done.stdout[-4000:]
    (file,) = (results / "raw" / guest).iterdir()
    records = [json.loads(line) for line in file.read_text().splitlines()]
    timed = [record for record in records if record.get("phase") == "timed"]
    assert [(record["operation"], record["status"]) for record in timed] == [
        ("smt=off", "ok"),
        ("smt=on", "ok"),
    ]
    assert (results / "report" / guest / "report.html").exists()
    assert online(lab) == "0-3 0"


def test_a_switch_is_done_once(guest: str, lab: Lab) -> None:
    for said in ("CPUs online after", "CPUs online as it is"):
        done = lab.play("apply.yml", guest, {"smt_switch_level": "off"})
        assert done.returncode == 0, done.stdout[-4000:]
        assert f"{guest}: smt=off: 2 of 4 {said}" in " ".join(done.stdout.split())
    assert online(lab) == "0,2 0 applied.json placement.json"
    done = lab.play("rollback.yml", guest, {})
    assert done.returncode == 0, done.stdout[-4000:]
    assert online(lab) == "0-3 0"
