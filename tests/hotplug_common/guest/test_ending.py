"""The last words of a console: up to its last panic, and only since the boot began."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotplug_common.guest.ending import last_words, main


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\ntwo\n\n \nthree", ["two", "three"]),
        (
            "\x1b[0;1mup\x1b[0m\r\nKernel panic - not syncing: x\nLinux version 6\nlogin:",
            ["up", "Kernel panic - not syncing: x"],
        ),
        (
            "Kernel panic - not syncing: a\n---[ end Kernel panic ]---\nRebooting in 10 seconds..\nfirmware",
            ["---[ end Kernel panic ]---", "Rebooting in 10 seconds.."],
        ),
        ("", []),
    ],
)
def test_the_end_of_a_console(text: str, lines: list[str]) -> None:
    assert last_words(text, 2) == lines


def test_only_what_was_said_since_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "console.log"
    log.write_bytes(b"Kernel panic - not syncing: before\n\xffnow\n")

    def said(*arguments: str) -> str:
        main(arguments)
        return capsys.readouterr().out

    assert said("--from=35", str(log)) == "\N{REPLACEMENT CHARACTER}now\n"
    assert said("--from=3500", str(log)) == "Kernel panic - not syncing: before\n"
    assert said(str(tmp_path / "gone")) == ""


def test_a_log_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "gone")]) == 3
    assert f"{tmp_path / 'gone'}: No such file or directory" in capsys.readouterr().err
