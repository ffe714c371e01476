"""A finished kernel: its cache key, its release string, and artifact.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hotplug_common.kernel import lines
from hotplug_common.kernel.config import Fragment
from hotplug_common.kernel.series import Patch
from hotplug_common.schemacheck import Schema
from hotplug_host.errors import ExitCode, ToolError

SCHEMA = "lpar-lab/kernel/1"
DESCRIPTION = Schema("hotplug_common.kernel", "data/kernel-v1.schema.json")
RECIPE = 1
"""Raise it when the build changes what it makes from the same inputs."""
FILE = "artifact.json"


@dataclass(frozen=True)
class SourceRef:
    """Which source a kernel was built from; `sha256` is that of the package or tarball."""

    package: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Package:
    """A package of a kernel, in a file beside artifact.json."""

    format: str
    """deb, rpm or tar."""
    name: str
    """The package manager's name of it. Of a tarball, the folder below /boot/hotplug-acceleration."""
    file: str
    sha256: str
    arch: str
    """The architecture as the package manager calls it."""
    installed_bytes: int
    """What its files take once they are installed; of a package that `lpar-lab package` made, in /boot."""


@dataclass(frozen=True)
class Artifact:
    """The content of artifact.json."""

    arch: str
    line: str
    variant: str
    release: str
    """What `uname -r` says on this kernel."""
    image: Path
    sha256: str
    """Digest of the image."""
    config: Path
    source: SourceRef
    patches: list[str]
    fragments: list[str]
    built: str
    """ISO 8601 time."""
    config_from: str = ""
    """What the host's configuration was read from; empty for a lab kernel."""
    modules: str = ""
    """Tarball with the modules, beside this file; empty where none come with the kernel."""
    packages: list[Package] = field(default_factory=list)
    """Packages that kbuild's own targets made."""

    def to_json(self) -> str:
        """Serialise, schema first."""
        fields = asdict(self) | {"image": str(self.image), "config": str(self.config)}
        return json.dumps({"schema": SCHEMA} | fields, indent=2) + "\n"

    @property
    def file(self) -> Path:
        """Where this artefact's artifact.json is."""
        return self.image.parent / FILE


def load(path: Path) -> Artifact:
    """Read artifact.json; a folder stands for the file in it.

    Raises ToolError (INPUT) when it cannot be read, is not ours, or its image is missing.
    """
    file = path / FILE if path.is_dir() else path
    try:
        data: dict[str, Any] = json.loads(file.read_text())
        if data.get("schema") != SCHEMA:
            raise ValueError(f"schema is {data.get('schema')!r}, not {SCHEMA!r}")
        data["line"] = data.get(lines.KEY, data.get(lines.FORMER_KEY))
        if problem := DESCRIPTION.problem_of("kernel", data):
            raise ValueError(problem)
        artifact = Artifact(
            arch=data["arch"],
            line=data["line"],
            variant=data["variant"],
            release=data["release"],
            # A relative name is beside this file: a folder that 'lpar-lab package' made may lie anywhere.
            image=file.parent.absolute() / data["image"],
            sha256=data["sha256"],
            config=file.parent.absolute() / data["config"],
            source=SourceRef(**data["source"]),
            patches=list(data["patches"]),
            fragments=list(data["fragments"]),
            built=data["built"],
            config_from=data.get("config_from", ""),
            modules=data.get("modules", ""),
            packages=[Package(**package) for package in data.get("packages", ())],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(
            f"{file} is not a kernel artefact: {error}",
            "name the artifact.json that 'lpar-lab build-kernel --print-artifact' prints",
            ExitCode.INPUT,
        ) from error
    if not artifact.image.is_file():
        raise ToolError(
            f"{file}: image {artifact.image} is missing", "build the kernel again", ExitCode.INPUT
        )
    return artifact


def cache_key(
    *,
    source_sha256: str,
    patches: Sequence[Patch],
    fragments: Sequence[Fragment],
    arch: str,
    compiler: str,
    variant: str,
) -> str:
    """Hash what decides what an image holds; 64 hexadecimal digits. The messages of patches do not."""
    inputs = {
        "recipe": RECIPE,
        "source": source_sha256,
        "patches": [hashlib.sha256(patch.diff).hexdigest() for patch in patches],
        "fragments": [hashlib.sha256(fragment.content.encode()).hexdigest() for fragment in fragments],
        "arch": arch,
        "compiler": compiler,
        "variant": variant,
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def local_version(variant: str, key: str) -> str:
    """Return what follows the kernel version in the release string."""
    return f"-{variant}-{key[:8]}"


def file_sha256(path: Path) -> str:
    """Digest of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
