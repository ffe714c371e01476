"""What goes on in the guest while CPUs come and go: each load is a process that repeats a step.

A load is given as a function that is called once in the process (set-up) and returns the step.
"""

# ruff: noqa: S311
from __future__ import annotations

import ctypes
import errno
import mmap
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hotplug_host.cpulist import format_cpulist
from kernel_qualify.guest.machine import CGROUPS, CPUS, must, present, read, write

Step = Callable[[], None]
DISK = Path("/var/tmp/stress")  # noqa: S108
CONFIGFS = Path("/sys/kernel/config")
QUEUED_DISK = Path("/dev/queued")
REPORTS = Path("/run/stress")
SCHEDSTATS = Path("/proc/sys/kernel/sched_schedstats")
MEMBARRIER = {"ppc64le": 365, "x86_64": 324}.get(os.uname().machine, 0)
GLOBAL_EXPEDITED = 2
PR_SET_PDEATHSIG = 1
DEADLINE = ("chrt", "-d", "-T", "1000000", "-D", "20000000", "-P", "20000000", "0")


class Load:
    """A process that repeats a step until it is ended; it leaves counts of how the steps ended."""

    def __init__(self, name: str, setup: Callable[[], Step], pause: float) -> None:
        self.name = name
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._run(setup, pause)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)

    def _run(self, setup: Callable[[], Step], pause: float) -> None:
        ended = False

        def end(*_: object) -> None:
            nonlocal ended
            ended = True

        signal.signal(signal.SIGTERM, end)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        random.seed(os.getpid())
        step = setup()
        counts: dict[str, int] = {}
        longest = 0.0
        while not ended:
            begin = time.monotonic()
            result = outcome(step)
            longest = max(longest, time.monotonic() - begin)
            counts[result] = counts.get(result, 0) + 1
            time.sleep(pause)
        text = " ".join(f"{key}={value}" for key, value in sorted(counts.items()))
        (REPORTS / f"{self.name}.{os.getpid()}").write_text(f"{longest:.3f} {text}\n")

    def end(self) -> None:
        """Ask the process to stop."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self) -> None:
        """Wait until the process has stopped."""
        os.waitpid(self.pid, 0)


def outcome(step: Step) -> str:
    """Run a step; name what came of it."""
    try:
        step()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "error")
    return "ok"


def reports() -> dict[str, dict[str, float]]:
    """Return what the loads that have ended counted, and their longest step in seconds, by name."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(REPORTS.iterdir()):
        longest, *words = path.read_text().split()
        counts = found.setdefault(path.name.rsplit(".", 1)[0], {"longest": 0.0})
        counts["longest"] = max(counts["longest"], float(longest))
        for word in words:
            key, _, value = word.partition("=")
            counts[key] = counts.get(key, 0) + int(value)
        path.unlink()
    return found


def spin(seconds: float) -> None:
    """Use the CPU."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def bound(cpu: int) -> Step:
    """Set up a task that stays on one CPU, busy in bursts, with an interval timer there."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)

    def step() -> None:
        spin(0.002)
        os.sched_setaffinity(0, {cpu})

    return step


def taskset(pids: list[int]) -> Step:
    """Run the command taskset on the tasks of others."""

    def step() -> None:
        words = ["taskset", "-p", "-c", str(random.choice(present())), str(random.choice(pids))]
        if subprocess.run(words, check=False, capture_output=True).returncode:
            raise OSError(errno.EINVAL, "taskset")

    return step


def wander(pids: list[int]) -> Step:
    """Make the system call sched_setaffinity on the tasks of others, with any mask."""

    def step() -> None:
        cpus = present()
        os.sched_setaffinity(random.choice(pids), random.sample(cpus, random.randint(1, len(cpus))))

    return step


def deadline() -> Step:
    """Set up a task of SCHED_DEADLINE, which the kernel has to find room for, again and again."""

    def step() -> None:
        words = ["timeout", "4", *DEADLINE, "sh", "-c", "while :; do :; done"]
        if subprocess.run(words, check=False, capture_output=True).returncode != 124:
            raise OSError(errno.EBUSY, "refused")

    return step


def lasting_deadline() -> Step:
    """One task of SCHED_DEADLINE that stays.

    The kernel gives the bandwidth of a task that has ended back at the end of its period.  When sched
    domains are rebuilt until then, 6.12 and earlier don't count that task any more, and subtract it
    all the same.  In a root domain without other deadline bandwidth what is left is below zero, taken
    for an overflow, and the domain's CPUs cannot go offline until the next rebuild: stock kernels too.
    """
    words = ["setpriv", "--pdeathsig", "KILL", *DEADLINE, "sh", "-c", "while :; do :; done"]
    task = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def step() -> None:
        if task.poll() is not None:
            raise OSError(errno.EBUSY, "refused")

    return step


def timers() -> Step:
    """Short sleeps with time-outs that are mostly cancelled before they expire."""
    reader, writer = os.pipe()

    def step() -> None:
        os.write(writer, b"x")
        select.select([reader], [], [], 1.0)
        os.read(reader, 1)
        select.select([reader], [], [], 0.001)

    return step


def work_everywhere() -> Step:
    """Work queued on each CPU: schedule_on_each_cpu(), under cpus_read_lock(), and lru_add_drain_all()."""

    def step() -> None:
        must(write(Path("/proc/sys/vm/stat_refresh"), 1))
        must(write(Path("/proc/sys/vm/drop_caches"), 1))

    return step


def membarrier() -> Step:
    """Make the system call that sends IPIs to CPUs under cpus_read_lock()."""
    call = ctypes.CDLL(None, use_errno=True).syscall

    def step() -> None:
        if call(MEMBARRIER, GLOBAL_EXPEDITED, 0, 0):
            must(ctypes.get_errno())

    return step


def static_key() -> Step:
    """Kernel text patched under cpus_read_lock(): a sysctl behind which is a static key."""

    def step() -> None:
        for value in (1, 0):
            must(write(SCHEDSTATS, value))

    return step


def cgroup_move() -> Step:
    """Set up a task that moves between cgroups: cpus_read_lock(), in cgroup_attach_lock()."""
    folders = [CGROUPS / name for name in ("move-a", "move-b")]
    for folder in folders:
        folder.mkdir(exist_ok=True)

    def step() -> None:
        for folder in folders:
            must(write(folder / "cgroup.procs", os.getpid()))

    return step


def disk() -> Step:
    """Blocks written to the virtio disk, and read from it again."""
    DISK.mkdir(exist_ok=True)
    path = DISK / str(os.getpid())

    def step() -> None:
        stream = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            os.write(stream, os.urandom(65536) * 4)
            os.fsync(stream)
            os.posix_fadvise(stream, 0, 0, os.POSIX_FADV_DONTNEED)
            os.lseek(stream, 0, os.SEEK_SET)
            os.read(stream, 1 << 18)
        finally:
            os.close(stream)

    return step


def network(address: str, port: int) -> Step:
    """Bytes sent through virtio-net to a server on the controller that sends them back."""
    link = socket.create_connection((address, port), timeout=60)

    def step() -> None:
        link.sendall(b"x" * 8192)
        left = 8192
        while left:
            left -= len(link.recv(left)) or left

    return step


def queues_of(threads: int, cpus: int) -> int:
    """Return how many hardware queues there are if each has half of a core's threads, but at least one.

    So a core that keeps one thread takes all CPUs from the queue of its second half.
    """
    return cpus // max(1, threads // 2)


def make_queued_disk(queues: int) -> None:
    """Make a disk that puts off a request fifty times or so; a timer or a work item tries it again.

    So requests last longer than the grace period that a switch begins with. A kernel without the fragment
    validation has no such disk.
    """
    if CONFIGFS.is_dir() and not CONFIGFS.is_mount():
        subprocess.run(["mount", "-t", "configfs", "none", CONFIGFS], check=True)
    folder = CONFIGFS / "nullb" / QUEUED_DISK.name
    if not folder.parent.is_dir():
        return
    folder.mkdir()
    must(write(folder / "submit_queues", queues))
    # With its default, each failure that is injected is a report in the log.
    for name, value in (("verbose", 0), ("probability", 98), ("times", -1)):
        must(write(folder / "requeue_inject" / name, value))
    must(write(folder / "power", 1))


def queued(cpu: int) -> Step:
    """Read from the queued disk on one CPU, or where the scheduler moves the task to."""
    page = mmap.mmap(-1, 4096)
    disk = os.open(QUEUED_DISK, os.O_RDONLY | os.O_DIRECT)

    def step() -> None:
        with suppress(OSError):
            os.sched_setaffinity(0, {cpu})
        os.preadv(disk, [page], 0)

    return step


def interrupts() -> Step:
    """Interrupts steered to a CPU that may be on its way out."""
    files = sorted(Path("/proc/irq").glob("*/smp_affinity_list"))

    def step() -> None:
        must(write(random.choice(files), random.choice(present())))

    return step


def online_writer(cpus: list[int]) -> Step:
    """Take CPUs off and on by the old interface, at the same time."""

    def step() -> None:
        for value in (0, 1):
            for cpu in cpus:
                must(write(CPUS / f"cpu{cpu}/online", value))

    return step


def churn_partition(folder: Path, choices: list[list[int]], kinds: list[str]) -> Step:
    """Set up a cpuset of version 2 that changes its CPUs and its kind."""

    def step() -> None:
        must(write(folder / "cpuset.cpus", format_cpulist(random.choice(choices))))
        must(write(folder / "cpuset.cpus.partition", random.choice(kinds)))
        read(folder / "cpuset.cpus.effective")

    return step


def churn_version_1(folder: Path, choices: list[list[int]], pids: list[int]) -> Step:
    """Set up a cpuset of version 1 that changes its CPUs and its tasks."""

    def step() -> None:
        must(write(folder / "cpuset.cpus", format_cpulist(random.choice(choices))))
        must(write(random.choice([folder, folder.parent]) / "tasks", random.choice(pids)))

    return step
