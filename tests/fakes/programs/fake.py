"""The commands of a fake host: kexec, systemctl and systemd-run that act on a directory, not on a machine.

Installed under each of those names on PATH, beside fakehost.json with the root of the fake host. A file
`fault` in that root makes it misbehave: load-refused, load-ignored, jump-ignored, reboot-ignored,
boot-full, entry-kept or hangs. A kernel whose image is the word PANIC panics, and the default one comes up.
A file `slow-timing` there has what systemd-run starts go on after it; else it is over then.

It is also dpkg, rpm, grubby and GRUB's tools. Packages are tarballs. `installed.json` has grub.cfg's entries.
"""

# What takes long to import is imported where it is used: a play starts a hundred of these.
import json
import os
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROOT = Path(json.loads(Path(sys.argv[0]).with_name("fakehost.json").read_text())["root"])
LOADED = ROOT / "sys/kernel/kexec_loaded"
LOADED_KERNEL = ROOT / "loaded.json"
UNIT = ROOT / "unit.pid"
UNITS = ROOT / "etc/systemd/system"
DEFAULT = ROOT / "default.json"
PACKAGES = ROOT / "packages.json"
GRUBENV = ROOT / "grubenv.json"
ENTRIES = ROOT / "entries.json"
INSTALLED = ROOT / "installed.json"


def fault() -> str:
    path = ROOT / "fault"
    return path.read_text().strip() if path.exists() else ""


def boot(release: str, cmdline: str) -> None:
    (ROOT / "proc/sys/kernel/random/boot_id").write_text(Path("/proc/sys/kernel/random/uuid").read_text())
    (ROOT / "proc/sys/kernel/osrelease").write_text(f"{release}\n")
    (ROOT / "proc/cmdline").write_text(f"{cmdline}\n")
    LOADED.write_text("0\n")
    (ROOT / "sys/kernel/rcu_expedited").write_text("0\n")


def start(image: str, cmdline: str) -> None:
    """Boot an image: what it holds is its release. Timers of ours that wait for a boot are noted and run."""
    waiting = sorted(path.name for path in UNITS.glob("*.wants/*"))
    for name in waiting:
        (ROOT / f"{name}.active").touch()
    with (ROOT / "waiting.log").open("a") as log:
        log.write(json.dumps(waiting) + "\n")
    if fault() == "hangs":
        # The stand-in for ssh reaches nothing until a stand-in for an HMC removes this file.
        (ROOT / "down").touch()
    elif image == "PANIC":
        with (ROOT / "console.log").open("a") as console:
            console.write("Requested init /nowhere failed (error -2).\r\n")
            console.write(
                "Kernel panic - not syncing: Requested init /nowhere failed\r\nLinux version 6.12-default\r\n"
            )
        default()
    else:
        boot(image, cmdline)


def default() -> None:
    """Boot what the boot loader boots: the entry for the next time, else the default one."""
    grub = stored(GRUBENV)
    entry = stored(ENTRIES).get(grub.get("next_entry") or grub.get("saved_entry", ""))
    if "next_entry" in grub and fault() != "entry-kept":
        grub["next_entry"] = ""  # as grub.cfg does: save_env does not know how to take a variable out
    store(GRUBENV, grub)
    if entry:
        start((ROOT / entry["image"].lstrip("/")).read_text().strip(), entry["cmdline"])
    else:
        kernel = stored(DEFAULT)
        boot(kernel["release"], kernel["cmdline"])


def stored(path: Path) -> "dict[str, Any]":
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def store(path: Path, content: "dict[str, Any]") -> None:
    if content != stored(path):
        path.write_text(json.dumps(content))


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
    start(loaded["release"], loaded["cmdline"])
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
    elif verb == "stop" and active.exists():
        import time  # noqa: PLC0415 - see above

        (ROOT / f"{name}.ran").write_text(f"{time.time() - active.stat().st_mtime}\n")
        (ROOT / f"{name}.unit").write_text((UNITS / name).read_text())
        active.unlink()
    elif verb in ("enable", "start"):
        (enabled if verb == "enable" else active).touch()
    elif verb in ("disable", "stop"):
        (enabled if verb == "disable" else active).unlink(missing_ok=True)
    return 0


def systemctl(argv: list[str]) -> int:
    verb = next(word for word in argv if not word.startswith("-"))
    if verb == "kexec":
        return jump()
    if verb == "reboot":
        if fault() != "reboot-ignored":
            default()
        return 0
    if verb == "is-system-running":
        sys.stdout.write("running\n")
        return 0
    if verb in ("list-units", "list-unit-files"):
        release = (ROOT / "proc/sys/kernel/osrelease").read_text().strip()
        states = stored(ROOT / f"units-{release}.json")
        state = next(word.partition("=")[2] for word in argv if word.startswith("--state="))
        sys.stdout.write("".join(f"{unit} {state}\n" for unit in states.get(state, [])))
        return 0
    if verb in ("stop", "daemon-reload"):
        if verb == "stop" and unit_runs():
            os.kill(int(UNIT.read_text()), 15)
        return 0
    if verb in ("show", "is-active"):
        runs = unit_runs()
        if verb == "show":
            sys.stdout.write(f"{UNIT.read_text() if runs else 0}\n")
        elif "--quiet" not in argv:
            sys.stdout.write("active\n" if runs else "inactive\n")
        return 0 if runs or verb == "show" else 3
    raise SystemExit(f"systemctl {verb} is not faked")


def systemd_run(argv: list[str]) -> int:
    import subprocess  # noqa: PLC0415 - see above

    command = list(argv)
    files = {"StandardOutput": Path(os.devnull), "StandardError": Path(os.devnull)}
    while command[0].startswith("--"):
        name, _, path = command.pop(0).removeprefix("--property=").partition("=file:")
        if name in files:
            files[name] = Path(path or os.devnull)
    with files["StandardOutput"].open("a") as answer, files["StandardError"].open("a") as log:
        unit = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=answer, stderr=log, start_new_session=True
        )
    UNIT.write_text(str(unit.pid))
    if not (ROOT / "slow-timing").exists():
        unit.wait()
    return 0


def manager(argv: list[str]) -> int:
    """Stand in for dpkg, dpkg-query and rpm."""
    import tarfile  # noqa: PLC0415 - see above

    packages = stored(PACKAGES)
    verb, what = argv[0], argv[-1]
    if verb in ("--show", "--query"):
        sys.stdout.write("installed" if what in packages else "")
        return 0 if what in packages else 1
    if verb == "--install":
        # At once, as dpkg 1.23 of Debian forky does: its faults come after it.
        sys.stdout.write(f"Preparing to unpack {what} ...\n")
        sys.stdout.flush()
    if verb == "--install" and fault() == "boot-full":
        sys.stderr.write(f"error processing {what}:\n failed to write (No space left on device)\n")
        return 1
    if verb == "--install":
        with tarfile.open(what) as archive:
            archive.extractall(ROOT)  # noqa: S202 - our own
            packages[Path(what).name.partition(".pkg")[0]] = archive.getnames()
    else:
        for name in packages.pop(what):
            (ROOT / name).unlink(missing_ok=True) if (ROOT / name).is_file() else None
    store(PACKAGES, packages)
    return 0


def custom_entries(directory: Path) -> None:
    """Read custom.cfg as GRUB would."""
    import re  # noqa: PLC0415 - see above

    path = directory / "custom.cfg"
    text = path.read_text() if path.exists() else ""
    found = re.findall(r"--id '([^']+)' \{.*?linux '([^']+)' (.*?)\n", text, re.DOTALL)
    custom = {
        name: {"image": f"/boot{image}", "cmdline": words.replace("'", "")} for name, image, words in found
    }
    store(ENTRIES, stored(INSTALLED) | custom)


def grub(name: str, argv: list[str]) -> int:
    """Stand in for GRUB's tools, of which a file `abstraction` says what is below /boot."""
    prefix, _, tool = name.partition("-")
    environment = stored(GRUBENV)
    if prefix == "grub" or "suse" in (ROOT / "etc/os-release").read_text():
        custom_entries(ROOT / "boot" / prefix)
    if tool == "reboot":
        environment["next_entry"] = argv[0]
    elif tool == "set-default":
        environment["saved_entry"] = argv[0]
        if fault() == "default-set-late" and argv[0].startswith("hotplug-acceleration-"):
            store(GRUBENV, environment)
            sys.stderr.write("grub-set-default: error: it is set, and I fail\n")
            return 1
    elif tool == "editenv" and argv[1] == "list":
        sys.stdout.write("".join(f"{key}={value}\n" for key, value in environment.items()))
    elif tool == "editenv":
        environment.pop(argv[2], None)
    elif tool == "probe":
        below = ROOT / "abstraction"
        answers = {
            "fs": "ext2",
            "fs_uuid": "0f-uuid",
            "abstraction": below.read_text() if below.exists() else "",
        }
        sys.stdout.write(answers[argv[0].partition("=")[2]] + "\n")
    else:
        sys.stdout.write(argv[0].removeprefix("/boot") + "\n")
    store(GRUBENV, environment)
    return 0


def grubby(argv: list[str]) -> int:
    """Stand in for grubby, whose entries GRUB knows by the names of their files."""
    entries, environment = stored(ENTRIES), stored(GRUBENV)
    options = dict(word.lstrip("-").split("=", 1) for word in argv if "=" in word)
    image = options.get("info") or options.get("remove-kernel") or options.get("add-kernel") or ""
    name = f"machine-{Path(image).parent.name}"
    saved = environment.get("saved_entry", "")
    if "add-kernel" in options:
        cmdline = f"{stored(DEFAULT)['cmdline']} {options['args']}"
        entries[name] = {"image": image, "cmdline": cmdline}
    elif "--default-kernel" in argv:
        sys.stdout.write((entries[saved]["image"] if saved in entries else "/boot/vmlinuz-default") + "\n")
    elif "set-default" in options:
        environment["saved_entry"] = f"machine-{Path(options['set-default']).parent.name}"
    elif name not in entries and not (image.startswith("/boot/vmlinuz-") and (ROOT / image[1:]).exists()):
        return 1
    elif "remove-kernel" in options:
        del entries[name]
    else:
        sys.stdout.write(f'kernel="{image}"\nid="{name}"\n')
    store(ENTRIES, entries)
    store(GRUBENV, environment)
    return 0


def main() -> int:
    name, argv = Path(sys.argv[0]).name, sys.argv[1:]
    note(argv)
    timers = [word for word in argv if word.endswith(".timer")]
    if name == "systemctl" and timers:
        return unit_file(argv[0], timers[0])
    if name.startswith("grub") and "-" in name:
        return grub(name, argv)
    if name in ("dpkg", "dpkg-query", "rpm"):
        return manager(argv)
    return {"grubby": grubby, "kexec": kexec, "systemctl": systemctl, "systemd-run": systemd_run}[name](argv)


sys.exit(main())
