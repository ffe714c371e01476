"""The emulator's plugin that counts instructions, with a stand-in for the emulator around it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kernel_qualify.commands.instructions import SOURCE

BASE = 0xC000000000000000
PLACES = {
    "work": 0x10000,
    "off": 0x20000,
    "show": 0x30000,
    "disable": 0x40000,
    "stop": 0x50000,
    "yield": 0x60000,
    "lock": 0x70000,
    "end": 0x80000,
}
ROLES = {"off": "b", "show": "e", "disable": "t", "stop": "w", "yield": "s", "lock": "l"}


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("plugin") / "emulator"
    harness = Path(__file__).with_name("fake_translator.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", program, harness, SOURCE], check=True)
    return program


def spans(emulator: Path, folder: Path, *blocks: tuple[int, str, int]) -> list[dict[str, Any]]:
    """What the plugin writes when CPUs execute blocks: CPU, function, and length in instructions."""
    symbols = folder / "symbols"
    symbols.write_text(
        "".join(f"{BASE + place:x} {ROLES.get(name, '-')} {name}\n" for name, place in PLACES.items())
    )
    executed = "".join(f"{cpu} {BASE + PLACES[name]:x} {length}\n" for cpu, name, length in blocks)
    words: list[str | Path] = [emulator, f"symbols={symbols}", f"out={folder / 'out'}"]
    subprocess.run(words, input=executed, text=True, check=True)
    return [json.loads(line) for line in (folder / "out").read_text().splitlines()]


def test_what_runs_between_marks_counts_by_function(emulator: Path, tmp_path: Path) -> None:
    (found,) = spans(
        emulator,
        tmp_path,
        (0, "work", 7),
        (0, "off", 5),
        (0, "work", 7),
        (1, "work", 7),
        (0, "show", 4),
        (1, "work", 7),
        (0, "show", 4),
    )
    assert found["begun_by"] == "off"
    # The block that has a mark is counted before it.
    assert found["functions"] == {"work": 14, "show": 4}
    assert [cpu[0] for cpu in found["cpus"]] == [11, 7, 0, 0]


def test_a_turn_lasts_until_its_cpu_waits_again(emulator: Path, tmp_path: Path) -> None:
    turn = [("disable", 3), ("work", 7), ("stop", 2), ("stop", 2), ("work", 7)]
    (found,) = spans(
        emulator,
        tmp_path,
        (0, "off", 5),
        *((1, "stop", 2), (2, "stop", 2)),
        *((1, *block) for block in turn),
        *((2, *block) for block in (turn[0], turn[1], *turn)),
        (0, "show", 4),
    )
    # Without the block that begins it, with the first one of waiting.
    assert [cpu[1:] for cpu in found["cpus"]] == [[0, 0, 0], [1, 9, 9], [1, 9, 9], [0, 0, 0]]
    assert found["turn_functions"] == {"work": 14, "stop": 4}


def test_what_waiting_functions_call_is_waiting_too(emulator: Path, tmp_path: Path) -> None:
    turn = [("disable", 3), ("lock", 6), ("yield", 2), ("lock", 6), ("yield", 2), ("lock", 6), ("stop", 2)]
    (found,) = spans(
        emulator,
        tmp_path,
        (0, "off", 5),
        *((0, "stop", 2), (0, "lock", 6), (0, "lock", 6), (0, "work", 7), (0, "lock", 6)),
        *((1, *block) for block in turn),
        (0, "show", 4),
    )
    waits = {"(waiting)": 12, "(spinning)": 12}
    assert found["functions"] == {
        **waits,
        "work": 7,
        "lock": 12,
        "yield": 4,
        "stop": 4,
        "disable": 3,
        "show": 4,
    }
    # A CPU that spins has not had its turn yet.
    assert found["turn_functions"] == {"(spinning)": 12, "lock": 6, "yield": 4, "stop": 2}
    assert found["cpus"][1] == [27, 1, 24, 24]


def test_code_without_translation_of_addresses_is_the_kernel_s(emulator: Path, tmp_path: Path) -> None:
    symbols = tmp_path / "symbols"
    spans(emulator, tmp_path)
    executed = (
        f"0 {BASE + PLACES['off']:x} 5\n0 {PLACES['work']:x} 7\n1 100000 9\n0 {BASE + PLACES['show']:x} 4\n"
    )
    words: list[str | Path] = [emulator, f"symbols={symbols}", f"out={tmp_path / 'out'}"]
    subprocess.run(words, input=executed, text=True, check=True)
    assert json.loads((tmp_path / "out").read_text())["functions"] == {"elsewhere": 9, "work": 7, "show": 4}


def test_no_symbols_are_an_error(emulator: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    words: list[str | Path] = [emulator, f"symbols={tmp_path / 'empty'}", f"out={tmp_path / 'out'}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert done.stderr == f"profile: no symbols in {tmp_path / 'empty'}\n"
