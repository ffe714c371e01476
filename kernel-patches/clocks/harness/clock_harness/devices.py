"""What it takes to tell every clock-event device that the rate of the clock has changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from hotplug_common import process
from hotplug_host.errors import ExitCode, ToolError

TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Told:
    """Rounds in which `count` devices were told, which another CPU (`remote`) had used or the same one."""

    count: int
    remote: bool
    ns: tuple[int, ...]

    @property
    def us(self) -> float:
        """Median of the rounds, in us."""
        return median(self.ns) / 1000

    @property
    def tail_us(self) -> float:
        """What 19 of 20 rounds do not exceed, in us."""
        return quantiles(self.ns, n=20)[-1] / 1000 if len(self.ns) > 1 else self.us


def told(program: Path, count: int, cpu: int, user: int, rounds: int) -> Told:
    """Have `cpu` tell devices that `user` has programmed; ToolError (OPERATION) when the program fails."""
    words: list[str | Path] = [program, str(count), str(cpu), str(user), str(rounds)]
    done = process.run(words, merge_errors=False, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise ToolError(done.errors.strip() or f"{program} failed", code=ExitCode.OPERATION)
    return Told(count, cpu != user, tuple(int(line) for line in done.output.split()))
