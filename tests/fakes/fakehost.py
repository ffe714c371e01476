"""A tiny fake host: the sysfs, procfs and tracefs files hotplug-timer uses, and what a kernel does on writes.

All state is in files below a root directory, so that the fake ppc64_cpu, a process of its own, sees
and changes the same host. The semantics of smt/control are those of 6.12's kernel/cpu.c.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import time
from pathlib import Path

import hotplug_host
from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.sysfs import CPU_DIR, SMT_CONTROL, Sysfs
from tests import ROOT

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
        host.put("proc/cmdline", "root=/dev/vda hotplug_acceleration.variant=stock")
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

    def add_trace_cmd(self, lost: int = 0, refuse: str = "", text: str = "") -> Path:
        """Add the tracefs files that recording looks at, and a fake trace-cmd in bin/.

        It loses so many events, refuses that command, and extracts that text.
        """
        if not self.has(f"{TRACING}/available_tracers"):
            self.add_tracing()
        self.put(f"{TRACING}/available_tracers", "function_graph function nop")
        names = self.get(f"{TRACING}/available_filter_functions")
        self.put(f"{TRACING}/available_filter_functions", f"{names}\ncpuhp_thread_fun\nmulti_cpu_stop")
        for event in (
            "cpuhp/cpuhp_enter",
            "cpuhp/cpuhp_multi_enter",
            "cpuhp/cpuhp_exit",
            "sched/sched_switch",
        ):
            self.put(f"{TRACING}/events/{event}/enable", "0")
        for name, value in (
            ("current_tracer", "nop"),
            ("max_graph_depth", "0"),
            ("set_ftrace_pid", "no pid"),
        ):
            self.put(f"{TRACING}/{name}", value)
        self.put(f"{TRACING}/set_graph_function", "#### all functions enabled ####")
        self.put(f"{TRACING}/buffer_size_kb", "7 (expanded: 1408)")
        self.put(f"{TRACING}/per_cpu/cpu0/stats", _stats(lost))
        for number, comm in ((41, "cpuhp/7"), (42, "migration/7"), (43, "cpuhp/17"), (44, "sshd")):
            self.put(f"proc/{number}/comm", comm)
        self.put("trace-cmd.json", json.dumps({"lost": lost, "refuse": refuse, "text": text}))
        return self._install("trace-cmd", "trace_cmd", "sys.argv[1:]")

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
    def present(self) -> frozenset[int]:
        return parse_cpulist(self.get("sys/devices/system/cpu/present"))

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

    def add_fqs_delays(self) -> FakeHost:
        """Add what --tune-fqs changes, as a kernel of 1000 Hz chooses it."""
        for name in ("jiffies_till_first_fqs", "jiffies_till_next_fqs"):
            self.put(f"sys/module/rcutree/parameters/{name}", "3")
        return self

    # What a hypervisor does (DLPAR)

    def add_core(self, *, online: bool) -> None:
        """Add one core after the last, with its CPUs online or not."""
        meta = self.meta
        first = int(str(meta["cores"])) * self.threads
        cpus = range(first, first + self.threads)
        self.put("meta.json", json.dumps({**meta, "cores": int(str(meta["cores"])) + 1}))
        for cpu in cpus:
            self.put(f"sys/devices/system/cpu/cpu{cpu}/online", "1" if online else "0")
        for which in ("possible", "present", *(["online"] if online else [])):
            there = parse_cpulist(self.get(f"sys/devices/system/cpu/{which}"))
            self.put(f"sys/devices/system/cpu/{which}", format_cpulist(there.union(cpus)))

    def remove_core(self) -> None:
        """Remove the last core; `possible` keeps its CPUs."""
        meta = self.meta
        first = (int(str(meta["cores"])) - 1) * self.threads
        cpus = range(first, first + self.threads)
        self.put("meta.json", json.dumps({**meta, "cores": int(str(meta["cores"])) - 1}))
        for cpu in cpus:
            (self.root / f"sys/devices/system/cpu/cpu{cpu}/online").unlink()
        for which in ("present", "online"):
            there = parse_cpulist(self.get(f"sys/devices/system/cpu/{which}"))
            self.put(f"sys/devices/system/cpu/{which}", format_cpulist(there.difference(cpus)))

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
        # An interrupt that lost all its CPUs goes to the others, and stays there.
        for path in self.root.glob("proc/irq/*/smp_affinity_list"):
            if parse_cpulist(path.read_text().strip()).isdisjoint(cpus):
                path.write_text(format_cpulist(cpus) + "\n")
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
        # With the graph tracer the profiler times, too: here a call takes 1.5 ms.
        timed = "function_graph" in self.get(f"{TRACING}/available_tracers").split()
        lines = [
            f"  {name:<30.30}  {n:>10}" + (f"    {1500.0 * n} us     1500.0 us     0.000 us" if timed else "")
            for name, n in hits.items()
        ]
        self.put(path, header + "\n".join(lines))

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
        return self._install("ppc64_cpu", "ppc64_cpu", "sys.argv[1]")

    def _install(self, name: str, function: str, arguments: str) -> Path:
        """Put a program into bin/ that calls a function of this module; returns the directory."""
        script = self.root / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(
            f"#!{sys.executable} -IS\nimport sys\nsys.path[:0] = {[str(ROOT), *_sources()]!r}\n"
            f"from tests.fakes import fakehost\n"
            f"sys.exit(fakehost.{function}({str(self.root)!r}, {arguments}))\n"
        )
        script.chmod(0o755)
        return script.parent


def _sources() -> list[str]:
    return [str(Path(str(hotplug_host.__file__)).parent.parent)]


def ppc64_cpu(root: str, argument: str) -> int:
    """Be ppc64_cpu: 1.3.13's way through smt/control, or 1.3.10's through the per-CPU files."""
    host = FakeHost(Path(root))
    behaviour = json.loads(host.get("ppc64_cpu.json"))
    with (host.root / "ppc64_cpu.log").open("a") as log:
        log.write(argument + "\n")
    option, _, level = argument.partition("=")
    if option == "--cores-on":
        return cores_on(host, int(level))
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


def cores_on(host: FakeHost, wanted: int) -> int:
    """Be ppc64_cpu --cores-on: cores come from the first that is offline, and go from the last."""
    cores = [range(first, first + host.threads) for first in range(0, len(host.present), host.threads)]
    online = [core for core in cores if not host.online.isdisjoint(core)]
    levels = {len(host.online.intersection(core)) for core in online}
    if len(levels) != 1:
        sys.stdout.write("Bad or inconsistent SMT state: use ppc64_cpu --smt=on|off to set all\n")
        return 255
    threads = levels.pop()
    for core in reversed(online[wanted:]):
        for cpu in reversed(core[:threads]):
            host.write_cpu(cpu, "0")
    for core in [core for core in cores if core not in online][: max(wanted - len(online), 0)]:
        for cpu in core[:threads]:
            host.write_cpu(cpu, "1")
    return 0


def _stats(lost: int) -> str:
    return f"entries: 5\noverrun: {lost}\ncommit overrun: 0\nbytes: 340\ndropped events: 0\nread events: 0"


def trace_cmd(root: str, arguments: list[str]) -> int:
    """Be trace-cmd: start makes the buffer, extract writes the file, reset removes the buffer."""
    host = FakeHost(Path(root))
    behaviour = json.loads(host.get("trace-cmd.json"))
    with (host.root / "trace-cmd.log").open("a") as log:
        log.write(json.dumps([*arguments, f"online {format_cpulist(host.online)}"]) + "\n")
    command, options = arguments[0], arguments[1:]
    if command == behaviour["refuse"]:
        sys.stderr.write("trace-cmd: Device or resource busy\n")
        return 1
    instance = host.root / TRACING / "instances" / options[1] if options[:1] == ["-B"] else None
    if command == "start" and instance is not None:
        host.put(f"{instance.relative_to(host.root)}/per_cpu/cpu0/stats", _stats(behaviour["lost"]))
        host.put(f"{instance.relative_to(host.root)}/per_cpu/cpu1/stats", _stats(0))
    if command == "extract":
        Path(options[options.index("-o") + 1]).write_text(behaviour["text"])
    if command == "reset" and instance is not None:
        shutil.rmtree(instance)
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
        for event in self.glob(f"/{TRACING}/events/cpuhp", "*"):
            self.host.put(f"{name.lstrip('/')}/events/cpuhp/{event.name}/enable", "0")
        self.host.put(f"{name.lstrip('/')}/trace", f"# tracer: nop\n{self.host.get_or('trace-text')}")

    def rmdir(self, name: str) -> None:
        for path in sorted(self.path(name).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        super().rmdir(name)
