"""The judgement of a host: whether what is planned can go on there, and what somebody has to do first.

Pure: facts and a plan in, a verdict with reasons out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hotplug_host.arguments import MAKE
from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.preflight.drivers import Kernel, findings
from hotplug_host.preflight.facts import Facts
from hotplug_host.preflight.hardware import KDUMP
from hotplug_host.preflight.lpar import SHARED
from hotplug_host.preflight.workloads import Tasks
from hotplug_host.programs import NO_CONTROL, ONE_BY_ONE

GO, WARNINGS, NO_GO = "go", "go-with-warnings", "no-go"
#: What may be planned: one switch with `smt --expedite`, timing switches, an A/B run of kernels, or leaving a
#: host on another kernel, started by kexec (deploy) or by its boot loader (install).
SWITCH, TIME, AB, DEPLOY, INSTALL = "switch", "time", "ab", "deploy", "install"
PURPOSES = (SWITCH, TIME, AB, DEPLOY, INSTALL)
BOOTS = (AB, DEPLOY, INSTALL)
#: Below this a dump, an initial RAM disk or a kernel that somebody installs may find no room in /boot.
BOOT_SPARE_BYTES = 64 << 20
#: What a boot entry and the file system take beside a package's files.
BOOT_MARGIN_BYTES = 1 << 20
MIB = 1 << 20
#: The SMT level where no core has a second thread: nothing to switch, and nothing to put back.
NO_THREADS = "notsupported"
SIGN = "sign the image with a key that the host trusts"
#: How many groups of tasks a reason names.
MOST_NAMED = 4


@dataclass(frozen=True)
class Plan:
    """What is planned, and with what; sizes in bytes."""

    purpose: str = AB
    staging: str = "/var/lib/hotplug-acceleration"
    need_bytes: int = 0
    boot_bytes: int = 0
    """What the files of the kernel's package take in /boot (install)."""
    kexec: bool = True
    """Whether kexec boots the kernels of an A/B run, and not the boot loader."""
    kexec_file_load: bool = False
    unsigned: tuple[str, ...] = ()
    """The kernels to boot that carry no signature."""
    initrd: str = ""
    kernels: tuple[Kernel, ...] = ()
    """The kernels to boot, by their configuration."""
    allow_missing: tuple[str, ...] = ()
    """What of drivers.ALLOWABLE they may lack."""
    rollback: str = "run playbooks/rollback.yml on this host"


@dataclass(frozen=True)
class Reason:
    """One thing that speaks against it: what, and what to do about it."""

    level: str
    text: str
    step: str

    def __str__(self) -> str:
        return f"{self.text}; {self.step}"


@dataclass(frozen=True)
class Judgement:
    """The verdict and its reasons, those that stop it first."""

    verdict: str
    reasons: tuple[Reason, ...] = field(default=())


def judge(facts: Facts, plan: Plan) -> Judgement:
    """Return whether the host is fit for what is planned."""
    stops = [Reason(NO_GO, *words) for words in _stops(facts, plan)]
    warnings = [Reason(WARNINGS, *words) for words in _warnings(facts, plan)]
    verdict = NO_GO if stops else WARNINGS if warnings else GO
    return Judgement(verdict, (*stops, *warnings))


def _stops(facts: Facts, plan: Plan) -> Iterator[tuple[str, str]]:
    yield from _held(facts, plan)
    if facts.euid != 0:
        yield "tasks do not run as root", "set ansible_user=root, or ansible_become=true"
    if plan.purpose == DEPLOY or (plan.purpose == AB and plan.kexec):
        yield from _kexec(facts, plan)
    if plan.purpose in BOOTS:
        yield from _clocksource(facts)
        yield from _drivers(facts, plan, stops=True)
        yield from _unsigned_installed(facts)
    if plan.purpose in (DEPLOY, INSTALL):
        yield from _dumps(facts, plan)
    if plan.purpose == INSTALL:
        yield from _installing(facts, plan)
    if plan.purpose != SWITCH:
        yield from _timing(facts, plan)
    else:
        yield from _expediting(facts)
    yield from _smt(facts, plan)


def _held(facts: Facts, plan: Plan) -> Iterator[tuple[str, str]]:
    if facts.lock is not None:
        # Of one that only switches SMT, the switch goes on without it.
        gone = "go on with it by -e smt_switch_resume=true, or " if facts.lock.get("switch") else ""
        yield (
            facts.holder,
            f"wait for that run, or if it is gone, {gone}{plan.rollback}"
            f" -e ab_break_lock={facts.lock.get('token')}",
        )
    elif facts.variant is None:
        return
    elif facts.deployed:
        if plan.purpose == AB:
            yield (
                f"the host runs {facts.release}, which deploy.yml started as '{facts.variant}', and a run"
                " ends on the default kernel",
                plan.rollback,
            )
    else:
        yield (
            f"the host runs {facts.release}, left over from a run that tried variant '{facts.variant}',"
            " not its default kernel",
            plan.rollback,
        )


def _kexec(facts: Facts, plan: Plan) -> Iterator[tuple[str, str]]:
    kexec = facts.kexec
    if kexec.path is None:
        yield "kexec is not installed", "install kexec-tools"
    if kexec.loaded is None:
        yield "the running kernel has no kexec", "boot one with CONFIG_KEXEC"
    if kexec.load_disabled == 1:
        yield (
            "kexec is disabled until the next boot",
            "find what sets kernel.kexec_load_disabled, and reboot",
        )
    if kexec.loaded == 1:
        yield (
            "somebody has loaded a kernel for kexec already",
            "make sure that it is not needed, and run kexec -u",
        )
    locked = kexec.lockdown != "none"
    if locked and plan.purpose == AB and not plan.kexec_file_load:
        yield (
            f"the kernel is locked down ({kexec.lockdown}) and only takes a signed image through"
            " kexec_file_load",
            "sign the images and set ab_kexec_file_load=true",
        )
    elif locked and plan.unsigned:
        yield f"the kernel is locked down ({kexec.lockdown}), and {_unsigned(plan.unsigned)}", SIGN
    if plan.initrd == MAKE:
        yield (
            "an initial RAM disk is made of a kernel's modules on the host, and kexec boots it without them",
            "deploy it with boot=once or boot=default, or set ab_initrd to a path",
        )
    elif plan.initrd and not facts.files.get(plan.initrd):
        yield f"the initial RAM disk {plan.initrd} is not on the host", "set ab_initrd to one that is"


def _dumps(facts: Facts, plan: Plan) -> Iterator[tuple[str, str]]:
    if facts.kexec.crash_loaded == 1 and facts.kexec.fadump != 1 and KDUMP not in plan.allow_missing:
        yield (
            "kdump is loaded, and it finds kernels only where the distribution's packages put them, not a"
            " deployed one: a crash of that leaves no dump",
            'allow that with ab_allow_missing=["kdump"], or install the kernel by a package of the'
            " distribution's kind (lpar-lab build-kernel --package)",
        )


def _clocksource(facts: Facts) -> Iterator[tuple[str, str]]:
    record = facts.clocksource.record or {}
    if record and record.get("boot_id") == facts.boot_id:
        yield (
            f"clocks.yml has switched the clocksource from {record.get('before')} to {record.get('applied')},"
            " which no boot keeps",
            "put it back with playbooks/clocks.yml -e clocks_restore=true",
        )


def _drivers(facts: Facts, plan: Plan, *, stops: bool) -> Iterator[tuple[str, str]]:
    kernels = [(kernel, bool(plan.initrd)) for kernel in plan.kernels]
    # The host's tools have made those an initial RAM disk.
    for kernel, initrd in [*kernels, *((one.kernel, True) for one in facts.installed)]:
        # Of a kernel for another machine, preflight says that.
        if kernel.arch in ("", facts.machine):
            for found in findings(facts.hardware, kernel, initrd, plan.allow_missing):
                if found.stops == stops:
                    yield found.text, found.step


def _timing(facts: Facts, plan: Plan) -> Iterator[tuple[str, str]]:
    if facts.systemd_run is None:
        yield "systemd-run is missing", "this needs a host that systemd runs"
    if facts.free_bytes < plan.need_bytes:
        yield (
            f"{plan.staging} has {_size(facts.free_bytes)} free and needs {_size(plan.need_bytes)}",
            "free some, or set ab_staging_dir to another file system",
        )


def _installing(facts: Facts, plan: Plan) -> Iterator[tuple[str, str]]:
    if facts.boot_read_only:
        yield "/boot is mounted read-only", "mount it writable, or deploy by kexec"
    # The boot loader would stop at it, where neither panic= nor the timer of the way back exists.
    if facts.platform.secure_boot and plan.unsigned:
        yield f"secure boot is on, and {_unsigned(plan.unsigned)}", SIGN
    makes = plan.initrd == MAKE
    for kernel in plan.kernels:
        if makes and kernel.modules is None:
            yield (
                f"an initial RAM disk is to be made for {kernel.release}, which comes without modules",
                "leave ab_initrd out, or build the kernel from the host's own configuration",
            )
    # One that is made is about as large as those that are there.
    initrd = facts.boot_initrd_bytes if makes else 0
    free, needed = facts.boot_free_bytes, plan.boot_bytes + initrd + BOOT_MARGIN_BYTES
    # A package that is deployed already takes no more.
    installed = (facts.deployment or {}).get("boot", "kexec") != "kexec"
    if plan.boot_bytes and free is not None and free < needed and not installed:
        # Rounded apart: the same number twice would say nothing.
        yield (
            f"/boot has {_size(free // MIB * MIB)} free and the kernel's package"
            f"{' and its initial RAM disk need' if makes else ' needs'}"
            f" {_size(-(-needed // MIB) * MIB)} there",
            "remove unused kernels, or deploy by kexec",
        )


def _unsigned_installed(facts: Facts) -> Iterator[tuple[str, str]]:
    unsigned = [kernel.image for kernel in facts.installed if kernel.signed is False]
    # As with a package that is deployed.
    if facts.platform.secure_boot and unsigned:
        yield f"secure boot is on, and {_unsigned(unsigned)}", SIGN


def _expediting(facts: Facts) -> Iterator[tuple[str, str]]:
    if facts.rcu.get("rcu_expedited", "0") != "0":
        yield (
            "rcu_expedited is set already, so somebody else holds it",
            "write 0 to /sys/kernel/rcu_expedited if it is not needed, or switch without --expedite",
        )
    if facts.rcu.get("rcu_normal", "0") != "0":
        yield (
            "rcu_normal forbids expedited grace periods, as real-time kernels do",
            "switch without --expedite",
        )


def _smt(facts: Facts, plan: Plan) -> Iterator[tuple[str, str]]:
    smt = facts.smt
    if smt.interface is None:
        yield (
            "the SMT level cannot be read",
            "this needs a kernel with smt/control, or ppc64_cpu from powerpc-utils",
        )
    elif smt.level == NO_THREADS and plan.purpose in (DEPLOY, INSTALL):
        return
    elif not (smt.level in ("on", "off") or (smt.level or "").isdecimal()):
        yield (
            f"SMT cannot be switched here, its state is '{smt.level}'",
            "choose a host with SMT whose level is the same on every core",
        )


def _warnings(facts: Facts, plan: Plan) -> Iterator[tuple[str, str]]:
    yield from _disturbed_tasks(facts)
    yield from _disturbed_cpusets(facts)
    yield from _isolated(facts)
    yield from _slow(facts)
    if plan.purpose in (DEPLOY, INSTALL):
        yield from _fallback(facts, plan)
    if plan.purpose in BOOTS:
        yield from _drivers(facts, plan, stops=False)
        yield from _installed(facts)
    yield from _services(facts, plan)
    yield from _udev(facts)
    if facts.platform.lpar_mode == SHARED and plan.purpose != SWITCH:
        yield (
            "the LPAR shares its processors with others, whose load shows in the seconds",
            "measure on a dedicated LPAR, or more iterations",
        )
    if plan.purpose == TIME and facts.rcu.get("rcu_expedited", "0") != "0":
        yield (
            "rcu_expedited is set, so grace periods are expedited in what is timed",
            "write 0 to /sys/kernel/rcu_expedited unless that is wanted",
        )
    if facts.kexec.crash_loaded == 0 and facts.kexec.fadump != 1:
        yield (
            "neither kdump nor fadump is ready, so a crash leaves no dump",
            "start kdump.service (Debian: kdump-tools)",
        )
    if facts.boot_free_bytes is not None and facts.boot_free_bytes < BOOT_SPARE_BYTES:
        yield f"/boot has {_size(facts.boot_free_bytes)} free", "remove unused kernels"


def _udev(facts: Facts) -> Iterator[tuple[str, str]]:
    if facts.cpu_rules:
        yield (
            f"udev may run a program for each CPU that comes or goes ({', '.join(facts.cpu_rules)}), which"
            " slows a switch down and goes on after it",
            "run udevadm settle before the next switch; kdump needs no such rule where"
            " /sys/devices/system/cpu/crash_hotplug is 1",
        )


def _services(facts: Facts, plan: Plan) -> Iterator[tuple[str, str]]:
    if "smtstate" in facts.services and plan.purpose != TIME:
        yield (
            "smtstate.service brings back at each boot the SMT level of the last shutdown",
            "stop and start it after a switch that is to stay, and disable it while kernels are tried",
        )
    movers = [name for name in facts.services if name != "smtstate"]
    if movers and plan.purpose in (TIME, AB):
        yield (
            f"{' and '.join(movers)} may move interrupts or tasks while switches are timed",
            "stop it for the run, or for all runs that are compared leave it alike",
        )


def _disturbed_tasks(facts: Facts) -> Iterator[tuple[str, str]]:
    confined, deadline = facts.workloads.confined, facts.workloads.deadline
    if confined:
        yield (
            f"{_tasks(confined)} may run only on secondary threads, and smt=off moves them elsewhere",
            "stop them, or give them first threads (taskset -pc)",
        )
    if deadline:
        yield (
            f"{_tasks(deadline)} in SCHED_DEADLINE: a CPU whose bandwidth they need refuses to go offline",
            "stop them for the switch",
        )


def _disturbed_cpusets(facts: Facts) -> Iterator[tuple[str, str]]:
    going, online = _cpus(facts.cpus.secondary), _cpus(facts.cpus.online or "")
    for cpuset in facts.workloads.cpusets:
        cpus = _cpus(cpuset.cpus) & online
        lost = cpus & going
        if not lost:
            continue
        lists = f"loses CPUs {format_cpulist(lost)} of {cpuset.cpus} to smt=off"
        if cpuset.version == 1:
            yield (
                f"cpuset {cpuset.path} {lists}, for good: version 1 does not give them back",
                "write its cpuset.cpus again after smt=on",
            )
        elif cpuset.partition != "member":
            yield (
                f"cpuset partition {cpuset.path} ({cpuset.partition}) {lists}",
                "give it first threads, or look at its cpuset.cpus.partition after the switch",
            )
        elif cpus == lost:
            yield (
                f"cpuset {cpuset.path} {lists}, all it has, so its tasks get its parent's",
                "give it first threads",
            )


def _isolated(facts: Facts) -> Iterator[tuple[str, str]]:
    going = _cpus(facts.cpus.secondary)
    for what, cpus in (("isolcpus", facts.cpus.isolated), ("nohz_full", facts.cpus.nohz_full)):
        lost = _cpus(cpus) & going
        if lost:
            yield (
                f"{what} has CPUs {format_cpulist(lost)}, which smt=off takes",
                "make sure that what runs there can do without",
            )


def _slow(facts: Facts) -> Iterator[tuple[str, str]]:
    program = facts.ppc64_cpu
    if program is None or program.switches_by != ONE_BY_ONE or facts.smt.level in NO_CONTROL:
        return
    if facts.smt.interface != "ppc64_cpu":
        yield (
            f"ppc64_cpu ({program.version or 'of unknown version'}) goes through cpuN/online one by one,"
            " though this kernel has smt/control",
            "update powerpc-utils, or use hotplug-timer with --via smt-control",
        )


def _installed(facts: Facts) -> Iterator[tuple[str, str]]:
    unread = [kernel.image for kernel in facts.installed if kernel.signed is None]
    if facts.platform.secure_boot and unread:
        yield (
            f"secure boot is on, and {' and '.join(unread)} cannot be read, so its signature is not checked",
            "make sure that it is signed: the boot loader stops at an image that is not",
        )
    # Their boot entries are the distribution's. That of the kernel that runs most often has the same words.
    if facts.installed and not any(
        word.startswith("panic=") and word != "panic=0" for word in facts.cmdline.split()
    ):
        yield (
            "an installed kernel is booted with its own command line, and that of the running one has no"
            " panic=, so one that panics stays until somebody resets the host",
            "add panic=10 to the command line of its boot entry, and where dracut made its initial RAM disk"
            " rd.shell=0 rd.emergency=reboot",
        )


def _fallback(facts: Facts, plan: Plan) -> Iterator[tuple[str, str]]:
    if facts.watchdog is None:
        yield (
            "there is no watchdog, so a kernel that hangs stays until somebody resets the host; only after a"
            " panic does it come back by itself",
            "load the driver of one (POWER: pseries-wdt), or have the console at hand",
        )
    if facts.platform.secure_boot and plan.purpose == INSTALL:
        yield "secure boot is on, so the boot loader takes only a signed image", SIGN
    if facts.kexec.lockdown != "none" and plan.purpose == DEPLOY:
        yield (
            f"the kernel is locked down ({facts.kexec.lockdown}): kexec -s is used, which only takes a signed"
            " image",
            SIGN,
        )


def _unsigned(images: Sequence[str]) -> str:
    """Return which kernels have no signature, in words."""
    return f"{' and '.join(images)} {'has' if len(images) == 1 else 'have'} no signature"


def _tasks(groups: Iterable[Tasks]) -> str:
    """Return "tasks dpdk x8 (CPUs 5-7), qemu-kvm (CPUs 1)"; the first few of many."""
    listed = list(groups)
    words = [
        f"{group.name}{f' x{group.count}' if group.count > 1 else ''} (CPUs {group.cpus})"
        for group in listed[:MOST_NAMED]
    ]
    more = sum(group.count for group in listed[MOST_NAMED:])
    return f"tasks {', '.join(words)}{f' and {more} more' if more else ''}"


def _cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list, none where it is no list."""
    try:
        return parse_cpulist(text)
    except ValueError:
        return frozenset()


def _size(number: int) -> str:
    """Return bytes as people read them."""
    return f"{number / (1 << 20):.0f} MiB" if number < 1 << 30 else f"{number / (1 << 30):.1f} GiB"
