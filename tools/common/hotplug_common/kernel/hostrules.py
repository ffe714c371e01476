"""What is done to a host's own configuration, and what is said of it. Pure; the rules are data/host.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from hotplug_common.arch import PPC64LE, Arch
from hotplug_common.kernel import config
from hotplug_common.kernel.config import Fragment
from hotplug_host.errors import ExitCode, ToolError

PREFIX = "CONFIG_"
SYMBOL = re.compile(r"(?:CONFIG_)?([A-Z0-9_a-z]+)=(y|m|n|\d+|\"[^\"]*\")$")
TOOLCHAIN = re.compile(r"(CC|GCC|AS|LD|CLANG|LLD|PAHOLE|RUSTC|BINDGEN|TOOLS)_")
ARCH_MARKS = {"ppc64le": ("PPC64", "CPU_LITTLE_ENDIAN"), "x86_64": ("X86_64",)}
NAMED_BY = re.compile(r"^# Linux/\S+ (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """A symbol whose value is another than in the host's configuration; `n` stands for not set."""

    symbol: str
    before: str
    after: str
    why: str

    def __str__(self) -> str:
        return f"{self.symbol}: {self.before} -> {self.after} ({self.why})"


@dataclass(frozen=True)
class Wanted:
    """A value that a configuration is to have, and why."""

    symbol: str
    value: str
    why: str
    must: bool = True
    """Whether the build ends where the value is lost; else a warning tells."""


@cache
def rules() -> Mapping[str, Any]:
    """Return the rules."""
    return tomllib.loads(files("hotplug_common.kernel").joinpath("data/host.toml").read_text("utf-8"))


def require_arch(text: str, arch: Arch, where: str) -> None:
    """Raise ToolError (INPUT) for a configuration that is none, or one of another architecture."""
    values = config.parse(text)
    if not values:
        raise ToolError(f"{where} holds no CONFIG_ line", "name a kernel's configuration", ExitCode.INPUT)
    lacking = [name for name in ARCH_MARKS[arch.name] if values.get(PREFIX + name) != "y"]
    if lacking:
        raise ToolError(
            f"{where} is no configuration for {arch.name}: CONFIG_{lacking[0]} is not set",
            "name one of that architecture, or another --arch",
            ExitCode.INPUT,
        )


def version_of(text: str) -> str:
    """Return the kernel that the head of a configuration names, such as "Linux 6.12.95"."""
    found = NAMED_BY.search(text)
    return f"Linux {found[1]}" if found else "an unnamed Linux"


def read_enabled(words: Iterable[str]) -> list[Wanted]:
    """Read what --enable was given; ToolError (USAGE) for what is no SYMBOL=VALUE."""
    wanted = []
    for word in words:
        found = SYMBOL.match(word)
        if not found:
            raise ToolError(
                f"--enable {word}: not SYMBOL=y, m, n, a number or a string in double quotes",
                "write it as IBMVNIC=m",
                ExitCode.USAGE,
            )
        wanted.append(Wanted(PREFIX + found[1], found[2], "--enable"))
    return wanted


def wanted_of(text: str, arch: Arch, enabled: Iterable[Wanted], sign_key: str = "") -> list[Wanted]:
    """Return all values to set: forced ones, what PowerVM needs, what was asked for."""
    values = config.parse(text)
    wanted = {
        PREFIX + one["symbol"]: Wanted(PREFIX + one["symbol"], one["value"], f"forced: {one['why']}")
        for one in rules()["force"]
        if one.get("arch", arch.name) == arch.name
    }
    if sign_key:
        symbol = PREFIX + "MODULE_SIG_KEY"
        wanted[symbol] = Wanted(symbol, f'"{sign_key}"', "--sign-key")
    if arch == PPC64LE:
        for need in rules()["need"]:
            symbol = PREFIX + need["symbol"]
            if need.get("auto") and values.get(symbol, "n") == "n":
                wanted[symbol] = Wanted(
                    symbol, need["offer"], f"switched on: without it {need['effect']}", must=False
                )
    return list((wanted | {one.symbol: one for one in enabled}).values())


def overlay(text: str, wanted: Iterable[Wanted]) -> str:
    """Return a configuration with those values, and its other lines as they are."""
    values = {one.symbol: one.value for one in wanted}
    lines = [line for line in text.splitlines() if not values.keys() & config.parse(line).keys()]
    added = [
        f"# {symbol} is not set" if value == "n" else f"{symbol}={value}" for symbol, value in values.items()
    ]
    return "\n".join([*lines, *added]) + "\n"


def require_kept(wanted: Iterable[Wanted], final: str, line: str) -> None:
    """Raise ToolError (INPUT) for values that olddefconfig did not keep.

    A string may be gone with what it belongs to: there is no key file in a kernel without signatures.
    """
    got = config.parse(final)
    kept = [one for one in wanted if one.must and not (one.value.startswith('"') and one.symbol not in got)]
    text = overlay("", kept)
    config.require_survival([Fragment("host.toml and --enable", Path(), text)], final, line)


def changes(
    given: str, untrimmed: str, final: str, wanted: Iterable[Wanted], known: frozenset[str]
) -> list[Change]:
    """Compare the host's configuration with the final one; KNOWN are the symbols that the source has.

    UNTRIMMED is what olddefconfig made of it before unused modules were left out.
    """
    before, between, after = (config.parse(text) for text in (given, untrimmed, final))
    reasons = {one.symbol: one.why for one in wanted}
    found = []
    for symbol in sorted(before.keys() | after.keys()):
        old, new = before.get(symbol, "n"), after.get(symbol, "n")
        if old == new:
            continue
        if symbol in reasons:
            why = reasons[symbol]
        elif between.get(symbol, "n") != new:
            why = TRIMMED
        elif TOOLCHAIN.match(symbol.removeprefix(PREFIX)):
            why = "olddefconfig: this compiler is another"
        elif symbol.removeprefix(PREFIX) not in known:
            why = "olddefconfig: this source has no such symbol"
        elif symbol not in before:
            why = (
                "olddefconfig: a symbol that the configuration does not mention, by default or by dependency"
            )
        else:
            why = "olddefconfig: what it depends on, or what selects it, is otherwise here"
        found.append(Change(symbol, old, new, why))
    return found


TRIMMED = "trimmed: no module that is kept needs it"


def warnings(final: str, arch: Arch) -> list[str]:
    """Say what PowerVM needs and the configuration lacks, and what it has that is worth knowing."""
    if arch != PPC64LE:
        return []
    values = config.parse(final)
    said = []
    for need in rules()["need"]:
        if values.get(PREFIX + need["symbol"], "n") == "n":
            offer = f"; --enable {need['symbol']}={need['offer']} has it built" if "offer" in need else ""
            said.append(f"CONFIG_{need['symbol']} is not set: {need['effect']}{offer}")
    for one in rules()["caution"]:
        if values.get(PREFIX + one["symbol"], "n") != "n":
            said.append(f"CONFIG_{one['symbol']}={values[PREFIX + one['symbol']]}: {one['effect']}")
    return said


def kept_modules() -> list[str]:
    """Return the modules that trimming keeps, whatever the host has loaded."""
    return [name for group in rules()["keep"] for name in group["modules"]]
