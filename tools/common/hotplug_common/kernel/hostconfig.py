"""A plan for a host's kernel: its own configuration over our source, with what changes and why."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import lock
from hotplug_common import needs as preflight
from hotplug_common.arch import Arch
from hotplug_common.kernel import artifact, build, config, hostrules, lines, objects, origin, tree
from hotplug_common.kernel.artifact import file_sha256
from hotplug_common.kernel.build import HostConfig, Plan
from hotplug_common.kernel.config import Fragment
from hotplug_common.kernel.kbuild import Make
from hotplug_common.kernel.series import Patch
from hotplug_common.kernel.source import Source
from hotplug_common.needs import Need
from hotplug_common.paths import Paths
from hotplug_common.ui import Say
from hotplug_host.errors import ExitCode, ToolError

NEEDS = (Need("openssl/opensslv.h", "libssl-dev"), Need("depmod", "kmod"))
KNOWN = re.compile(r"^\s*(?:menu)?config\s+(\w+)", re.MULTILINE)
LACKING = re.compile(r"^(?:module )?(\w+) (?:did not have configs (.*)|config not found!!)$", re.MULTILINE)
"""What localmodconfig says of a module that it cannot keep."""
ANSWERS = b"\n" * 4096
"""To localmodconfig's questions: the default."""


@dataclass(frozen=True)
class Request:
    """What the operator asked for: where the configuration is, and how it is to differ."""

    config_from: str
    trim_to: str = ""
    enable: tuple[str, ...] = ()
    sign_key: str = ""
    fragments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """A request with what was read for it."""

    text: str
    where: str
    wanted: tuple[hostrules.Wanted, ...]
    modules: tuple[str, ...]
    """Modules to keep; none for all."""
    used: frozenset[str]
    """Those of them that the host uses."""
    key_digest: str

    @property
    def digest(self) -> str:
        """Name what was asked for, whatever the source makes of it."""
        parts = [self.text, *(f"{one.symbol}={one.value}" for one in self.wanted), *self.modules]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def read(request: Request, arch: Arch, line: str, paths: Paths, say: Say) -> Asked:
    """Read configuration, modules, key and fragments. Raises ToolError for what cannot be used."""
    given = origin.read_config(request.config_from, paths)
    hostrules.require_arch(given.text, arch, given.where)
    say(f"{given.where} is of {hostrules.version_of(given.text)}")
    key = _sign_key(request.sign_key) if request.sign_key else None
    enabled = hostrules.read_enabled(request.enable)
    for fragment in _fragments(request, paths, arch, line):
        wanted = config.parse(fragment.content).items()
        enabled += [
            hostrules.Wanted(symbol, value, f"--fragment {fragment.name}") for symbol, value in wanted
        ]
    used: list[str] = []
    if request.trim_to:
        used, by_device = origin.read_modules(request.trim_to)
        say(f"{request.trim_to}: {len(used)} modules in use; {len(hostrules.kept_modules())} more are kept")
        if not by_device:
            say(f"{request.trim_to} is a list: devices whose module it does not name are not served")
    return Asked(
        given.text,
        given.where,
        tuple(hostrules.wanted_of(given.text, arch, enabled, str(key or ""))),
        tuple(sorted({*used, *hostrules.kept_modules()})) if used else (),
        frozenset(used),
        file_sha256(key) if key else "",
    )


def _sign_key(name: str) -> Path:
    path = Path(name).absolute()
    text = path.read_text(errors="replace") if path.is_file() else ""
    if not all(f"{part}-----" in text for part in ("PRIVATE KEY", "CERTIFICATE")):
        raise ToolError(
            f"{name} is no PEM file with a private key and its certificate",
            "put both into one file, as the kernel's certs/signing_key.pem has them",
            ExitCode.USAGE,
        )
    return path


def _fragments(request: Request, paths: Paths, arch: Arch, line: str) -> list[Fragment]:
    """Return the fragments that were asked for, with what the line adds to them, and not the lab's base."""
    additions = lines.load(paths.patches, line).fragments
    names = {more for name in request.fragments for more in (name, *additions.get(name, ()))}
    everything = config.load(paths.patches, arch, line, request.fragments) if names else []
    return [fragment for fragment in everything if fragment.name in names]


def plan(
    asked: Asked,
    arch: Arch,
    source: Source,
    variant: str,
    *,
    paths: Paths,
    say: Say,
    patches: list[Patch],
) -> Plan:
    """Have the source's own Kconfig complete the configuration, count what it compiles, and decide the key.

    Raises ToolError: INPUT when a patch does not apply or a value that was set is lost.
    """
    preflight.require((*preflight.kernel_build(arch), *NEEDS))
    with lock.held(source.lock, say, f"the source tree of line {source.line}"):
        tree.prepare(source.tree, patches, f"{source.line} ({source.kernel_version})")
        make = Make(arch, source.tree, paths.objects / source.folder.name / f"{arch.name}-kconfig", paths, 1)
        untrimmed, final, lacking = _complete(asked, make, source.line)
        known = frozenset(name for file in source.tree.rglob("Kconfig*") for name in _symbols(file))
        counted = objects.count(source.tree, make.config, arch.kbuild)
    changed = hostrules.changes(asked.text, untrimmed, final, asked.wanted, known)
    key = artifact.cache_key(
        source_sha256=source.ref.sha256,
        patches=patches,
        fragments=[Fragment("host", Path(), final), Fragment("key", Path(), asked.key_digest)],
        arch=arch.name,
        compiler=build.compiler_version(arch),
        variant=variant,
    )
    text = "".join(f"{change}\n" for change in changed)
    host = HostConfig(asked.where, final, text, asked.digest, counted, tuple(lacking))
    return Plan(arch, source, variant, patches, [], key, host)


def _symbols(file: Path) -> list[str]:
    return KNOWN.findall(file.read_text(errors="replace")) if file.is_file() else []


def _complete(asked: Asked, make: Make, line: str) -> tuple[str, str, list[str]]:
    """Return the configuration as olddefconfig makes it, the same trimmed, and what the host has besides."""
    make.config.write_text(hostrules.overlay(asked.text, asked.wanted))
    make.make("olddefconfig")
    untrimmed = make.config.read_text()
    lacking: list[str] = []
    if asked.modules:
        listed = make.objects / "lsmod.txt"
        listed.write_text(origin.lsmod(asked.modules))
        make.make("localmodconfig", f"LSMOD={listed}", stdin=ANSWERS)
        lacking = parse_lacking(make.log.read_text(errors="replace"), asked.used)
        make.config.write_text(hostrules.overlay(make.config.read_text(), asked.wanted))
        make.make("olddefconfig")
    final = make.config.read_text()
    hostrules.require_kept(asked.wanted, final, line)
    return untrimmed, final, lacking


def parse_lacking(log: str, used: frozenset[str]) -> list[str]:
    """Return, in words, the modules in use that localmodconfig could not keep."""
    found = sorted((one[1], one[2] or "") for one in LACKING.finditer(log) if one[1] in used)
    return [
        f"{name} is in use on the host, and "
        + (f"{' or '.join(symbols.split())} is not set" if symbols else "this source has no such module")
        for name, symbols in found
    ]


def report(plan: Plan, rates: objects.Rates, jobs: int) -> list[str]:
    """Say what changed and why, what is lacking, and what the build will take."""
    host = plan.host
    if host is None:
        return []
    changed = host.changes.splitlines()
    trimmed = [line for line in changed if line.endswith(f"({hostrules.TRIMMED})")]
    said = [f"  {line}" for line in changed if line not in set(trimmed)]
    if trimmed:
        said.append(f"  {len(trimmed)} symbols more ({hostrules.TRIMMED})")
    return [
        f"{len(changed)} symbols differ from {host.where}",
        *said,
        *(f"warning: {line}" for line in [*host.lacking, *hostrules.warnings(host.text, plan.arch)]),
        objects.estimate(host.objects, rates, jobs),
    ]
