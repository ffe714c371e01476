"""The audit on fake hosts: what is read, what follows from it, and what it looks like."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from clock_check.schema import AUDIT
from hotplug_host.clocks import kernellog
from hotplug_host.clocks.facts import Facts, boot_words, tsc_flags
from hotplug_host.clocks.kernellog import ClockLog, Message, parse
from hotplug_host.clocks.measured import Measured
from hotplug_host.clocks.recommend import recommend
from hotplug_host.clocksource import Clocksources
from hotplug_host.cpulist import format_cpulist
from hotplug_host.errors import ExitCode
from hotplug_host.hostinfo import HostInfo
from hotplug_host.sysfs import Sysfs
from tests.fakes.fakeclocks import CLOCKSOURCE, CPUS, FakeClocks, replies, write_probe

Run = Callable[..., tuple[int, str, str]]
SCHEMA = AUDIT.read()
INVARIANT = ("tsc", "rdtscp", "constant_tsc", "nonstop_tsc")
WATCHDOG_6_12 = (
    "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too"
    " large:"
)


@pytest.fixture
def audit(run: Run) -> Callable[..., dict[str, Any]]:
    """Take an audit of the fake host; it fits the schema."""

    def take(*arguments: object) -> dict[str, Any]:
        code, out, err = run("audit", "--json", *arguments)
        assert code == 0, err
        assert out.count("\n") == 1
        found: dict[str, Any] = json.loads(out)
        Draft202012Validator(SCHEMA).validate(found)
        return found

    return take


def test_a_server_with_an_invariant_tsc_keeps_it(host: FakeClocks, audit: Callable[..., Any]) -> None:
    host.say_of_cpus(*INVARIANT)
    host.put("proc/cmdline", "quiet tsc=nowatchdog root=/dev/sda clocksource=tsc hpet=force xtsc=1 notscx")

    found = audit()

    assert found["clocksource"] == {"current": "tsc", "available": ["tsc", "hpet", "acpi_pm"]}
    assert found["tsc"] == {"flags": list(INVARIANT), "invariant": True}
    assert found["boot_words"] == ["tsc=nowatchdog", "clocksource=tsc", "hpet=force"]
    assert found["log"] == {"readable": True, "complete": True, "messages": [], "unstable": []}
    assert (found["hypervisor"], found["cpus"]) == (None, format_cpulist(CPUS))
    assert found["recommendation"] == {
        "clocksource": "tsc",
        "reason": "TSC is invariant, and nothing speaks against it; but it is not watched (tsc=nowatchdog)",
    }


def test_a_tsc_that_the_kernel_gave_up_is_told_with_its_words(
    host: FakeClocks, audit: Callable[..., Any]
) -> None:
    host.say_of_cpus(*INVARIANT)
    host.put(f"{CLOCKSOURCE}/current_clocksource", "hpet")
    host.put(f"{CLOCKSOURCE}/available_clocksource", "hpet acpi_pm ")
    host.log(
        "usb 1-1: new device",
        WATCHDOG_6_12,
        "clocksource:                       'hpet' wd_nsec: 496000 wd_now: 1 wd_last: 0 mask: ffffffff",
        "tsc: Marking TSC unstable due to clocksource watchdog",
    )

    found = audit()

    assert [(one["seconds"], one["kind"]) for one in found["log"]["messages"]] == [
        (1.0, "unstable"),
        (2.0, "skew"),
        (3.0, "unstable"),
    ]
    assert found["log"]["unstable"] == ["tsc"]
    assert found["recommendation"]["clocksource"] == "hpet"
    assert found["recommendation"]["reason"] == (
        f"slow, but the same on all CPUs; not tsc: the kernel logged '{WATCHDOG_6_12}'"
    )


@pytest.mark.slow
def test_what_was_measured_counts_more_than_what_is_shown(
    host: FakeClocks, run: Run, audit: Callable[..., Any], tmp_path: Path
) -> None:
    host.say_of_cpus(*INVARIANT)
    bad = write_probe(tmp_path / "bad", replies(violations=3))
    assert run("order", "--path=vdso", f"--probe={bad}", f"--output={tmp_path / 'o'}")[0] == 5
    good = write_probe(tmp_path / "good", replies())
    run("scale", "--threads=1", f"--probe={good}", f"--output={tmp_path / 's'}", "--clocksource=all")

    found = audit(f"--measured={tmp_path / 'o'}", f"--measured={tmp_path / 's'}")

    order, *scale = found["measured"]
    words = "3 of 10000000 calls returned less than one that had returned before"
    assert (order["clocksource"], order["violations"], order["n"], order["us_per_call"]) == (
        "tsc",
        3,
        0,
        None,
    )
    assert words in order["problem"]
    # 25 ms for 10^6 calls of each thread.
    assert [(one["clocksource"], one["operation"], one["n"], one["us_per_call"]) for one in scale[:3]] == [
        ("tsc", "scale/vdso/1-thread", 5, 0.025),
        ("tsc", "scale/syscall/1-thread", 5, 0.025),
        ("hpet", "scale/vdso/1-thread", 5, 0.025),
    ]
    assert found["recommendation"]["clocksource"] == "hpet"
    assert words in found["recommendation"]["reason"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello\n", "f:1: not a result/3 record of clock-check"),
        ('{"schema": "hotplug-timer/2", "record": "run"}\n', "f:1: not a result/3 record of clock-check"),
        ('{"schema": "clock-check/1", "record": "run"}\n', "f:1: not a result/3 record of clock-check"),
        ('{"schema": "result/3", "tool": "hotplug-timer", "record": "run"}\n', "not a result/3 record of"),
        ('{"schema": "result/3"}\n', "f:1: not a result/3 record of clock-check"),
        ("[1]\n", "f:1: not a result/3 record of clock-check"),
        (None, "f: No such file or directory; name what --output wrote"),
    ],
)
def test_what_is_no_result_is_an_input_fault(run: Run, tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "f").write_text(text)
    code, out, err = run("audit", f"--measured={tmp_path / 'f'}")
    assert (code, out) == (ExitCode.INPUT, "")
    assert words in err


def test_a_line_cut_short_is_left_out(
    run: Run, probe: Path, audit: Callable[..., Any], tmp_path: Path
) -> None:
    run("order", "--path=vdso", f"--probe={probe}", f"--output={tmp_path / 'o'}")
    with (tmp_path / "o").open("a") as file:
        file.write('{"record": "ite')
    (one,) = audit(f"--measured={tmp_path / 'o'}")["measured"]
    assert (one["n"], one["violations"], one["problem"]) == (1, 0, None)


def test_the_audit_for_a_person_says_the_same(host: FakeClocks, run: Run, tmp_path: Path) -> None:
    host.say_of_cpus("tsc", "hypervisor")
    host.put("sys/hypervisor/type", "xen")
    host.log("clocksource: wd-tsc-wd read-back delay of 123456ns, clock-skew test skipped!", first=900)
    bad = write_probe(tmp_path / "bad", replies(violations=1))
    run("order", "--path=vdso", f"--probe={bad}", f"--output={tmp_path / 'o'}")

    code, out, _ = run("audit", f"--measured={tmp_path / 'o'}")

    assert code == 0
    lines = [line.split(None, 1) for line in out.splitlines()]
    assert lines[0] == ["host", f"server1, 6.12.117-stock-1a2b3c4d x86_64, CPUs {format_cpulist(CPUS)}"]
    assert lines[1:4] == [
        ["hypervisor", "xen"],
        ["clocksource", "tsc, of tsc hpet acpi_pm"],
        ["TSC", "not invariant: tsc"],
    ]
    assert "messages about clocks: 1; it no longer reaches back to the boot" in out
    assert "[0.000000] clocksource: wd-tsc-wd read-back delay" in out
    assert "order/vdso/" in out
    assert lines[-1][0] == "recommended"
    assert lines[-1][1].startswith("hpet: slow, but the same on all CPUs; not tsc: order/vdso/")


def test_a_log_that_may_not_be_read_is_told(host: FakeClocks, run: Run, audit: Callable[..., Any]) -> None:
    host.say_of_cpus(*INVARIANT)
    (host.root / "dev/kmsg").unlink()
    found = audit()
    assert found["log"] == {"readable": False, "complete": False, "messages": [], "unstable": []}
    assert found["recommendation"]["reason"].endswith("; but the kernel's log could not be read")
    assert "kernel log    cannot be read\n" in run("audit")[1]


def test_a_log_that_overruns_while_it_is_read_is_read_on(
    host: FakeClocks, audit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As /dev/kmsg does: a record for each read, EPIPE where some went, EAGAIN at the end.
    answers = [BrokenPipeError(), b"6,7,1000000,-;", b"tsc: Marking TSC unstable due to X\n"]
    answers += [b" SUBSYSTEM=clock\n", BlockingIOError()]

    def read(descriptor: int, size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, bytes):
            return answer
        raise answer

    monkeypatch.setattr(os, "read", read)
    lines = kernellog.read_lines(Sysfs(host.root))
    assert parse(lines).unstable == ("tsc",)
    assert parse(lines).complete is False


POWER10 = "processor\t: 0\ncpu\t\t: POWER10 (architected)\n\nplatform\t: {0}\nmachine\t\t: {1}\n"


@pytest.mark.parametrize(
    ("cpuinfo", "compatible", "name"),
    [
        (POWER10.format("PowerNV", "PowerNV 9105"), None, None),
        (POWER10.format("pSeries", "CHRP IBM,9080-HEX"), None, "PowerVM"),
        (POWER10.format("pSeries", "CHRP IBM pSeries (emulated by qemu)"), None, "QEMU"),
        (POWER10.format("pSeries", "CHRP IBM pSeries (emulated by qemu)"), "linux,kvm", "KVM"),
    ],
)
def test_power_has_one_clocksource(
    host: FakeClocks, audit: Callable[..., Any], cpuinfo: str, compatible: str | None, name: str | None
) -> None:
    host.put("proc/sys/kernel/arch", "ppc64le")
    host.put("proc/cpuinfo", cpuinfo)
    host.put(f"{CLOCKSOURCE}/current_clocksource", "timebase")
    host.put(f"{CLOCKSOURCE}/available_clocksource", "timebase ")
    if compatible:
        host.put("proc/device-tree/hypervisor/compatible", compatible)
    found = audit()
    assert (found["hypervisor"], found["tsc"]) == (name, {"flags": [], "invariant": False})
    assert found["recommendation"] == {
        "clocksource": "timebase",
        "reason": "the only one that this kernel has",
    }


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "unknown"),
        ({"proc/cpuinfo": "model name\t: QEMU TCG CPU\nflags\t: tsc hypervisor"}, "QEMU"),
        ({"sys/class/dmi/id/sys_vendor": "QEMU"}, "QEMU"),
        ({"sys/hypervisor/type": "xen", "sys/class/dmi/id/sys_vendor": "Xen"}, "xen"),
        ({"dev/kmsg": "6,0,0,-;Hypervisor detected: KVM", "sys/class/dmi/id/sys_vendor": "Cloud"}, "KVM"),
    ],
)
def test_an_x86_guest_names_its_hypervisor_as_well_as_it_can(
    host: FakeClocks, audit: Callable[..., Any], more: dict[str, str], name: str
) -> None:
    host.say_of_cpus("tsc", "hypervisor")
    for path, text in more.items():
        host.put(path, text)
    assert audit()["hypervisor"] == name


def test_without_clocksources_nothing_is_recommended(host: FakeClocks, audit: Callable[..., Any]) -> None:
    for name in ("current_clocksource", "available_clocksource"):
        (host.root / CLOCKSOURCE / name).unlink()
    found = audit("--emulated", "--boot-method=kexec")
    assert found["clocksource"] == {"current": None, "available": []}
    assert found["recommendation"]["clocksource"] is None
    assert (found["host"]["emulated"], found["host"]["boot_method"]) == (True, "kexec")


# The kernel's log


@pytest.mark.parametrize(
    ("text", "kind", "clocksource"),
    [
        (WATCHDOG_6_12, "unstable", "tsc"),
        (
            "clocksource: Marking clocksource tsc-early unstable due to inter CPU skew",
            "unstable",
            "tsc",
        ),
        ("Clocksource tsc unstable (delta = 62500016 ns)", "unstable", "tsc"),
        (
            "clocksource: timekeeping watchdog on CPU1: wd-tsc-wd excessive read-back delay of 200ns vs."
            " limit of 100ns, wd-wd read-back delay only 50ns, attempt 3, marking tsc unstable",
            "unstable",
            "tsc",
        ),
        ("tsc: Marking TSC unstable due to TSCs unsynchronized", "unstable", "tsc"),
        (
            "TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'.",
            "unstable",
            "tsc",
        ),
        ("sched_clock: Marking unstable (1, 2)<-(3, 4)", "unstable", None),
        ("Clock Unsynchronized", "unstable", None),
        ("Measured 1234 cycles TSC warp between CPUs, turning off TSC clock.", "warp", "tsc"),
        ("TSC synchronization [CPU#0 -> CPU#5]:", "warp", "tsc"),
        ("TSC warped randomly between CPUs", "warp", "tsc"),
        ("[Firmware Bug]: TSC ADJUST differs: CPU5 1 --> 2. Restoring", "firmware", "tsc"),
        ("[Firmware Bug]: TSC doesn't count with P0 frequency!", "firmware", "tsc"),
        ("TSC ADJUST compensate: CPU5 observed 12 warp. Adjust: 12", "firmware", "tsc"),
        (
            "clocksource: Override clocksource tsc is unstable and not HRT compatible - cannot switch while"
            " in HRT/NOHZ mode",
            "refused",
            "tsc",
        ),
        ("clocksource: hpet wd-wd read-back delay of 100ns", "delay", None),
        ("clocksource: timekeeping watchdog on CPU2: hpet retried 2 times before success", "delay", None),
        ("clocksource: Long readout interval, skipping watchdog check: cs_nsec: 1 wd_nsec: 2", "delay", None),
        ("clocksource: Watchdog hpet read timed out. Readout sequence took: 12ns", "delay", None),
        ("clocksource: 'tsc' wd_nsec: 1 (100) wd_now: 1", "skew", None),
        ("clocksource: CPUs 3-5 ahead of CPU 0 for clocksource tsc.", "skew", None),
    ],
)
def test_messages_of_old_and_new_kernels_are_known(text: str, kind: str, clocksource: str | None) -> None:
    (message,) = parse([f"4,17,1500000,-;{text}"]).messages
    assert message == Message(1.5, kind, clocksource, text)


@pytest.mark.parametrize(
    "text",
    [
        "clocksource: Switched to clocksource tsc",
        "clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x256bead120a",
        "tsc: Detected 2596.120 MHz processor",
        "TSC deadline timer available",
        "sched_clock: Marking stable (1, 2)->(3, 4)",
        "TSC synchronization [CPU#0 -> CPU#1]: passed",
        "rtc_cmos 00:04: registered as rtc0",
        "hpet0: at MMIO 0xfed00000, IRQs 2, 8, 0",
        "watchdog: softlockup disabled",
        "ata1: link is slow to respond, please be patient (ready=0)",
    ],
)
def test_what_every_boot_says_is_no_message(text: str) -> None:
    assert parse([f"6,0,0,-;{text}"]).messages == ()


def test_of_many_messages_the_first_are_kept_and_all_count() -> None:
    lines = [f"4,{at},0,-;clocksource: skew {at}" for at in range(200)]
    found = parse([*lines, "4,200,0,-;clocksource: Marking clocksource hpet unstable due to frequency skew"])
    assert [message.text for message in found.messages] == [f"clocksource: skew {at}" for at in range(50)]
    assert found.unstable == ("hpet",)


@given(st.lists(st.text(max_size=80), max_size=20))
@example(["6,0,0;;clocksource", ";", "6,,,-;tsc"])
def test_any_log_is_read(lines: list[str]) -> None:
    found = parse(lines)
    assert len(found.messages) <= len(lines)
    assert set(found.unstable) <= {message.clocksource for message in found.messages}


# /proc/cpuinfo and the command line


def test_flags_count_when_all_cpus_have_them() -> None:
    text = "flags\t\t: tsc constant_tsc nonstop_tsc\nvmx flags\t: tsc_scaling\nflags\t\t: tsc constant_tsc\n"
    assert tsc_flags(text) == ("tsc", "constant_tsc")
    assert tsc_flags("cpu\t: POWER10") == ()


@given(st.text(max_size=200))
@example("flags\t:\nflags\t:tsc")
def test_any_cpuinfo_and_command_line_are_read(text: str) -> None:
    assert set(tsc_flags(text)) <= set(text.split()) | set(text.replace(":", " ").split())
    assert set(boot_words(text)) <= set(text.split())


def test_words_about_clocks_are_told_from_others() -> None:
    words = (
        "tsc=reliable notsc nohpet pmtmr=0x408 clock=pit clocksource.verify_n_cpus=4 no-kvmclock acpi_pm_good"
    )
    assert boot_words(f"root=/dev/vda {words} clocksources=3 rtsc=1 -- tsc") == tuple(words.split())


# What to recommend

HOST = HostInfo("h", "x86_64", "6.12", "#1", "b", "", "unknown", False, "AMD EPYC")


def facts(
    available: str,
    *,
    flags: tuple[str, ...] = INVARIANT,
    machine: str = "x86_64",
    hypervisor: str | None = None,
    boot: str = "",
    unstable: tuple[str, ...] = (),
    readable: bool = True,
    complete: bool = True,
) -> Facts:
    names = tuple(available.split())
    return Facts(
        host=HostInfo(**{**vars(HOST), "machine": machine}),
        cpus="0-3",
        hypervisor=hypervisor,
        clocksources=Clocksources(names[0] if names else None, names),
        tsc_flags=flags,
        boot_words=tuple(boot.split()),
        log=ClockLog(readable, complete, (), unstable),
    )


def cost(clocksource: str, us: float, threads: int = 4, problem: str | None = None) -> Measured:
    return Measured(clocksource, f"scale/vdso/{threads}-threads", 3, us, None, problem)


WRONG = "went back"


@pytest.mark.parametrize(
    ("seen", "measured", "name", "reason"),
    [
        (facts("tsc hpet"), [], "tsc", "TSC is invariant, and nothing speaks against it"),
        (
            facts("kvm-clock tsc", hypervisor="KVM"),
            [],
            "tsc",
            "TSC is invariant, as its hypervisor (KVM) promises, and nothing speaks against it",
        ),
        (
            facts("kvm-clock tsc acpi_pm", flags=("tsc", "constant_tsc"), hypervisor="KVM"),
            [],
            "kvm-clock",
            "its hypervisor keeps it right; not tsc: not invariant (nonstop_tsc missing), so its rate may"
            " change or it may stop",
        ),
        (
            facts("tsc hpet acpi_pm", flags=("tsc",)),
            [],
            "hpet",
            "slow, but the same on all CPUs; not tsc: not invariant (constant_tsc and nonstop_tsc missing),"
            " so its rate may change or it may stop",
        ),
        (
            facts("tsc hpet acpi_pm"),
            [cost("hpet", 12.8), cost("hpet", 1.0, 1), cost("acpi_pm", 3.7), cost("tsc", 0.5, problem=WRONG)],
            "acpi_pm",
            "slow, but the same on all CPUs, the cheapest one here (3.7 us a call); not tsc:"
            " scale/vdso/4-threads: went back",
        ),
        (
            facts("hpet acpi_pm", boot="tsc=unstable"),
            [cost("hpet", 12.8)],
            "hpet",
            "slow, but the same on all CPUs; not tsc: tsc=unstable is on the command line",
        ),
        (
            facts("tsc acpi_pm", flags=("tsc", "constant_tsc", "tsc_reliable"), hypervisor="VMware"),
            [],
            "tsc",
            "the platform (VMware) vouches for TSC (tsc_reliable)",
        ),
        (facts("hpet"), [], "hpet", "the only one that this kernel has"),
        (
            facts("acpi_pm jiffies"),
            [],
            "acpi_pm",
            "slow, but the same on all CPUs; not tsc: this kernel does not offer it",
        ),
        (
            facts("tsc jiffies", flags=("tsc", "nonstop_tsc")),
            [],
            "tsc",
            "there is nothing better, although it is not invariant (constant_tsc missing), so its rate may"
            " change or it may stop",
        ),
        (
            facts("jiffies refined-jiffies", unstable=("tsc",)),
            [],
            "jiffies",
            "there is nothing better; not tsc: the kernel logged 'unstable'",
        ),
        (
            facts("tsc hpet", unstable=("tsc",)),
            [cost("hpet", 1.0, problem=WRONG)],
            None,
            "nothing here can be relied on: tsc: the kernel logged 'unstable'; hpet: scale/vdso/4-threads:"
            " went back",
        ),
        (facts(""), [], None, "the kernel does not say which clocksources it has"),
        (facts("timebase decrementer", machine="ppc64le"), [], "timebase", "the kernel's first choice"),
        (
            facts("tsc hpet", boot="clocksource=hpet", complete=False),
            [],
            "tsc",
            "TSC is invariant, and nothing speaks against it; but the kernel's log no longer reaches back to"
            " the boot; but the command line asks for hpet",
        ),
        (
            facts("hpet acpi_pm", boot="clocksource=acpi_pm clocksource=hpet", readable=False),
            [],
            "hpet",
            "slow, but the same on all CPUs; not tsc: this kernel does not offer it",
        ),
    ],
)
def test_the_fastest_that_nothing_speaks_against_is_recommended(
    seen: Facts, measured: list[Measured], name: str | None, reason: str
) -> None:
    found = recommend(seen, measured)
    assert (found.clocksource, found.reason) == (name, reason)


NAMES = st.sampled_from(["tsc", "hpet", "acpi_pm", "kvm-clock", "jiffies", "timebase"])


@given(
    st.lists(NAMES, unique=True),
    st.sets(NAMES),
    st.lists(st.builds(cost, NAMES, st.floats(0.001, 100), st.integers(1, 9), st.none() | st.just(WRONG))),
    st.booleans(),
    st.sampled_from(["x86_64", "ppc64le"]),
)
def test_what_is_recommended_is_there_and_nothing_speaks_against_it(
    available: list[str], unstable: set[str], measured: list[Measured], invariant: bool, machine: str
) -> None:
    flags = INVARIANT if invariant else ("tsc",)
    seen = facts(" ".join(available), flags=flags, unstable=tuple(unstable), machine=machine)
    wrong = unstable | {one.clocksource for one in measured if one.problem}
    found = recommend(seen, measured)
    assert found.reason
    assert "\n" not in found.reason
    if found.clocksource is None:
        assert set(available) <= wrong
    else:
        assert found.clocksource in set(available) - wrong
