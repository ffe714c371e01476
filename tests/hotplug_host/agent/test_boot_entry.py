"""Boot entries of kernels under test, for each kind of boot loader."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.fake_lpar import FakeLpar
from tests.hotplug_host.agent.conftest import RELEASE, TAR, Answer, Ask, Step

IMAGE = f"/boot/hotplug-acceleration/{RELEASE}/vmlinux"
ENTRY = f"""### BEGIN hotplug-acceleration-{RELEASE} ###
menuentry 'hotplug-acceleration-{RELEASE}' --id 'hotplug-acceleration-{RELEASE}' {{
	insmod ext2
	search --no-floppy --fs-uuid --set=root 0f-uuid
	linux '/hotplug-acceleration/{RELEASE}/vmlinux' 'root=UUID=1' 'ro' 'quiet' 'panic=10'
	initrd '/initrd.img'
}}
### END hotplug-acceleration-{RELEASE} ###
"""


@pytest.mark.slow
def test_an_entry_is_what_grub_reads_and_made_once(debian: FakeLpar, entry: Ask) -> None:
    debian.put("boot/grub/custom.cfg", "# theirs")
    assert entry(debian, "look") == (0, {"changed": False, "present": False, "default": ""})
    for changed in (True, False):
        assert entry(debian, "once") == (0, {"changed": changed, "present": True, "default": ""})
    assert (debian.root / "boot/grub/custom.cfg").read_text() == f"# theirs\n{ENTRY}"
    assert json.loads(debian.get("grubenv.json")) == {"next_entry": f"hotplug-acceleration-{RELEASE}"}
    for changed in (True, False):
        assert entry(debian, "remove") == (0, {"changed": changed, "present": False, "default": ""})
    assert (debian.root / "boot/grub/custom.cfg").read_text() == "# theirs\n"
    assert json.loads(debian.get("grubenv.json")) == {}


def test_what_kdump_has_made_for_the_kernel_goes_with_it(debian: FakeLpar, entry: Ask) -> None:
    entry(debian, "once")
    ours = (
        f"var/lib/kdump/initrd.img-{RELEASE}",
        f"var/lib/kdump/latest_sysctls-{RELEASE}",
        f"var/lib/kdump/initramfs-{RELEASE}kdump.img",
        f"boot/initramfs-{RELEASE}kdump.img",
        f"boot/initrd-{RELEASE}-kdump",
    )
    theirs = ("var/lib/kdump/initrd.img-6.12-debian", f"boot/initrd.img-{RELEASE}1")
    for name in (*ours, *theirs):
        debian.put(name, "")
    assert entry(debian, "remove")[1]["changed"]
    left = [name for name in (*ours, *theirs) if (debian.root / name).exists()]
    assert left == list(theirs)


@pytest.mark.parametrize(
    ("change", "words", "early"),
    [
        (lambda host: host.put("abstraction", "lvm"), "where GRUB cannot clear what boots one time", True),
        (lambda host: host.put("boot/grub/grub.cfg", "next_entry"), "does not source custom.cfg", True),
        (lambda host: host.put("boot/grub/grub.cfg", "custom.cfg"), "does not know next_entry", True),
        (lambda host: (host.root / "boot/grub/grub.cfg").unlink(), "this host does not boot by GRUB", True),
        (lambda host: host.put(IMAGE.lstrip("/"), "another"), "vmlinux has SHA-256 ", False),
        (lambda host: (host.root / IMAGE.lstrip("/")).unlink(), "vmlinux cannot be read", False),
        (
            lambda host: (host.root / "bin/grub-reboot").write_text("#!/bin/sh\n"),
            "next_entry is 'None', not",
            False,
        ),
        (
            lambda host: (host.root / "bin/grub-reboot").write_text("#!/bin/sh\necho no; exit 1\n"),
            f"grub-reboot hotplug-acceleration-{RELEASE} ended with exit code 1: no",
            False,
        ),
        (
            lambda host: (host.root / "bin/grub-editenv").unlink(),
            "grub-editenv is not on the host: install grub-common",
            True,
        ),
    ],
)
def test_what_cannot_boot_one_time_is_refused(
    debian: FakeLpar, entry: Ask, change: Any, words: str, early: bool
) -> None:
    change(debian)
    code, answer = entry(debian, "once")
    assert code != 0
    assert words in answer["error"]
    # What needs no package to be seen is refused before one is installed.
    assert (entry(debian, "look")[0] != 0) == early


def test_what_somebody_else_boots_one_time_stays(debian: FakeLpar, entry: Ask) -> None:
    for value, left in (("theirs", {"next_entry": "theirs"}), ("", {})):
        debian.put("grubenv.json", json.dumps({"next_entry": value}))
        assert entry(debian, "remove")[0] == 0
        assert json.loads(debian.get("grubenv.json")) == left


def test_a_quote_does_not_get_into_an_entry(debian: FakeLpar, entry: Ask) -> None:
    code, answer = entry(debian, "once", "--words=a='b")
    assert (code, answer["error"].partition(":")[0]) == (
        3,
        "a quote in the command line cannot go into a boot entry",
    )


def test_a_default_that_grub_does_not_keep_is_refused(debian: FakeLpar, entry: Ask) -> None:
    # As grub-mkconfig writes it for GRUB_DEFAULT=0: the variable is in there all the same.
    debian.put("boot/grub/grub.cfg", 'custom.cfg next_entry\nset default="0"\nset saved_entry="${chosen}"\n')
    assert entry(debian, "look")[0] == 0
    for arguments in (["look", "--as-default"], ["default"]):
        code, answer = entry(debian, *arguments)
        assert code == 3
        assert "GRUB_DEFAULT is not 'saved'" in answer["error"]


@pytest.mark.slow
def test_a_default_of_the_rhel_family_is_put_back(lpar: FakeLpar, entry: Ask) -> None:
    lpar.distribution('ID="rhel"\n', "grub2")
    lpar.put(IMAGE.lstrip("/"), "kernel")
    code, before = entry(lpar, "look")
    assert (code, before["default"]) == (0, "/boot/vmlinuz-default")
    for action in ("once", "default"):
        code, answer = entry(lpar, action)
        assert (code, answer["changed"]) == (0, True)
    assert answer["default"] == IMAGE
    # An update has removed its kernel: the boot loader chooses, until it is there again.
    code, answer = entry(lpar, "remove", f"--former-default={before['default']}")
    assert (code, answer["changed"], answer["gone"]) == (0, True, before["default"])
    assert "saved_entry" not in json.loads(lpar.get("grubenv.json"))
    for image in (before["default"], IMAGE):
        lpar.put(image.lstrip("/"), "kernel")
    for action in ("once", "default"):
        assert entry(lpar, action)[0] == 0
    code, answer = entry(lpar, "remove", f"--former-default={before['default']}")
    assert (code, answer["changed"], answer["default"]) == (0, True, before["default"])
    assert "gone" not in answer
    assert json.loads(lpar.get("grubenv.json"))["saved_entry"]


MENU = """custom.cfg next_entry
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
else
   set default="@DEFAULT@"
fi
function savedefault {
  save_env saved_entry
}
menuentry 'Debian GNU/Linux' --class os $menuentry_id_option 'gnulinux-simple-1' {
	load_video
	linux	/vmlinux-6.12.118-smt-patched-1 root=/dev/mapper/vg0-root ro
}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-1' {
	menuentry 'Debian GNU/Linux' $menuentry_id_option 'gnulinux-6.12.118-smt-patched-1-1' {
		if [ x$grub_platform = xxen ]; then insmod xzio; fi
		linux	/vmlinux-6.12.118-smt-patched-1 root=/dev/mapper/vg0-root ro
	}
	menuentry 'Debian (recovery mode)' $menuentry_id_option 'gnulinux-6.12.118-smt-patched-1-recovery-1' {
		linux	/vmlinux-6.12.118-smt-patched-1 root=/dev/mapper/vg0-root ro single
	}
	menuentry 'Debian, with Linux 6.12-default' $menuentry_id_option 'gnulinux-6.12-default-advanced-1' {
		linux	/vmlinux-6.12-default root=/dev/mapper/vg0-root ro
	}
}
"""
PATCHED = "6.12.118-smt-patched-1"


@pytest.fixture
def installed(debian: FakeLpar, step: Step) -> Ask:
    """Call the step for a kernel that Debian's tools have installed, with GRUB_DEFAULT and saved_entry."""

    def call(action: str, release: str = PATCHED, default: str = "0", saved: str = "") -> Answer:
        debian.put("boot/grub/grub.cfg", MENU.replace("@DEFAULT@", default))
        environment = json.loads(debian.get_or("grubenv.json", "{}"))
        debian.put("grubenv.json", json.dumps(environment | ({"saved_entry": saved} if saved else {})))
        words = (f"--action={action}", "--installed", f"--release={release}", f"--sysroot={debian.root}")
        return step("boot-entry", *words)

    return call


@pytest.mark.slow
def test_an_installed_kernel_is_booted_one_time_by_its_own_entry(debian: FakeLpar, installed: Ask) -> None:
    for changed in (True, False):
        assert installed("once")[1]["changed"] == changed
    name = json.loads(debian.get("grubenv.json"))["next_entry"]
    assert name == "gnulinux-advanced-1>gnulinux-6.12.118-smt-patched-1-1"
    code, answer = installed("booted")
    assert (code, "not cleared next_entry" in answer["error"]) == (3, True)
    assert installed("once")[0] == 0
    assert installed("remove")[1]["changed"]
    assert json.loads(debian.get("grubenv.json")) == {}
    assert not (debian.root / "boot/grub/custom.cfg").exists()
    code, answer = installed("once", "6.12-gone")
    assert (code, "has no entry for 6.12-gone: install its package" in answer["error"]) == (3, True)
    # A rollback after the package was removed.
    assert installed("remove", "6.12-gone") == (0, {"changed": False, "present": True, "default": ""})


@pytest.mark.parametrize(
    ("default", "saved", "boots"),
    [
        ("0", "", PATCHED),
        ("1>2", "", "6.12-default"),
        ("Advanced options>Debian, with Linux 6.12-default", "", "6.12-default"),
        ("${saved_entry}", "", PATCHED),
        ("${saved_entry}", "gnulinux-advanced-1>gnulinux-6.12-default-advanced-1", "6.12-default"),
        ("${saved_entry}", "an-entry-of-somebody-else", "something unknown"),
    ],
)
def test_a_run_of_installed_kernels_begins_on_the_default_one(
    installed: Ask, default: str, saved: str, boots: str
) -> None:
    code, answer = installed("look", default=default, saved=saved)
    read = installed("read", default=default, saved=saved)[1]
    assert (read["release"] or "something unknown", bool(read["why"])) == (boots, not read["release"])
    if boots == "6.12-default":
        assert (code, answer["changed"]) == (0, False)
    else:
        assert (code, f"GRUB boots {boots} by default and 6.12-default runs" in answer["error"]) == (3, True)


@pytest.mark.parametrize("former", ["Advanced options>Debian, with Linux 6.12-default", "6.12-gone", ""])
def test_a_former_default_that_is_gone_is_left_to_grub(debian: FakeLpar, entry: Ask, former: str) -> None:
    """Also where GRUB no longer goes by what was saved."""
    debian.put("boot/grub/grub.cfg", MENU.replace("@DEFAULT@", "0"))
    debian.put("grubenv.json", json.dumps({"saved_entry": f"hotplug-acceleration-{RELEASE}"}))
    code, answer = entry(debian, "remove", f"--former-default={former}")
    assert (code, answer["changed"]) == (0, True)
    gone = former == "6.12-gone"
    assert answer.get("gone", "") == (former if gone else "")
    assert answer["default"] == ("" if gone else former)


def test_a_default_that_cannot_be_read_is_no_fault(lpar: FakeLpar, step: Step) -> None:
    words = ("boot-entry", "--action=read", "--release=6.12", f"--sysroot={lpar.root}")
    code, answer = step(*words)
    assert (code, answer["release"], "is none of debian" in answer["why"]) == (0, "", True)
    lpar.distribution("ID=debian\n", "grub")
    (lpar.root / "boot/grub/grub.cfg").unlink()
    code, answer = step(*words)
    assert (code, answer["release"], "does not boot by GRUB" in answer["why"]) == (0, "", True)


@pytest.mark.slow
def test_an_installed_kernel_of_the_rhel_family_is_found_by_grubby(lpar: FakeLpar, step: Step) -> None:
    lpar.distribution('ID="rhel"\n', "grub2")
    words = ("--installed", "--release=default", f"--sysroot={lpar.root}")
    code, answer = step("boot-entry", "--action=once", *words)
    assert (code, "grubby knows no entry for /boot/vmlinuz-default" in answer["error"]) == (3, True)
    lpar.put("entries.json", json.dumps({"machine-boot": {"image": "/boot/vmlinuz-default", "cmdline": ""}}))
    assert step("boot-entry", "--action=once", *words)[1]["changed"]
    assert json.loads(lpar.get("grubenv.json"))["next_entry"] == "machine-boot"
    lpar.put("proc/sys/kernel/osrelease", "default")
    assert step("boot-entry", "--action=look", *words)[0] == 0
    assert step("boot-entry", "--action=read", *words)[1]["release"] == "default"


def test_a_package_that_the_distribution_does_not_install_is_refused(debian: FakeLpar, entry: Ask) -> None:
    code, answer = entry(debian, "look", f"--package={json.dumps({**TAR, 'format': 'rpm'})}")
    assert code == 3
    assert answer["error"] == ("a package of the kind rpm is not for debian; build one with build_format=deb")


@pytest.mark.parametrize("text", ["", "ID=gentoo", "ID=nixos\nID_LIKE=other"])
def test_an_unknown_distribution_is_named(lpar: FakeLpar, entry: Ask, text: str) -> None:
    lpar.put("etc/os-release", text)
    code, answer = entry(lpar, "look")
    assert code == 3
    assert answer["error"].endswith("is none of debian, redhat, suse")


def test_words_of_an_earlier_run_do_not_get_into_an_entry(debian: FakeLpar, entry: Ask) -> None:
    entry(debian, "once", "--cmdline=root=UUID=1 ro quiet hotplug_acceleration.variant=patched")
    assert (debian.root / "boot/grub/custom.cfg").read_text() == ENTRY
