"""Loading a kernel for kexec: only the right image, and only if the kernel confirms it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hotplug_host.agent.conftest import Step

RIGHT = hashlib.sha256(b"vmlinux").hexdigest()


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "vmlinux"
    path.write_text("vmlinux")
    for name, text in (("sys/kernel/kexec_loaded", "1"), ("proc/sys/kernel/random/boot_id", "b-1")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"{text}\n")
    return path


def test_a_kernel_is_loaded_with_its_options(
    image: Path, tmp_path: Path, step: Step, tool: Callable[[str, str], None]
) -> None:
    tool("kexec", f'echo "$*" > {tmp_path}/ran')
    load = ("kexec-load", f"--sysroot={tmp_path}", f"--sha256={RIGHT}", f"--image={image}")

    code, answer = step(*load, "--kexec-option=--command-line=ro quiet")

    assert (code, answer) == (
        0,
        {"changed": True, "boot_id": "b-1", "kexec": str(tmp_path / "bin/kexec")},
    )
    assert (tmp_path / "ran").read_text() == f"--load {image} --command-line=ro quiet\n"

    (tmp_path / "sys/kernel/kexec_loaded").write_text("0\n")
    code, answer = step(*load)
    assert (code, answer["error"]) == (5, "kexec reported success but /sys/kernel/kexec_loaded is 0")

    tool("kexec", "echo one; echo two; exit 1")
    code, answer = step(*load)
    assert (code, answer["error"]) == (5, f"kexec --load {image} ended with exit code 1: one, two")


def test_an_image_with_another_checksum_is_never_loaded(
    image: Path, tmp_path: Path, step: Step, tool: Callable[[str, str], None]
) -> None:
    image.write_text("torn")
    tool("kexec", f"touch {tmp_path}/ran")

    code, answer = step("kexec-load", f"--sha256={RIGHT}", f"--image={image}", f"--sysroot={tmp_path}")

    assert code == 4
    assert answer["error"] == (f"{image} has SHA-256 {hashlib.sha256(b'torn').hexdigest()}, not {RIGHT}")
    assert not (tmp_path / "ran").exists()


def test_a_missing_image_is_named(tmp_path: Path, step: Step) -> None:
    code, answer = step("kexec-load", "--sha256=0", f"--image={tmp_path}/vmlinux")

    assert (code, answer["error"]) == (3, f"{tmp_path}/vmlinux cannot be read: No such file or directory")


def test_a_kernel_without_kexec_load_takes_the_image_as_a_file(
    step: Step, tool: Callable[[str, str], None], image: Path, tmp_path: Path
) -> None:
    words = ("kexec-load", f"--image={image}", f"--sha256={RIGHT}", f"--sysroot={tmp_path}")
    refusal = "echo 'kexec_load failed: Function not implemented' >&2; exit 1"
    tool("kexec", f'case "$*" in *--kexec-file-syscall*) exit 0;; esac; {refusal}')
    assert step(*words)[0] == 0
    tool("kexec", refusal)
    code, answer = step(*words)
    assert code == 5
    assert answer["error"].endswith("ended with exit code 1: kexec_load failed: Function not implemented")
