"""What the series gains, stock against patched in guests of one shape, with the counts beside the seconds.

Proven: the targets of gains.TARGETS, and that the machine-wide costs of a switch are paid by the chunk.
"""

from collections.abc import Callable
from dataclasses import replace

import bare
import gains
import keeping
import pytest
import verdicts
from proving import Proving, none

pytestmark = pytest.mark.timeout(6 * 3600)
QUIET = "loglevel=1"
"""Stock 6.12 warns at length of CPUs that die with their fair server; a console takes its time for that."""
RESERVE = "crashkernel=320M"
EXTRA_MB = 512
SILENCE_S = 3600.0
"""A stock kernel says nothing during a switch, which takes minutes on a large guest."""


def test_speed(proving: Proving, say: Callable[[str], None], pytestconfig: pytest.Config) -> None:
    option = pytestconfig.getoption
    if option("--one-thread") and not option("--bare"):
        raise pytest.UsageError("--one-thread is for bare guests; add --bare")
    words = ["--iterations", str(option("--iterations"))]
    words += ["--chunk", str(option("--chunk"))] if option("--chunk") else []
    kernels = {kernel: option(f"--{kernel}-modes").split(",") for kernel in ("stock", "patched")}
    crash = any("crash" in modes for modes in kernels.values())
    figures: list[gains.Figure] = []
    releases = {}
    chunks = 0
    for kernel, modes in kernels.items():
        if modes == [""]:
            continue
        proving.order = replace(proving.order, variant=kernel)
        script = ("speed", *words, "--modes", *modes)
        files = {"kernel": proving.image()} if crash else {}
        append = f"{QUIET} {RESERVE if crash else ''} {option('--append')}".strip()
        memory = EXTRA_MB if crash else 0
        if option("--bare"):
            records = proving.alone(
                *script,
                files=files,
                append=append,
                memory=memory,
                silence=SILENCE_S,
                one_thread=option("--one-thread"),
            )
        else:
            proving.boot(append=append, memory=memory)
            for name, content in files.items():
                proving.send(content, f"{bare.FOLDER}/{name}")
            records = proving.script(*script, silence=SILENCE_S)
            proving.close()
        figures += gains.figures(kernel, records)
        facts = verdicts.the(records, "machine")
        releases[kernel] = facts["release"]
        chunks = gains.chunks(facts)
    order = proving.order
    shape = (order.arch, order.cores, order.threads)
    place = {"bare": option("--bare"), "one_thread": option("--one-thread")}
    run = gains.Run(*shape, chunks, releases, tuple(figures), **place)
    keeping.save(run, proving.results / "speed.json")
    for line in gains.table([run]).splitlines():
        say(line)
    none(gains.problems(run))
