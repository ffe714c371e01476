"""Waiting for a host that boots: when it ends, what it asks, and what an operator reads."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_common import process
from hotplug_common.bootproof import (
    PAUSE,
    Boot,
    Found,
    Wanted,
    command,
    connect_within,
    fault,
    read_boot,
    wait,
)

OLD, NEW = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
WANTED = Wanted(OLD, "6.12-patched", "patched", timeout=900, down_timeout=120)


def answer(boot_id: str = NEW, release: str = "6.12-patched", cmdline: str = "quiet") -> str:
    return f"{boot_id}\n{release}\nroot=/dev/vda {cmdline}\n"


def waited_for(answers: Iterator[tuple[str, float]], wanted: Wanted = WANTED) -> tuple[Found, list[float]]:
    """Return what came of it where each look has an answer and takes some seconds; and when it looked."""
    clock, looks = [8.0], list[float]()

    def ask(_: str, seconds: float) -> str:
        looks.append(clock[0])
        said, took = next(answers)
        clock[0] += min(took, seconds)
        return said

    return wait(ask, wanted, lambda: clock[0], lambda pause: clock.__setitem__(0, clock[0] + pause)), looks


def test_a_host_is_asked_again_after_a_pause_until_another_boot_answers() -> None:
    found, looks = waited_for(iter([("", 0.0), ("sudo: a password is required", 0.0), (answer(), 1.0)]))
    assert found == Found(Boot(NEW, "6.12-patched", ""), 10.0)
    assert looks == [8.0, 8.0 + PAUSE, 8.0 + 2 * PAUSE]


def test_a_connection_is_given_up_sooner_the_shorter_the_boot_has_lasted() -> None:
    assert [connect_within(waited) for waited in (0, 8, 39, 60, 99, 100, 3600)] == [2, 2, 3, 6, 9, 10, 10]


def test_a_host_that_stays_on_the_old_kernel_is_given_up_before_one_that_is_silent() -> None:
    found, _ = waited_for(iter([(answer(OLD), 112.0)]))
    assert found == Found(Boot(OLD, "6.12-patched", ""), 120.0)
    found, looks = waited_for(iter([("", 1.0)] * 1000))
    assert found.boot is None
    assert 900 <= found.waited < 904
    assert len(looks) == pytest.approx(900 / (1 + PAUSE), abs=5)


def test_a_host_that_answers_late_with_the_old_kernel_never_went_down() -> None:
    found, _ = waited_for(iter([("", 130.0), (answer(OLD), 0.0)]))
    assert found == Found(Boot(OLD, "6.12-patched", ""), 138.5)


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "x\ny\nz", answer(OLD)]), st.floats(0, 400)), min_size=1, max_size=9
    )
)
def test_no_wait_takes_much_longer_than_the_host_has(answers: list[tuple[str, float]]) -> None:
    found, looks = waited_for(cycle(answers))
    assert found.waited <= WANTED.timeout + PAUSE + 1
    assert looks[-1] < WANTED.timeout + PAUSE


@pytest.mark.parametrize("text", ["", "a\nb", "sudo: a password is required\n\nx\ny\nz", "\n".join("123")])
def test_other_words_are_no_answer(text: str) -> None:
    assert read_boot(text) is None


def test_an_answer_has_the_variant_of_the_command_line() -> None:
    text = answer(cmdline="hotplug_acceleration.variant=stock panic=60").replace("\n", "\r\n\r\n")
    assert read_boot(text) == Boot(NEW, "6.12-patched", "stock")


def test_what_a_host_is_asked_keeps_a_new_kernel_and_stays_with_an_old_one(tmp_path: Path) -> None:
    kernel = tmp_path / "proc/sys/kernel"
    (kernel / "random").mkdir(parents=True)
    (tmp_path / "proc/cmdline").write_text("quiet\n")
    (kernel / "osrelease").write_text("6.12\n")
    stopped = tmp_path / "systemctl"
    stopped.write_text(f"#!/bin/sh\necho $* >> {tmp_path}/asked\n")
    stopped.chmod(0o755)

    def asked(boot_id: str, waited: float) -> tuple[str, float]:
        (kernel / "random/boot_id").write_text(f"{boot_id}\n")
        began = time.monotonic()
        run = subprocess.run(
            ["sh", "-c", command(WANTED, waited)],
            cwd=tmp_path,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout, time.monotonic() - began

    said, took = asked(OLD, WANTED.down_timeout - 1)
    assert read_boot(said) == Boot(OLD, "6.12", "")
    assert took >= 1
    assert not (tmp_path / "asked").exists()

    said, took = asked(NEW, 0)
    assert read_boot(said) == Boot(NEW, "6.12", "")
    assert (tmp_path / "asked").read_text() == "stop hotplug-acceleration-fallback.timer\n"


@pytest.mark.parametrize(
    ("boot", "words"),
    [
        (Boot(NEW, "6.12-patched", "patched"), ""),
        (None, "lpar1: the host did not come back within 900 s; look at its console"),
        (
            Boot(OLD, "6.12", ""),
            f"lpar1: the host never went down: 121 s after the boot was asked for .* {OLD} ",
        ),
        (
            Boot(NEW, "6.12", "patched"),
            "wanted 6.12-patched with patched variant, found 6.12 with patched variant;",
        ),
        (
            Boot(NEW, "6.12-patched", ""),
            "wanted 6.12-patched with patched variant, found 6.12-patched with no ",
        ),
    ],
)
def test_what_an_operator_reads(boot: Boot | None, words: str) -> None:
    told = fault("lpar1", WANTED, Found(boot, 121.4))
    assert bool(told) == bool(words)
    assert re.search(words, told), told


def test_a_default_kernel_may_be_of_any_release_and_of_no_variant() -> None:
    wanted = Wanted(OLD, "", "", 900, 120)
    assert fault("lpar1", wanted, Found(Boot(NEW, "6.99", ""), 50)) == ""
    assert "wanted any release with no variant" in fault("lpar1", wanted, Found(Boot(NEW, "6.99", "x"), 50))


def test_a_block_that_takes_too_long_is_left_and_the_alarm_is_off_afterwards() -> None:
    with pytest.raises(process.Expired), process.no_longer_than(0.05):
        time.sleep(5)
    with process.no_longer_than(0.05):
        pass
    time.sleep(0.1)
