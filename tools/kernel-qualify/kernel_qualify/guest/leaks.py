"""Switch SMT off and on many times, and report before, in between and after what the kernel holds."""

from __future__ import annotations

import argparse
import os
import re
import resource
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kernel_qualify.guest import machine
from kernel_qualify.guest.machine import must, read, record, say, switch, write

WARM_UP = 20
"""Rounds before the first inventory: what the first switches allocate stays for the next ones."""
STEP = 50
"""Rounds between two lines of progress."""
SETTLE_S = 3.0
SLABS = Path("/sys/kernel/slab")
MEMORY = ("Percpu", "KernelStack", "PageTables", "VmallocUsed")
WORKERS = "kworker"
MORE = 1000
"""Files that this program may have open beside the planted ones."""


def rounds(number: int) -> None:
    """Switch off and on so many times."""
    for done in range(1, number + 1):
        for value in ("off", "on"):
            must(switch(value)["error"])
        if done % STEP == 0:
            say(f"{2 * done} of {2 * number} switches")


def settle() -> None:
    """Have the kernel give back what only waits to be used again: caches, slabs, callbacks of RCU."""
    for _ in range(2):
        must(write(Path("/proc/sys/vm/drop_caches"), 3))
        for cache in SLABS.iterdir():
            write(cache / "shrink", 1)
        time.sleep(SETTLE_S)


def inventory() -> dict[str, int]:
    """Return what the kernel holds, by name: objects of caches, memory (kB), threads, files, interrupts."""
    found = {f"slab {name}": number for name, number, _ in objects(read(Path("/proc/slabinfo")))}
    found |= {f"kB {name}": number for name, number in kilobytes(read(Path("/proc/meminfo")))}
    found |= {f"threads {name}": number for name, number in threads(read_names()).items()}
    found["mappings"] = mappings(read(Path("/proc/vmallocinfo")))
    found["interrupts"] = len(read(Path("/proc/interrupts")).splitlines())
    for folder in ("/sys/devices/system", "/proc/irq"):
        found[f"files in {folder}"] = sum(len(names) + len(below) for _, below, names in os.walk(folder))
    return found


def objects(slabinfo: str) -> Iterator[tuple[str, int, int]]:
    """Give the objects in use of each cache, and how many a slab has, from the text of /proc/slabinfo."""
    for line in slabinfo.splitlines()[2:]:
        name, number, _, _, each, *_ = line.split()
        yield name, int(number), int(each)


def slabs() -> dict[str, int]:
    """Return how many objects a slab has, by the names of inventory(): CPUs take whole slabs."""
    return {f"slab {name}": each for name, _, each in objects(read(Path("/proc/slabinfo")))}


def mappings(vmallocinfo: str) -> int:
    """Count the mappings in the text of /proc/vmallocinfo, without those that are freed and still listed."""
    return sum("unpurged" not in line.split() for line in vmallocinfo.splitlines())


def kilobytes(meminfo: str) -> Iterator[tuple[str, int]]:
    """Give the memory that does not come and go by itself, from the text of /proc/meminfo."""
    for name in MEMORY:
        if found := re.search(rf"^{name}: +(\d+) kB", meminfo, re.MULTILINE):
            yield name, int(found[1])


def read_names() -> list[str]:
    """Return the names of all threads; those that end meanwhile may be missing."""
    names = []
    for path in Path("/proc").glob("[0-9]*/task/*/comm"):
        try:
            names.append(read(path))
        except OSError:
            continue
    return names


def threads(names: list[str]) -> Counter[str]:
    """Count the threads that are named alike but for numbers; a pool has as many workers as it needs now."""
    return Counter(re.sub(r"\d+", "N", name) for name in names if not name.startswith(WORKERS))


def main() -> None:
    """Take an inventory, switch, and do both twice more; then hold open a file for each CPU that went."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--switches", type=int, default=1000)
    options = parser.parse_args()
    half = max(1, options.switches // 4)
    machine.all_on()
    victims = machine.secondaries()
    record("machine", **machine.settings(), present=machine.present(), slabs=slabs())
    rounds(WARM_UP)
    for part in range(3):
        if part:
            rounds(half)
        settle()
        record("inventory", rounds=half * part, held=inventory())
    number = half * len(victims)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number + MORE, number + MORE))
    planted = [os.open(os.devnull, os.O_RDONLY) for _ in range(number)]
    settle()
    record("planted", rounds=half, held=inventory())
    for descriptor in planted:
        os.close(descriptor)
    record("end", online=machine.online())


if __name__ == "__main__":
    main()
