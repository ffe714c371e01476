"""The program that travels to hosts for playbooks: the answer of a step, its fault, and other commands."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path

import pytest

from hotplug_host.agent import command
from hotplug_host.errors import ExitCode, ToolError
from tests.fakes.fakehost import FakeHost
from tests.hotplug_host.agent.conftest import Step


def test_every_step_is_a_module_beside_the_command() -> None:
    folder = Path(str(command.__file__)).parent
    others = {"__init__", "command", "distribution", "image", "initrd", "units"}
    assert {path.stem.replace("_", "-") for path in folder.glob("*.py") if path.stem not in others} == set(
        command.STEPS
    )
    for name in command.STEPS:
        module = import_module(f"hotplug_host.agent.{name.replace('-', '_')}")
        assert module.__doc__
        assert callable(module.add_arguments)
        assert callable(module.act)


@pytest.mark.parametrize(
    ("fault", "code", "error"),
    [
        (ToolError("it is wrong", "do this", ExitCode.OPERATION), 5, "it is wrong; do this"),
        (OSError(2, "No such file or directory", "/x"), 3, "/x: No such file or directory"),
        (OSError("odd"), 3, "odd"),
    ],
)
def test_a_fault_is_an_answer(
    fault: Exception, code: int, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> dict[str, object]:
        raise fault

    assert command.answered(fails) == code
    assert json.loads(capsys.readouterr().out) == {"error": error}


def test_a_wrong_option_is_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run-lock", "--lock=/x"]) == ExitCode.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("hotplug-timer: error: one of the arguments --acquire --release is required")


def test_other_words_are_commands_of_hotplug_timer(step: Step, host: FakeHost) -> None:
    code, answer = step("preflight", "--json", "--for=time", f"--sysroot={host.root}")
    assert (code, answer["facts"]["euid"]) == (0, os.geteuid())
