"""A tiny fake host: the sysfs, procfs and tracefs files hotplug-timer uses, and what a kernel does on writes.

All state is in files below a root directory, so that the fake ppc64_cpu, a process of its own, sees
and changes the same host. The semantics of smt/control are those of 6.12's kernel/cpu.c.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from pathlib import Path

import hotplug_timer
from hotplug_timer.target.cpulist import format_cpulist, parse_cpulist
from hotplug_timer.target.sysfs import CPU_DIR, SMT_CONTROL, Sysfs

TRACING = "sys/kernel/tracing"
COSTS_OFF = {"synchronize_rcu": 2, "stop_machine_cpuslocked": 1, "partition_sched_domains_locked": 1}
COSTS_ON = {"synchronize_rcu": 1, "stop_machine_cpuslocked": 0, "partition_sched_domains_locked": 1}
RELEASE = "6.12.117-stock-1a2b3c4d"
PSERIES_CPUINFO = """\
processor\t: 0
cpu\t\t: POWER10 (architected), altivec supported
clock\t\t: 1000.000000MHz

platform\t: pSeries
model\t\t: IBM pSeries (emulated by qemu)
machine\t\t: CHRP IBM pSeries (emulated by qemu)
"""
X86_CPUINFO = "processor\t: 0\nmodel name\t: AMD EPYC 7B13\n"


class FakeHost:
    """One fake host below ROOT."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def build(
        cls,
        root: Path,
        *,
        cores: int = 2,
        threads: int = 4,
        machine: str = "ppc64le",
        control: str | None = "on",
        release: str = RELEASE,
    ) -> FakeHost:
        host = cls(root)
        host.put("meta.json", json.dumps({"cores": cores, "threads": threads, "machine": machine}))
        everything = range(cores * threads)
        for which in ("possible", "present", "online"):
            host.put(f"sys/devices/system/cpu/{which}", format_cpulist(everything))
        for cpu in everything:
            host.put(f"sys/devices/system/cpu/cpu{cpu}/online", "1")
        if control is not None:
            host.put("sys/devices/system/cpu/smt/control", control)
            host.put("sys/devices/system/cpu/smt/active", "1")
        if machine == "ppc64le":
            for core in range(cores):
                node = root / f"sys/firmware/devicetree/base/cpus/PowerPC,POWER10@{core * threads:x}"
                node.mkdir(parents=True)
                (node / "ibm,ppc-interrupt-server#s").write_bytes(b"\0\0\0\1" * threads)
        host.put("proc/cpuinfo", PSERIES_CPUINFO if machine == "ppc64le" else X86_CPUINFO)
        host.put("proc/cmdline", "root=/dev/vda smt_ab.variant=stock")
        for name, text in (
            ("hostname", "lpar1"),
            ("osrelease", release),
            ("version", "#1 SMP"),
            ("arch", machine),
            ("random/boot_id", "11111111-2222-3333-4444-555555555555"),
        ):
            host.put(f"proc/sys/kernel/{name}", text)
        host.put("sys/kernel/rcu_expedited", "0")
        host.put("sys/kernel/rcu_normal", "0")
        host._publish()
        return host

    def add_tracing(self, *, profiler: bool = True, kprobes: bool = True, traceable: str = "all") -> None:
        names = [name for name in (*COSTS_OFF, "synchronize_rcu_expedited") if traceable in ("all", name)]
        self.put(f"{TRACING}/available_tracers", "nop")
        self.put(f"{TRACING}/available_filter_functions", "\n".join([*names, "schedule [sched]"]))
        self.put(f"{TRACING}/traceable", "\n".join(names))
        if profiler:
            self.put(f"{TRACING}/function_profile_enabled", "0")
            self.put(f"{TRACING}/set_ftrace_filter", "#### all functions enabled ####")
            self.put(f"{TRACING}/tracing_thresh", "0")
            for cpu in (0, 1):
                self.put(f"{TRACING}/trace_stat/function{cpu}", "")
        if kprobes:
            (self.root / TRACING / "instances").mkdir()
            self.put(f"{TRACING}/kprobe_events", "")
            self.put(f"{TRACING}/kprobe_profile", "")

    # Reading

    def get(self, name: str) -> str:
        return (self.root / name).read_text().strip()

    def get_or(self, name: str, default: str = "") -> str:
        return self.get(name) if self.has(name) else default

    def has(self, name: str) -> bool:
        return (self.root / name).exists()

    @property
    def meta(self) -> dict[str, object]:
        meta: dict[str, object] = json.loads(self.get("meta.json"))
        return meta

    @property
    def threads(self) -> int:
        return int(str(self.meta["threads"]))

    @property
    def online(self) -> frozenset[int]:
        return parse_cpulist(self.get("sys/devices/system/cpu/online"))

    @property
    def control(self) -> str:
        return self.get("sys/devices/system/cpu/smt/control")

    def thread_of(self, cpu: int) -> int:
        """Return the CPU's number within its core."""
        if self.meta["machine"] == "ppc64le":
            return cpu % self.threads
        return cpu // int(str(self.meta["cores"]))

    def siblings(self, cpu: int) -> list[int]:
        cores = int(str(self.meta["cores"]))
        if self.meta["machine"] == "ppc64le":
            first = cpu - cpu % self.threads
            return list(range(first, first + self.threads))
        return [cpu % cores + number * cores for number in range(self.threads)]

    # What the kernel does

    def write_control(self, text: str, pause: float = 0.0) -> None:
        """Do what the kernel does on a write to smt/control; PAUSE is spent half way."""
        if self.control == "forceoff":
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        threads = {"on": self.threads, "off": 1}.get(text) or int(text)
        if self.meta["machine"] != "ppc64le" and threads not in (1, self.threads):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        before = {"on": self.threads, "off": 1}.get(self.control) or int(self.control)
        label = "off" if threads == 1 else "on" if threads == self.threads else str(threads)
        changes = self._control_changes(threads, before)
        if threads > before:
            self.put("sys/devices/system/cpu/smt/control", label)
        for number, cpu in enumerate(changes):
            if number == len(changes) // 2:
                time.sleep(pause)
            if cpu in self.stuck:
                # As in 6.12: a failed disable leaves the new number with SMT still "enabled".
                self.put("sys/devices/system/cpu/smt/control", str(threads))
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            self.set_cpu(cpu, threads > before)
        self.put("sys/devices/system/cpu/smt/control", label)

    def write_cpu(self, cpu: int, value: str) -> None:
        """Do what the kernel does on a write to a CPU's online file."""
        if cpu in self.stuck:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        if value == "1" and self.thread_of(cpu) and self.has("sys/devices/system/cpu/smt/control"):
            limit = {"on": self.threads, "off": 1}.get(self.control) or int(self.control)
            if self.thread_of(cpu) >= limit:
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        self.set_cpu(cpu, value == "1")

    def set_cpu(self, cpu: int, online: bool) -> None:
        if (cpu in self.online) == online:
            return
        self._count(COSTS_ON if online else COSTS_OFF)
        self.put(f"sys/devices/system/cpu/cpu{cpu}/online", "1" if online else "0")
        cpus = self.online | {cpu} if online else self.online - {cpu}
        self.put("sys/devices/system/cpu/online", format_cpulist(cpus))
        self._publish()

    @property
    def stuck(self) -> list[int]:
        return json.loads(self.get("stuck.json")) if self.has("stuck.json") else []

    def stick(self, *cpus: int) -> None:
        """Make these CPUs refuse every change."""
        self.put("stuck.json", json.dumps(cpus))

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def _control_changes(self, threads: int, before: int) -> list[int]:
        if threads < before:
            return [cpu for cpu in sorted(self.online) if self.thread_of(cpu) >= threads]
        if threads == before:
            return []
        offline = parse_cpulist(self.get("sys/devices/system/cpu/present")) - self.online
        # powerpc leaves wholly offline cores alone, x86 brings up everything present.
        return [
            cpu
            for cpu in sorted(offline)
            if self.thread_of(cpu) < threads
            and (self.meta["machine"] != "ppc64le" or not self.online.isdisjoint(self.siblings(cpu)))
        ]

    def _publish(self) -> None:
        """Off POWER, the siblings can be read of online CPUs only, and name online ones only."""
        if self.meta["machine"] == "ppc64le":
            return
        for cpu in parse_cpulist(self.get("sys/devices/system/cpu/present")):
            path = f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
            if cpu in self.online:
                self.put(path, format_cpulist(self.online.intersection(self.siblings(cpu))))
            elif self.has(path):
                (self.root / path).unlink()

    def _count(self, costs: dict[str, int]) -> None:
        enable = f"{TRACING}/instances/hotplug-timer/events/hotplug_timer/enable"
        if self.get_or(f"{TRACING}/function_profile_enabled") == "1":
            # Work is spread over the CPUs; the counts are the sum.
            self._profile(0, costs)
            self._profile(1, {"synchronize_rcu": 1})
        if self.get_or(enable) == "1":
            self._probe(costs)

    def _profile(self, cpu: int, costs: dict[str, int]) -> None:
        filtered = self.get(f"{TRACING}/set_ftrace_filter").split()
        path = f"{TRACING}/trace_stat/function{cpu}"
        hits = {line.split()[0]: int(line.split()[1]) for line in self.get(path).splitlines()[2:]}
        for name, number in costs.items():
            if name in filtered and number:
                hits[name] = hits.get(name, 0) + number
        header = f"  {'Function':<38} Hit\n  {'--------':<38} ---\n"
        self.put(path, header + "\n".join(f"  {name:<30.30}  {n:>10}" for name, n in hits.items()))

    def _probe(self, costs: dict[str, int]) -> None:
        profile = self.get(f"{TRACING}/kprobe_profile").splitlines()
        hits = {line.split()[0]: int(line.split()[1]) for line in profile}
        lines = []
        for line in self.get(f"{TRACING}/kprobe_events").splitlines():
            event, function = line.split()
            name = event.partition("/")[2]
            total = hits.get(name, 0) + costs.get(function, 0)
            lines.append(f"  {name:<44} {total:>15} {0:>15}")
        self.put(f"{TRACING}/kprobe_profile", "\n".join(lines))

    # ppc64_cpu

    def install_ppc64_cpu(self, **behaviour: object) -> Path:
        """Put a fake ppc64_cpu into bin/. Behaviour: path=control|per-cpu, pause=S, lie=True."""
        self.put("ppc64_cpu.json", json.dumps(behaviour))
        script = self.root / "bin" / "ppc64_cpu"
        script.parent.mkdir(exist_ok=True)
        script.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path[:0] = {[str(Path(__file__).parent), *_sources()]!r}\n"
            f"import fakehost\nsys.exit(fakehost.ppc64_cpu({str(self.root)!r}, sys.argv[1]))\n"
        )
        script.chmod(0o755)
        return script.parent


def _sources() -> list[str]:
    return [str(Path(str(hotplug_timer.__file__)).parent.parent)]


def ppc64_cpu(root: str, argument: str) -> int:
    """Be ppc64_cpu: 1.3.13's way through smt/control, or 1.3.10's through the per-CPU files."""
    host = FakeHost(Path(root))
    behaviour = json.loads(host.get("ppc64_cpu.json"))
    with (host.root / "ppc64_cpu.log").open("a") as log:
        log.write(argument + "\n")
    level = argument.partition("=")[2]
    pause = float(behaviour.get("pause", 0))
    if behaviour.get("path", "control") == "control":
        try:
            host.write_control(level, pause)
        except OSError as error:
            if not behaviour.get("lie"):
                sys.stderr.write(f"Could not set smt/control: {error.strerror}\n")
                return 255
        return 0
    threads = {"on": host.threads, "off": 1}.get(level) or int(level)
    failed = False
    cpus = sorted(parse_cpulist(host.get("sys/devices/system/cpu/present")))
    for number, cpu in enumerate(cpus):
        if host.online.isdisjoint(host.siblings(cpu)):
            continue
        if number == len(cpus) // 2:
            (host.root / "half-way").touch()
            time.sleep(pause)
        try:
            host.write_cpu(cpu, "1" if host.thread_of(cpu) < threads else "0")
        except OSError:
            failed = True
    if failed and not behaviour.get("lie"):
        sys.stderr.write("One or more cpus could not be on/offlined\n")
        return 255
    return 0


class FakeSysfs(Sysfs):
    """The fake host's files, with the fake kernel behind those that act when they are written."""

    def __init__(self, host: FakeHost, pause: float = 0.0) -> None:
        super().__init__(host.root)
        self.host = host
        self.pause = pause
        self.writes: list[tuple[str, str]] = []

    def write(self, name: str, text: str) -> None:
        self.writes.append((name, text))
        if name == SMT_CONTROL:
            self.host.write_control(text, self.pause)
        elif name.startswith(f"{CPU_DIR}/cpu") and name.endswith("/online"):
            self.host.write_cpu(int(name[len(CPU_DIR) + 4 : -len("/online")]), text)
        elif name.endswith("/function_profile_enabled") and text == "1":
            for path in self.glob(f"/{TRACING}/trace_stat", "function*"):
                path.write_text("")
            super().write(name, text)
        else:
            super().write(name, text)

    def append(self, name: str, text: str) -> None:
        self.writes.append((name, text))
        if not name.endswith("/kprobe_events"):
            super().append(name, text)
            return
        lines = [line for line in self.host.get(f"{TRACING}/kprobe_events").splitlines() if line]
        if text.startswith("-:"):
            lines = [line for line in lines if line.split()[0] != f"p:{text[2:].strip()}"]
        else:
            if text.split()[1] not in self.host.get(f"{TRACING}/traceable").split():
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            lines.append(text.strip())
        self.host.put(f"{TRACING}/kprobe_events", "\n".join(lines))

    def mkdir(self, name: str) -> None:
        super().mkdir(name)
        self.host.put(f"{name.lstrip('/')}/buffer_size_kb", "1408")
        self.host.put(f"{name.lstrip('/')}/events/hotplug_timer/enable", "0")
        if self.host.has(f"{TRACING}/events/cpuhp/cpuhp_bulk_chunk"):
            self.host.put(f"{name.lstrip('/')}/events/cpuhp/cpuhp_bulk_chunk/enable", "0")
            self.host.put(f"{name.lstrip('/')}/trace", "# tracer: nop")

    def rmdir(self, name: str) -> None:
        for path in sorted(self.path(name).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        super().rmdir(name)
