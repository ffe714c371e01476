"""The fake host of the host part's tests."""

from tests.hotplug_host.conftest import execute, golden, host, settings, use_ppc64_cpu

__all__ = ["execute", "golden", "host", "settings", "use_ppc64_cpu"]
