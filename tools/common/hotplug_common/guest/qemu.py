"""The QEMU command line of a guest: pure, so that a golden file can hold it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hotplug_common.arch import PPC64LE, X86_64, Arch
from hotplug_host.errors import ExitCode, ToolError

ACCELERATORS = ("tcg", "kvm")
MAX_CPUS = {"ppc64le": 2048, "x86_64": 288}
THREADS = {"ppc64le": (1, 2, 4, 8), "x86_64": (1, 2)}
POWERVM = "powervm"
"""Like a partition of PowerVM: its devices, firmware and boot loader."""
SERVER = "server"
"""Like an x86-64 server: UEFI firmware and boot loader, SATA disks."""
POWERNV = {"powernv9": "power9", "powernv10": "power10"}
"""Like a machine without a hypervisor, by the name of QEMU's: the processor."""
POWERNV_THREADS = (1, 2, 4)
LIKE = {SERVER: X86_64, **dict.fromkeys([POWERVM, *POWERNV], PPC64LE)}
"""What guests may be like, and the architecture that such have."""
INSTALLED = (POWERVM, SERVER)
"""Guests whose kernel is installed on their disk."""
UEFI = (Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd"))
"""Firmware, and what it keeps its variables in: each guest has a copy in its folder."""

CONSOLE_LOG = "console.log"
CONSOLE_SOCKET = "console.sock"
QMP_SOCKET = "qmp.sock"
OVERLAY = "overlay.qcow2"
SEED = "seed.tar"
BOOT = "boot.img"

VOF = "x-vof=on"
"""Skips the firmware's own start-up, which only a boot loader needs."""
TCG_CAPABILITIES = (
    *("cap-cfpc=broken", "cap-sbbc=broken", "cap-ibs=broken", "cap-ccf-assist=off"),
    "cap-hpt-max-page-size=16M",
)
"""The first four are Spectre counter-measures TCG has not.

The last lets the kernel map its memory with 16 MiB pages. A kexec takes every entry out of the hash page
table, and QEMU halts all CPUs for each: with 64 KiB pages, QEMU's own choice, that is minutes. (With the
radix MMU there is no table to empty, and a kexec loses CPUs here: they spin in the old kernel's text, and
one that is not scheduled for a while finds the next kernel's text there.)
"""


BLOCKS_MB = 256
"""MiB of translated code of a guest of up to 32 CPUs. With QEMU's own 1 GiB, over a million blocks pile up,
and each page the next kernel is copied over then drags a list of thousands through the cache: a kexec took
190 s instead of 75 s."""
BLOCKS_PER_CPU_MB = 8
"""What more CPUs add to it. QEMU deals the space out to its vCPU threads 2 MiB at a time, and when one finds
no more, all stop and all translations are thrown away: with 256 MiB, a guest of 256 CPUs did so 5000 times
in two minutes of boot; with 2 GiB, not once, and it was up after half a minute."""
BLOCKS_MOST_MB = 2047
"""QEMU takes no more."""


MEMORY_STEP = 256
"""MiB; a pseries machine's memory comes in blocks of this size."""


@dataclass(frozen=True)
class Machine:
    """What a guest is made of. Memory in MiB."""

    name: str
    arch: Arch
    cores: int
    threads: int
    memory: int
    accel: str
    ssh_port: int
    kernel: Path
    command_line: str
    one_thread: bool = False
    """The guest's CPUs take turns on one thread of QEMU's. When one that waits gives its processor away,
    the next one runs at once; with a thread each, it spins on until the host's scheduler takes it off."""
    icount: bool = False
    """The guest's clocks count its instructions, a nanosecond each, and skip the time when all CPUs are idle.
    So what the guest finds that something takes is the instructions of it, whatever else the host does.
    Implies one thread."""
    plugin: str = ""
    """A plugin of the emulator's translator, and its arguments: FILE,NAME=VALUE,..."""
    spare_cores: int = 0
    """Cores that can be added while the guest runs."""
    boot_disk: bool = False
    """The firmware boots the disk BOOT in the guest's folder, which holds the kernel and its command line."""
    like: str = ""
    """What the guest is like, beside the lab's own: POWERVM or SERVER, whose firmware boots the root disk, or
    one of POWERNV, where OPAL firmware starts the kernel that QEMU loads."""

    @property
    def cpus(self) -> int:
        """Logical CPUs with every thread online."""
        return self.cores * self.threads

    @property
    def by_firmware(self) -> bool:
        """Whether firmware and a boot loader start the kernel, and not QEMU."""
        return self.boot_disk or self.like in INSTALLED


def default_memory(cpus: int) -> int:
    """Memory in MiB that boots `cpus` CPUs: per-CPU areas, one kexec image, some user space."""
    return -(-(768 + 16 * cpus) // MEMORY_STEP) * MEMORY_STEP


def threads(arch: Arch, like: str = "") -> tuple[int, ...]:
    """Return how many threads a core may have."""
    return POWERNV_THREADS if like in POWERNV else THREADS[arch.name]


def check(
    arch: Arch, cores: int, threads_each: int, accel: str, *, spare_cores: int = 0, like: str = ""
) -> None:
    """Raise ToolError (USAGE) for a topology or accelerator QEMU cannot give this kind of guest."""
    what = like or arch.name
    if LIKE.get(like, arch) is not arch:
        raise ToolError(f"--like {like} with --arch {arch.name}", "leave out --arch", ExitCode.USAGE)
    if threads_each not in threads(arch, like):
        allowed = ", ".join(map(str, threads(arch, like)))
        raise ToolError(
            f"{threads_each} threads per core on {what}", f"choose one of {allowed}", ExitCode.USAGE
        )
    if spare_cores and (arch is not PPC64LE or like in POWERNV):
        raise ToolError(f"spare cores on {what}", "only guests like an LPAR get cores later", ExitCode.USAGE)
    if cores < 1 or (cores + spare_cores) * threads_each > MAX_CPUS[arch.name]:
        raise ToolError(
            f"{cores + spare_cores} cores of {threads_each} threads on {arch.name}",
            f"ask for 1 to {MAX_CPUS[arch.name]} CPUs",
            ExitCode.USAGE,
        )
    if accel == "kvm" and (not arch.native or like in POWERNV):
        raise ToolError(f"KVM cannot run {what} on this machine", "use --accel tcg", ExitCode.USAGE)


QUICK = "norandmaps"
"""The emulator translates code once for each address that it runs at. Without randomised addresses, programs
share the translations of the C library: a guest of 16 CPUs boots with two thirds of the work."""


def kernel_command_line(arch: Arch, extra: str = "", root: str = "/dev/vda", *, quick: bool = True) -> str:
    """Return the command line of the default kernel: quiet enough to be quick, loud enough for a verdict.

    A guest that is not QUICK has its programs' addresses randomised, as a host does.
    """
    words = [f"root={root}", "rw", f"console={arch.console}", "panic=10", "loglevel=6", "net.ifnames=0"]
    return " ".join([*words, *([QUICK] if quick else []), *extra.split()])


def command(machine: Machine) -> list[str]:
    """Return QEMU's arguments. File names are relative: QEMU is started in the guest's folder.

    Relative names also keep socket paths under the 108 bytes a Unix socket may have.
    """
    devices = OF_KIND.get(machine.like, VIRTIO)
    return [
        machine.arch.qemu,
        *("-name", f"lpar-lab-{machine.name}"),
        # The names of its threads tell the CPUs from the monitor, which runs in a deadlock, too.
        *("-name", "debug-threads=on"),
        *("-nodefaults", "-no-user-config", "-display", "none"),
        # A POWER guest tells QEMU of its panic; by default that is the end of both.
        *("-action", "panic=none"),
        *_machine(machine),
        *(_uefi() if machine.like == SERVER else []),
        *(["-icount", "shift=0,sleep=off"] if machine.icount else []),
        *(["-plugin", machine.plugin] if machine.plugin else []),
        *("-smp", _processors(machine)),
        *("-m", str(machine.memory)),
        *([] if machine.by_firmware else ["-kernel", str(machine.kernel), "-append", machine.command_line]),
        *(word for bus in devices.buses for word in ("-device", bus)),
        *("-drive", f"file={OVERLAY},format=qcow2,if=none,id=root,cache=unsafe,discard=unmap"),
        *("-device", devices.root),
        *("-drive", f"file={SEED},format=raw,if=none,id=seed,read-only=on"),
        *("-device", devices.seed),
        *(_boot_disk() if machine.boot_disk else []),
        *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{machine.ssh_port}-:22"),
        *("-device", devices.network),
        *("-object", "rng-random,id=rng,filename=/dev/urandom"),
        *("-device", devices.random),
        *("-chardev", f"socket,id=console,path={CONSOLE_SOCKET},server=on,wait=off,logfile={CONSOLE_LOG}"),
        *("-serial", "chardev:console"),
        *("-chardev", f"socket,id=qmp,path={QMP_SOCKET},server=on,wait=off"),
        *("-mon", "chardev=qmp,mode=control"),
    ]


@dataclass(frozen=True)
class Devices:
    """A guest's devices, as QEMU's -device has them."""

    root: str
    seed: str
    network: str
    random: str
    buses: tuple[str, ...] = ()


VIRTIO = Devices(
    "virtio-blk-pci,drive=root,serial=lab-root",
    "virtio-blk-pci,drive=seed,serial=lab-seed",
    "virtio-net-pci,netdev=net,romfile=",
    "virtio-rng-pci,rng=rng",
)
VSCSI = Devices(
    "scsi-hd,drive=root,bus=vscsi.0,serial=lab-root,bootindex=0",
    "scsi-hd,drive=seed,bus=vscsi.0,serial=lab-seed",
    "spapr-vlan,netdev=net",
    "spapr-rng,rng=rng",
    ("spapr-vscsi,id=vscsi",),
)
PCIE = Devices(
    "virtio-blk-pci,bus=pcie.0,drive=root,serial=lab-root",
    "virtio-blk-pci,bus=pcie.1,drive=seed,serial=lab-seed",
    "virtio-net-pci,bus=pcie.2,netdev=net,romfile=",
    "virtio-rng-pci,bus=pcie.3,rng=rng",
    tuple(
        bus
        for number in range(4)
        for bus in (
            f"pnv-phb,chip-id=0,index={number},id=phb.{number}",
            f"pnv-phb-root-port,bus=phb.{number},id=pcie.{number}",
        )
    ),
)
"""Each host bridge of such a machine has one port, and each port one slot."""


SATA = Devices(
    "ide-hd,drive=root,bus=ide.0,serial=lab-root,bootindex=0",
    "ide-cd,drive=seed,bus=ide.1,serial=lab-seed",
    "e1000e,netdev=net,romfile=",
    "virtio-rng-pci,rng=rng",
)
OF_KIND = {POWERVM: VSCSI, SERVER: SATA, **dict.fromkeys(POWERNV, PCIE)}
"""Devices by what the guest is like."""


def _uefi() -> list[str]:
    code, variables = UEFI
    return [
        *("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}"),
        *("-drive", f"if=pflash,unit=1,format=raw,file={variables.name}"),
    ]


def _processors(machine: Machine) -> str:
    cores = machine.cores + machine.spare_cores
    most = f"maxcpus={cores * machine.threads}," if machine.spare_cores else ""
    return f"{machine.cpus},{most}sockets=1,cores={cores},threads={machine.threads}"


def _boot_disk() -> list[str]:
    """After the others, which keep their names."""
    return [
        *("-drive", f"file={BOOT},format=raw,if=none,id=boot,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=boot,serial=lab-boot,bootindex=0"),
    ]


def _machine(machine: Machine) -> list[str]:
    tcg = machine.accel == "tcg"
    if machine.like in POWERNV:
        model, cpu = machine.like, POWERNV[machine.like]
    elif machine.arch is PPC64LE:
        firmware = [] if machine.by_firmware else [VOF]
        model = ",".join(["pseries", *firmware, *TCG_CAPABILITIES]) if tcg else "pseries"
        cpu = "power10" if tcg else "host"
    else:
        model = "q35"
        cpu = "max" if tcg else "host"
    return ["-M", model, "-accel", _tcg(machine) if tcg else machine.accel, "-cpu", cpu]


def _tcg(machine: Machine) -> str:
    if machine.one_thread or machine.icount:
        return f"tcg,thread=single,tb-size={BLOCKS_MB}"
    # QEMU 10.0 aborts when the thread of a CPU that is added finds all room taken.
    room = BLOCKS_MOST_MB if machine.spare_cores else _blocks_mb(machine.cpus)
    return f"tcg,tb-size={room}"


def _blocks_mb(cpus: int) -> int:
    return min(max(BLOCKS_MB, BLOCKS_PER_CPU_MB * cpus), BLOCKS_MOST_MB)
