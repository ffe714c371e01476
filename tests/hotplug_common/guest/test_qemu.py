from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_common import arch
from hotplug_common.guest import qemu
from hotplug_host.errors import ExitCode, ToolError

MACHINES = {
    "ppc64le": qemu.Machine(
        name="lab1",
        arch=arch.PPC64LE,
        cores=2,
        threads=8,
        memory=2048,
        accel="tcg",
        ssh_port=40022,
        kernel=Path("/cache/vmlinux"),
        command_line=qemu.kernel_command_line(arch.PPC64LE),
    ),
    "ppc64le-kvm": qemu.Machine(
        name="big",
        arch=arch.PPC64LE,
        cores=4,
        threads=4,
        memory=4096,
        accel="kvm",
        ssh_port=40023,
        kernel=Path("/cache/vmlinux"),
        command_line=qemu.kernel_command_line(arch.PPC64LE, "crashkernel=512M@640M"),
    ),
    "x86_64": qemu.Machine(
        name="x1",
        arch=arch.X86_64,
        cores=8,
        threads=2,
        memory=2048,
        accel="tcg",
        ssh_port=40024,
        kernel=Path("/cache/bzImage"),
        command_line=qemu.kernel_command_line(arch.X86_64),
    ),
    "ppc64le-grub": qemu.Machine(
        name="lpar",
        arch=arch.PPC64LE,
        cores=2,
        threads=1,
        memory=1024,
        accel="tcg",
        ssh_port=40025,
        kernel=Path("/cache/vmlinux"),
        command_line="in grub.cfg",
        boot_disk=True,
    ),
    "ppc64le-powervm": qemu.Machine(
        name="lpar",
        arch=arch.PPC64LE,
        cores=2,
        threads=8,
        memory=2560,
        accel="tcg",
        ssh_port=40026,
        kernel=Path(),
        command_line="in grub.cfg",
        like=qemu.POWERVM,
    ),
    "x86_64-server": qemu.Machine(
        name="pc",
        arch=arch.X86_64,
        cores=4,
        threads=2,
        memory=2560,
        accel="tcg",
        ssh_port=40028,
        kernel=Path(),
        command_line="in grub.cfg",
        like=qemu.SERVER,
    ),
    "ppc64le-powernv9": qemu.Machine(
        name="metal",
        arch=arch.PPC64LE,
        cores=4,
        threads=4,
        memory=1024,
        accel="tcg",
        ssh_port=40027,
        kernel=Path("/cache/vmlinux"),
        command_line=qemu.kernel_command_line(arch.PPC64LE),
        like="powernv9",
    ),
}


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_command_line_is_the_golden_one(name: str, golden: Path) -> None:
    assert "\n".join(qemu.command(MACHINES[name])) + "\n" == (golden / "qemu" / f"{name}.txt").read_text()


@pytest.mark.parametrize(("cores", "mib"), [(2, 256), (4, 256), (8, 512), (32, 2047), (128, 2047)])
def test_translated_code_of_many_cpus_has_room(cores: int, mib: int) -> None:
    machine = replace(MACHINES["ppc64le"], cores=cores)
    assert f"tcg,tb-size={mib}" in qemu.command(machine)


def test_spare_cores_are_places_and_have_room() -> None:
    command = qemu.command(replace(MACHINES["ppc64le"], spare_cores=6))
    assert command[command.index("-smp") + 1] == "16,maxcpus=64,sockets=1,cores=8,threads=8"
    assert "tcg,tb-size=2047" in command


def test_cpus_that_take_turns_share_one_thread_and_its_room() -> None:
    machine = replace(MACHINES["ppc64le"], cores=128, one_thread=True)
    assert "tcg,thread=single,tb-size=256" in qemu.command(machine)


def test_clocks_that_count_instructions_have_one_thread() -> None:
    command = qemu.command(replace(MACHINES["x86_64"], icount=True))
    assert command[command.index("-icount") + 1] == "shift=0,sleep=off"
    assert "tcg,thread=single,tb-size=256" in command
    assert not any("-icount" in qemu.command(machine) for machine in MACHINES.values())


@pytest.mark.parametrize(
    ("wanted", "cores", "threads"),
    [
        (arch.PPC64LE, 2, 3),
        (arch.X86_64, 2, 8),
        (arch.PPC64LE, 0, 8),
        (arch.PPC64LE, 300, 8),
        (arch.X86_64, 200, 2),
    ],
)
def test_topologies_qemu_cannot_give_are_refused(wanted: arch.Arch, cores: int, threads: int) -> None:
    with pytest.raises(ToolError) as caught:
        qemu.check(wanted, cores, threads, "tcg")
    assert caught.value.code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("threads", "accel", "spare", "word"),
    [(8, "tcg", 0, "choose one of 1, 2, 4"), (4, "kvm", 0, "KVM cannot"), (4, "tcg", 1, "like an LPAR")],
)
def test_a_guest_without_hypervisor_has_less(
    threads: int, accel: str, spare: int, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "ppc64le")
    qemu.check(arch.PPC64LE, 2, 4, "tcg", like="powernv10")
    with pytest.raises(ToolError, match="powernv10") as caught:
        qemu.check(arch.PPC64LE, 2, threads, accel, spare_cores=spare, like="powernv10")
    assert word in str(caught.value)


def test_kvm_needs_the_same_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    qemu.check(arch.X86_64, 2, 2, "kvm")
    with pytest.raises(ToolError, match="KVM cannot run ppc64le"):
        qemu.check(arch.PPC64LE, 2, 8, "kvm")


def test_memory_grows_with_cpus() -> None:
    assert qemu.default_memory(16) == 1024
    assert qemu.default_memory(256) > 4096
    assert all(qemu.default_memory(cpus) % qemu.MEMORY_STEP == 0 for cpus in range(1, 300))
