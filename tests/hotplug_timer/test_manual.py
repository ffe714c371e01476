import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotplug_host.errors import ExitCode
from hotplug_timer import cli
from hotplug_timer.manual.command import SHELLS, completion_text, manual_text
from hotplug_timer.manual.commands import Command, Option, describe
from hotplug_timer.manual.exitcodes import MEANINGS
from tests import ROOT

DOCS = ROOT / "docs/reference"
COMMANDS = list(describe(cli.build_parser()))
per_command = pytest.mark.parametrize("command", COMMANDS, ids=[command.name for command in COMMANDS])


def undocumented(command: Command) -> list[Option]:
    return [option for option in (*command.arguments, *command.options) if not option.help.strip()]


@per_command
def test_every_option_says_what_it_is(command: Command) -> None:
    assert undocumented(command) == []


@per_command
def test_every_command_has_a_description_and_examples(command: Command) -> None:
    assert command.summary
    assert command.description
    assert command.examples


def test_an_option_without_a_text_is_noticed() -> None:
    parser = cli.build_parser()
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--hidden", help="==SUPPRESS==")
    whole = next(describe(parser))
    assert [option.names for option in undocumented(whole)] == [("--silent",), ("--hidden",)]


def test_a_new_command_is_in_everything_by_itself() -> None:
    parser = cli.build_parser()
    commands = next(action for action in parser._actions if action.dest == "command")
    fresh = commands.add_parser("teleport", help="no switch at all")  # type: ignore[attr-defined]
    fresh.add_argument("--where", metavar="PLACE", help="50%% of the way at least")
    assert "## hotplug-timer teleport" in manual_text(parser, "markdown")
    assert "| `--where PLACE` | 50% of the way at least |" in manual_text(parser, "markdown")
    assert '.SH "HOTPLUG\\-TIMER TELEPORT"' in manual_text(parser, "man")
    for shell in SHELLS:
        text = completion_text(parser, shell)
        assert "teleport" in text
        assert "where" in text


@per_command
def test_the_reference_holds_every_option(command: Command) -> None:
    """That the page is up to date is the test of tools/docs/refresh.py --check; this is about its content."""
    text = (DOCS / "hotplug-timer.md").read_text("utf-8")
    section = re.search(rf"^## {re.escape(command.name)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section
    for option in (*command.arguments, *command.options):
        names = ", ".join(option.names) or option.value
        assert f"| `{names}".replace("|", "\\|")[1:] in section[1], names


def test_exit_codes_have_the_same_words_in_both_places() -> None:
    text = (DOCS / "exit-codes.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| `\w+` \| (.+) \|$", text, re.MULTILINE)
    assert {ExitCode(int(code)): meaning for code, meaning in rows} == MEANINGS


def test_man_page_is_one() -> None:
    text = manual_text(cli.build_parser(), "man")
    assert text.startswith('.TH "HOTPLUG\\-TIMER" 1 ')
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS"):
        assert f".SH {section}\n" in text
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".B", ".br", ".PP", ".TP", ".nf", ".fi", ".RS", ".RE"}
    assert "\n\n" not in text
    for command in COMMANDS:
        for option in command.options:
            assert option.names[-1].replace("-", "\\-") in text


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_complain_about() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"],
        input=manual_text(cli.build_parser(), "man"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_bash_completes_commands_options_and_choices(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(completion_text(cli.build_parser(), "bash"))

    def complete(*words: str) -> list[str]:
        line = " ".join(words)
        code = (
            f'source "$1"; COMP_WORDS=({" ".join(words[:-1])} "{words[-1]}"); COMP_CWORD={len(words) - 1};'
            f' COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9;'
            ' _shtab_hotplug_timer; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-c", code, "bash", str(script)], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert complete("hotplug-timer", "comp") == ["compare", "completion"]
    assert complete("hotplug-timer", "compare", "--fo") == ["--force", "--format"]
    assert complete("hotplug-timer", "compare", "--format", "j") == ["json", "junit"]


def test_commands_print_what_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["manual"]) == ExitCode.OK
    assert capsys.readouterr().out == manual_text(cli.build_parser(), "man")
    assert cli.main(["manual", "--format", "markdown"]) == ExitCode.OK
    assert capsys.readouterr().out == (DOCS / "hotplug-timer.md").read_text("utf-8")
    assert cli.main(["completion", "zsh"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith("#compdef hotplug-timer")


def test_the_manual_is_not_loaded_where_it_is_not_asked_for() -> None:
    code = "import sys; from hotplug_timer import cli; cli.build_parser(); sys.exit('shtab' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
