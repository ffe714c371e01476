"""A host's own configuration: what is set in it, what is said of what changed, and what it lacks."""

from __future__ import annotations

import pytest

from hotplug_common import arch
from hotplug_common.kernel import config, hostrules
from hotplug_common.kernel.hostrules import Wanted
from hotplug_host.errors import ExitCode, ToolError
from tests import ROOT

#: What distributions of 6.12 set of the symbols that count; each file names its source.
DISTRIBUTIONS = ROOT / "tests/samples/configs"
DISTRIBUTION = """\
#
# Automatically generated file; DO NOT EDIT.
# Linux/powerpc 6.12.95 Kernel Configuration
#
CONFIG_CC_VERSION_TEXT="powerpc64le-linux-gnu-gcc-14"
CONFIG_PPC64=y
CONFIG_CPU_LITTLE_ENDIAN=y
CONFIG_LOCALVERSION="-1-vendor"
CONFIG_SYSTEM_TRUSTED_KEYS="certs/vendor.pem"
CONFIG_MODULE_SIG_KEY="certs/vendor-signing.pem"
CONFIG_DEBUG_INFO_BTF=y
CONFIG_WERROR=y
CONFIG_VENDOR_ONLY=y
CONFIG_SCSI_LPFC=m
CONFIG_USB_PRINTER=m
# CONFIG_LPARCFG is not set
"""


def test_what_vendors_have_alone_is_emptied_and_the_rest_is_kept() -> None:
    wanted = hostrules.wanted_of(DISTRIBUTION, arch.PPC64LE, [])
    got = config.parse(hostrules.overlay(DISTRIBUTION, wanted))
    assert {name: got[f"CONFIG_{name}"] for name in ("SYSTEM_TRUSTED_KEYS", "LOCALVERSION")} == {
        "SYSTEM_TRUSTED_KEYS": '""',
        "LOCALVERSION": '""',
    }
    assert (got["CONFIG_MODULE_SIG_KEY"], got["CONFIG_WERROR"]) == ('"certs/signing_key.pem"', "n")
    assert (got["CONFIG_DEBUG_INFO_NONE"], got["CONFIG_DEBUG_INFO_BTF"]) == ("y", "n")
    assert (got["CONFIG_IBMVNIC"], got["CONFIG_LPARCFG"]) == ("m", "y")
    assert (got["CONFIG_SCSI_LPFC"], got["CONFIG_USB_PRINTER"]) == ("m", "m")
    assert hostrules.overlay(DISTRIBUTION, wanted).count("CONFIG_LPARCFG") == 1


@pytest.mark.parametrize(
    ("name", "vendors", "lacks"),
    [("rhel", "certs/rhel.pem", {"KEXEC"}), ("sles", "", set())],
)
def test_a_distributions_configuration_is_taken_with_what_power_needs(
    name: str, vendors: str, lacks: set[str]
) -> None:
    text = (DISTRIBUTIONS / f"{name}.config").read_text()
    before, wanted = config.parse(text), hostrules.wanted_of(text, arch.PPC64LE, [])
    assert before["CONFIG_SYSTEM_TRUSTED_KEYS"] == f'"{vendors}"'
    got = config.parse(hostrules.overlay(text, wanted))
    assert got["CONFIG_SYSTEM_TRUSTED_KEYS"] == got["CONFIG_LOCALVERSION"] == '""'
    # Both have what Debian lacks.
    assert not {"CONFIG_IBMVNIC", "CONFIG_LPARCFG"} & {one.symbol for one in wanted}
    warned = hostrules.warnings(text, arch.PPC64LE)
    missing = {line.split()[0].removeprefix("CONFIG_") for line in warned if " is not set: " in line}
    assert missing == lacks
    assert any("KFENCE=y" in line for line in warned) == (name == "rhel")


def test_what_the_host_has_or_the_operator_says_goes_before_what_is_switched_on() -> None:
    given = DISTRIBUTION + "CONFIG_IBMVNIC=y\n"
    wanted = hostrules.wanted_of(
        given, arch.PPC64LE, hostrules.read_enabled(["LPARCFG=n", "CONFIG_FA_DUMP=y"])
    )
    values = {one.symbol: (one.value, one.why) for one in wanted}
    assert "CONFIG_IBMVNIC" not in values
    assert values["CONFIG_LPARCFG"] == ("n", "--enable")
    assert values["CONFIG_FA_DUMP"] == ("y", "--enable")


def test_nothing_of_power_is_switched_on_elsewhere() -> None:
    symbols = {one.symbol for one in hostrules.wanted_of("CONFIG_X86_64=y\n", arch.X86_64, [])}
    assert not symbols & {"CONFIG_IBMVNIC", "CONFIG_LPARCFG", "CONFIG_PPC_DISABLE_WERROR"}
    assert hostrules.warnings("CONFIG_X86_64=y\n", arch.X86_64) == []


def test_an_own_key_takes_the_place_of_the_throw_away_one() -> None:
    wanted = hostrules.wanted_of(DISTRIBUTION, arch.PPC64LE, [], "/srv/keys/site.pem")
    assert Wanted("CONFIG_MODULE_SIG_KEY", '"/srv/keys/site.pem"', "--sign-key") in wanted


@pytest.mark.parametrize("word", ["IBMVNIC", "IBMVNIC=on", "=y", "A B=y", 'X="a"b"'])
def test_a_word_that_sets_no_symbol_is_refused(word: str) -> None:
    with pytest.raises(ToolError, match=r"^--enable .*not SYMBOL=") as caught:
        hostrules.read_enabled([word])
    assert caught.value.code is ExitCode.USAGE


def test_each_change_has_its_reason() -> None:
    untrimmed = """\
CONFIG_CC_VERSION_TEXT="gcc 12"
CONFIG_PPC64=y
CONFIG_CPU_LITTLE_ENDIAN=y
CONFIG_LOCALVERSION=""
CONFIG_SCSI_LPFC=m
CONFIG_USB_PRINTER=m
CONFIG_KEXEC_ELF=y
"""
    final = untrimmed.replace("CONFIG_USB_PRINTER=m", "# CONFIG_USB_PRINTER is not set")
    wanted = [Wanted("CONFIG_LOCALVERSION", '""', "forced: named by this tool")]
    known = frozenset({"WERROR", "USB_PRINTER", "KEXEC_ELF", "SCSI_LPFC", "DEBUG_INFO_BTF"})
    found = {one.symbol: one for one in hostrules.changes(DISTRIBUTION, untrimmed, final, wanted, known)}
    assert str(found["CONFIG_LOCALVERSION"]) == (
        'CONFIG_LOCALVERSION: "-1-vendor" -> "" (forced: named by this tool)'
    )
    assert found["CONFIG_USB_PRINTER"].why == hostrules.TRIMMED
    assert found["CONFIG_CC_VERSION_TEXT"].why == "olddefconfig: this compiler is another"
    assert found["CONFIG_VENDOR_ONLY"].why == "olddefconfig: this source has no such symbol"
    assert found["CONFIG_KEXEC_ELF"].why.startswith("olddefconfig: a symbol that the configuration does not")
    assert found["CONFIG_WERROR"].why.startswith("olddefconfig: what it depends on")
    assert "CONFIG_SCSI_LPFC" not in found


def test_a_value_that_is_lost_is_named_but_an_empty_string_may_go_with_its_owner() -> None:
    wanted = [Wanted("CONFIG_SYSTEM_TRUSTED_KEYS", '""', "forced"), Wanted("CONFIG_IBMVNIC", "m", "--enable")]
    hostrules.require_kept(wanted, "CONFIG_IBMVNIC=m\n", "6.12")
    by_itself = hostrules.wanted_of(DISTRIBUTION, arch.PPC64LE, [])
    hostrules.require_kept(by_itself, "CONFIG_DEBUG_INFO_NONE=y\nCONFIG_PPC_DISABLE_WERROR=y\n", "6.12")
    with pytest.raises(ToolError, match=r"CONFIG_IBMVNIC .*wanted m, got n") as caught:
        hostrules.require_kept(wanted, "CONFIG_PPC64=y\n", "6.12")
    assert caught.value.code is ExitCode.INPUT


def test_warnings_name_symbol_effect_and_the_option_that_helps() -> None:
    said = hostrules.warnings(DISTRIBUTION, arch.PPC64LE)
    assert (
        "CONFIG_KEXEC_FILE is not set: no kexec -s, which a locked-down kernel insists on;"
        " --enable KEXEC_FILE=y has it built"
    ) in said
    assert any(line.startswith("CONFIG_SCSI_LPFC=m: with an Emulex adapter") for line in said)
    assert not any("KFENCE" in line for line in said)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "holds no CONFIG_ line"),
        ("CONFIG_X86_64=y\n", "no configuration for ppc64le: CONFIG_PPC64 is not set"),
        ("CONFIG_PPC64=y\nCONFIG_CPU_BIG_ENDIAN=y\n", "CONFIG_CPU_LITTLE_ENDIAN is not set"),
    ],
)
def test_a_configuration_of_another_machine_is_refused(text: str, message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        hostrules.require_arch(text, arch.PPC64LE, "/boot/config-1")
    assert caught.value.code is ExitCode.INPUT


def test_the_version_is_read_from_the_head() -> None:
    assert hostrules.version_of(DISTRIBUTION) == "Linux 6.12.95"
    assert hostrules.version_of("CONFIG_PPC64=y\n") == "an unnamed Linux"


def test_every_rule_has_its_reason_and_names_each_symbol_once() -> None:
    rules = hostrules.rules()
    for kind, reason in (("force", "why"), ("need", "effect"), ("caution", "effect")):
        symbols = [one["symbol"] for one in rules[kind]]
        assert len(symbols) == len(set(symbols)) > 0
        assert all(one[reason] for one in rules[kind])
    assert all(one["offer"] for one in rules["need"] if one.get("auto"))
    kept = hostrules.kept_modules()
    assert len(kept) == len(set(kept))
    assert not any("-" in name for name in kept)
