"""Whole runs of deploy.yml, and of what goes on after it, against the fake host."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.ansible.refusals import Case, Refusals, refuse
from tests.ansible.test_ab import OWNER, assert_back, assert_fails, loads, secure_boot
from tests.fakes.fake_lpar import DEFAULT_CMDLINE, DEFAULT_RELEASE, FakeLpar, PlayResult, files_below

# Modules are started, each in a Python of its own.
pytestmark = pytest.mark.timeout(600)

RELEASE = "6.12-patched"
FOLDER = f"boot/hotplug-acceleration/{RELEASE}"
DISTRIBUTIONS = {
    "debian": ('ID=ubuntu\nID_LIKE="debian"\n', "grub", "deb"),
    "redhat": ('ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="10.0"\n', "grub2", "rpm"),
    "suse": ('ID="sles"\nID_LIKE="suse"\nVERSION_ID="15.6"\n', "grub2", "rpm"),
}
#: What each family's host is told to, in order, when a kernel is booted one time and then rolled back.
INSTALLED = f"/var/lib/hotplug-acceleration/stage/patched/linux-hotplug-acceleration-{RELEASE}.pkg"
ENTRY, IMAGE = f"hotplug-acceleration-{RELEASE}", f"/{FOLDER}/vmlinux"
CHANGES = {
    "debian": [
        f"dpkg --install {INSTALLED}",
        f"grub-reboot {ENTRY}",
        "systemctl --no-block reboot",
        "grub-editenv - unset next_entry",
        f"dpkg --purge linux-{ENTRY}",
        "systemctl --no-block reboot",
    ],
    "redhat": [
        f"rpm --install --oldpackage {INSTALLED}",
        f"grubby --add-kernel={IMAGE} --title={ENTRY} --copy-default"
        " --args=panic=10 hotplug_acceleration.variant=patched",
        f"grub2-reboot machine-{RELEASE}",
        "systemctl --no-block reboot",
        "grub2-editenv - unset next_entry",
        f"grubby --remove-kernel={IMAGE}",
        f"rpm --erase linux-{ENTRY}",
        "systemctl --no-block reboot",
    ],
    "suse": [
        f"rpm --install --oldpackage {INSTALLED}",
        f"grub2-reboot {ENTRY}",
        "systemctl --no-block reboot",
        "grub2-editenv - unset next_entry",
        f"rpm --erase linux-{ENTRY}",
        "systemctl --no-block reboot",
    ],
}
ASKING = (
    *("--show", "--query", "list", "--default-kernel", "--info", "--target", "/boot"),
    "is-system-running",
)


def deploy(host: FakeLpar, artifact: Path, *arguments: str, **variables: Any) -> PlayResult:
    host.variables.pop("ab_variants", None)
    return host.play("deploy.yml", *arguments, deploy_artifact=str(artifact), **variables)


def changes(host: FakeLpar) -> list[str]:
    """The commands that changed the host's packages, boot loader or kernel, without the root of the fake."""
    lines = [" ".join(command).replace(str(host.root), "") for command in host.commands()]
    asked = [line for line in lines if line.split()[1].startswith(ASKING) or line.split()[-1] == "list"]
    own = ("hotplug-acceleration-timing", "hotplug-acceleration-fallback", "daemon-reload")
    return [line for line in lines if line not in asked and not any(word in line for word in own)]


@pytest.mark.slow
def test_a_kernel_is_deployed_and_rolled_back(host: FakeLpar) -> None:
    result = deploy(host, host.packed("patched"))

    assert result.code == 0, result.output
    assert f"fake runs {RELEASE}, proven by its boot_id" in result.flat
    assert host.get("proc/sys/kernel/osrelease") == RELEASE
    assert [path.name for path in host.staging.iterdir()] == ["deployed.json"]

    host.put(f"units-{DEFAULT_RELEASE}.json", json.dumps({"failed": ["srv.mount"]}))
    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    # Held against what the deployment has of the host.
    assert "fake: the host does worse than before the run: failed: srv.mount; look at it" in result.flat
    assert_back(host)


@pytest.mark.slow
def test_a_kernel_is_left_running_until_it_is_rolled_back(host: FakeLpar) -> None:
    host.put("sys/devices/system/cpu/smt/control", "off")
    host.put("sys/devices/system/cpu/online", "0,8")
    artifact = host.packed("patched")
    before = files_below(host.root)

    result = deploy(host, artifact, "--check", "--diff")

    assert result.code == 0, result.output
    assert f"would start {RELEASE} with boot=kexec, from {DEFAULT_RELEASE}" in result.flat
    assert result.changed() == 1
    assert files_below(host.root) == before

    result = deploy(host, artifact, deploy_append="nosmt=no")

    assert result.code == 0, result.output
    assert f"fake runs {RELEASE}, proven by its boot_id" in result.flat
    assert loads(host) == [
        f"--command-line={DEFAULT_CMDLINE} panic=10 nosmt=no hotplug_acceleration.variant=patched"
    ]
    assert host.get("sys/devices/system/cpu/online") == "0,8"
    assert [path.name for path in host.staging.iterdir()] == ["deployed.json"]
    record = json.loads(host.get("var/lib/hotplug-acceleration/deployed.json"))
    assert (record["release"], record["boot"], record["package"]) == (RELEASE, "kexec", {})
    assert record["default"]["release"] == DEFAULT_RELEASE

    deployed = files_below(host.root)
    result = deploy(host, artifact, deploy_append="nosmt=no")

    assert result.code == 0, result.output
    assert f"fake: runs {RELEASE} as it is" in result.flat
    assert result.changed() == 0
    assert set(files_below(host.root)) == set(deployed)

    assert_fails(
        host.play("ab.yml", ab_variants=[{"name": n, "artifact": str(host.artifact(n))} for n in "ab"]),
        f"the host runs {RELEASE}, which deploy.yml started as 'patched'",
        "rollback.yml --limit fake",
    )

    result = host.play("trace.yml")

    assert result.code == 0, result.output
    raw = host.results / "raw/fake"
    names = {path.name for path in raw.iterdir()}
    assert names == {
        "01-traced.jsonl",
        *(f"01-traced.smt={way}.{mode}.dat" for way in ("off", "on") for mode in ("counts", "states")),
    }
    run = json.loads((raw / "01-traced.jsonl").read_text().splitlines()[0])
    assert run["host"]["kernel_release"] == RELEASE
    assert host.get("proc/sys/kernel/osrelease") == RELEASE

    # Another one after it, from which the way back is the same.
    result = deploy(host, host.packed("other"))

    assert result.code == 0, result.output
    assert host.get("proc/cmdline") == f"{DEFAULT_CMDLINE} panic=10 hotplug_acceleration.variant=other"

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert host.get("sys/devices/system/cpu/online") == "0,8"
    assert_back(host)


@pytest.mark.slow
def test_a_kernel_that_panics_is_told_with_its_last_words_and_the_host_is_back(host: FakeLpar) -> None:
    log = host.root / "console.log"
    log.write_text("Kernel panic - not syncing: of an earlier boot\n")
    host.hosts["other"] = {"ansible_connection": "local"}

    result = deploy(host, host.packed("patched", boots="PANIC"), ab_console_log=str(log))

    assert_fails(
        result,
        f"came back with another kernel: wanted {RELEASE} with patched variant, found {DEFAULT_RELEASE}",
        "Its console ended with: Requested init /nowhere failed (error -2). | Kernel panic - not syncing:"
        " Requested init /nowhere failed.",
        f"The host is back on {DEFAULT_RELEASE} with SMT as it was",
    )
    assert "of an earlier boot" not in result.output
    _, _, changes = result.output.partition("PLAY [Leave hosts on another kernel]")
    assert changes
    assert "other: " not in changes, "the next host is checked, and not touched"
    assert_back(host)


@pytest.mark.slow
@pytest.mark.parametrize("family", DISTRIBUTIONS)
def test_a_kernel_is_booted_one_time_and_taken_away_again(host: FakeLpar, family: str) -> None:
    text, prefix, kind = DISTRIBUTIONS[family]
    host.distribution(text, prefix)
    host.put(f"boot/{prefix}/custom.cfg", "# of the operator")
    artifact = host.packed("patched", kind)
    if family == "debian":
        before = files_below(host.root)
        result = deploy(host, artifact, "--check", "--diff", boot="once")
        assert result.code == 0, result.output
        assert {path for path, text in files_below(host.root).items() if before.get(path) != text} <= {
            *(host.root / name for name in ("commands.log", "grubenv.json", "entries.json")),
        }

    result = deploy(host, artifact, boot="once")

    assert result.code == 0, result.output
    assert host.get("proc/cmdline") == f"{DEFAULT_CMDLINE} panic=10 hotplug_acceleration.variant=patched"
    assert host.get("proc/sys/kernel/osrelease") == RELEASE
    assert json.loads(host.get("grubenv.json")) == {"next_entry": ""}
    record = json.loads(host.get("var/lib/hotplug-acceleration/deployed.json"))
    assert (record["boot"], record["package"]["format"]) == ("once", kind)

    if family == "debian":
        result = deploy(host, artifact, boot="once")
        assert result.code == 0, result.output
        assert result.changed() == 0

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert changes(host) == CHANGES[family]
    assert not (host.root / FOLDER / "vmlinux").exists()
    assert host.get(f"boot/{prefix}/custom.cfg") == "# of the operator"
    assert_back(host)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["", "No space left on device"])
def test_the_host_makes_the_initial_ram_disk_of_what_is_installed(host: FakeLpar, fault: str) -> None:
    text, prefix, kind = DISTRIBUTIONS["debian"]
    host.distribution(text, prefix)
    artifact = host.packed("patched", kind)
    artifact.with_name("modules.alias").write_text("")
    host.program("mkinitramfs", f"echo '{fault}' >&2; exit 1" if fault else 'echo disk > "$2"')
    host.program("lsinitramfs", 'cat "$1"')

    result = deploy(host, artifact, boot="once", ab_initrd="make")

    if fault:
        assert result.code != 0
        assert f"mkinitramfs ended with exit code 1: {fault}" in " ".join(result.output.split())
        assert "systemctl --no-block reboot" not in changes(host)
    else:
        assert result.code == 0, result.output
        assert f"initrd '/hotplug-acceleration/{RELEASE}/initrd.img'" in host.get(f"boot/{prefix}/custom.cfg")
        assert "rd.shell=0 rd.emergency=reboot" in host.get("proc/cmdline")
        assert host.play("rollback.yml").code == 0
    assert not [path for path in (host.root / FOLDER).rglob("*") if path.is_file()]
    assert_back(host)


@pytest.mark.slow
def test_the_default_is_changed_when_it_is_meant_and_put_back(host: FakeLpar) -> None:
    text, prefix, kind = DISTRIBUTIONS["debian"]
    host.distribution(text, prefix)
    host.put("grubenv.json", json.dumps({"saved_entry": "before"}))
    artifact = host.packed("patched", kind)

    result = deploy(host, artifact, boot="default", deploy_default_confirmed=f"6.12-other, {RELEASE}")

    assert result.code == 0, result.output
    assert json.loads(host.get("grubenv.json")) == {"saved_entry": ENTRY, "next_entry": ""}
    assert host.get("proc/cmdline") == f"{DEFAULT_CMDLINE} panic=10"

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert json.loads(host.get("grubenv.json")) == {"saved_entry": "before"}
    assert not (host.root / "boot/grub/custom.cfg").exists()
    assert_back(host)


@pytest.mark.slow
def test_a_rollback_ends_where_the_former_default_is_gone(host: FakeLpar) -> None:
    """An update of the host has removed it: GRUB boots what it chooses, which the record does not name."""
    host.debian("6.12-updated")
    host.put("grubenv.json", json.dumps({"saved_entry": DEFAULT_RELEASE}))
    artifact = host.packed("patched", "deb")
    result = deploy(host, artifact, boot="default", deploy_default_confirmed=RELEASE)
    assert result.code == 0, result.output
    menu, entries = host.get("boot/grub/grub.cfg"), json.loads(host.get("installed.json"))
    first = f"menuentry '{DEFAULT_RELEASE}'"
    host.put(
        "boot/grub/grub.cfg", f"{menu[: menu.index(first)]}{menu[menu.index('}', menu.index(first)) + 1 :]}"
    )
    host.put("installed.json", json.dumps({"": entries["6.12-updated"]} | entries))
    host.put("boot/vmlinux-6.12-updated", "6.12-another")

    # What runs then is what the boot loader names, or it is refused.
    assert_fails(host.play("rollback.yml"), "names 6.12-updated as default, found 6.12-another")
    assert json.loads(host.get("grubenv.json")) == {}
    host.put("boot/vmlinux-6.12-updated", "6.12-updated")
    host.put("proc/sys/kernel/osrelease", RELEASE)

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert f"the default kernel is 6.12-updated now and was {DEFAULT_RELEASE} before the run" in result.flat
    assert not host.staging.exists()


@pytest.mark.slow
def test_a_kernel_that_panics_does_not_become_the_default(host: FakeLpar) -> None:
    """No name of a variant on its command line would tell it from the kernel that comes up instead."""
    host.distribution(*DISTRIBUTIONS["debian"][:2])
    artifact = host.packed("patched", "deb", boots="PANIC")

    result = deploy(host, artifact, boot="default", deploy_default_confirmed=RELEASE)

    assert_fails(result, f"wanted {RELEASE} with no variant, found {DEFAULT_RELEASE}", "The host is back on")
    assert json.loads(host.get("grubenv.json")).get("saved_entry") is None
    assert_back(host)


@pytest.mark.slow
def test_a_default_that_is_set_by_a_command_that_fails_is_put_back_before_the_reboot(host: FakeLpar) -> None:
    text, prefix, kind = DISTRIBUTIONS["debian"]
    host.distribution(text, prefix)
    host.put("grubenv.json", json.dumps({"saved_entry": "before"}))
    host.put("fault", "default-set-late")
    artifact = host.packed("patched", kind)

    result = deploy(host, artifact, boot="default", deploy_default_confirmed=RELEASE)

    assert_fails(result, "the default boot entry cannot be set", f"The host is back on {DEFAULT_RELEASE}")
    assert json.loads(host.get("grubenv.json")) == {"saved_entry": "before"}
    assert_back(host)


@pytest.mark.slow
def test_a_kernel_on_which_the_host_does_worse_is_not_kept(host: FakeLpar) -> None:
    """Such as without the firewall, which its configuration lacks."""
    both = {"enabled": ["firewalld.service", "sshd.service"]}
    units = {DEFAULT_RELEASE: both["enabled"], RELEASE: ["sshd.service"]}
    for release, active in units.items():
        host.put(f"units-{release}.json", json.dumps(both | {"active": active}))

    result = deploy(host, host.packed("patched"))

    assert_fails(
        result,
        f"{RELEASE} came up, and is not kept: the host does worse than before",
        "not running: firewalld.service; mend that, or name",
        f"The host is back on {DEFAULT_RELEASE} with SMT as it was",
    )
    assert_back(host)

    result = deploy(host, host.packed("patched"), ab_health_ignore=["firewalld.service"])

    assert result.code == 0, result.output
    assert host.get("proc/sys/kernel/osrelease") == RELEASE


@pytest.mark.slow
def test_a_kernel_may_be_allowed_to_run_without_kdump(host: FakeLpar) -> None:
    """Kdump was loaded, and its service cannot load the deployed kernel."""
    host.put("sys/kernel/kexec_crash_loaded", "1")

    result = deploy(host, host.packed("patched"))

    assert_fails(result, "a crash of that leaves no dump; allow that with ab_allow_missing=")
    assert host.get("proc/sys/kernel/osrelease") == DEFAULT_RELEASE

    services = ["kdump-tools.service", "sshd.service"]
    for release, active in {DEFAULT_RELEASE: services, RELEASE: services[1:]}.items():
        host.put(f"units-{release}.json", json.dumps({"enabled": services, "active": active}))

    result = deploy(host, host.packed("patched"), ab_allow_missing=["kdump"])

    assert result.code == 0, result.output
    assert host.get("proc/sys/kernel/osrelease") == RELEASE


@pytest.mark.slow
def test_an_installed_kernel_that_panics_leaves_nothing(host: FakeLpar) -> None:
    host.distribution(*DISTRIBUTIONS["redhat"][:2])

    result = deploy(host, host.packed("patched", "rpm", boots="PANIC"), boot="once")

    assert_fails(result, f"found {DEFAULT_RELEASE} with no variant", "The host is back on")
    assert json.loads(host.get("entries.json")) == {}
    assert json.loads(host.get("packages.json")) == {}
    assert_back(host)


@pytest.mark.slow
def test_a_package_that_does_not_fit_leaves_nothing(host: FakeLpar) -> None:
    host.distribution(*DISTRIBUTIONS["debian"][:2])
    artifact = host.packed("patched", "deb")
    described = json.loads(artifact.read_text())
    free = shutil.disk_usage(host.root).free

    def claim(size: int) -> None:
        described["package"]["installed_bytes"] = size
        artifact.write_text(json.dumps(described))

    # What deploy.yml refuses is among the refusals; preflight.yml names it as well.
    claim(free * 2)
    result = host.play(
        "preflight.yml",
        deploy_artifact=str(artifact),
        preflight_purpose="install",
        preflight_output_dir=str(host.work / "table"),
    )
    assert result.code == 2
    reasons = json.loads((host.work / "table/preflight.json").read_text())["hosts"][0]["reasons"]
    assert "free and the kernel's package needs" in reasons[0]["text"]

    # What the check could not know: somebody fills it meanwhile.
    claim(41 << 20)
    host.put("fault", "boot-full")
    assert_fails(
        deploy(host, artifact, boot="once"),
        f"linux-hotplug-acceleration-{RELEASE}.pkg, which takes 41 MiB in /boot, cannot be installed:"
        " error processing",
        "failed to write (No space left on device); see to it",
        f"The host is back on {DEFAULT_RELEASE}",
    )
    assert changes(host) == [f"dpkg --install {INSTALLED}"]
    assert_back(host)


@pytest.mark.slow
def test_a_boot_loader_that_would_boot_it_again_is_not_trusted(host: FakeLpar) -> None:
    host.distribution(*DISTRIBUTIONS["debian"][:2])
    host.put("fault", "entry-kept")

    result = deploy(host, host.packed("patched", "deb"), boot="once")

    assert_fails(result, f"GRUB has booted {ENTRY} and not cleared next_entry", "The host is back on")
    assert json.loads(host.get("grubenv.json")) == {}
    assert_back(host)


@pytest.mark.slow
def test_another_package_than_was_built_is_refused_on_the_host(host: FakeLpar) -> None:
    host.distribution(*DISTRIBUTIONS["suse"][:2])
    artifact = host.packed("patched", "rpm")
    (artifact.parent / f"linux-hotplug-acceleration-{RELEASE}.pkg").write_bytes(b"tampered")

    assert_fails(deploy(host, artifact, boot="once"), ".pkg has SHA-256", "build it again")
    assert [line for line in changes(host) if not line.startswith("systemctl stop")] == []
    assert_back(host)


def unpacked(host: FakeLpar) -> dict[str, Any]:
    plain = host.artifact("patched")
    plain.write_text(json.dumps(json.loads(plain.read_text()) | {"variant": "patched"}))
    (plain.parent / "config").write_text("# CONFIG_WATCHDOG is not set\n")
    return {"deploy_artifact": str(plain)}


def packed(host: FakeLpar) -> dict[str, Any]:
    return {"deploy_artifact": str(host.packed("patched"))}


def tampered(host: FakeLpar) -> dict[str, Any]:
    artifact = host.packed("patched")
    (artifact.parent / "vmlinux").write_text("tampered")
    return {"deploy_artifact": str(artifact)}


def on_gentoo(host: FakeLpar) -> dict[str, Any]:
    host.distribution("ID=gentoo", "grub")
    return packed(host)


def on_debian(host: FakeLpar) -> dict[str, Any]:
    text, prefix, kind = DISTRIBUTIONS["debian"]
    host.distribution(text, prefix)
    return {"deploy_artifact": str(host.packed("patched", kind))}


def on_secure_boot(host: FakeLpar) -> dict[str, Any]:
    """Its kernel is locked down, as distributions do it."""
    secure_boot(host)
    host.put("sys/kernel/security/lockdown", "none [integrity] confidentiality")
    return on_debian(host)


def too_large(host: FakeLpar) -> dict[str, Any]:
    given = on_debian(host)
    artifact = Path(given["deploy_artifact"])
    described = json.loads(artifact.read_text())
    described["package"]["installed_bytes"] = shutil.disk_usage(host.root).free * 2
    artifact.write_text(json.dumps(described))
    return given


def on_xfs(host: FakeLpar) -> dict[str, Any]:
    host.put("proc/mounts", "/dev/sda1 / xfs rw 0 0\n")
    block = host.root / "sys/devices/vio/30000002/host0/block/sda"
    host.put("sys/devices/vio/30000002/host0/block/sda/sda1/partition", "1")
    (host.root / "sys/class/block").mkdir(parents=True)
    (host.root / "sys/class/block/sda").symlink_to(block)
    (host.root / "sys/class/block/sda1").symlink_to(block / "sda1")
    (block / "device").symlink_to(block.parents[1])
    (host.root / "sys/bus/vio/drivers/ibmvscsi").mkdir(parents=True)
    (block.parents[2] / "driver").symlink_to(host.root / "sys/bus/vio/drivers/ibmvscsi")
    return packed(host)


def held(host: FakeLpar) -> dict[str, Any]:
    host.put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))
    return packed(host)


def kernels(host: FakeLpar) -> dict[str, str]:
    """On a POWER host, a kernel for each kind of host."""
    host.put("proc/sys/kernel/arch", "ppc64le")
    return {
        "ppc64le": str(host.packed("power", arch="ppc64le")),
        "x86_64": str(host.packed("x86", arch="x86_64")),
    }


def none_for_it(host: FakeLpar) -> dict[str, Any]:
    return {"deploy_artifacts": {"x86_64": kernels(host)["x86_64"]}}


def mixed_up(host: FakeLpar) -> dict[str, Any]:
    return {"deploy_artifacts": dict.fromkeys(("ppc64le", "x86_64"), kernels(host)["x86_64"])}


def both_given(host: FakeLpar) -> dict[str, Any]:
    file = kernels(host)["x86_64"]
    return {"deploy_artifact": file, "deploy_artifacts": {"x86_64": file}}


def of_another(host: FakeLpar) -> dict[str, Any]:
    return {"deploy_artifact": kernels(host)["x86_64"]}


REFUSED = [
    Case(
        "unpacked",
        ["names no package, which boot=once installs", f"{RELEASE} has no watchdog driver"],
        {"boot": "once", "deploy_watchdog": 60},
        unpacked,
    ),
    Case(
        "variables",
        [
            "deploy_artifact is 'patched.json'; give the absolute path",
            "deploy_name is 'a b'",
            "leave out hotplug_acceleration.*",
        ],
        {
            "deploy_artifact": "patched.json",
            "deploy_name": "a b",
            "deploy_append": "hotplug_acceleration.variant=x",
        },
    ),
    Case("gentoo", ["'gentoo' is none of debian, redhat, suse"], {"boot": "once"}, on_gentoo),
    Case(
        "drivers",
        [
            "root is on XFS on sda (ibmvscsi): the kernel 6.12-patched lacks CONFIG_XFS_FS,"
            " CONFIG_SCSI_IBMVSCSI; build the kernel with that"
        ],
        prepare=on_xfs,
    ),
    Case("held", ["root@desk has been using this host since"], prepare=held),
    Case("tampered", ["variant 'patched'", "the image", "has SHA-256"], prepare=tampered),
    Case("default", [f"add -e deploy_default_confirmed={RELEASE}"], {"boot": "default"}, on_debian),
    Case(
        "secure",
        ["secure boot is on, and {work}/packed/patched/vmlinux has no signature; sign the image"],
        {"boot": "once"},
        on_secure_boot,
    ),
    Case(
        "secure-default",
        ["secure boot is on, and {work}/packed/patched/vmlinux has no signature; sign the image"],
        {"boot": "default", "deploy_default_confirmed": RELEASE},
        on_secure_boot,
    ),
    Case(
        "secure-kexec",
        ["the kernel is locked down (integrity), and {work}/packed/patched/vmlinux has no signature; sign"],
        prepare=on_secure_boot,
    ),
    Case(
        "large",
        ["free and the kernel's package needs", "there; remove unused kernels"],
        {"boot": "once"},
        too_large,
    ),
    # In a fleet of several kinds.
    Case(
        "lacking",
        ["{host}: the host is ppc64le, and deploy_artifacts has x86_64 only; add one, or leave"],
        prepare=none_for_it,
    ),
    Case(
        "mixed",
        [
            "{host} is ppc64le, for which deploy_artifacts has {work}/packed/x86/artifact.json,"
            " built for x86_64; give one"
        ],
        prepare=mixed_up,
    ),
    Case(
        "paths",
        [
            "deploy_artifacts.ppc64le and deploy_artifacts.x86_64 is 'power.json' and '/nowhere.json';"
            " give the absolute path"
        ],
        {"deploy_artifacts": {"ppc64le": "power.json", "x86_64": "/nowhere.json"}},
    ),
    Case("neither", ["neither of deploy_artifact and deploy_artifacts given"]),
    Case("both", ["both of deploy_artifact and deploy_artifacts given"], prepare=both_given),
    Case(
        "other",
        [
            "{host}: variant 'x86' ({work}/packed/x86/artifact.json): it is built for x86_64"
            " and the host is ppc64le"
        ],
        prepare=of_another,
    ),
]


def no_variants(host: FakeLpar) -> None:
    del host.variables["ab_variants"]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    """One run that refuses all hosts."""
    work = tmp_path_factory.mktemp("refusals")
    all_at_once = {"deploy_serial": "100%", "deploy_max_fail_percentage": 100}
    return refuse(work, "deploy.yml", REFUSED, no_variants, **all_at_once)


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_is_refused(refusals: Refusals, case: Case) -> None:
    """In one line each, and the host goes on with its kernel."""
    host = refusals.check(case)
    assert host.get("proc/sys/kernel/osrelease") == DEFAULT_RELEASE
