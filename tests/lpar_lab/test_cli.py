import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_common import needs
from hotplug_common.guest import qemu
from hotplug_common.paths import Paths, find_project
from hotplug_host import termination as signals
from hotplug_host.errors import ExitCode, ToolError
from lpar_lab import cli, lifecycle, state
from tests.lpar_lab.test_state import GUEST

COMMANDS = [
    *("build-kernel", "check-apply", "package", "build-rootfs", "up", "down", "status", "ssh", "console"),
    *("inventory", "cores", "demo"),
]
PATHS_FROM_ENVIRONMENT = Paths.from_environment


@pytest.fixture(autouse=True)
def own_folders(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.Paths, "from_environment", lambda: paths)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"examples:\n  {'ansible' if command == 'inventory' else 'lpar-lab ' + command}" in text
    assert "exit codes:" in text


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["up"],
        ["up", "Bad_Name"],
        ["up", "a", "--cores", "0"],
        ["up", "a", "--threads", "3"],
        ["up", "a", "--timeout", "nan"],
        ["up", "a", "--boot-loader", "yaboot"],
        ["up", "a", "--arch", "x86_64", "--threads", "8"],
        ["up", "a", "--arch", "x86_64", "--spare-cores", "1"],
        ["up", "a", "--cores", "200", "--spare-cores", "100"],
        ["cores", "add"],
        ["cores", "double", "a"],
        ["cores", "add", "Bad_Name"],
        ["cores", "remove", "nobody"],
        ["down"],
        ["down", "a", "--all"],
        ["build-kernel", "--line", "5.4"],
        ["build-kernel", "--patches", "-1"],
        ["build-kernel", "--variant", "faster"],
        ["build-kernel", "--trim-to", "lsmod.txt"],
        ["build-kernel", "--plan-only"],
        ["build-kernel", "--package", "deb"],
        ["build-kernel", "--config-from", "nowhere"],
        ["check-apply", "nowhere"],
        ["up", "a", "--variant", "faster"],
        ["ssh", "nobody"],
        ["console", "nobody"],
    ],
    ids=" ".join,
)
def test_bad_arguments_are_one_line_and_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("lpar-lab: error: ")
    assert captured.err.count("\n") == 1
    assert "; " in captured.err, "says the next step"


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (ToolError("broken\nin two", "mend it", ExitCode.GUEST), 6, "broken in two; mend it"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (signals.Terminated(), 143, "terminated"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x"),
            10,
            "No space left on device; free some space",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 3, "/x: Permission denied"),
    ],
)
def test_faults_end_in_one_line_and_their_code(
    fault: BaseException,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(cli.inventory, "refresh", fail)
    assert cli.main(["inventory"]) == code
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_status_of_no_guests(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status"]) == 0
    assert cli.main(["status", "--json"]) == 0
    assert capsys.readouterr().out == "no guests\n[]\n"


def test_status_shows_a_dead_guest_and_its_consoles_verdict(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = paths.guests / "lab1"
    folder.mkdir(parents=True)
    state.save(folder, replace(GUEST, start_ticks=1))
    (folder / "console.log").write_text("[    1.0] Kernel panic - not syncing: x\n")
    assert cli.main(["status", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["state"], row["cpus"]) == ("lab1", "gone", 16)
    assert row["console"]["verdict"] == "panic"
    assert row["console"]["findings"][0]["line"] == 1


def test_down_all_and_down_of_nobody(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        (paths.guests / name).mkdir(parents=True)
    assert cli.main(["down", "--all"]) == 0
    assert cli.main(["down", "one"]) == 0
    assert lifecycle.folders(paths) == []
    assert "guest 'one' is not there" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "wanted"), [([], False), (["--boot-loader", "grub"], True)])
def test_a_boot_loader_comes_when_it_is_asked_for(
    options: list[str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[lifecycle.Request] = []
    monkeypatch.setattr(lifecycle, "check_request", lambda *_: None)
    monkeypatch.setattr(cli, "_chosen_kernel", lambda *_: None)
    monkeypatch.setattr(cli.rootfs, "build", lambda *_: None)
    monkeypatch.setattr(lifecycle, "up", lambda request, *_: requests.append(request))
    assert cli.main(["up", "a", *options]) == ExitCode.OK
    assert [request.boot_loader for request in requests] == [wanted]


def test_a_guest_like_a_host_has_a_disk_of_its_own_and_no_kernel_of_the_labs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ups: list[tuple[lifecycle.Request, object]] = []
    styles: list[str] = []
    monkeypatch.setattr(lifecycle, "check_request", lambda *_: None)
    monkeypatch.setattr(cli.rootfs, "build", lambda *words: styles.append(words[-1].of(words[0])))
    monkeypatch.setattr(lifecycle, "up", lambda request, kernel, *_: ups.append((request, kernel)))
    assert cli.main(["up", "a", "--like", "powervm"]) == ExitCode.OK
    assert cli.main(["up", "a", "--like", "server"]) == ExitCode.OK
    assert cli.main(["up", "a", "--like", "powervm", "--initrd", "dracut"]) == ExitCode.OK
    assert styles == ["ppc64le-powervm", "x86_64-server", "ppc64le-powervm-dracut"]
    assert [(request.like, request.arch.name, request.cpus, kernel) for request, kernel in ups] == [
        ("powervm", "ppc64le", 16, None),
        ("server", "x86_64", 4, None),
        ("powervm", "ppc64le", 16, None),
    ]


@pytest.mark.parametrize("words", [[], ["--like", "powernv9"]])
def test_a_guest_with_the_labs_kernel_has_no_initial_ram_disk(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["up", "a", "--initrd", "dracut", *words]) == ExitCode.USAGE
    assert capsys.readouterr().err.endswith("on their disk; add --like powervm or server\n")


@pytest.mark.parametrize("cached", [False, True])
def test_what_a_guest_and_its_disk_need_is_named_at_once(
    cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each was named when it was missed, one a run; that of the disk after the kernel had been built."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(needs, "SBIN", ())
    monkeypatch.setattr(qemu, "UEFI", (tmp_path / "code.fd", tmp_path / "vars.fd"))
    monkeypatch.setattr(cli.rootfs, "find", lambda *_: object() if cached else None)
    assert cli.main(["up", "a", "--like", "server"]) == ExitCode.ENVIRONMENT
    (line,) = capsys.readouterr().err.splitlines()
    missing, _, install = line.partition("; apt-get install ")
    assert {"openssh-client", "ovmf", "qemu-utils"} <= set(install.split())
    assert ({"lvm2", "mmdebstrap", "mtools", "xfsprogs"} <= set(install.split())) != cached
    assert f"not installed: qemu-system-x86_64, qemu-img, ssh, ssh-keygen, {tmp_path}/code.fd" in missing


@pytest.mark.parametrize(
    "words",
    [
        ["--arch", "x86_64"],
        ["--kernel", "artifact.json"],
        ["--variant", "patched"],
        ["--fragment", "debug"],
        ["--append", "quiet"],
        ["--boot-loader", "grub"],
    ],
)
def test_a_guest_like_powervm_takes_no_kernel_from_outside(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["up", "a", "--like", "powervm", *words]) == ExitCode.USAGE
    assert f"{words[0]} with --like powervm" in capsys.readouterr().err


def test_a_guest_without_hypervisor_has_a_kernel_that_boots_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.lpar_lab.test_lifecycle import KERNEL  # noqa: PLC0415

    built: list[list[str]] = []
    ups: list[lifecycle.Request] = []
    monkeypatch.setattr(lifecycle, "check_request", lambda *_: None)
    monkeypatch.setattr(cli.rootfs, "build", lambda *_: None)
    monkeypatch.setattr(lifecycle, "up", lambda request, *_: ups.append(request))
    monkeypatch.setattr(
        cli, "build_variant", lambda arguments, *_: built.append(arguments.fragment) or KERNEL
    )
    words = ["up", "a", "--like", "powernv10"]
    assert cli.main([*words, "--fragment", "debug"]) == ExitCode.OK
    assert cli.main([*words, "--fragment", "powernv"]) == ExitCode.OK
    assert built == [["powernv", "debug"], ["powernv"]]
    assert {(request.like, request.threads) for request in ups} == {("powernv10", 4)}

    kernel = replace(KERNEL, config=tmp_path / "config")
    monkeypatch.setattr(cli.artifact, "load", lambda _: kernel)
    kernel.config.write_text("CONFIG_PPC_PSERIES=y\n# CONFIG_PPC_POWERNV is not set\n")
    assert cli.main([*words, "--kernel", "artifact.json"]) == ExitCode.INPUT
    assert "build it with --fragment powernv" in capsys.readouterr().err
    kernel.config.write_text("CONFIG_PPC_POWERNV=y\n")
    assert cli.main([*words, "--kernel", "artifact.json"]) == ExitCode.OK
    assert cli.main([*words, "--boot-loader", "grub"]) == ExitCode.USAGE


def test_print_artifact_prints_only_the_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.lpar_lab.test_lifecycle import KERNEL  # noqa: PLC0415

    monkeypatch.setattr(cli, "build_variant", lambda *_: KERNEL)
    assert cli.main(["build-kernel", "--print-artifact"]) == 0
    assert capsys.readouterr().out == "/cache/k/artifact.json\n"


def test_the_checkout_is_found_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "checkout"
    (project / "kernel-patches/configs").mkdir(parents=True)
    assert find_project({"LPAR_LAB_PROJECT": str(project)}) == project
    with pytest.raises(ToolError):
        find_project({"LPAR_LAB_PROJECT": str(tmp_path)})
    monkeypatch.chdir(project)
    assert find_project({}, start=tmp_path / "installed/elsewhere.py") == project
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolError, match="no checkout found"):
        find_project({}, start=tmp_path / "installed/elsewhere.py")


def test_paths_follow_the_xdg_settings() -> None:
    env = {"HOME": "/home/u", "XDG_CACHE_HOME": "/big"}
    found = PATHS_FROM_ENVIRONMENT(env)
    assert (found.cache, found.state) == (Path("/big/lpar-lab"), Path("/home/u/.local/state/lpar-lab"))
