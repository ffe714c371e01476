"""The Debian archive, read through apt with private state.

The machine's own apt set-up is only asked for its mirror, and whether that one may be old.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import process
from hotplug_common.ui import Say
from hotplug_host.errors import ExitCode, ToolError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MAIN = "Debian"
SECURITY = "Debian-Security"
CHECK_AGE = "Acquire::Check-Valid-Until"
INDEX_TTL_S = 3600.0
TARGET_FORMAT = "$(CREATED_BY)\t$(ORIGIN)\t$(LABEL)\t$(REPO_URI)"


@dataclass(frozen=True)
class Suite:
    """A suite of an archive; `archive` is the Label of its Release file."""

    archive: str
    name: str


@dataclass(frozen=True)
class Package:
    """One version of a package in the archive. `sha256` is that of the .deb."""

    name: str
    version: str
    sha256: str


def parse_indextargets(text: str) -> dict[str, str]:
    """Map archive label to repository URI, from `apt-get indextargets --format TARGET_FORMAT`.

    Only Debian's own package indexes count; the first of a label wins, as in apt itself.
    """
    mirrors: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 4 and fields[0] == "Packages" and fields[1] == "Debian":
            mirrors.setdefault(fields[2], fields[3])
    return mirrors


def mirrors() -> dict[str, str]:
    """Ask the machine's apt for its Debian mirrors, by archive label.

    Raises ToolError (ENVIRONMENT) when apt knows no Debian mirror.
    """
    result = process.run(["apt-get", "indextargets", "--format", TARGET_FORMAT])
    found = parse_indextargets(result.output) if result.returncode == 0 else {}
    if MAIN not in found:
        raise ToolError(
            "apt knows no Debian mirror on this machine",
            "configure one and run 'apt-get update', or set LPAR_LAB_SOURCE_URL and LPAR_LAB_SOURCE_SHA256",
        )
    return found


def source_lines(suites: Iterable[Suite], known: dict[str, str]) -> list[str]:
    """Return one sources.list line per suite whose archive has a mirror."""
    return [
        f"deb [signed-by={KEYRING}] {known[suite.archive]} {suite.name} main"
        for suite in suites
        if suite.archive in known
    ]


def checks_age() -> bool:
    """Whether the machine's apt refuses a Release file past its date, which its administrator decides."""
    return process.run(["apt-config", "shell", "check", f"{CHECK_AGE}/b"]).output.strip() != "check='false'"


def first_failure(text: str) -> str:
    """Pick apt's own first reason out of what `apt-get update` wrote."""
    failed = [line for line in text.splitlines() if line.startswith(("W: Failed to fetch", "E:"))]
    return failed[0] if failed else process.last_line(text)


class Apt:
    """apt-get with its own lists, sources and cache below `root`; the machine's `architecture` if none."""

    def __init__(self, root: Path, lines: Sequence[str], architecture: str = "") -> None:
        self.root = root
        self.lines = list(lines)
        self.architecture = architecture

    def options(self) -> list[str]:
        """Return the options that keep apt away from the machine's own state."""
        settings = {
            "Dir::State": self.root / "state",
            "Dir::State::Lists": self.root / "lists",
            "Dir::State::status": self.root / "status",
            "Dir::Cache": self.root / "cache",
            "Dir::Etc::sourcelist": self.root / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::Retries": "2",
            "APT::Sandbox::User": "root",
        }
        if self.architecture:
            settings |= {"APT::Architecture": self.architecture, "APT::Architectures": self.architecture}
        return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]

    def refresh(self, say: Say) -> bool:
        """Update the package lists unless they are fresh; return whether they are usable and current."""
        if not KEYRING.exists():
            raise ToolError(f"{KEYRING} is missing", "apt-get install debian-archive-keyring")
        sources = "\n".join(self.lines) + "\n"
        listed = self.root / "sources.list"
        stamp = self.root / "updated"
        same = listed.exists() and listed.read_text() == sources
        if same and stamp.exists() and time.time() - stamp.stat().st_mtime < INDEX_TTL_S:
            return True
        for sub in ("lists/partial", "cache/archives/partial", "state"):
            (self.root / sub).mkdir(parents=True, exist_ok=True)
        (self.root / "status").touch()
        stamp.unlink(missing_ok=True)
        listed.write_text(sources)
        say("reading package lists from the archive")
        result = process.run(["apt-get", *self.options(), "-q", "--error-on=any", "update"])
        if result.returncode != 0:
            say(f"the archive cannot be read: {first_failure(result.output)}")
            return False
        stamp.touch()
        return True

    def candidate(self, package: str) -> Package | None:
        """Return the newest version of `package`, or None when the archive has none."""
        result = process.run(
            ["apt-cache", *self.options(), "--no-all-versions", "show", package],
        )
        if result.returncode != 0:
            return None
        fields: dict[str, str] = {}
        for line in result.output.splitlines():
            key, colon, value = line.partition(": ")
            if colon:
                fields.setdefault(key, value)
        if not {"Version", "SHA256"} <= fields.keys():
            return None
        return Package(package, fields["Version"], fields["SHA256"])

    def names(self, pattern: str) -> list[str]:
        """Return the names of packages that match a regular expression of apt's."""
        result = process.run(["apt-cache", *self.options(), "search", "--names-only", pattern])
        return [line.split()[0] for line in result.output.splitlines() if line]

    def download(self, package: Package, folder: Path) -> Path:
        """Download a package, verified by apt against the signed lists, into `folder`.

        Raises ToolError (ENVIRONMENT) when the download fails.
        """
        result = process.run(
            ["apt-get", *self.options(), "-q", "download", f"{package.name}={package.version}"], cwd=folder
        )
        found = sorted(folder.glob(f"{package.name}_*.deb"))
        if result.returncode != 0 or not found:
            raise ToolError(
                f"cannot download {package.name} {package.version}: {process.last_line(result.output)}",
                "check the network and try again",
                ExitCode.ENVIRONMENT,
            )
        return found[0]
