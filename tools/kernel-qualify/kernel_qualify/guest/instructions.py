"""Switch SMT between marks that the emulator's plugin sees, and tell the controller where functions are."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_qualify.guest import machine
from kernel_qualify.guest.machine import CONTROL, record


def text_symbols(kallsyms: str) -> str:
    """Return "ADDRESS NAME" of the functions of the kernel itself, one a line, in their order."""
    rows = [line.split() for line in kallsyms.splitlines()]
    return "".join(f"{row[0]} {row[2]}\n" for row in rows if len(row) == 3 and row[1] in "tTwW")


def main() -> None:
    """Report the symbols, or switch off and on several times; reading smt/control ends what is counted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--switches", type=int, required=True, help="0: report symbols")
    options = parser.parse_args()
    if not options.switches:
        machine.hand_over("symbols", text_symbols(Path("/proc/kallsyms").read_text()).encode())
        return
    if machine.online() != machine.present():
        machine.all_on()
    victims = machine.secondaries()
    for _ in range(options.switches):
        for value in ("off", "on"):
            facts = machine.switch(value)
            if facts["error"]:
                raise OSError(facts["error"], f"smt/control {value}")
            machine.read(CONTROL)
    record("machine", **machine.settings(), victims=victims)
