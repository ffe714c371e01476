"""The whole job in one command. Only orchestrates: every stage is a part that can be run on its own."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import needs as preflight
from hotplug_common import process, scratch
from hotplug_common.arch import Arch
from hotplug_common.guest import console, qemu, rootfs
from hotplug_common.guest.console import Severity
from hotplug_common.kernel import build, config, series, source
from hotplug_common.kernel.artifact import Artifact
from hotplug_common.paths import Paths
from hotplug_common.ui import Say, once_every, out
from hotplug_host.errors import ExitCode, ToolError
from lpar_lab import costs, jumps, lifecycle

GUEST = "demo"
PLAYBOOK = Path("ansible/playbooks/ab.yml")
ANSIBLE_CONFIG = Path("ansible/ansible.cfg")
RAW = "raw"
"""Where the playbook puts fetched result files, below its results folder."""
FLEET = "smt-fleet"
"""Folder of the run, with a row for the guest, below the results folder."""
COSTS, PREDICTION = "costs", "prediction.txt"
"""What the stock kernel's switches cost, and the prediction made of it, below the results folder."""
ANSIBLE_LOG = "ansible.log"
CONSOLE_LOG = "console.log"
COSTS_SETTLE_S = 0.2
"""Settle time where parts of a switch are measured: they come to the same part of the whole as with 1 s."""
PROGRESS_S = 15.0


@dataclass(frozen=True)
class Settings:
    """What the demo is asked for. `boots` of each kernel, `iterations` in each; `output` is absolute.

    After each switch that is timed the guest settles for `settle_s`.
    """

    arch: Arch
    line: str
    cores: int
    threads: int
    memory: int | None
    accel: str
    timeout: float | None
    fragments: tuple[str, ...]
    boots: int
    iterations: int
    settle_s: float
    output: Path

    def request(self) -> lifecycle.Request:
        """Describe the guest."""
        return lifecycle.Request(
            name=GUEST,
            arch=self.arch,
            cores=self.cores,
            threads=self.threads,
            memory=self.memory,
            accel=self.accel,
            timeout=self.timeout,
        )


def run(settings: Settings, paths: Paths, say: Say) -> int:
    """Build both kernels and the disk, boot, measure, compare, report; the guest is always taken down.

    Raises ToolError of whichever stage failed; GUEST when the guest's kernel panicked or oopsed
    while it was measured.
    """
    lifecycle.check_request(settings.request(), rootfs.needs(settings.arch, paths))
    lifecycle.refuse_if_running(GUEST, paths)
    tools = Tools.find()
    _check_inputs(settings, paths)
    kernels = _build_kernels(settings, paths, say)
    with _stage("root file system", say):
        disk = rootfs.build(settings.arch, paths, say)
    raw = _fresh_output(settings.output)
    try:
        with _stage("guest up", say):
            lifecycle.up(settings.request(), kernels[0], disk, paths, say)
        with scratch.folder(paths.scratch, "demo") as work:
            bundle = work / "hotplug-timer.pyz"
            _timer(tools, ["bundle", "-o", bundle])
            with _stage("prediction", say):
                _predict(settings, bundle, tools, paths, say)
            with _stage("stock against patched", say):
                _measure(settings, kernels, tools, paths, say, bundle=bundle)
    finally:
        _keep_console(settings, paths)
        lifecycle.down(GUEST, paths, say)
    with _stage("comparison and report", say):
        _report(settings, raw, tools, say)
    out(str(settings.output / "report.html"))
    return ExitCode.OK


@dataclass(frozen=True)
class Tools:
    """The commands of other parts."""

    hotplug_timer: str
    smt_fleet: str

    @classmethod
    def find(cls) -> Tools:
        """Find them beside this Python first, then on PATH; ToolError (ENVIRONMENT) when missing."""
        return cls(_command("hotplug-timer"), _command("smt-fleet"))


def _command(name: str) -> str:
    beside = Path(sys.executable).parent
    found = shutil.which(name, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if not found:
        raise ToolError(f"'{name}' is not installed", "install this project's Python environment")
    return found


@contextmanager
def _stage(name: str, say: Say) -> Iterator[None]:
    begin = time.monotonic()
    say(f"== {name}")
    yield
    say(f"== {name}: done in {time.monotonic() - begin:.1f} s")


def _check_inputs(settings: Settings, paths: Paths) -> None:
    """Raise for what would only fail after minutes of building."""
    preflight.require(preflight.SOURCE)
    series.load(paths.patches, settings.line, series.PATCHED)
    config.load(paths.patches, settings.arch, settings.line, settings.fragments)
    playbook = paths.project / PLAYBOOK
    if not playbook.is_file():
        raise ToolError(f"{playbook} is missing", "use a complete checkout", ExitCode.INPUT)


def _build_kernels(settings: Settings, paths: Paths, say: Say) -> list[Artifact]:
    """Build stock, then patched, from one and the same source."""
    with _stage("kernels", say):
        from_source = source.obtain(settings.line, paths, say)
        plans = [
            build.plan(settings.arch, from_source, v, settings.fragments, paths) for v in series.VARIANTS
        ]
        return [build.build(job, paths, say) for job in plans]


def _fresh_output(output: Path) -> Path:
    """Make the output folder, without result files and the run of an earlier demo."""
    raw = output / RAW
    for earlier in (raw, output / FLEET, output / COSTS):
        shutil.rmtree(earlier, ignore_errors=True)
    raw.mkdir(parents=True)
    return raw


def fleet_words(settings: Settings, kernels: list[Artifact], bundle: Path) -> list[str]:
    """Return what smt-fleet is asked for: the A B B A run on the guest.

    The guest needs no way back of its own, and whether its services do as before is no question, as it is
    taken down whatever happens.
    """
    return [
        *("ab", "--limit", GUEST, "--boots", str(settings.boots), "--iterations", str(settings.iterations)),
        *("--results", str(settings.output), "--output-dir", str(settings.output / FLEET)),
        *("-e", f"ab_timer_bundle={bundle}", "-e", f"ab_settle={settings.settle_s}"),
        *("-e", "ab_fallback=false", "-e", "ab_health=false"),
        *(word for kernel in kernels for word in ("--variant", f"{kernel.variant}={kernel.file}")),
    ]


def _predict(settings: Settings, bundle: Path, tools: Tools, paths: Paths, say: Say) -> None:
    """Measure on the stock kernel what parts of a switch cost, and predict the patched kernel from that."""
    folder, guest = lifecycle.require_running(GUEST, paths)
    costs_folder = settings.output / COSTS
    doing = "measuring what parts of a switch cost"
    look = _watching(settings.output / CONSOLE_LOG, paths, say, lambda: doing)
    costs.measure(folder, guest.ssh_port, bundle, costs_folder, look, settle_s=COSTS_SETTLE_S)
    try:
        predicted = _timer(tools, ["predict", costs_folder / costs.RESULT]).output
    except ToolError as error:  # on a busy host the parts may not come to the whole; the demo goes on
        say(f"no prediction: {error.message}")
        return
    (costs_folder / PREDICTION).write_text(predicted)
    for line in predicted.splitlines():
        say(line)


def _measure(
    settings: Settings, kernels: list[Artifact], tools: Tools, paths: Paths, say: Say, *, bundle: Path
) -> None:
    """Run the playbook, which ends at once when the guest fails; Ansible would wait for it to come back."""
    log = settings.output / ANSIBLE_LOG
    log.write_bytes(b"")
    watch = _watching(log, paths, say, lambda: _current_task(log))
    with jumps.followed(lifecycle.folder_of(paths, GUEST)) as jump:

        def tick() -> None:
            watch()
            jump.look()

        result = process.run(
            [tools.smt_fleet, *fleet_words(settings, kernels, bundle), "-i", paths.inventory],
            cwd=paths.project,
            env=_environment(paths),
            log=log,
            tick=tick,
        )
    failure = _guest_failure(log, paths)
    if failure:
        raise failure
    if result.returncode != 0:
        why = ansible_reason(log.read_text(errors="replace"))
        raise ToolError(f"smt-fleet ended with {result.returncode}: {why}", _kept(log), ExitCode.OPERATION)
    verdict = _console_verdict(paths)
    if verdict.cause:
        say(f"the console shows {len(verdict.findings)} warning(s), the first: {verdict.cause.text}")


def _watching(log: Path, paths: Paths, say: Say, doing: Callable[[], str]) -> Callable[[], None]:
    """Return what to call meanwhile: it raises when the guest failed, and tells now and then what goes on."""
    slow = once_every(PROGRESS_S, say)

    def look() -> None:
        failure = _guest_failure(log, paths)
        if failure:
            raise failure
        slow(doing)

    return look


def _environment(paths: Paths) -> dict[str, str]:
    tools = Path(sys.executable).parent
    return {
        **os.environ,
        "ANSIBLE_CONFIG": str(paths.project / ANSIBLE_CONFIG),
        "ANSIBLE_NOCOLOR": "1",
        "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _current_task(log: Path) -> str:
    """Name the task Ansible is at, from its log."""
    lines = log.read_text(errors="replace").splitlines()
    tasks = [line.split("[", 1)[1].split("]")[0] for line in lines if line.startswith(("TASK [", "PLAY ["))]
    return f"ansible: {tasks[-1]}" if tasks else "ansible: starting"


def _console_verdict(paths: Paths) -> console.Verdict:
    return console.classify_file(lifecycle.folder_of(paths, GUEST) / qemu.CONSOLE_LOG)


def _kept(log: Path) -> str:
    return f"see {log} and {log.with_name(CONSOLE_LOG)}"


def _guest_failure(log: Path, paths: Paths) -> ToolError | None:
    """Tell what the guest failed of, if it did: its kernel, or QEMU itself."""
    verdict = _console_verdict(paths)
    if verdict.severity >= Severity.OOPS and verdict.cause:
        what = f"the guest's kernel failed while it was measured: {verdict.cause.text}"
    elif not any(folder.name == GUEST for folder, _ in lifecycle.running(paths)):
        what = "QEMU ended while the guest was measured"
    else:
        return None
    return ToolError(what, _kept(log), ExitCode.GUEST)


def ansible_reason(text: str) -> str:
    """Pick the reason out of what ansible-playbook wrote: the last error, as earlier ones were rescued."""
    lines = text.splitlines()
    errors = [line.removeprefix("[ERROR]: ") for line in lines if line.startswith("[ERROR]: ")]
    fatal = [line for line in lines if line.startswith("fatal: ")]
    found = errors or fatal
    return found[-1][:300] if found else process.last_line(text)


def _keep_console(settings: Settings, paths: Paths) -> None:
    """Copy the guest's console beside the results before the guest goes."""
    log = lifecycle.folder_of(paths, GUEST) / qemu.CONSOLE_LOG
    if log.exists():
        shutil.copyfile(log, settings.output / CONSOLE_LOG)


def _report(settings: Settings, raw: Path, tools: Tools, say: Say) -> None:
    """Print the comparison and write report.html and summary.json."""
    files = sorted(raw.rglob("*.jsonl"))
    if not files:
        raise ToolError(f"no result files in {raw}", f"see {settings.output / ANSIBLE_LOG}", ExitCode.INPUT)
    compared = _timer(tools, ["compare", *files, "--baseline", series.STOCK])
    for remark in compared.errors.splitlines():
        say(remark)
    out(compared.output.rstrip())
    _timer(
        tools,
        [
            "report",
            *files,
            "--output-dir",
            settings.output,
            "--line",
            settings.line,
            "--baseline",
            series.STOCK,
        ],
    )


def _timer(tools: Tools, arguments: list[str | Path]) -> process.Finished:
    """Run hotplug-timer, whose remarks are in `errors`; ToolError when it fails."""
    result = process.run([tools.hotplug_timer, *arguments], merge_errors=False)
    if result.returncode != 0:
        codes = [code for code in ExitCode if code == result.returncode]
        raise ToolError(
            f"hotplug-timer {arguments[0]} failed: {process.last_line(result.errors)}",
            code=codes[0] if codes else ExitCode.INTERNAL,
        )
    return result
