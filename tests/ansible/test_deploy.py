"""Whole runs of deploy.yml, and of what goes on after it, against the fake host."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.ansible.test_ab import OWNER, assert_back, assert_fails, loads
from tests.ansible.test_operations import files_of, recap
from tests.fakes.fake_lpar import DEFAULT_CMDLINE, DEFAULT_RELEASE, FakeHost, PlayResult

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
ASKING = ("--show", "--query", "list", "--default-kernel", "--info", "--target", "/boot")


def deploy(host: FakeHost, artifact: Path, *arguments: str, **variables: Any) -> PlayResult:
    host.variables.pop("ab_variants", None)
    return host.play("deploy.yml", *arguments, deploy_artifact=str(artifact), **variables)


def changes(host: FakeHost) -> list[str]:
    """The commands that changed the host's packages, boot loader or kernel, without the root of the fake."""
    lines = [" ".join(command).replace(str(host.root), "") for command in host.commands()]
    asked = [line for line in lines if line.split()[1].startswith(ASKING) or line.split()[-1] == "list"]
    own = ("hotplug-acceleration-timing", "hotplug-acceleration-fallback", "daemon-reload")
    return [line for line in lines if line not in asked and not any(word in line for word in own)]


def test_a_kernel_is_left_running_until_it_is_rolled_back(host: FakeHost) -> None:
    host.write("sys/devices/system/cpu/smt/control", "off\n")
    host.write("sys/devices/system/cpu/online", "0,8\n")
    artifact = host.packed("patched")
    before = files_of(host)

    result = deploy(host, artifact, "--check", "--diff")

    assert result.code == 0, result.output
    assert f"would start {RELEASE} with boot=kexec, from {DEFAULT_RELEASE}" in result.flat
    assert recap(result.output)["changed"] == 1
    assert files_of(host) == before

    result = deploy(host, artifact, deploy_append="nosmt=no")

    assert result.code == 0, result.output
    assert f"fake runs {RELEASE}, proven by its boot_id" in result.flat
    assert loads(host) == [
        f"--command-line={DEFAULT_CMDLINE} panic=10 nosmt=no hotplug_acceleration.variant=patched"
    ]
    assert host.read("sys/devices/system/cpu/online") == "0,8"
    assert [path.name for path in host.staging.iterdir()] == ["deployed.json"]
    record = json.loads(host.read("var/lib/hotplug-acceleration/deployed.json"))
    assert (record["release"], record["boot"], record["package"]) == (RELEASE, "kexec", {})
    assert record["default"]["release"] == DEFAULT_RELEASE

    deployed = files_of(host)
    result = deploy(host, artifact, deploy_append="nosmt=no")

    assert result.code == 0, result.output
    assert f"fake: runs {RELEASE} as it is" in result.flat
    assert recap(result.output)["changed"] == 0
    assert set(files_of(host)) == set(deployed)

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
    assert host.read("proc/sys/kernel/osrelease") == RELEASE

    # Another one after it, from which the way back is the same.
    result = deploy(host, host.packed("other"))

    assert result.code == 0, result.output
    assert host.read("proc/cmdline") == f"{DEFAULT_CMDLINE} panic=10 hotplug_acceleration.variant=other"

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert host.read("sys/devices/system/cpu/online") == "0,8"
    assert_back(host)


def test_a_kernel_that_panics_is_told_with_its_last_words_and_the_host_is_back(host: FakeHost) -> None:
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
    assert "other: " not in result.output, "the next host is not touched"
    assert_back(host)


@pytest.mark.parametrize("family", DISTRIBUTIONS)
def test_a_kernel_is_booted_one_time_and_taken_away_again(host: FakeHost, family: str) -> None:
    text, prefix, kind = DISTRIBUTIONS[family]
    host.distribution(text, prefix)
    host.write(f"boot/{prefix}/custom.cfg", "# of the operator\n")
    artifact = host.packed("patched", kind)
    if family == "debian":
        before = files_of(host)
        result = deploy(host, artifact, "--check", "--diff", boot="once")
        assert result.code == 0, result.output
        assert {path for path, text in files_of(host).items() if before.get(path) != text} <= {
            str(host.root / "commands.log"),
            *(str(host.root / name) for name in ("grubenv.json", "entries.json")),
        }

    result = deploy(host, artifact, boot="once")

    assert result.code == 0, result.output
    assert host.read("proc/cmdline") == f"{DEFAULT_CMDLINE} panic=10 hotplug_acceleration.variant=patched"
    assert host.read("proc/sys/kernel/osrelease") == RELEASE
    assert json.loads(host.read("grubenv.json")) == {"next_entry": ""}
    record = json.loads(host.read("var/lib/hotplug-acceleration/deployed.json"))
    assert (record["boot"], record["package"]["format"]) == ("once", kind)

    if family == "debian":
        result = deploy(host, artifact, boot="once")
        assert result.code == 0, result.output
        assert recap(result.output)["changed"] == 0

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert changes(host) == CHANGES[family]
    assert not (host.root / FOLDER / "vmlinux").exists()
    assert host.read(f"boot/{prefix}/custom.cfg") == "# of the operator"
    assert_back(host)


def test_the_default_is_changed_when_it_is_meant_and_put_back(host: FakeHost) -> None:
    text, prefix, kind = DISTRIBUTIONS["debian"]
    host.distribution(text, prefix)
    host.write("grubenv.json", json.dumps({"saved_entry": "before"}))
    artifact = host.packed("patched", kind)

    assert_fails(deploy(host, artifact, boot="default"), f"add -e deploy_default_confirmed={RELEASE}")
    assert not changes(host)

    result = deploy(host, artifact, boot="default", deploy_default_confirmed=f"6.12-other, {RELEASE}")

    assert result.code == 0, result.output
    assert json.loads(host.read("grubenv.json")) == {"saved_entry": ENTRY, "next_entry": ""}
    assert host.read("proc/cmdline") == f"{DEFAULT_CMDLINE} panic=10"

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert json.loads(host.read("grubenv.json")) == {"saved_entry": "before"}
    assert not (host.root / "boot/grub/custom.cfg").exists()
    assert_back(host)


def test_an_installed_kernel_that_panics_leaves_nothing(host: FakeHost) -> None:
    host.distribution(*DISTRIBUTIONS["redhat"][:2])

    result = deploy(host, host.packed("patched", "rpm", boots="PANIC"), boot="once")

    assert_fails(result, f"found {DEFAULT_RELEASE} with no variant", "The host is back on")
    assert json.loads(host.read("entries.json")) == {}
    assert json.loads(host.read("packages.json")) == {}
    assert_back(host)


def test_a_package_that_does_not_fit_leaves_nothing(host: FakeHost) -> None:
    host.distribution(*DISTRIBUTIONS["debian"][:2])
    artifact = host.packed("patched", "deb")
    described = json.loads(artifact.read_text())
    free = shutil.disk_usage(host.root).free

    def claim(size: int) -> None:
        described["package"]["installed_bytes"] = size
        artifact.write_text(json.dumps(described))

    claim(free * 2)
    assert_fails(
        deploy(host, artifact, boot="once"), "free and the kernel's package needs", "there; remove kernels"
    )
    assert not changes(host)
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
    host.write("fault", "boot-full")
    assert_fails(
        deploy(host, artifact, boot="once"),
        f"linux-hotplug-acceleration-{RELEASE}.pkg, which takes 41 MiB in /boot, cannot be installed:"
        " error processing",
        "failed to write (No space left on device); see to it",
        f"The host is back on {DEFAULT_RELEASE}",
    )
    assert changes(host) == [f"dpkg --install {INSTALLED}"]
    assert_back(host)


def test_a_boot_loader_that_would_boot_it_again_is_not_trusted(host: FakeHost) -> None:
    host.distribution(*DISTRIBUTIONS["debian"][:2])
    host.write("fault", "entry-kept")

    result = deploy(host, host.packed("patched", "deb"), boot="once")

    assert_fails(result, f"GRUB has booted {ENTRY} and not cleared next_entry", "The host is back on")
    assert json.loads(host.read("grubenv.json")) == {}
    assert_back(host)


def test_another_kernel_than_was_built_is_refused_before_and_on_the_host(host: FakeHost) -> None:
    artifact = host.packed("patched")
    (artifact.parent / "vmlinux").write_text("tampered")

    assert_fails(deploy(host, artifact), "variant 'patched'", "the image", "has SHA-256")
    assert not host.commands()

    host.distribution(*DISTRIBUTIONS["suse"][:2])
    artifact = host.packed("patched", "rpm")
    (artifact.parent / f"linux-hotplug-acceleration-{RELEASE}.pkg").write_bytes(b"tampered")

    assert_fails(deploy(host, artifact, boot="once"), ".pkg has SHA-256", "build it again")
    assert [line for line in changes(host) if not line.startswith("systemctl stop")] == []
    assert_back(host)


def test_what_is_refused(host: FakeHost) -> None:
    plain = host.artifact("patched")
    plain.write_text(json.dumps(json.loads(plain.read_text()) | {"variant": "patched"}))
    (plain.parent / "config").write_text("# CONFIG_WATCHDOG is not set\n")

    assert_fails(
        deploy(host, plain, boot="once", deploy_watchdog=60),
        "names no package, which boot=once installs",
        f"{RELEASE} has no watchdog driver",
    )
    assert_fails(
        deploy(host, Path("patched.json"), deploy_name="a b", deploy_append="hotplug_acceleration.variant=x"),
        "deploy_artifact is 'patched.json'; give the absolute path",
        "deploy_name is 'a b'",
        "leave out hotplug_acceleration.*",
    )
    host.distribution("ID=gentoo\n", "grub")
    artifact = host.packed("patched")
    assert_fails(deploy(host, artifact, boot="once"), "'gentoo' is none of debian, redhat, suse")
    host.write("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))
    assert_fails(deploy(host, artifact), "root@desk has been using this host since")
    assert not changes(host)
