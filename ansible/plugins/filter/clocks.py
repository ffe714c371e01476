"""What a look at clocks decides of its variables and of hosts, as filters of the collection."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

CLOCKSOURCE = re.compile(r"[a-z0-9_-]*")


def clocks_problems(host: str, settings: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the variables, each with its next step.

    SETTINGS are theirs without `clocks_`, and the paths that an `earlier` audit of HOST would have left.
    """
    problems = []
    folder, restore = settings["results_dir"], settings["restore"]
    if not (Path(folder).is_absolute() or restore):
        problems.append(f"clocks_results_dir is '{folder}'; give an absolute path")
    if any(Path(path).exists() for path in settings["earlier"]):
        problems.append(
            f"{folder} holds an earlier audit of {host}; move it away, or choose another clocks_results_dir"
        )
    if settings["apply"] and restore:
        problems.append("clocks_apply and clocks_restore are both set; use one of them")
    if not CLOCKSOURCE.fullmatch(settings["apply"]):
        problems.append(f"clocks_apply is '{settings['apply']}'; name one clocksource, or recommended")
    for name, least in (("calls", 1), ("iterations", 1), ("seconds", 0.001)):
        if _number(settings[name]) < least:
            problems.append(f"clocks_{name} is {settings[name]}; ask for at least {least}")
    if gone := [path for path in settings["bundles"].values() if not Path(path).is_file()]:
        problems.append(
            f"clocks_bundles names {', '.join(gone)}, which does not exist; leave it out to have one made"
        )
    return problems


def clocks_host_problems(state: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Return why a host in a STATE is not fit, each with its next step.

    SETTINGS have the `machines` with a bundle, whether the run `switches` and whether it `restores` only, and
    the `rollback` that breaks a lock.
    """
    machines: Sequence[str] = settings["machines"]
    problems = []
    if state["lock"] is not None:
        problems.append(
            f"{state['holder']}; wait for that run, or if it is gone,"
            f" {settings['rollback']} -e ab_break_lock=true"
        )
    if state["machine"] not in (*settings["bundles"], *machines) and not settings["restores"]:
        problems.append(
            f"clock-check has no bundle for {state['machine']}; it has them for {' and '.join(machines)}"
        )
    if state["euid"] != 0 and settings["switches"]:
        problems.append(
            "tasks do not run as root, which switching needs; set ansible_user=root, or ansible_become=true"
        )
    return problems


def _number(value: object) -> float:
    """Return a number, also of a text that is one; 0 for anything else."""
    try:
        return float(str(value))
    except ValueError:
        return 0.0


FILTERS: tuple[Callable[..., Any], ...] = (clocks_problems, clocks_host_problems)


class FilterModule:
    """What Ansible takes filters from."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {one.__name__: one for one in FILTERS}
