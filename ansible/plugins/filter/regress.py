"""What a regression run decides of its variables, results and history, as filters of the collection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: The kernels that a run takes, in the order in which it names them.
KERNELS = ("stock", "patched")
#: A directory's name; empty for today's.
RUN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)?")
RESULT = re.compile(r"[0-9]+-(.*)[.]jsonl")


def regress_problems(settings: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the variables, each with its next step.

    SETTINGS are theirs without `regress_`, and whether the run only `checks`: it builds no kernels then.
    """
    artifacts, builds = settings["artifacts"], settings["build"] != ""
    problems = []
    if set(artifacts) != set(KERNELS) and (not builds or settings["checks"]):
        patched = "patched, as check mode builds nothing" if builds else "patched"
        problems.append(
            f"regress_artifacts has {', '.join(artifacts) or 'nothing'}; give it stock and {patched}"
        )
    if not Path(settings["dir"]).is_absolute():
        problems.append(f"regress_dir is '{settings['dir']}'; give an absolute path")
    if not RUN.fullmatch(settings["run"]):
        problems.append(
            f"regress_run is '{settings['run']}', and a directory's name; use letters, digits, dots,"
            " dashes and underscores"
        )
    return problems


def regress_suspects(variants: Sequence[Mapping[str, Any]], told: Sequence[str]) -> list[str]:
    """Return the names of the variants that the history TOLD are suspect, in the order of the variants."""
    return [one["name"] for one in variants if one["name"] in told]


def regress_known(told: Sequence[str], suspects: Sequence[str]) -> list[str]:
    """Return what need not be timed: what the history TOLD it has measured, unless last night was suspect."""
    return [name for name in told if name not in suspects]


def regress_turns(variants: Sequence[Mapping[str, Any]], turns: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the variant of each boot that is left, by its name in TURNS."""
    named = {one["name"]: one for one in variants}
    return [named[name] for name in turns]


def regress_without(
    failure: str, left: Sequence[str], pending: Sequence[str], files: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the variants that the history gets a failed run of, since they have no file that tells it.

    LEFT was not measured, of what was PENDING. FILES are the results `found` now, those of `earlier` runs and
    the `whole` ones: a file that this run began and did not complete tells its own failure. If all was
    measured and the host could not be brought back, that is the failure of the last variant.
    """
    if not failure:
        return []
    fresh = set(files["found"]) - set(files["earlier"]) - set(files["whole"])
    names = {found[1] for path in fresh if (found := RESULT.fullmatch(Path(path).name))}
    return [name for name in dict.fromkeys(left) if name not in names] if left else list(pending[-1:])


def regress_nothing_new(
    known: Sequence[Sequence[str]], failures: Sequence[str], variants: Sequence[Mapping[str, Any]]
) -> bool:
    """Return whether no host has anything left to time: KNOWN is what the history has of each host."""
    return not failures and all(len(one) == len(variants) for one in known)


def regress_unkept(answers: Iterable[Mapping[str, Any]]) -> str:
    """Return why the history lacks something, by the answers of the commands that add to it."""
    return " ".join(one["stderr"] for one in answers if one.get("rc", 0) != 0)


def regress_told(
    host: str, failure: str, pending: Sequence[str], known: Sequence[str], check_mode: bool
) -> str:
    """Return how it went on a host, of which PENDING was left and KNOWN was measured before."""
    if failure:
        return f"{host}: failed: {failure}"
    if not pending and known:
        return f"{host}: nothing was timed: {', '.join(known)} of these kernels were measured before"
    if not pending:
        return f"{host}: everything has been measured already"
    return f"{host}: could be measured" if check_mode else f"{host}: measured {', '.join(pending)}"


FILTERS: tuple[Callable[..., Any], ...] = (
    regress_problems,
    regress_suspects,
    regress_known,
    regress_turns,
    regress_without,
    regress_nothing_new,
    regress_unkept,
    regress_told,
)


class FilterModule:
    """What Ansible takes filters from."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {one.__name__: one for one in FILTERS}
