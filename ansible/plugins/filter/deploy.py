"""What a deployment decides of its variables, the kernel and the host, as filters of the collection."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)?")
#: A word of the project's own, or what would end a quoted word.
NOT_TO_APPEND = re.compile(r"(\s|^)hotplug_acceleration[.]|[\"\n]")
WATCHDOG = re.compile(r"^CONFIG_WATCHDOG=y$", re.MULTILINE)


def deploy_problems(settings: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the variables, each with its next step.

    SETTINGS are theirs without `deploy_`.
    """
    one, several = settings["artifact"], settings["artifacts"]
    given = {"deploy_artifact": one} if one else {f"deploy_artifacts.{key}": v for key, v in several.items()}
    missing = {key: str(value) for key, value in given.items() if not _is_file(str(value))}
    problems = []
    if bool(one) == bool(several):
        problems.append(
            f"{'both' if one else 'neither'} of deploy_artifact and deploy_artifacts given; give the first"
            " for hosts of one kind, the second for hosts of several"
        )
    if missing:
        values = "' and '".join(missing.values())
        problems.append(
            f"{' and '.join(missing)} is '{values}'; give the absolute path of the artifact.json that"
            " build.yml made"
        )
    if not NAME.fullmatch(settings["name"]):
        problems.append(
            f"deploy_name is '{settings['name']}', which cannot go on a kernel command line; use letters,"
            " digits, dots and dashes"
        )
    if NOT_TO_APPEND.search(settings["append"]):
        problems.append(
            f"deploy_append is '{settings['append']}'; leave out hotplug_acceleration.* and double quotes"
        )
    return problems


def deploy_kernel_problems(kernel: Mapping[str, Any], host: str, settings: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the KERNEL for a HOST, each with its next step.

    SETTINGS have the host's `machine`, whether there are `several` kernels, the `file` of this one's artefact
    and its `package`, how it is to `boot`, what was `confirmed` as the default, and the `watchdog`'s seconds.
    """
    problems = []
    # A single kernel is checked by preflight.
    if settings["several"] and kernel["arch"] != settings["machine"]:
        problems.append(
            f"{host} is {settings['machine']}, for which deploy_artifacts has {settings['file']}, built for"
            f" {kernel['arch']}; give one that is built for it"
        )
    if settings["boot"] != "kexec" and not settings["package"]:
        problems.append(
            f"{settings['file']} names no package, which boot={settings['boot']} installs; make one with"
            " build.yml or lpar-lab package"
        )
    release = kernel["release"]
    if settings["boot"] == "default" and release not in map(str.strip, settings["confirmed"].split(",")):
        problems.append(
            f"boot=default makes {release} what this host boots from now on; if that is meant, add"
            f" -e deploy_default_confirmed={release}"
        )
    watchdog = int(settings["watchdog"])
    if watchdog and not WATCHDOG.search(Path(settings["file"]).with_name("config").read_text("utf-8")):
        problems.append(
            f"deploy_watchdog is {watchdog} and {release} has no watchdog driver, so that it would be reset;"
            " build it with one, or leave deploy_watchdog out"
        )
    return problems


def deploy_back_to(state: Mapping[str, Any], record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return where a rollback goes from a host in a STATE: past what was deployed, else back to RECORD."""
    back: Mapping[str, Any] = _earlier(state).get("default", record)
    return back


def deploy_did_before(state: Mapping[str, Any], did: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how a host in a STATE did before: before what was deployed, else as it DID now."""
    before: Mapping[str, Any] = _earlier(state).get("health", {}) if _earlier(state) else did
    return before


def _earlier(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record of a deployment whose kernel runs, as long as it has a way back."""
    earlier: Mapping[str, Any] = state["deployment"] or {}
    return earlier if state["variant"] and "default" in earlier else {}


def deploy_is_there(
    state: Mapping[str, Any], kernel: Mapping[str, Any], tag: str, boot: str, append: str
) -> bool:
    """Return whether a host in a STATE runs the KERNEL, deployed in this way.

    TAG is the name of its variant; a default kernel has none, and by its release it is proven all the same.
    """
    earlier = state["deployment"] or {}
    asked = {"release": kernel["release"], "boot": boot, "append": append}
    runs = (state["release"], state["variant"] or "") == (kernel["release"], tag)
    return runs and {key: earlier.get(key, "") for key in asked} == asked


def _is_file(path: str) -> bool:
    return Path(path).is_absolute() and Path(path).is_file()


FILTERS: tuple[Callable[..., Any], ...] = (
    deploy_problems,
    deploy_kernel_problems,
    deploy_back_to,
    deploy_did_before,
    deploy_is_there,
)


class FilterModule:
    """What Ansible takes filters from."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {one.__name__: one for one in FILTERS}
