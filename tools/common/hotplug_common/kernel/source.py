"""Kernel sources: resolved in the Debian archive at run time, or a tarball named by URL and digest."""

from __future__ import annotations

import json
import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hotplug_common import debian, lock, process, scratch
from hotplug_common import needs as preflight
from hotplug_common.debian import Package
from hotplug_common.kernel import lines, tree
from hotplug_common.kernel.artifact import SourceRef, file_sha256
from hotplug_common.kernel.lines import Line
from hotplug_common.paths import Paths
from hotplug_common.ui import Say
from hotplug_host.errors import ExitCode, ToolError

URL_SETTING = "LPAR_LAB_SOURCE_URL"
SHA_SETTING = "LPAR_LAB_SOURCE_SHA256"
RECORD = "source.json"
TREE = "tree"


@dataclass(frozen=True)
class Source:
    """A source on this machine: `folder` holds source.json and a git tree."""

    line: str
    ref: SourceRef
    kernel_version: str
    folder: Path

    @property
    def tree(self) -> Path:
        """The git tree; tag `base` is the source as imported."""
        return self.folder / TREE

    @property
    def lock(self) -> Path:
        """Lock to hold while the tree must not change."""
        return self.folder / "lock"


def obtain(name: str, paths: Paths, say: Say, env: Mapping[str, str] = os.environ) -> Source:
    """Return the newest source of a kernel line, fetching it when the cache lacks it.

    With LPAR_LAB_SOURCE_URL and LPAR_LAB_SOURCE_SHA256 set, that tarball is the source. Without a
    network, the newest cached source is used and said so.

    Raises ToolError: ENVIRONMENT (no network and nothing cached, missing tools, disk full), INPUT
    (the tarball's digest is not the one given).
    """
    line = lines.load(paths.patches, name)
    preflight.require(preflight.SOURCE)
    url, digest = env.get(URL_SETTING), env.get(SHA_SETTING)
    if bool(url) != bool(digest):
        raise ToolError(f"{URL_SETTING} and {SHA_SETTING} go together", "set both or neither", ExitCode.USAGE)
    with lock.held(paths.locks / f"source-{line.name}.lock", say, f"the sources of line {line.name}"):
        source = (
            _from_url(line, url, digest, paths, say) if url and digest else _from_archive(line, paths, say)
        )
    say(f"line {line.name}: {source.ref.package} {source.ref.version} (Linux {source.kernel_version})")
    return source


def cached(line: str, paths: Paths) -> list[Source]:
    """Return the cached sources of a kernel line, newest import last."""
    records = sorted(paths.sources.glob(f"{line}/*/{RECORD}"), key=lambda path: path.stat().st_mtime)
    return [_load(record) for record in records]


def _load(record: Path) -> Source:
    data = json.loads(record.read_text())
    return Source(lines.named_in(data), SourceRef(**data["ref"]), data["kernel_version"], record.parent)


def _from_archive(line: Line, paths: Paths, say: Say) -> Source:
    if not line.package:
        raise ToolError(
            f"no suite of Debian has the source of {line.name}",
            f"pack one, and set {URL_SETTING}=file:///path/to/linux.tar.xz and {SHA_SETTING}",
            ExitCode.USAGE,
        )
    preflight.require(preflight.APT)
    apt = debian.Apt(paths.apt / line.name, debian.source_lines(line.suites, debian.mirrors()))
    have = [source for source in cached(line.name, paths) if source.ref.package == line.package]
    if not apt.refresh(say):
        return _without_network(line, have, say)
    package = apt.candidate(line.package)
    if package is None:
        raise ToolError(
            f"the archive has no {line.package} in {', '.join(suite.name for suite in line.suites)}",
            f"set {URL_SETTING} and {SHA_SETTING}",
        )
    for source in have:
        if source.ref.sha256 == package.sha256:
            return source
    return _import_package(line, package, apt, paths, say)


def _without_network(line: Line, have: list[Source], say: Say) -> Source:
    if not have:
        raise ToolError(
            f"no network and no cached source of line {line.name}",
            f"connect once, or set {URL_SETTING}=file:///path/to/linux.tar.xz and {SHA_SETTING}",
        )
    say(f"using the cached source {have[-1].ref.package} {have[-1].ref.version}")
    return have[-1]


def _import_package(line: Line, package: Package, apt: debian.Apt, paths: Paths, say: Say) -> Source:
    scratch.need_space(paths.cache, 6, "unpacking a kernel source")
    with scratch.folder(paths.scratch, "source") as work:
        say(f"downloading {package.name} {package.version}")
        deb = apt.download(package, work)
        if file_sha256(deb) != package.sha256:
            raise ToolError(f"{deb.name} has not the digest the archive lists", "try again", ExitCode.INPUT)
        _must(["dpkg-deb", "-x", deb, work / "deb"], "unpacking the package")
        deb.unlink()
        tarballs = sorted((work / "deb/usr/src").glob("linux-source-*.tar.*"))
        if len(tarballs) != 1:
            raise ToolError(f"{package.name} holds {len(tarballs)} tarballs, not one", code=ExitCode.INPUT)
        ref = SourceRef(package.name, package.version, package.sha256)
        return _import_tarball(line, tarballs[0], ref, work, paths=paths, say=say)


def _from_url(line: Line, url: str, digest: str, paths: Paths, say: Say) -> Source:
    for source in cached(line.name, paths):
        if source.ref.sha256 == digest.lower():
            return source
    scratch.need_space(paths.cache, 6, "unpacking a kernel source")
    with scratch.folder(paths.scratch, "source") as work:
        name = url.rsplit("/", 1)[-1]
        tarball = work / "tarball"
        say(f"downloading {name}")
        fetch(url, digest, tarball)
        return _import_tarball(line, tarball, SourceRef(name, "", digest.lower()), work, paths=paths, say=say)


def fetch(url: str, digest: str, target: Path) -> None:
    """Download `url` (https, http or file) to `target` and check its SHA-256.

    Raises ToolError: ENVIRONMENT when it cannot be read, INPUT when the digest differs.
    """
    if not url.startswith(("https://", "http://", "file://")):
        raise ToolError(
            f"{URL_SETTING}={url} is not a URL this tool reads", "use https or file", ExitCode.USAGE
        )
    try:
        with urllib.request.urlopen(url, timeout=60) as response, target.open("wb") as stream:  # noqa: S310
            shutil.copyfileobj(response, stream)
    except (urllib.error.URLError, TimeoutError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ToolError(f"cannot read {url}: {reason}", "check the address and the network") from error
    got = file_sha256(target)
    if got != digest.lower():
        raise ToolError(
            f"{url} has SHA-256 {got}, not {digest.lower()}",
            f"correct {SHA_SETTING}, or do not trust that file",
            ExitCode.INPUT,
        )


def _import_tarball(
    line: Line, tarball: Path, ref: SourceRef, work: Path, *, paths: Paths, say: Say
) -> Source:
    say("unpacking the source and putting it under git")
    fresh = work / "finished"
    folder = fresh / TREE
    folder.mkdir(parents=True)
    _must(["tar", "-x", "--strip-components=1", "-f", tarball, "-C", folder], "unpacking the tarball")
    version = read_kernel_version(folder / "Makefile")
    if not version.startswith(f"{line.name}.") and version != line.name:
        raise ToolError(
            f"{ref.package} is Linux {version}, not of line {line.name}", "check --line", ExitCode.INPUT
        )
    tree.import_tree(folder)
    if not ref.version:
        ref = SourceRef(ref.package, version, ref.sha256)
    record = {lines.KEY: line.name, "ref": asdict(ref), "kernel_version": version}
    (fresh / RECORD).write_text(json.dumps(record, indent=2) + "\n")
    target = paths.sources / line.name / f"{version}-{ref.sha256[:12]}"
    scratch.publish(fresh, target)
    return _load(target / RECORD)


def read_kernel_version(makefile: Path) -> str:
    """Read VERSION.PATCHLEVEL.SUBLEVEL and EXTRAVERSION from the top Makefile, as `make kernelversion` does.

    Raises ToolError (INPUT) when it is not a kernel's Makefile.
    """
    try:
        text = makefile.read_text()
    except OSError:
        text = ""
    values: dict[str, str] = dict(
        re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) =[ \t]*(.*)$", text, re.MULTILINE)
    )
    if not {"VERSION", "PATCHLEVEL"} <= values.keys():
        raise ToolError(f"{makefile} is not a kernel's Makefile", "check the tarball", ExitCode.INPUT)
    numbers = [values["VERSION"], values["PATCHLEVEL"], values.get("SUBLEVEL", "")]
    return ".".join(number for number in numbers if number) + values.get("EXTRAVERSION", "")


def _must(command: list[str | Path], doing: str) -> None:
    result = process.run(command)
    if result.returncode != 0:
        raise ToolError(f"{doing} failed: {process.last_line(result.output)}", "check the free disk space")
