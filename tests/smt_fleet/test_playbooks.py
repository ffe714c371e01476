"""Where smt-fleet finds its playbooks outside a checkout, with a stand-in for ansible-galaxy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotplug_host import __version__
from hotplug_host.errors import ExitCode, ToolError
from smt_fleet import playbooks

INSTALLED = f"ansible-galaxy collection install smt-hotplug-{__version__}.tar.gz"


@pytest.fixture
def galaxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program to be written in place of ansible-galaxy, for a program that is in no checkout."""
    monkeypatch.setattr(playbooks, "CHECKOUT", tmp_path / "nowhere")
    monkeypatch.setattr(playbooks.sys, "executable", str(tmp_path / "python"))
    program = tmp_path / "ansible-galaxy"
    program.touch(0o755)
    return program


def lists(galaxy: Path, text: str, code: int = 0, errors: str = "") -> None:
    galaxy.write_text(f"#!/bin/sh\necho '{text}'\necho '{errors}' >&2\nexit {code}\n")


def test_the_first_collection_is_the_one(galaxy: Path) -> None:
    one = f'{{"smt.hotplug": {{"version": "{__version__}"}}}}'
    lists(galaxy, f'{{"/a/ansible_collections": {one}, "/b/ansible_collections": {{}}}}')
    assert playbooks.find() == Path("/a/ansible_collections/smt/hotplug")


@pytest.mark.parametrize(
    ("text", "code", "errors", "said"),
    [
        ("{}", 0, "", "the collection smt.hotplug is not installed"),
        ("", 5, "ERROR: no paths", "the collection smt.hotplug is not installed (ERROR: no paths)"),
        (
            '{"/a/ansible_collections": {"smt.hotplug": {"version": "0.0.9"}}}',
            0,
            "",
            f"smt.hotplug in /a/ansible_collections is 0.0.9, this program {__version__}",
        ),
    ],
)
def test_no_or_another_collection_is_told_with_the_command(
    galaxy: Path, text: str, code: int, errors: str, said: str
) -> None:
    lists(galaxy, text, code, errors)
    with pytest.raises(ToolError) as caught:
        playbooks.find()
    assert str(caught.value) == f"{said}; {INSTALLED}"
    assert caught.value.code is ExitCode.ENVIRONMENT


def test_settings_of_the_user_stay_if_they_are_there(tmp_path: Path) -> None:
    where = tmp_path / "collections/ansible_collections/smt/hotplug"
    theirs = tmp_path / "mine.cfg"
    for given in ("", str(theirs)):
        made = playbooks.environment(where, {playbooks.CONFIG: given})
        assert made[playbooks.CONFIG] == str(where / "ansible.cfg")
    theirs.touch()
    made = playbooks.environment(where, {playbooks.CONFIG: str(theirs), playbooks.COLLECTIONS: "/mine"})
    assert made[playbooks.CONFIG] == str(theirs)
    assert made[playbooks.COLLECTIONS].split(os.pathsep) == [str(tmp_path / "collections"), "/mine"]
    assert playbooks.COLLECTIONS not in playbooks.environment(playbooks.CHECKOUT, {})
