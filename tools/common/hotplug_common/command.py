"""Commands that work with the lab's folders."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from hotplug_common.paths import Paths
from hotplug_common.ui import Progress, Say


def in_lab(work: Callable[[argparse.Namespace, Paths, Say], int]) -> Callable[[argparse.Namespace], int]:
    """Return a handler that calls WORK with the lab's folders and a reporter of progress."""
    return lambda arguments: work(arguments, Paths.from_environment(), Progress())
