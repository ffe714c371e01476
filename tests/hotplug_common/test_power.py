"""The power cycle by the operator's command."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotplug_common.power import main


def test_the_console_is_kept_before_the_power_cycle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "console/lpar1.log"
    console = "sh -c 'echo one; echo two; exec sleep 30'"
    code = main(
        [
            f"--keep={log}",
            f"--console={console}",
            "--listen=1",
            "--lines=1",
            f"--power-cycle=cp {log} {log}.then",
        ]
    )
    assert code == 0
    assert capsys.readouterr().out == "two\n"
    assert Path(f"{log}.then").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("console", ["false", "no-such-program", "un'quoted"])
def test_a_console_that_fails_keeps_no_host_from_its_power_cycle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], console: str
) -> None:
    done = tmp_path / "done"
    assert main([f"--keep={tmp_path}/log", f"--console={console}", f"--power-cycle=touch {done}"]) == 0
    assert done.exists()
    assert capsys.readouterr().out.startswith("the console could not be read: ")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (
            "sh -c 'echo no such LPAR; exit 3'",
            5,
            "'sh' ended with 3: no such LPAR; power-cycle the host by hand",
        ),
        ("no-such-program", 3, "'no-such-program' is not installed"),
        ("sleep 30", 7, "'sleep' did not finish within 1 s"),
        ("un'quoted", 2, "is no command: No closing quotation"),
        (" ", 2, "the command is empty"),
    ],
)
def test_a_power_cycle_that_fails_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, code: int, words: str
) -> None:
    assert main([f"--keep={tmp_path}/log", f"--power-cycle={command}", "--timeout=1"]) == code
    error = capsys.readouterr().err
    assert error.startswith("power-cycle: error: ")
    assert words in error
    assert error.count("\n") == 1
