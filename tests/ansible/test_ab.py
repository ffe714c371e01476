"""Whole runs of ab.yml and rollback.yml against the fake host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.refusals import Case, Refusals, refuse
from tests.fakes.fake_lpar import ANSIBLE, DEFAULT_CMDLINE, DEFAULT_RELEASE, NOWHERE, FakeLpar, PlayResult

#: What the others begin with is no playbook of its own.
ALL_PLAYBOOKS = sorted(
    path.name for path in (ANSIBLE / "playbooks").glob("*.yml") if path.name != "have_hosts.yml"
)
# Modules are started, each in a Python of its own.
pytestmark = pytest.mark.timeout(600)

ONLINE = "sys/devices/system/cpu/online"
OWNER = {"owner": "root@desk", "started": "2026-11-20T08:00:00Z", "token": "t"}


def assert_back(host: FakeLpar) -> None:
    """The host runs its default kernel, and nothing of the run is left on it."""
    assert host.get("proc/sys/kernel/osrelease") == DEFAULT_RELEASE
    assert host.get("proc/cmdline") == DEFAULT_CMDLINE
    assert host.get("sys/kernel/kexec_loaded") == "0"
    assert not host.staging.exists()
    assert not [path for path in (host.root / "etc").glob("systemd/system/**/*") if "fallback" in path.name]


def assert_fails(result: PlayResult, *messages: str) -> None:
    assert result.code == 2, result.output
    for message in messages:
        assert message in result.flat, result.output


def secure_boot(host: FakeLpar) -> None:
    """Enforce a static secure boot, as firmware of POWER tells it."""
    told = host.root / "proc/device-tree/ibm,secure-boot"
    told.parent.mkdir(parents=True)
    told.write_bytes(b"\0\0\0\2")


def loads(host: FakeLpar) -> list[str]:
    """The command line of every kernel that was loaded, in order."""
    loading = [command for command in host.commands() if command[:2] == ["kexec", "--load"]]
    return [option for command in loading for option in command if option.startswith("--command-line=")]


@pytest.mark.slow
def test_each_kernel_is_booted_and_timed_and_the_host_ends_as_it_was(host: FakeLpar) -> None:
    """In the short form: once each, with an initial RAM disk, whose emergency shell nothing would leave."""
    initrd = host.work / "initrd.img"
    initrd.touch()

    result = host.play("ab.yml", ab_once=True, ab_initrd=str(initrd))

    assert result.code == 0, result.output
    assert loads(host) == [
        f"--command-line={DEFAULT_CMDLINE} panic=10 rd.shell=0 rd.emergency=reboot"
        f" hotplug_acceleration.variant={name}"
        for name in ("stock", "patched")
    ]
    files = sorted((host.results / "raw/fake").iterdir())
    assert [file.name for file in files] == ["01-stock.jsonl", "02-patched.jsonl"]
    runs = [json.loads(file.read_text().splitlines()[0]) for file in files]
    assert [run["host"]["kernel_release"] for run in runs] == ["6.12-stock", "6.12-patched"]
    units = [words for words in host.commands() if "--unit=hotplug-acceleration-timing" in words]
    signs = [word for words in units for word in words if word.startswith("--setenv=HOTPLUG_RUN=")]
    assert len(signs) == 2, "what times renews the lease of the run"
    assert all(sign.endswith(f":{host.staging}/lock.json") for sign in signs)
    assert_back(host)


@pytest.mark.slow
def test_kernels_take_turns_and_the_host_ends_as_it_was(host: FakeLpar) -> None:
    host.put("sys/devices/system/cpu/smt/control", "off")
    host.put("sys/devices/system/cpu/online", "0,8")
    host.put("slow-timing", "")

    result = host.play("ab.yml")

    assert result.code == 0, result.output
    order = ["stock", "patched", "patched", "stock"]
    assert loads(host) == [
        f"--command-line={DEFAULT_CMDLINE} panic=10 hotplug_acceleration.variant={name}" for name in order
    ]
    files = sorted((host.results / "raw/fake").iterdir())
    assert [file.name for file in files] == [f"{n:02}-{name}.jsonl" for n, name in enumerate(order, start=1)]
    runs = [json.loads(file.read_text().splitlines()[0]) for file in files]
    assert [run["host"]["kernel_release"] for run in runs] == [f"6.12-{name}" for name in order]
    assert [run["detail"]["count_iterations"] for run in runs] == [1, 1, 0, 0]
    assert str(host.results / "raw/fake") in result.flat
    assert host.get("sys/devices/system/cpu/smt/control") == "off"
    waiting = [json.loads(line) for line in host.get("waiting.log").splitlines()]
    assert waiting == [["hotplug-acceleration-fallback.timer"] * 2] * 4, "no boot without a way back"
    asked = [words[1:] for words in host.commands() if words[0].endswith("systemctl")]
    assert asked.count(["daemon-reload"]) == 1, "what is stopped on each boot is taken away at the end"
    assert asked.count(["stop", "hotplug-acceleration-fallback.timer"]) >= len(order)
    assert_back(host)


INSTALLED = "6.12-smt-patched"
AS_INSTALLED = [{"name": "debian", "release": "running"}, {"name": "patched", "release": INSTALLED}]


@pytest.mark.slow
def test_installed_kernels_are_booted_by_the_boot_loader(host: FakeLpar) -> None:
    """The baseline is the kernel that the host runs, and kexec is not needed."""
    host.debian(INSTALLED)
    host.put("proc/sys/kernel/kexec_load_disabled", "1")

    result = host.play("ab.yml", ab_variants=AS_INSTALLED)

    assert result.code == 0, result.output
    files = sorted((host.results / "raw/fake").iterdir())
    names = ["debian", "patched", "patched", "debian"]
    assert [file.name for file in files] == [f"{n:02}-{name}.jsonl" for n, name in enumerate(names, start=1)]
    runs = [json.loads(file.read_text().splitlines()[0]) for file in files]
    releases = {"debian": DEFAULT_RELEASE, "patched": INSTALLED}
    assert [run["host"]["kernel_release"] for run in runs] == [releases[name] for name in names]
    assert {run["host"]["boot_method"] for run in runs} == {"firmware"}
    waiting = [json.loads(line) for line in host.get("waiting.log").splitlines()]
    assert waiting[:4] == [["hotplug-acceleration-fallback.timer"] * 2] * 4, "no boot without a way back"
    assert not loads(host)
    assert not json.loads(host.get("grubenv.json")).get("next_entry")
    assert_back(host)


@pytest.mark.slow
def test_a_boot_loader_that_would_boot_a_kernel_again_is_not_trusted(host: FakeLpar) -> None:
    host.debian(INSTALLED)
    host.put("fault", "entry-kept")

    result = host.play("ab.yml", ab_variants=AS_INSTALLED)

    assert_fails(result, f"GRUB has booted {DEFAULT_RELEASE} and not cleared next_entry", "name an artefact")
    assert "next_entry" not in json.loads(host.get("grubenv.json"))
    assert_back(host)


@pytest.mark.slow
@pytest.mark.parametrize("action", ["ab", "rollback"])
def test_a_lost_run_of_an_installed_kernel_is_rolled_back(host: FakeLpar, action: str) -> None:
    """Nothing on its command line tells it from a default kernel: the lock does."""
    host.debian(INSTALLED)
    host.put("proc/sys/kernel/osrelease", INSTALLED)
    record = {"release": DEFAULT_RELEASE, "variant": "", "smt_level": "on", "online": host.get(ONLINE)}
    trials = {"trials": [DEFAULT_RELEASE, INSTALLED]}
    host.put("var/lib/hotplug-acceleration/lock.json", json.dumps({**OWNER, "default": record | trials}))
    host.put("grubenv.json", json.dumps({"next_entry": INSTALLED}))
    if action == "ab":
        assert_fails(host.play("ab.yml", ab_variants=AS_INSTALLED), "root@desk has been using this host")
        return

    result = host.play("rollback.yml", ab_break_lock=True)

    assert result.code == 0, result.output
    assert_back(host)


@pytest.mark.slow
def test_a_run_of_installed_kernels_begins_on_the_default_one(host: FakeLpar) -> None:
    host.debian(INSTALLED)
    host.put("proc/sys/kernel/osrelease", INSTALLED)

    result = host.play("ab.yml", ab_variants=AS_INSTALLED)

    assert_fails(result, f"GRUB boots {DEFAULT_RELEASE} by default and {INSTALLED} runs")
    assert not host.staging.exists()


@pytest.mark.slow
def test_check_mode_changes_nothing_and_says_what_a_run_would_do(host: FakeLpar) -> None:
    before = {path: path.read_bytes() for path in host.root.rglob("*") if path.is_file()}
    # All that the timer takes.
    operations = ["smt=off", "smt=4@60", "cores-on=1", "cores-on=all", "cpus=1-7,9", "cpus=3:off@2.5"]

    result = host.play("ab.yml", "--check", ab_operations=operations)

    assert result.code == 0, result.output
    assert "would measure stock, patched, patched, stock, 2 iterations" in result.flat
    assert f"2 iterations of {' '.join(operations)} each" in result.flat
    assert "nothing was changed" in result.flat
    assert {path: path.read_bytes() for path in host.root.rglob("*") if path.is_file()} == before
    assert not host.results.exists()


def variants(host: FakeLpar) -> list[dict[str, str]]:
    found: list[dict[str, str]] = host.variables["ab_variants"]
    return found


def bad_names(host: FakeLpar) -> dict[str, Any]:
    stock = variants(host)[0]
    both = {"name": "both", "artifact": stock["artifact"], "release": "running"}
    return {"ab_variants": [stock, stock, {"name": "a b", "artifact": stock["artifact"]}, both]}


def one_variant(host: FakeLpar) -> dict[str, Any]:
    return {"ab_variants": variants(host)[:1]}


def earlier_results(host: FakeLpar) -> None:
    earlier = host.results / "raw/earlier/01-stock.jsonl"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("precious")


def no_artifact(host: FakeLpar) -> None:
    Path(variants(host)[1]["artifact"]).unlink()


def no_json(host: FakeLpar) -> None:
    Path(variants(host)[1]["artifact"]).write_text("ELF")


def another_schema(host: FakeLpar) -> None:
    Path(variants(host)[1]["artifact"]).write_text('{"schema": "lpar-lab/kernel/9"}')


def another_machine(host: FakeLpar) -> None:
    host.artifact("patched", arch="s390x", sha256="0" * 64)


def unfit(host: FakeLpar) -> None:
    host.put("proc/sys/kernel/kexec_load_disabled", "1")
    host.put("sys/kernel/kexec_loaded", "1")
    host.put("sys/kernel/security/lockdown", "none [integrity] confidentiality")
    host.put("sys/devices/system/cpu/smt/control", "notsupported")


def on_a_trial_kernel(host: FakeLpar) -> None:
    host.put("proc/cmdline", f"{DEFAULT_CMDLINE} hotplug_acceleration.variant=patched")


def held(host: FakeLpar) -> None:
    host.put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))


def switched_clocksource(host: FakeLpar) -> None:
    boot_id = host.get("proc/sys/kernel/random/boot_id")
    found = {"before": "tsc", "applied": "hpet", "boot_id": boot_id, "owner": "root@desk"}
    host.put("var/lib/hotplug-acceleration/clocksource.json", json.dumps(found))


def installed_on_secure_boot(host: FakeLpar) -> dict[str, Any]:
    host.debian(INSTALLED)
    secure_boot(host)
    return {"ab_variants": AS_INSTALLED}


ARTIFACT = "variant 'patched': {work}/artifacts/patched/artifact.json "
REFUSED = [
    Case(
        "variables",
        [
            "twice the same",
            "'a b', which cannot go on a kernel command line",
            "variant 'both' has not one of artifact and release",
            "ab_iterations is 0; ask for at least 1",
            "ab_repeat is 0",
            'ab_operations is ["smt=off", "smt=half", "cpus=1-", "cores-on=0"]; use a list of smt=off|on|K,',
            "ab_results_dir is 'results'; give an absolute path",
            "ab_timer_bundle is /nowhere/t.pyz, which does not exist",
        ],
        {
            "ab_iterations": 0,
            "ab_repeat": 0,
            "ab_operations": ["smt=off", "smt=half", "cpus=1-", "cores-on=0"],
            "ab_results_dir": "results",
            "ab_timer_bundle": "/nowhere/t.pyz",
        },
        bad_names,
    ),
    Case(
        "alone",
        ["ab_variants names 1 variants; name two or more, first the one to compare with"],
        prepare=one_variant,
    ),
    Case(
        "earlier",
        ["{work}/results/raw/earlier holds the results of an earlier run"],
        prepare=earlier_results,
    ),
    Case(
        "missing",
        [f"{ARTIFACT}does not exist on the controller; make it with lpar-lab build-kernel"],
        prepare=no_artifact,
    ),
    Case("elf", [f"{ARTIFACT}is not JSON"], prepare=no_json),
    Case(
        "schema",
        [f"{ARTIFACT}does not describe a kernel of schema lpar-lab/kernel/1"],
        prepare=another_schema,
    ),
    Case(
        "s390x",
        ["variant 'patched'", "has SHA-256", "not " + "0" * 64, "it is built for s390x"],
        prepare=another_machine,
    ),
    Case(
        "unfit",
        [
            "kexec is disabled until the next boot; find what sets kernel.kexec_load_disabled",
            "somebody has loaded a kernel for kexec already",
            "locked down (integrity)",
            "set ab_kexec_file_load=true",
            "SMT cannot be switched here, its state is 'notsupported'",
            "the initial RAM disk /boot/none.img is not on the host",
        ],
        {"ab_initrd": "/boot/none.img"},
        unfit,
    ),
    Case(
        "trial",
        [
            "left over from a run that tried variant 'patched'",
            f"{ANSIBLE / 'playbooks/rollback.yml'} --limit trial",
        ],
        prepare=on_a_trial_kernel,
    ),
    Case(
        "held",
        ["root@desk has been using this host since 2026-11-20T08:00:00Z", "ab_break_lock=t"],
        prepare=held,
    ),
    Case(
        "clocksource",
        [
            "clocks.yml has switched the clocksource from tsc to hpet, which no boot keeps; put it back with"
            " playbooks/clocks.yml -e clocks_restore=true"
        ],
        prepare=switched_clocksource,
    ),
    Case(
        "secure",
        [f"secure boot is on, and /boot/vmlinux-{INSTALLED} has no signature; sign the image with a key"],
        prepare=installed_on_secure_boot,
    ),
]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    """One run that refuses all hosts."""
    work = tmp_path_factory.mktemp("refusals")
    return refuse(work, "ab.yml", REFUSED, ab_serial="100%", ab_max_fail_percentage=100)


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_is_refused(refusals: Refusals, case: Case) -> None:
    """Each problem is named, with its next step, and neither the host nor earlier results are touched."""
    refusals.check(case)


@pytest.mark.slow
def test_a_kernel_that_forbids_expediting_is_no_such_variant(host: FakeLpar) -> None:
    stock, _ = host.variables["ab_variants"]
    host.put("sys/kernel/rcu_normal", "1")

    result = host.play("ab.yml", ab_variants=[stock, {**stock, "name": "expedited", "rcu_expedited": True}])

    assert_fails(result, "rcu_expedited could not be set to 1", "forbids expedited grace periods")
    assert_back(host)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("load-refused", "was never loaded: kexec --load"),
        ("load-ignored", "was never loaded: kexec reported success but /sys/kernel/kexec_loaded is 0"),
        ("jump-ignored", "the host never went down"),
    ],
)
def test_a_boot_that_goes_wrong_is_named_and_undone(host: FakeLpar, fault: str, message: str) -> None:
    host.put("fault", fault)

    result = host.play("ab.yml")

    assert_fails(result, message, f"The host is back on {DEFAULT_RELEASE} with SMT as it was")
    assert not list((host.results / "raw/fake").iterdir())
    assert ["kexec", "-u"] in host.commands()
    assert_back(host)


@pytest.mark.slow
def test_the_surprising_kernel_is_named(host: FakeLpar) -> None:
    host.artifact("stock", boots="6.12-old-stock")

    result = host.play("ab.yml")

    assert_fails(result, "wanted 6.12-stock with stock variant, found 6.12-old-stock with stock variant")
    assert_back(host)


@pytest.mark.slow
def test_a_failed_timing_keeps_its_results_and_says_why(host: FakeLpar) -> None:
    host.put("timer-fault", "fails")

    result = host.play("ab.yml")

    assert_fails(result, "variant 'stock' did not complete (outcome 'failed'", "smt=off left CPUs 3,5 online")
    kept = (host.results / "raw/fake/01-stock.jsonl").read_text().splitlines()
    assert json.loads(kept[-1])["outcome"] == "failed"
    assert_back(host)


@pytest.mark.slow
def test_a_timing_that_never_starts_says_why(host: FakeLpar) -> None:
    host.put("timer-fault", "refuses")

    assert_fails(
        host.play("ab.yml"), "left no results", "SMT=3 is not a level of this machine; use 1, 2, 4 or 8"
    )
    assert_back(host)


@pytest.mark.slow
def test_a_host_that_cannot_be_restored_is_shouted_about_and_rollback_brings_it_back(host: FakeLpar) -> None:
    host.put("fault", "reboot-ignored")
    host.put("timer-fault", "fails")

    result = host.play("ab.yml")

    assert_fails(
        result,
        "THE HOST WAS LEFT CHANGED",
        "the host never went down",
        "rollback.yml --limit fake -e ab_break_lock=true",
        "smt=off left CPUs 3,5 online",
    )
    assert host.get("proc/cmdline").endswith("hotplug_acceleration.variant=stock")
    (host.root / "fault").unlink()

    token = json.loads((host.staging / "lock.json").read_text())["token"]
    assert_fails(
        host.play("rollback.yml"),
        "its lease runs out in ",
        f"make sure that this run is gone, then add -e ab_break_lock={token}",
    )
    assert host.get("proc/cmdline").endswith("hotplug_acceleration.variant=stock")

    result = host.play("rollback.yml", ab_break_lock=True)
    assert result.code == 0, result.output
    assert f"fake runs its default kernel {DEFAULT_RELEASE}" in result.flat
    assert_back(host)


@pytest.mark.slow
def test_rollback_saves_what_was_measured_and_leaves_what_was_fetched(host: FakeLpar) -> None:
    results = host.results / "raw/fake"
    results.mkdir(parents=True)
    (results / "01-stock.jsonl").write_text("fetched")
    record = {"release": DEFAULT_RELEASE, "boot_id": "b", "cmdline": DEFAULT_CMDLINE}
    record |= {"smt_level": "on", "online": "0-15"}
    host.put(
        "var/lib/hotplug-acceleration/lock.json",
        json.dumps(OWNER | {"results": str(results), "default": record}),
    )
    host.put("var/lib/hotplug-acceleration/stage/timing/01-stock.jsonl", "older")
    host.put("var/lib/hotplug-acceleration/stage/timing/02-patched.jsonl", "measured")
    host.put("proc/cmdline", f"{DEFAULT_CMDLINE} hotplug_acceleration.variant=patched")

    result = host.play("rollback.yml", ab_break_lock=True)

    assert result.code == 0, result.output
    assert {file.name: file.read_text() for file in results.iterdir()} == {
        "01-stock.jsonl": "fetched",
        "02-patched.jsonl": "measured\n",
    }
    assert_back(host)


@pytest.mark.slow
def test_rollback_needs_no_lock_to_bring_a_host_back(host: FakeLpar) -> None:
    host.put("proc/cmdline", f"{DEFAULT_CMDLINE} hotplug_acceleration.variant=patched")

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert_back(host)


@pytest.mark.slow
def test_rollback_ends_where_an_update_replaced_the_default_kernel(host: FakeLpar) -> None:
    """One reboot, into what the boot loader names as default now; the second rollback changes nothing."""
    record = {"release": DEFAULT_RELEASE, "boot_id": "b", "cmdline": DEFAULT_CMDLINE}
    record |= {"smt_level": "on", "online": "0-15", "present": "0-15"}
    host.put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER | {"default": record}))
    host.put("proc/cmdline", f"{DEFAULT_CMDLINE} hotplug_acceleration.variant=patched")
    host.put("default.json", json.dumps({"release": "6.12-updated", "cmdline": DEFAULT_CMDLINE}))

    result = host.play("rollback.yml", ab_break_lock=True)

    assert result.code == 0, result.output
    assert f"the default kernel is 6.12-updated now and was {DEFAULT_RELEASE} before the run" in result.flat
    assert "fake runs its default kernel 6.12-updated" in result.flat
    reboots = [command for command in host.commands() if "reboot" in command]
    assert len(reboots) == 1
    assert not host.staging.exists()

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert result.changed() == 0
    assert [command for command in host.commands() if "reboot" in command] == reboots


@pytest.mark.slow
def test_rollback_of_installed_kernels_ends_where_an_update_replaced_the_default_one(host: FakeLpar) -> None:
    """By what the boot loader names; what comes up instead of that is refused."""
    record: dict[str, Any] = {"release": DEFAULT_RELEASE, "boot_id": "b", "cmdline": DEFAULT_CMDLINE}
    record |= {
        "variant": "",
        "smt_level": "on",
        "online": "0-15",
        "present": "0-15",
        "trials": [DEFAULT_RELEASE, INSTALLED],
    }
    host.debian(INSTALLED, "6.12-updated")
    host.put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER | {"default": record}))
    host.put("proc/sys/kernel/osrelease", INSTALLED)
    host.put("grubenv.json", json.dumps({"saved_entry": "6.12-updated"}))
    host.put("boot/vmlinux-6.12-updated", "6.12-another")

    assert_fails(
        host.play("rollback.yml", ab_break_lock=True),
        "came back with another kernel: the boot loader names 6.12-updated as default, found 6.12-another",
    )
    host.put("boot/vmlinux-6.12-updated", "6.12-updated")
    host.put("proc/sys/kernel/osrelease", INSTALLED)

    result = host.play("rollback.yml", ab_break_lock=True)

    assert result.code == 0, result.output
    assert f"the default kernel is 6.12-updated now and was {DEFAULT_RELEASE} before the run" in result.flat
    assert "fake runs its default kernel 6.12-updated" in result.flat
    assert len([command for command in host.commands() if "reboot" in command]) == 2
    assert not host.staging.exists()


@pytest.mark.slow
def test_rollback_leaves_a_kexec_image_that_is_not_ours(host: FakeLpar) -> None:
    host.put("sys/kernel/kexec_loaded", "1")

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert result.changed() == 0
    assert host.get("sys/kernel/kexec_loaded") == "1"


@pytest.mark.slow
def test_rollback_brings_back_the_hosts_beside_a_dead_and_a_locked_one(host: FakeLpar) -> None:
    trial = f"{DEFAULT_CMDLINE} hotplug_acceleration.variant=patched"
    own = {name: host.variables.pop(name) for name in ("hotplug_sysroot", "ab_staging_dir")}
    last = host.hosts.pop("fake") | own
    locked = host.beside("locked")
    locked.put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))
    host.hosts = {"dead": NOWHERE, **host.hosts, "last": last}
    for one in (host, locked):
        one.put("proc/cmdline", trial)

    result = host.play("rollback.yml", ab_break_lock=True)

    assert result.code == 2, result.output
    assert "are back: last; not back: dead locked" in result.flat
    assert "dead: the state of the host cannot be read" in result.failures["dead"]
    assert "root@desk has been using this host since" in result.failures["locked"]
    assert " days ago; make sure that this run is gone" in result.failures["locked"]
    assert host.get("proc/cmdline") == DEFAULT_CMDLINE
    assert locked.get("proc/cmdline") == trial, "true breaks no lock among several hosts"


@pytest.mark.slow
def test_rollback_in_check_mode_changes_nothing(host: FakeLpar) -> None:
    host.put("proc/cmdline", f"{DEFAULT_CMDLINE} hotplug_acceleration.variant=patched")

    result = host.play("rollback.yml", "--check")

    assert result.code == 0, result.output
    assert "nothing was changed" in result.flat
    assert not host.commands()


def test_an_inventory_without_hosts_is_an_error(host: FakeLpar) -> None:
    host.hosts = {}

    result = host.play("ab.yml")

    assert_fails(result, "the inventory has no host in the group smt_hosts")
    assert "Measure variants against each other" not in result.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--limit", "builder"), "--limit leaves none of the group smt_hosts: it names builder"),
        (("--tags", "nonsense"), "--skip-tags canary is the only choice of tags"),
        (("--tags", "canary"), "to change the first host alone, use --limit"),
        (("--tags", "report,rollback"), "use rollback.yml; to see what a run came to, use smt-fleet report"),
        (("--skip-tags", "verify"), "leave out verify; to look at hosts after a change, use preflight.yml"),
    ],
)
def test_a_run_that_acts_on_no_host_is_an_error(
    host: FakeLpar, arguments: tuple[str, str], problem: str
) -> None:
    host.others = {"builder": {"ansible_connection": "local"}}

    assert_fails(host.play("rollback.yml", *arguments), problem)

    assert not host.commands()


def test_an_ansible_that_is_too_old_is_named(host: FakeLpar) -> None:
    result = host.play("preflight.yml", have_hosts_least="99.1")

    assert_fails(result, "this is ansible-core 2.", "and 99.1 or later is needed; run make setup")


@pytest.mark.parametrize("playbook", ["schedule", "build"])
def test_a_run_on_another_host_than_those_of_the_group_looks_for_it(host: FakeLpar, playbook: str) -> None:
    host.others = {"builder": {"ansible_connection": "local"}}

    result = host.play(f"{playbook}.yml", "--limit", "fake")

    assert_fails(result, "--limit leaves none of localhost: it names fake; name hosts of localhost, or")

    result = host.play(f"{playbook}.yml", "--limit", "fake", **{f"{playbook}_host": "builder"})

    assert_fails(result, "--limit leaves none of builder: it names fake")

    result = host.play(f"{playbook}.yml", **{f"{playbook}_host": "nowhere"})

    assert_fails(result, "the inventory has no host in nowhere")

    result = host.play(f"{playbook}.yml", **{f"{playbook}_host": "builder"})

    assert_fails(result, "Validating arguments against arg spec")
    assert "[builder]" in result.output.partition("Begin with the first batch")[2]


@pytest.mark.parametrize("playbook", ALL_PLAYBOOKS)
def test_every_playbook_looks_for_hosts_first(playbook: str) -> None:
    """By have_hosts.yml, of which the tests before show what comes of it."""

    def looks(name: str) -> bool:
        (first, *_) = yaml.safe_load((ANSIBLE / "playbooks" / name).read_text())
        imported = first.get("ansible.builtin.import_playbook", "")
        return imported == "have_hosts.yml" or (imported != "" and looks(imported))

    assert looks(playbook)


def test_syntax(host: FakeLpar) -> None:
    result = host.play(" ".join(ALL_PLAYBOOKS), "--syntax-check")

    assert result.code == 0, result.output
    assert result.output.count("playbook: ") == len(ALL_PLAYBOOKS)
