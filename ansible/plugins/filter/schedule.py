"""What a schedule decides of its variables and of the control node, as filters of the collection."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
USER = re.compile(r"[a-z_][a-z0-9_-]*")
TIME = re.compile(r"(([01][0-9]|2[0-3]):[0-5][0-9])?")
#: What may stand in a unit without quotes.
PATH = re.compile(r"/[A-Za-z0-9/._-]+")
RUNS = ("running", "degraded", "starting")


def schedule_problems(settings: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the variables, each with its next step.

    SETTINGS are theirs without `schedule_`, and the `paths` that go into a unit, by their variables.
    """
    present = settings["state"] != "absent"
    problems = []
    if not NAME.fullmatch(settings["name"]):
        problems.append(
            f"schedule_name is '{settings['name']}'; use letters, digits, dots, dashes and underscores"
        )
    if present and not USER.fullmatch(settings["user"]):
        problems.append(
            f"schedule_user is '{settings['user']}'; name the user that has the ssh keys for the hosts"
        )
    bad = [name for name, path in settings["paths"].items() if not PATH.fullmatch(path)]
    if present and bad:
        problems.append(
            f"{', '.join(bad)}: not what goes into a unit; give absolute paths of letters, digits, dots,"
            " dashes and underscores"
        )
    if not TIME.fullmatch(settings["until"]):
        problems.append(
            f"schedule_until is '{settings['until']}'; give a time of the day as 06:00, in quotes"
        )
    if settings["metrics"] and not PATH.fullmatch(settings["metrics"]):
        problems.append(f"schedule_metrics is '{settings['metrics']}'; give such a path, or leave it out")
    return problems


def schedule_node_problems(node: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Return why the control node cannot have the schedule, each with its next step.

    NODE has the `uid` of the tasks and what systemd answered: of itself (`system`), of the `calendar` and of
    the `timespan`. SETTINGS have the `state` and the `user`, whether that is `known`, and what is `lacking`.
    """
    present = settings["state"] != "absent"
    problems = []
    if node["uid"] != 0:
        problems.append("tasks do not run as root; set ansible_user=root, or ansible_become=true")
    system = str(node["system"].get("stdout", "")).strip()
    if system not in RUNS:
        problems.append(
            f"systemd does not run here, it reports '{system or node['system'].get('msg', '')}';"
            " choose another control node"
        )
    if present and not settings["known"]:
        problems.append(f"there is no user {settings['user']}; make one, or name another in schedule_user")
    if present and settings["lacking"]:
        problems.append(
            f"{', '.join(settings['lacking'])}: not there; name what is there, and set the project up with"
            " tools/setup/setup.sh"
        )
    if present and _refused(node["calendar"]):
        problems.append(f"schedule_on_calendar: {_reason(node['calendar'])}; see man 7 systemd.time")
    if present and _refused(node["timespan"]):
        problems.append(f"schedule_randomized_delay: {_reason(node['timespan'])}; write it as 30min")
    return problems


def _refused(answer: Mapping[str, Any]) -> bool:
    return bool(answer.get("rc", -1) != 0)


def _reason(answer: Mapping[str, Any]) -> str:
    return str(answer.get("stderr") or answer.get("msg", ""))


FILTERS: tuple[Callable[..., Any], ...] = (schedule_problems, schedule_node_problems)


class FilterModule:
    """What Ansible takes filters from."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {one.__name__: one for one in FILTERS}
