"""Where the configuration of an operator's kernel, and what its host uses, are read from.

A source is a file, a running host over ssh, or a distribution's package of a kernel.
"""

from __future__ import annotations

import gzip
import lzma
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import needs as preflight
from hotplug_common import process, scratch
from hotplug_common.needs import SSH, Need
from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode, ToolError

HOST = re.compile(r"(?:ssh://([^/-][^/]*)/?|([^/:-][^/:]*):)$")
PLACES = (
    "boot/config-*",
    "lib/modules/*/config",
    "usr/lib/modules/*/config",
    "usr/src/linux-config-*/config*",
)
READ_CONFIG = (
    'c="/boot/config-$(uname -r)"; if test -r "$c"; then cat "$c"; else gzip -dc /proc/config.gz; fi'
)
LSMOD_HEAD = "Module                  Size  Used by"
READ_MODULES = (
    "PATH=$PATH:/usr/sbin:/sbin; cat /proc/modules"
    " && find /sys/devices -name modalias -exec cat {} + 2>/dev/null | sort -u"
    ' | while read -r alias; do modprobe -R "$alias" 2>/dev/null; done | sort -u'
)
"""What is loaded, then the names of the modules that the devices' names for drivers stand for."""
SSH_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Given:
    """A text, and where it was read for a message."""

    text: str
    where: str


def read_config(source: str, paths: Paths) -> Given:
    """Return the configuration that SOURCE names.

    Raises ToolError: USAGE for a source that there is not or that holds several, INPUT for one that cannot be
    read, ENVIRONMENT for a host that does not answer.
    """
    path = Path(source)
    if path.is_dir():
        return _only_config(path, source)
    if path.is_file():
        opener = UNPACK.get(path.suffix)
        if opener is None:
            return Given(_plain(path), source)
        with scratch.folder(paths.scratch, "package") as folder:
            opener(path, folder)
            return _only_config(folder, source)
    return Given(_ask(source, READ_CONFIG), f"the configuration of {source.removesuffix(':')}")


def read_modules(source: str) -> tuple[list[str], bool]:
    """Return the names of the modules that a host uses, and whether those of its devices are among them.

    SOURCE is what lsmod printed, or a host. Raises ToolError as read_config does.
    """
    path = Path(source)
    text = _plain(path) if path.is_file() else _ask(source, READ_MODULES)
    names = parse_modules(text)
    if not names:
        raise ToolError(f"{source} names no module", "save the output of lsmod", ExitCode.INPUT)
    return names, not path.is_file()


def parse_modules(text: str) -> list[str]:
    """Return the names in what lsmod prints, or in a list of names, each once."""
    words = [line.split() for line in text.splitlines()]
    names = [line[0].replace("-", "_") for line in words if line and line[0] != "Module"]
    return sorted(dict.fromkeys(names))


def lsmod(names: Sequence[str]) -> str:
    """Return names as lsmod would print them, for kbuild's localmodconfig."""
    return "".join(f"{line}\n" for line in [LSMOD_HEAD, *(f"{name} 0 0" for name in names)])


def _plain(path: Path) -> str:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        if path.suffix == ".xz":
            data = lzma.decompress(data)
        return data.decode()
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise ToolError(
            f"cannot read {path}: {error}", "name a text, or one compressed as .gz or .xz", ExitCode.INPUT
        ) from error


def _only_config(folder: Path, source: str) -> Given:
    found = sorted({path.resolve() for place in PLACES for path in folder.glob(place) if path.is_file()})
    names = [
        str(path.relative_to(folder.resolve())) for path in found if path.is_relative_to(folder.resolve())
    ]
    texts = {_plain(path) for path in found}
    if len(texts) == 1:
        return Given(texts.pop(), f"{source} ({names[0]})")
    if not found:
        raise ToolError(
            f"{source} holds no configuration: neither {' nor '.join(PLACES)}",
            "name the package with the kernel's modules, or the file itself",
            ExitCode.INPUT,
        )
    raise ToolError(
        f"{source} holds several configurations: {', '.join(names)}",
        "unpack it and name one of them",
        ExitCode.USAGE,
    )


def _unpack_deb(file: Path, folder: Path) -> None:
    preflight.require((Need("dpkg-deb", "dpkg"),))
    unpack(["dpkg-deb", "-x", file, folder], file)


def _unpack_rpm(file: Path, folder: Path) -> None:
    if preflight.which("bsdtar"):
        unpack(["bsdtar", "-x", "-f", file, "-C", folder], file)
        return
    preflight.require((Need("rpm2cpio", "rpm"), Need("cpio", "cpio")))
    archive = folder.with_name(f"{folder.name}.cpio")
    try:
        # In two steps: a pipe would hide that the first one failed.
        script = 'rpm2cpio "$1" > "$2" && cd "$3" && cpio -idm --quiet < "$2"'
        unpack(["sh", "-ec", script, "sh", file.absolute(), archive, folder], file)
    finally:
        archive.unlink(missing_ok=True)


UNPACK = {".deb": _unpack_deb, ".rpm": _unpack_rpm}


def unpack(command: Sequence[str | Path], file: Path) -> None:
    """Run a command that unpacks a file. Raises ToolError (INPUT) with its last line when it fails."""
    result = process.run(command)
    if result.returncode != 0:
        raise ToolError(
            f"cannot unpack {file}: {process.last_line(result.output)}", "fetch it again", ExitCode.INPUT
        )


def _ask(source: str, script: str) -> str:
    """Run a script on a host by ssh, as the operator's own ssh is set up."""
    found = HOST.match(source)
    if not found:
        raise ToolError(
            f"there is no file {source}",
            "name a file, a package, or a host as HOST: or ssh://HOST",
            ExitCode.USAGE,
        )
    preflight.require(SSH[:1])
    host = found[1] or found[2]
    words = ["ssh", "-o", "BatchMode=yes", "--", f"ssh://{host}" if found[1] else host, f"sh -c '{script}'"]
    result = process.run(words, merge_errors=False, timeout=SSH_TIMEOUT_S)
    if result.returncode != 0:
        raise ToolError(
            f"cannot read from {host}: {process.last_line(result.errors)}",
            "log in there by ssh once, then try again",
            ExitCode.ENVIRONMENT,
        )
    return result.output
