"""Kernel configuration: config fragments over allnoconfig, and a check that nothing asked for was lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_common.arch import Arch
from hotplug_common.kernel import lines
from hotplug_host.errors import ExitCode, ToolError

SET = re.compile(r"^(CONFIG_\w+)=(.*)$")
UNSET = re.compile(r"^# (CONFIG_\w+) is not set$")
DEFAULT = ("base", "{arch}", "tracing")
POWERNV = "powernv"
"""The fragment of kernels that boot without a hypervisor as well, under OPAL."""


@dataclass(frozen=True)
class Fragment:
    """A config fragment, named as its file without the suffix."""

    name: str
    path: Path
    content: str


@dataclass(frozen=True)
class Lost:
    """A symbol that did not keep the value a fragment asked for; `n` stands for not set."""

    symbol: str
    fragment: str
    wanted: str
    got: str

    def __str__(self) -> str:
        return f"{self.symbol} ({self.fragment}: wanted {self.wanted}, got {self.got})"


def load(patches: Path, arch: Arch, line: str, extra: Sequence[str] = ()) -> list[Fragment]:
    """Read the fragments for `arch`, then the `extra` ones, each once.

    The line's data file says which of them it follows up with a fragment of its own, because symbols differ.
    Raises ToolError (USAGE) for a fragment that there is not; it names those that there are.
    """
    wanted = [name.format(arch=arch.fragment) for name in DEFAULT]
    wanted += [name for name in dict.fromkeys(extra) if name not in wanted]
    additions = lines.load(patches, line).fragments
    folder = patches / "configs"
    fragments = []
    for name in wanted:
        fragments.append(_read(folder, name))
        fragments += [_read(folder, more) for more in additions.get(name, ())]
    return fragments


def _read(folder: Path, name: str) -> Fragment:
    path = folder / f"{name}.config"
    try:
        return Fragment(name, path, path.read_text())
    except OSError as error:
        known = ", ".join(sorted(p.stem for p in folder.glob("*.config"))) or "none"
        raise ToolError(
            f"no config fragment '{name}' in {folder}", f"there are: {known}", ExitCode.USAGE
        ) from error


def parse(text: str) -> dict[str, str]:
    """Map symbol to value from a fragment or a .config; `n` stands for not set. The last mention wins."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        if found := SET.match(line):
            values[found[1]] = found[2].strip()
        elif found := UNSET.match(line):
            values[found[1]] = "n"
    return values


def lost_symbols(fragments: Sequence[Fragment], final: str) -> list[Lost]:
    """Compare what the fragments ask for (a later one overrides an earlier one) with the final .config."""
    wanted: dict[str, tuple[str, str]] = {}
    for fragment in fragments:
        for symbol, value in parse(fragment.content).items():
            wanted[symbol] = (value, fragment.name)
    got = parse(final)
    return [
        Lost(symbol, fragment, value, got.get(symbol, "n"))
        for symbol, (value, fragment) in wanted.items()
        if got.get(symbol, "n") != value
    ]


def require_survival(fragments: Sequence[Fragment], final: str, line: str) -> None:
    """Raise ToolError (INPUT) that lists every symbol the final .config does not hold as asked for."""
    lost = lost_symbols(fragments, final)
    if lost:
        raise ToolError(
            f"{len(lost)} configuration symbol(s) lost on {line}: {'; '.join(map(str, lost))}",
            "add what they depend on to the fragment, or drop them",
            ExitCode.INPUT,
        )
