"""The fake host and probes of the host part's tests."""

from tests.hotplug_host.clocks.conftest import host, native, power, probe, run

__all__ = ["host", "native", "power", "probe", "run"]
