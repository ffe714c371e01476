"""A kernel that the distribution's tools have installed: what the host's files tell of it."""

from __future__ import annotations

from dataclasses import dataclass

from hotplug_host.preflight.drivers import Kernel, read_config
from hotplug_host.preflight.signature import is_signed
from hotplug_host.sysfs import Sysfs

#: Where distributions have the parts of a kernel; the first that is there counts.
IMAGES = ("/boot/vmlinuz-{}", "/boot/vmlinux-{}")
CONFIGS = ("/boot/config-{}", "/lib/modules/{}/config")


@dataclass(frozen=True)
class Installed:
    """An installed kernel: its image, and whether that carries a signature, None where it cannot be read."""

    kernel: Kernel
    image: str
    signed: bool | None


def read_installed(fs: Sysfs, release: str) -> Installed:
    """Return what there is of a release."""
    image = _first(fs, IMAGES, release)
    config = fs.read_optional(_first(fs, CONFIGS, release))
    aliases = fs.read_optional(f"/lib/modules/{release}/modules.alias")
    return Installed(
        Kernel(release) if config is None else read_config(config, release, aliases=aliases),
        image,
        _signed(fs, image),
    )


def _first(fs: Sysfs, names: tuple[str, ...], release: str) -> str:
    """Return the first of the files that is there, or else the first."""
    paths = [name.format(release) for name in names]
    return next(filter(fs.exists, paths), paths[0])


def _signed(fs: Sysfs, image: str) -> bool | None:
    try:
        return is_signed(fs.path(image))
    except OSError:
        return None
