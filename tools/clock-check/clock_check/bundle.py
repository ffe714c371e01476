"""The part that runs on measured hosts as one file, with clock-probe for that machine inside."""

from __future__ import annotations

from hotplug_common import bundle


def build_bundle(probe: bytes) -> bytes:
    """Return the zipapp with this probe. The same sources and probe give the same bytes."""
    files = bundle.host_files("hotplug_host.clocks.command", "clocks")
    return bundle.pack({**files, "hotplug_host/clocks/clock-probe": probe})
