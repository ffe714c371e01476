"""The commands of a fake host: kexec, systemctl and systemd-run that act on a directory, not on a machine.

Installed under each of those names on PATH, beside fakehost.json with the root of the fake host. A file
`fault` in that root makes it misbehave: load-refused, load-ignored, jump-ignored or reboot-ignored.
"""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

ROOT = Path(json.loads(Path(sys.argv[0]).with_name("fakehost.json").read_text())["root"])
LOADED = ROOT / "sys/kernel/kexec_loaded"
LOADED_KERNEL = ROOT / "loaded.json"
UNIT = ROOT / "unit.pid"
UNITS = ROOT / "etc/systemd/system"
DEFAULT = ROOT / "default.json"


def fault() -> str:
    path = ROOT / "fault"
    return path.read_text().strip() if path.exists() else ""


def boot(release: str, cmdline: str) -> None:
    (ROOT / "proc/sys/kernel/random/boot_id").write_text(f"{uuid.uuid4()}\n")
    (ROOT / "proc/sys/kernel/osrelease").write_text(f"{release}\n")
    (ROOT / "proc/cmdline").write_text(f"{cmdline}\n")
    LOADED.write_text("0\n")
    (ROOT / "sys/kernel/rcu_expedited").write_text("0\n")


def note(argv: list[str]) -> None:
    with (ROOT / "commands.log").open("a") as log:
        log.write(json.dumps([Path(sys.argv[0]).name, *argv]) + "\n")


def load(image: Path, cmdline: str) -> int:
    if fault() == "load-refused":
        sys.stderr.write("kexec_load failed: Operation not permitted\n")
        return 1
    LOADED_KERNEL.write_text(json.dumps({"release": image.read_text().strip(), "cmdline": cmdline}))
    if fault() != "load-ignored":
        LOADED.write_text("1\n")
    return 0


def jump() -> int:
    if fault() == "jump-ignored":
        return 0
    loaded = json.loads(LOADED_KERNEL.read_text())
    boot(loaded["release"], loaded["cmdline"])
    return 0


def kexec(argv: list[str]) -> int:
    if "-u" in argv:
        LOADED.write_text("0\n")
        return 0
    if "-e" in argv:
        return jump()
    options = dict(option.split("=", 1) for option in argv if "=" in option)
    return load(Path(argv[argv.index("--load") + 1]), options["--command-line"])


def unit_runs() -> bool:
    """Whether the unit's process is there and not just waiting to be reaped."""
    try:
        stat = Path(f"/proc/{UNIT.read_text()}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def unit_file(verb: str, name: str) -> int:
    """What systemctl does with a unit that has a file: its states are files, too."""
    there = (UNITS / name).exists()
    enabled, active = ROOT / f"{name}.enabled", ROOT / f"{name}.active"
    if verb == "show":
        state = "active" if active.exists() else "inactive"
        sys.stdout.write(f"LoadState={'loaded' if there else 'not-found'}\nActiveState={state}\n")
    elif verb == "is-enabled":
        sys.stdout.write("enabled\n" if enabled.exists() else "disabled\n")
        return 0 if enabled.exists() else 1
    elif not there:
        return 5
    elif verb in ("enable", "start"):
        (enabled if verb == "enable" else active).touch()
    elif verb in ("disable", "stop"):
        (enabled if verb == "disable" else active).unlink()
    return 0


def systemctl(argv: list[str]) -> int:
    verb = next(word for word in argv if not word.startswith("-"))
    if verb == "kexec":
        return jump()
    if verb == "reboot":
        if fault() != "reboot-ignored":
            default = json.loads(DEFAULT.read_text())
            boot(default["release"], default["cmdline"])
        return 0
    if verb == "is-system-running":
        sys.stdout.write("running\n")
        return 0
    if verb in ("stop", "daemon-reload"):
        if verb == "stop" and unit_runs():
            os.kill(int(UNIT.read_text()), signal.SIGTERM)
        return 0
    if verb == "is-active":
        sys.stdout.write("active\n" if unit_runs() else "inactive\n")
        return 0
    raise SystemExit(f"systemctl {verb} is not faked")


def systemd_run(argv: list[str]) -> int:
    command = list(argv)
    stderr = Path(os.devnull)
    while command[0].startswith("--"):
        option = command.pop(0)
        if option.startswith("--property=StandardError=file:"):
            stderr = Path(option.rpartition(":")[2])
    with stderr.open("a") as log:
        unit = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
        )
    UNIT.write_text(str(unit.pid))
    return 0


def main() -> int:
    name, argv = Path(sys.argv[0]).name, sys.argv[1:]
    note(argv)
    timers = [word for word in argv if word.endswith(".timer")]
    if name == "systemctl" and timers:
        return unit_file(argv[0], timers[0])
    return {"kexec": kexec, "systemctl": systemctl, "systemd-run": systemd_run}[name](argv)


sys.exit(main())
