"""The algorithms as models, every interleaving of which spin looks at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import needs as preflight
from hotplug_common import process
from hotplug_host.errors import ExitCode, ToolError

MODELS = Path(__file__).resolve().parent / "model"
NEEDS = (preflight.Need("spin", "spin"), preflight.Need("gcc", "gcc"))
ORDER = "result>=before"
BOUND = "<="
FRESH = ">=mine"
OWN = "result==mine"

_ERRORS = re.compile(r"errors: (\d+)")
_VIOLATED = re.compile(r"assertion violated \((.*)\) \(at depth")
_STATES = re.compile(r"(\d+) states, stored")
_INCOMPLETE = ("Search not completed", "max search depth too small")


@dataclass(frozen=True)
class Claim:
    """One model with its settings, and the assertion that must fail in it; none has to when that is empty."""

    says: str
    model: str
    settings: tuple[str, ...]
    violates: str = ""


@dataclass(frozen=True)
class Verdict:
    """What spin found: the states it looked at, and the assertion that failed, if one did."""

    states: int
    violated: str


# What must fail shows that the model would notice: these are the flaws that the patches mend.
QUICK = (
    Claim("combined: order and bound, 2 CPUs", "shared.pml", ("COMBINED", "CPUS=2")),
    Claim("combined: order, 3 CPUs", "shared.pml", ("COMBINED", "CPUS=3", "CALLS=1", "NO_BOUND")),
    Claim("hpet-upstream: order without NMIs", "shared.pml", ("UPSTREAM", "CPUS=2", "NO_NMI", "NO_BOUND")),
    Claim("hpet-upstream: NMIs break the order", "shared.pml", ("UPSTREAM", "CPUS=2", "NO_BOUND"), ORDER),
    Claim("hpet-upstream: waits without bound", "shared.pml", ("UPSTREAM", "CPUS=2", "NO_NMI"), BOUND),
    Claim("a bound alone would break the order", "shared.pml", ("IMPATIENT", "NO_NMI", "NO_BOUND"), ORDER),
    Claim("retry: order, 2 CPUs", "percpu.pml", ("RETRY", "CPUS=2", "CALLS=3", "NO_BOUND")),
    Claim("retry: tries without bound", "percpu.pml", ("RETRY", "CPUS=2", "CALLS=3"), BOUND),
    Claim("winner: order, one try", "percpu.pml", ("WINNER", "CPUS=2", "CALLS=3", "BOUND=1", "NO_FRESH")),
    Claim("winner: may return an old value", "percpu.pml", ("WINNER", "CPUS=2", "CALLS=3"), FRESH),
    Claim("pvclock-upstream: order, 2 CPUs", "percpu.pml", ("PVCLOCK", "CPUS=2", "CALLS=3")),
    Claim("pvclock: order, freshness, bound, 2 CPUs", "percpu.pml", ("ADVANCE", "CPUS=2", "CALLS=3")),
    Claim("pvclock: order, freshness, bound, 3 CPUs", "percpu.pml", ("ADVANCE", "CPUS=3", "CALLS=1")),
    Claim("pvclock: alone, its own time", "percpu.pml", ("ADVANCE", "CPUS=1", "CALLS=4", "ALONE")),
    Claim("pvclock: with others, also theirs", "percpu.pml", ("ADVANCE", "CPUS=2", "ALONE"), OWN),
)
LONG = (
    Claim("combined: order and bound, 3 CPUs", "shared.pml", ("COMBINED", "CPUS=3", "CALLS=1")),
    Claim("combined: order, 2 CPUs, 4 calls", "shared.pml", ("COMBINED", "CPUS=2", "CALLS=4", "NO_BOUND")),
    Claim("pvclock: order, freshness, bound, 3 CPUs, 2 calls", "percpu.pml", ("ADVANCE", "CPUS=3")),
    Claim("winner: order, one try, 3 CPUs", "percpu.pml", ("WINNER", "BOUND=1", "NO_FRESH")),
)


def verify(claim: Claim, folder: Path, timeout: float | None = None) -> Verdict:
    """Have spin look at every interleaving, in `folder`.

    Raises ToolError: ENVIRONMENT without spin, INTERNAL when it could not look at all of them, TIMEOUT.
    """
    preflight.require(NEEDS)
    defines = [f"-D{setting}" for setting in claim.settings]
    _must(["spin", "-a", *defines, MODELS / claim.model], folder, claim)
    _must(["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"], folder, claim)
    output = process.run([folder / "pan", "-m1000000"], cwd=folder, timeout=timeout).output
    return judge(output, claim)


def judge(output: str, claim: Claim) -> Verdict:
    """Read what the verifier prints; ToolError (INTERNAL) when that is not the result of a whole search."""
    errors, states, violated = (pattern.search(output) for pattern in (_ERRORS, _STATES, _VIOLATED))
    incomplete = [text for text in _INCOMPLETE if text in output]
    # A search that has found what is wrong ends there.
    if not (errors and states) or (incomplete and not violated) or (int(errors[1]) > 0) != bool(violated):
        why = incomplete[0] if incomplete else process.last_line(output)
        raise ToolError(f"{claim.says}: no verdict: {why}", code=ExitCode.INTERNAL)
    return Verdict(int(states[1]), violated[1] if violated else "")


def as_claimed(claim: Claim, verdict: Verdict) -> bool:
    """Whether that assertion failed which has to, or none."""
    return claim.violates in verdict.violated if claim.violates else not verdict.violated


def _must(command: Sequence[str | Path], folder: Path, claim: Claim) -> None:
    done = process.run(command, cwd=folder)
    if done.returncode != 0:
        raise ToolError(f"{claim.says}: {process.last_line(done.output)}", code=ExitCode.INTERNAL)
