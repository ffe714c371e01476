"""What roles decide of their variables and of what hosts report, as filters of the collection."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

#: A variant's name goes on a kernel command line, and into a file's name.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: What hotplug-timer takes for an operation. Whether this host can do it, the timer finds out.
OPERATION = re.compile(
    r"(smt=(off|on|[1-9][0-9]*)|cores-on=(all|[1-9][0-9]*)"
    r"|cpus=[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*(:off|:on)?)(@[0-9.]+)?"
)
WORDS = "use letters, digits, dots, dashes and underscores"
#: What this project puts on a command line, to tell the kernels of its runs from others.
OURS = re.compile(r"\s*\bhotplug_acceleration\.\S+")
PANICS = re.compile(r"(^|\s)panic=-?[1-9]")
#: In dracut's emergency shell, neither panic= nor the timer of the way back would help.
INITRD_WORDS = "rd.shell=0 rd.emergency=reboot"
LOOK_AT_CONSOLE = "look at its console for why the default kernel did not start"


def ab_problems(settings: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the variables, each with its next step; SETTINGS are theirs without `ab_`."""
    return [*_variant_problems(settings), *_common_problems(settings)]


def ab_running_problems(settings: Mapping[str, Any]) -> list[str]:
    """Return the same for a run that boots nothing and times the kernel that runs."""
    name = str(settings["variant_name"])
    wrong = not NAME.fullmatch(name)
    problem = f"ab_variant_name is '{name}', and part of a file's name; {WORDS}"
    return [*([problem] if wrong else []), *_common_problems(settings)]


def ab_breaks_lock(given: object, token: str, hosts: int) -> bool:
    """Return whether what was GIVEN breaks the lock with this TOKEN, in a run of so many hosts.

    One at a time: true for the only host of a run, or the token of a lock.
    """
    alone = hosts == 1 and str(given).lower() in ("true", "yes", "1")
    return str(given) == token or alone


def ab_undoes_switch(
    lock: Mapping[str, Any], deployment: Mapping[str, Any], applied: Mapping[str, Any]
) -> bool:
    """Return whether a rollback undoes the switch that was APPLIED, by the records on a host.

    A run that has not ended is undone first, unless it switches as well; the next rollback undoes the switch
    before it.
    """
    return bool(applied) and not deployment and (not lock or "switch" in lock)


def ab_back_to(
    lock: Mapping[str, Any], deployment: Mapping[str, Any], applied: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the state that a rollback goes back to, by the records on a host; empty where none has it."""
    if "default" in deployment:
        # Past what was deployed.
        back: Mapping[str, Any] = deployment["default"]
    elif ab_undoes_switch(lock, deployment, applied):
        back = {key: value for key, value in applied.items() if key != "persists"}
    else:
        back = lock.get("default", {})
    return back


def rcu_variants_problems(rows: Sequence[str], known: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with the ROWS that were asked for, each with its next step.

    KNOWN are those of the published table, each with the `artifact` of its kernel, if one was given.
    """
    names = [one["name"] for one in known]
    unknown = [row for row in rows if row not in names]
    without = [one["name"] for one in known if one["name"] in rows and not one["artifact"]]
    problems = []
    if unknown:
        problems.append(f"rcu_variants_rows names {', '.join(unknown)}; the table has {', '.join(names)}")
    if "stock" not in rows or len(set(names) & set(rows)) < 2:
        problems.append(
            f"rcu_variants_rows is {json.dumps(list(rows))}; name stock, and one row or more to hold against"
            " it"
        )
    if without:
        problems.append(
            f"rcu_variants_artifacts has no kernel for {', '.join(without)}; it takes stock,"
            " revert-442bf3aaf55a and cpuidle-expedited, each built with lpar-lab build-kernel --variant NAME"
            " --print-artifact"
        )
    return problems


def preflight_kernel_problems(kernel: Mapping[str, Any], image: Mapping[str, Any], machine: str) -> list[str]:
    """Return what is wrong with a KERNEL for a host's MACHINE; IMAGE is what stat found of its image."""
    problems = []
    if not image["exists"]:
        problems.append(f"the image {kernel['image']} does not exist")
    elif image["checksum"] != kernel["sha256"]:
        problems.append(
            f"the image {kernel['image']} has SHA-256 {image['checksum']}, not {kernel['sha256']}"
        )
    if kernel["arch"] != machine:
        problems.append(f"it is built for {kernel['arch']} and the host is {machine}")
    return problems


def preflight_with_prediction(survey: Mapping[str, Any], predicted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a host's judgement with what is PREDICTED, whose reasons only make one worse that was good."""
    reasons = [*survey["reasons"], *predicted["reasons"]]
    verdict = survey["verdict"]
    if verdict == "go" and predicted["reasons"]:
        verdict = predicted["reasons"][0]["level"]
    return {**survey, "predicted": predicted["said"], "reasons": reasons, "verdict": verdict}


def ab_order(kernels: int, repeat: int) -> list[int]:
    """Return the order in which that many kernels are booted, by their places.

    Forth and back, A B B A with two of them: what drifts over a run hits all alike. A kernel alone is timed
    once.
    """
    forth = list(range(kernels))
    return (forth + forth[::-1]) * repeat if kernels > 1 else forth


def ab_expedited(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the variants that are timed with every grace period of the machine expedited."""
    return [one["name"] for one in variants if boolean(one.get("rcu_expedited"), strict=False)]


def ab_turns(wanted: Sequence[str], measured: Sequence[str]) -> list[str]:
    """Return the names of WANTED that are left to time, once for each time that they are named.

    MEASURED has a name for each whole result; each leaves one time less.
    """
    # In a play, lists of variables hold templates: only going through them renders these.
    left, whole = list(wanted), Counter(list(measured))
    return [one for place, one in enumerate(left) if left[:place].count(one) >= whole[one]]


def ab_counts(iterations: int, names: Sequence[str], place: int, measured: Sequence[str]) -> int:
    """Return how many iterations count events in the block at PLACE of those of the kernels NAMES.

    All ITERATIONS of a kernel are in its first block: its counts hardly differ between boots, and where a
    switch takes an hour, each costs one. MEASURED has a name for each whole result of before.
    """
    *earlier, name = list(names)[: place + 1]
    return 0 if name in [*earlier, *list(measured)] else iterations


def ab_whole(results: Sequence[str], artifacts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return `path` and `variant` of the result files that are complete, and of the kernel that is there now.

    Of a kernel that was built anew since, a result is another kernel's.
    """
    found = []
    for path in sorted(results):
        result = smt_result(path)
        # An earlier version's result has "label".
        variant = result["run"].get("variant", result["run"].get("label", ""))
        release = result["run"].get("host", {}).get("kernel_release")
        known = variant in artifacts and release == artifacts[variant].get("release", "")
        if known and result["end"].get("outcome") == "complete":
            found.append({"path": path, "variant": variant})
    return found


def smt_result(path: str) -> dict[str, Any]:
    """Return a result file's first record of a `run`, its last of an `end`, and the `recordings` it names.

    The records are empty where there are none, or no file. A line cut short, as a crash leaves it, is none.
    """
    file = Path(path)
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    records = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    traces = [one.get("detail", {}).get("trace") for one in records if one["record"] == "iteration"]
    return {
        "run": next((one for one in records if one["record"] == "run"), {}),
        "end": next((one for one in reversed(records) if one["record"] == "end"), {}),
        "recordings": [one["file"] for one in traces if one],
    }


def boot_command_line(cmdline: str, variant: str, panic: int, append: str, has_initrd: bool) -> str:
    """Return the command line of a run's kernel: the host's own, and what proves and what saves the boot.

    Without a host's own, these are the words that a boot loader's entry adds to it. VARIANT is empty for a
    kernel that becomes the default. An operator's own panic= stays; without one a kernel that panics would
    wait for a person to come. PANIC is in seconds, 0 for none.
    """
    plain = OURS.sub("", cmdline)
    words = [
        plain,
        f"panic={panic}" if panic > 0 and not PANICS.search(plain) else "",
        append,
        INITRD_WORDS if has_initrd else "",
        f"hotplug_acceleration.variant={variant}" if variant else "",
    ]
    return " ".join(filter(None, words))


def boot_is_trial(state: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Return whether the kernel that runs, by a host's STATE, is a run's, and not the default of RECORD.

    Kernels that runs boot have the name of a variant on their command line, which no default kernel has. One
    that was made the default has no such name: its release tells it from what the record names. So it does
    where a variant is the default, and for an installed kernel of a run.
    """
    default = record.get("variant", "")
    if (state["variant"] or "") != default:
        return True
    if state["release"] == record.get("release", state["release"]):
        return False
    deployed = (state["deployment"] or {}).get("release", "")
    return default != "" or state["release"] in [deployed, *record.get("trials", [])]


def boot_default_findings(
    found: str, state: Mapping[str, Any], record: Mapping[str, Any], loader: Mapping[str, Any]
) -> dict[str, str]:
    """Return the `problem` and the `warning` of the release FOUND, which a host runs as its default.

    STATE is the host's before a reboot, RECORD that before the run. LOADER has the `release` that the boot
    loader names as default now, or `why` that cannot be read; neither where there was no reboot.
    """
    named, before = loader.get("release", ""), record.get("release", found)
    deployed = (state["deployment"] or {}).get("release", "")
    trial = boot_is_trial({**state, "release": found, "variant": record.get("variant", "")}, record)
    unread = f" (what the boot loader names cannot be read: {loader['why']})" if loader.get("why") else ""
    problem = warning = ""
    # A package may have made the kernel of a run the default meanwhile.
    if trial and (found == deployed or found != named):
        problem = f"the host came back with {found}, a kernel of a run{unread}; {LOOK_AT_CONSOLE}"
    elif named and found not in (named, record.get("release")):
        problem = (
            "the host came back with another kernel:"
            f" the boot loader names {named} as default, found {found}; {LOOK_AT_CONSOLE}"
        )
    elif found != before:
        warning = (
            f"the default kernel is {found} now and was {before} before the run{unread};"
            " check that an update of the host explains that"
        )
    elif named and found != named:
        warning = (
            f"the boot loader names {named} as default, and {found} came up, as before the run;"
            " look at the boot loader's configuration"
        )
    return {"problem": problem, "warning": warning}


def _variant_problems(settings: Mapping[str, Any]) -> list[str]:
    variants = settings["variants"]
    names = [str(one["name"]) for one in variants]
    unnamable = [name for name in names if not NAME.fullmatch(name)]
    unclear = [one["name"] for one in variants if ("artifact" in one) == ("release" in one)]
    problems = []
    if len(variants) < 2:
        problems.append(
            f"ab_variants names {len(variants)} variants; name two or more, first the one to compare with"
        )
    if len(set(names)) < len(names):
        problems.append(
            f"ab_variants names '{', '.join(names)}', twice the same; give each variant a name of its own"
        )
    if unnamable:
        problems.append(
            f"ab_variants has the name '{unnamable[0]}', which cannot go on a kernel command line; {WORDS}"
        )
    if unclear:
        problems.append(
            f"variant '{unclear[0]}' has not one of artifact and release; give it the artifact.json of a"
            " build, or the release of an installed kernel"
        )
    if settings["earlier"] and not boolean(settings["once"], strict=False):
        problems.append(
            f"{settings['host_results']} holds the results of an earlier run; move them away, or choose"
            " another ab_results_dir"
        )
    return problems


def _common_problems(settings: Mapping[str, Any]) -> list[str]:
    operations, bundle = settings["operations"], settings["timer_bundle"]
    problems = [
        f"ab_{name} is {settings[name]}; ask for at least 1"
        for name in ("iterations", "repeat")
        if not re.fullmatch(r"0*[1-9][0-9]*", str(settings[name]))
    ]
    if not operations or not all(OPERATION.fullmatch(str(one)) for one in operations):
        problems.append(
            f"ab_operations is {json.dumps(operations)}; use a list of smt=off|on|K, of cores-on=K|all, or of"
            " cpus=LIST[:off|:on], each with @SECONDS for a time limit"
        )
    if not Path(settings["results_dir"]).is_absolute():
        problems.append(f"ab_results_dir is '{settings['results_dir']}'; give an absolute path")
    if bundle and not Path(bundle).is_file():
        problems.append(f"ab_timer_bundle is {bundle}, which does not exist; leave it out to have one made")
    return problems


FILTERS: tuple[Callable[..., Any], ...] = (
    ab_problems,
    ab_running_problems,
    ab_back_to,
    ab_breaks_lock,
    ab_undoes_switch,
    rcu_variants_problems,
    preflight_kernel_problems,
    preflight_with_prediction,
    ab_counts,
    ab_order,
    ab_expedited,
    ab_turns,
    ab_whole,
    smt_result,
    boot_command_line,
    boot_is_trial,
    boot_default_findings,
)


class FilterModule:
    """What Ansible takes filters from."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {one.__name__: one for one in FILTERS}
