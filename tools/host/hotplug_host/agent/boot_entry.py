"""Install a kernel under test with a boot entry, boot it one time or by default, or remove it.

With `--installed`, boot a kernel one time that the distribution's tools have installed with its entry.
Never moves the default as a side effect: what it was before and after is compared. Two kinds of boot loader
configuration: "custom", a custom.cfg that grub.cfg sources, as Debian, Ubuntu and SLES have it, and "bls",
entries that grubby writes, as the RHEL family has it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotplug_host.agent import initrd
from hotplug_host.agent.distribution import FOLDER, Package, family_of
from hotplug_host.agent.image import check_image
from hotplug_host.arguments import MAKE, add_sysroot
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.hostinfo import read_os_release
from hotplug_host.programs import find_program
from hotplug_host.sysfs import Sysfs

#: File systems that GRUB reads but does not write to, so that it could not take back what boots one time.
READ_ONLY_TO_GRUB = ("btrfs", "zfs", "squash4", "iso9660")
#: What grub-mkconfig makes of GRUB_DEFAULT=saved. The variable's name alone is in every grub.cfg.
SAVED_DEFAULT = re.compile(r"^\s*set default=\W*saved_entry\b", re.MULTILINE)
WORD = re.compile(r"[^\s']+\Z")
#: Lines of grub.cfg: what opens a menu or an entry, the name it has, and the image that an entry boots.
MENU = re.compile(r"""\s*(?:menuentry|submenu)\s+(['"])(?P<title>.*?)\1(?P<options>.*)\{$""")
MENU_ID = re.compile(r"(?:--id|\$menuentry_id_option)\s+'([^']+)'")
MENU_IMAGE = re.compile(r"\s*linux\S*\s+['\"]?(\S+?)['\"]?(?:\s|$)")
IMAGE_NAME = re.compile(r".*/(?:vmlinu[xz]|bzImage|Image)-(\S+)\Z")
RECOVERY = re.compile("recovery|rescue", re.IGNORECASE)
#: What a run adds to a command line.
OWN_WORD = re.compile(r"\s*\bhotplug_acceleration\.\S+")


@dataclass(frozen=True)
class Entry:
    """What is booted; `words` are added to the default kernel's command line, which is `cmdline`."""

    id: str
    image: str
    words: str
    cmdline: str
    initrd: str


@dataclass
class MenuEntry:
    """An entry or a submenu of grub.cfg: the names that lead to it, each an id or a title."""

    names: list[tuple[str, str]]
    places: list[int]
    image: str = ""
    """What it boots, if that is Linux."""

    @property
    def release(self) -> str:
        """Return the release of what it boots; empty where that cannot be told."""
        return release_of(self.image)

    @property
    def path(self) -> str:
        """Return what GRUB knows the entry by."""
        return ">".join(name or title for name, title in self.names)

    def called(self, wanted: str) -> bool:
        """Whether a variable of GRUB means this entry: each part is an id, a title, or a number."""
        parts = wanted.split(">")
        return len(parts) == len(self.names) and all(
            part in (*name, str(place)) for part, name, place in zip(parts, self.names, self.places)
        )


def release_of(image: str) -> str:
    """Return the release in the name of an installed image; empty for another name."""
    found = IMAGE_NAME.match(image)
    return found[1] if found else ""


def read_menu(config: str) -> list[MenuEntry]:
    """Return the entries and submenus of grub.cfg, in their order."""
    entries: list[MenuEntry] = []
    above: list[MenuEntry | None] = []
    counts = [0]
    for line in config.splitlines():
        if found := MENU.match(line):
            outer = next((one for one in reversed(above) if one), MenuEntry([], []))
            named = MENU_ID.search(found["options"])
            name = (named[1] if named else "", found["title"])
            entry = MenuEntry([*outer.names, name], [*outer.places, counts[-1]])
            counts[-1] += 1
            counts.append(0)
            above.append(entry)
            entries.append(entry)
        elif line.rstrip().endswith("{"):
            above.append(None)
        elif line.strip() == "}" and above:
            if above.pop():
                counts.pop()
        elif above and above[-1] and (image := MENU_IMAGE.match(line)):
            above[-1].image = image[1]
    return entries


class Tools:
    """The host's programs, by name; a missing one is named with its package."""

    def __init__(self, packages: dict[str, str]) -> None:
        self.packages = packages
        for name, package in packages.items():
            if find_program(name) is None:
                raise ToolError(f"{name} is not on the host: install {package}")

    def call(self, *command: str, may_fail: bool = False) -> str | None:
        """Return what a program says; None when it fails and may. ToolError with its words otherwise."""
        program = find_program(command[0]) or command[0]
        done = subprocess.run(
            [program, *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        said = done.stdout.decode("utf-8", "replace").strip()
        if done.returncode == 0:
            return said
        if may_fail:
            return None
        raise ToolError(
            f"{' '.join(command)} ended with exit code {done.returncode}: {said}", code=ExitCode.OPERATION
        )

    def say(self, *command: str) -> str:
        """Return what a program says that must not fail."""
        return self.call(*command) or ""


class Loader:
    """GRUB's environment block, which all kinds share."""

    def __init__(self, tools: Tools, entry: Entry, prefix: str, directory: Path) -> None:
        self.tools, self.entry, self.prefix, self.directory = tools, entry, prefix, directory
        self.gone = ""
        """The default from before, where it is there no more."""

    def environment(self) -> dict[str, str]:
        """Return the variables of the environment block."""
        lines = self.tools.say(f"{self.prefix}-editenv", "-", "list").splitlines()
        return {key: value for key, _, value in (line.partition("=") for line in lines)}

    def require_one_time_boots(self) -> None:
        """Raise ToolError where GRUB cannot clear next_entry, and would boot the kernel again and again."""
        where = str(self.directory)
        layers = self.tools.say(f"{self.prefix}-probe", "--target=abstraction", where)
        kind = self.tools.say(f"{self.prefix}-probe", "--target=fs", where)
        config = self.config()
        if layers or (kind in READ_ONLY_TO_GRUB and "env_block" not in config):
            raise ToolError(
                f"{where} is on {layers or kind}, where GRUB cannot clear what boots one time, and would boot"
                " it again and again: use kexec, or put /boot on a plain partition"
            )
        if "next_entry" not in config:
            raise ToolError(
                f"{where}/grub.cfg does not know next_entry: write it anew with {self.prefix}-mkconfig"
            )

    def config(self) -> str:
        """Return grub.cfg."""
        path = self.directory / "grub.cfg"
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ToolError(
                f"{path} cannot be read ({error.strerror}): this host does not boot by GRUB"
            ) from error

    def armed(self) -> bool:
        """Whether the entry boots the next time."""
        return self.environment().get("next_entry") == self.identify()

    def disarmed(self) -> bool:
        """Whether nothing is left of that. GRUB leaves the variable behind, empty, when it has booted it."""
        return self.environment().get("next_entry") not in ("", self.identify())

    def arm(self) -> bool:
        """Boot the entry the next time, and only then."""
        if self.armed():
            return False
        wanted = self.identify()
        self.tools.say(f"{self.prefix}-reboot", wanted)
        found = self.environment().get("next_entry")
        if found != wanted:
            raise ToolError(
                f"{self.prefix}-reboot reported success but next_entry is '{found}', not '{wanted}'"
            )
        return True

    def disarm(self) -> bool:
        """Take back that the entry boots one time."""
        if self.disarmed():
            return False
        self.tools.say(f"{self.prefix}-editenv", "-", "unset", "next_entry")
        return True

    def leave_default(self) -> None:
        """Leave it to GRUB what it boots by default."""
        self.tools.say(f"{self.prefix}-editenv", "-", "unset", "saved_entry")

    def require_disarmed(self, dry_run: bool) -> None:
        """Raise ToolError when GRUB has booted the entry and would again, and take that back first."""
        if self.armed():
            wanted = self.identify()
            if not dry_run:
                self.disarm()
            raise ToolError(
                f"GRUB has booted {wanted} and not cleared next_entry, so that no panic would have ended it:"
                " the firmware does not let it write to the disk"
            )

    def identify(self) -> str:
        """Return the name by which GRUB knows the entry."""
        return self.entry.id


class Custom(Loader):
    """Entries in custom.cfg, each between two lines of ours; what somebody else has there stays."""

    @property
    def file(self) -> Path:
        """The file of entries."""
        return self.directory / "custom.cfg"

    @property
    def marks(self) -> tuple[str, str]:
        """The lines around our entry."""
        return f"### BEGIN {self.entry.id} ###\n", f"### END {self.entry.id} ###\n"

    def entries(self) -> str:
        """Return what the file has."""
        return self.file.read_text(encoding="utf-8") if self.file.exists() else ""

    def others(self) -> tuple[str, str]:
        """Return what the file has beside our entry, and our entry."""
        text = self.entries()
        begin, end = self.marks
        before, found, rest = text.partition(begin)
        if not found:
            return text, ""
        ours, _, after = rest.partition(end)
        return before + after, begin + ours + end

    def present(self) -> bool:
        """Whether the entry is there."""
        return bool(self.others()[1])

    def default(self) -> str:
        """Return what is booted by default, as the environment block has it; empty for GRUB_DEFAULT's."""
        return self.environment().get("saved_entry", "")

    def text(self) -> str:
        """Return the entry."""
        entry, probe = self.entry, f"{self.prefix}-probe"
        relative = f"{self.prefix}-mkrelpath"
        words = [
            word for word in f"{entry.cmdline} {entry.words}".split() if not word.startswith("BOOT_IMAGE=")
        ]
        if not all(WORD.match(word) for word in [*words, entry.image, entry.initrd or "-"]):
            raise ToolError(f"a quote in the command line cannot go into a boot entry: {' '.join(words)}")
        uuid = self.tools.say(probe, "--target=fs_uuid", entry.image)
        begin, end = self.marks
        quoted = " ".join(f"'{word}'" for word in words)
        lines = [
            f"menuentry '{entry.id}' --id '{entry.id}' {{",
            f"\tinsmod {self.tools.say(probe, '--target=fs', entry.image)}",
            f"\tsearch --no-floppy --fs-uuid --set=root {uuid}",
            f"\tlinux '{self.tools.say(relative, entry.image)}' {quoted}",
            *([f"\tinitrd '{self.tools.say(relative, entry.initrd)}'"] if entry.initrd else []),
            "}",
        ]
        return begin + "".join(f"{line}\n" for line in lines) + end

    def require_one_time_boots(self) -> None:
        """Also raise ToolError where GRUB does not read the file of entries."""
        super().require_one_time_boots()
        if "custom.cfg" not in self.config():
            raise ToolError(
                f"{self.directory}/grub.cfg does not source custom.cfg:"
                f" bring /etc/grub.d/41_custom back and run {self.prefix}-mkconfig"
            )

    def add(self) -> bool:
        """Write the entry."""
        rest, ours = self.others()
        wanted = self.text()
        if ours == wanted:
            return False
        self.write(rest + wanted)
        return True

    def remove(self) -> bool:
        """Take the entry out, and the file with it when nothing else is in it."""
        rest, ours = self.others()
        if not ours:
            return False
        if rest.strip():
            self.write(rest)
        else:
            self.file.unlink()
        return True

    def write(self, text: str) -> None:
        """Replace the file in one step."""
        draft = self.file.with_name(f"{self.file.name}.new")
        with draft.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.chmod(0o600)
        draft.replace(self.file)

    def require_kept_default(self) -> None:
        """Raise ToolError where GRUB does not go by the environment block."""
        if not SAVED_DEFAULT.search(self.config()):
            raise ToolError(
                f"GRUB_DEFAULT is not 'saved' in /etc/default/grub: set it and run {self.prefix}-mkconfig"
            )

    def make_default(self, wanted: str) -> bool:
        """Boot WANTED by default."""
        if self.default() == wanted:
            return False
        if wanted:
            self.tools.say(f"{self.prefix}-set-default", wanted)
        else:
            self.leave_default()
        return True

    def has(self, entry: str) -> bool:
        """Whether GRUB has an entry; a grub.cfg without any may take them from elsewhere."""
        config = self.config()
        menu = read_menu(f"{config}\n{self.entries()}")
        return entry == "" or not read_menu(config) or any(one.called(entry) for one in menu)

    def own_default(self) -> str:
        """Return what `default` says when the entry is the default."""
        return self.entry.id

    def find(self, release: str) -> str:
        """Return GRUB's name for the entry of an installed kernel; ToolError without one."""
        found = [
            entry
            for entry in read_menu(self.config())
            if entry.release == release and not RECOVERY.search("".join(entry.names[-1]))
        ]
        if not found:
            raise ToolError(f"{self.directory}/grub.cfg has no entry for {release}: install its package")
        # The outermost one is that of whatever kernel is the newest.
        return next((entry for entry in found if release in entry.path), found[0]).path

    def default_release(self) -> str:
        """Return the release of what GRUB boots by default; empty where that cannot be told."""
        config = self.config()
        literal = re.search(r'^\s*set default="([^"$]*)"', config, re.MULTILINE)
        wanted = self.default() if SAVED_DEFAULT.search(config) else literal[1] if literal else ""
        menu = read_menu(f"{config}\n{self.entries()}")
        return next((entry.release for entry in menu if entry.called(wanted or "0")), "")


class Bls(Loader):
    """Entries that grubby writes."""

    def info(self, image: str = "") -> str | None:
        """Return what grubby says of an image, ours unless told; None when it knows no entry of it."""
        return self.tools.call("grubby", f"--info={image or self.entry.image}", may_fail=True)

    def present(self) -> bool:
        """Whether the entry is there."""
        return self.info() is not None

    def default(self) -> str:
        """Return the image that is booted by default."""
        return self.tools.say("grubby", "--default-kernel")

    def identify(self) -> str:
        """Return the name of the entry's file, by which GRUB knows it."""
        found = re.search(r'^id="?([^"\n]+)"?$', self.info() or "", re.MULTILINE)
        return found[1] if found else self.entry.id

    def add(self) -> bool:
        """Write the entry, with the default one's command line and our words."""
        if self.present():
            return False
        initrd = [f"--initrd={self.entry.initrd}"] if self.entry.initrd else []
        self.tools.say(
            "grubby",
            f"--add-kernel={self.entry.image}",
            f"--title={self.entry.id}",
            "--copy-default",
            f"--args={self.entry.words}",
            *initrd,
        )
        return True

    def remove(self) -> bool:
        """Take the entry out."""
        if not self.present():
            return False
        self.tools.say("grubby", f"--remove-kernel={self.entry.image}")
        return True

    def require_kept_default(self) -> None:
        """Do nothing: grubby sets the default in the way that the host goes by."""

    def make_default(self, wanted: str) -> bool:
        """Boot the image WANTED by default."""
        if self.default() == wanted:
            return False
        self.tools.say("grubby", f"--set-default={wanted}")
        return True

    def has(self, entry: str) -> bool:
        """Whether grubby knows an entry of an image."""
        return self.info(entry) is not None

    def own_default(self) -> str:
        """Return what `default` says when the entry is the default."""
        return self.entry.image

    def find(self, release: str) -> str:
        """Return GRUB's name for the entry of an installed kernel; ToolError without one."""
        if not self.present():
            raise ToolError(f"grubby knows no entry for {self.entry.image}: install the package of {release}")
        return self.identify()

    def default_release(self) -> str:
        """Return the release of what GRUB boots by default."""
        return release_of(self.default())


#: Kinds of configuration, by their names in the table of distributions.
KINDS: dict[str, type[Custom] | type[Bls]] = {"custom": Custom, "bls": Bls}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the step."""
    parser.add_argument(
        "--action", choices=["look", "read", "once", "booted", "default", "remove"], required=True
    )
    parser.add_argument("--release", required=True, help="uname -r of the kernel")
    parser.add_argument(
        "--installed",
        action="store_true",
        help="look, once, booted, remove: of a kernel that others have installed, and leave it installed",
    )
    parser.add_argument("--image", default="", help="file name of the kernel image")
    parser.add_argument(
        "--package", type=json.loads, default={}, metavar="JSON", help="the package, as in artifact.json"
    )
    parser.add_argument("--package-file", default="", help="once: path of the package on the host")
    parser.add_argument("--sha256", default="", help="hex SHA-256 that the image must have")
    parser.add_argument("--words", default="", help="words to add to the default kernel's command line")
    parser.add_argument("--cmdline", default="", help="the default kernel's command line")
    parser.add_argument(
        "--initrd", default="", help=f"path of an initial RAM disk, or {MAKE} to have the host make one"
    )
    parser.add_argument("--as-default", action="store_true", help="look: the entry is to be the default")
    parser.add_argument("--former-default", default="", help="what `look` said was the default, before")
    add_sysroot(parser)


def act(arguments: argparse.Namespace) -> dict[str, Any]:
    """Do what was asked for; ToolError when the boot loader is not as asked for."""
    if arguments.action == "read":
        return {"changed": False, **read_default(arguments)}
    if arguments.installed:
        there = of_installed(arguments)
        changed = do_installed(there, arguments)
        return {"changed": changed, "present": True, "default": there.default()}
    family = family_of(read_os_release(Sysfs(arguments.sysroot)))
    package = Package.from_artifact(arguments.package, family)
    entry = Entry(
        f"hotplug-acceleration-{arguments.release}",
        f"{FOLDER}/{arguments.release}/{arguments.image}",
        arguments.words,
        OWN_WORD.sub("", arguments.cmdline),
        f"{FOLDER}/{arguments.release}/{initrd.NAME}" if arguments.initrd == MAKE else arguments.initrd,
    )
    tools = Tools({**family.programs, **package.programs})
    directory = arguments.sysroot / family.directory.lstrip("/")
    loader = KINDS[family.kind](tools, entry, family.prefix, directory)
    changed = do(loader, package, arguments)
    gone = {"gone": loader.gone} if loader.gone else {}
    return {"changed": changed, "present": loader.present(), "default": loader.default(), **gone}


def of_installed(options: argparse.Namespace) -> Custom | Bls:
    """Return the boot loader, for an installed kernel."""
    family = family_of(read_os_release(Sysfs(options.sysroot)))
    entry = Entry("", f"/boot/vmlinuz-{options.release}", "", "", "")
    directory = options.sysroot / family.directory.lstrip("/")
    return KINDS[family.kind](Tools(dict(family.programs)), entry, family.prefix, directory)


def read_default(options: argparse.Namespace) -> dict[str, str]:
    """Return the `release` of what is booted by default; where it cannot be told, `why`."""
    try:
        release = of_installed(options).default_release()
    except ToolError as fault:
        return {"release": "", "why": str(fault)}
    return {"release": release, "why": "" if release else "the default entry names no installed kernel"}


def do_installed(loader: Custom | Bls, options: argparse.Namespace) -> bool:
    """Do what was asked for with an installed kernel; return whether it changed anything, or would."""
    try:
        loader.entry = replace(loader.entry, id=loader.find(options.release))
    except ToolError:
        if options.action == "remove":
            return False
        raise
    if options.action == "look":
        Loader.require_one_time_boots(loader)
        running = Sysfs(options.sysroot).read("proc/sys/kernel/osrelease").strip()
        if (usual := loader.default_release()) != running:
            raise ToolError(
                f"GRUB boots {usual or 'something unknown'} by default and {running} runs:"
                " whatever goes wrong would end on the former; make the running kernel the default first"
            )
        return False
    if options.action == "booted":
        loader.require_disarmed(options.dry_run)
        return False
    if options.action == "remove":
        return not loader.disarmed() if options.dry_run else loader.disarm()
    return not loader.armed() if options.dry_run else loader.arm()


def do(loader: Custom | Bls, package: Package, options: argparse.Namespace) -> bool:
    """Do what was asked for; return whether it changed anything, or would."""
    if options.action == "look":
        loader.require_one_time_boots()
        if options.as_default:
            loader.require_kept_default()
        if options.initrd == MAKE:
            initrd.maker_here()
        return False
    if options.action == "booted":
        loader.require_disarmed(options.dry_run)
        return False
    if options.dry_run:
        return would_change(loader, package, options)
    if options.action == "remove":
        # The default first: an entry that is gone would leave a default that nothing has.
        ours = loader.default() == loader.own_default()
        changed = put_back(loader, options.former_default) if ours else False
        armed = loader.disarm()
        removed = loader.remove()
        made = initrd.remove(options.sysroot, options.release)
        return package.remove(options.sysroot, options.release) or made or removed or armed or changed
    if options.action == "default":
        loader.require_kept_default()
        return loader.make_default(loader.own_default())
    installed = package.install(options.package_file, options.sysroot, options.release)
    made = initrd.make(options.sysroot, options.release) if options.initrd == MAKE else False
    # After what takes a minute, in which a run that gave up may have removed it all.
    check_image(options.sysroot / loader.entry.image.lstrip("/"), options.sha256)
    loader.require_one_time_boots()
    before = loader.default()
    added = loader.add()
    if loader.default() != before:
        loader.make_default(before)
    armed = loader.arm()
    return installed or made or added or armed


def would_change(loader: Custom | Bls, package: Package, options: argparse.Namespace) -> bool:
    """Return whether `once`, `default` or `remove` would change anything; ToolError where it would refuse."""
    where = (options.sysroot, options.release)
    if options.action == "remove":
        left = package.left(*where) or bool(initrd.made(*where))
        return left or loader.present() or not loader.disarmed()
    if options.action == "default":
        loader.require_kept_default()
        return loader.default() != loader.own_default()
    loader.require_one_time_boots()
    return not (package.whole(*where) and loader.present() and loader.armed())


def put_back(loader: Custom | Bls, former: str) -> bool:
    """Boot FORMER by default again, or what GRUB chooses where that is gone; return whether it changed."""
    if loader.has(former):
        return loader.make_default(former)
    loader.gone = former
    loader.leave_default()
    return True
