"""Options that several programs share, and the types of options: each takes a text or names what is wrong."""

from __future__ import annotations

import argparse
from pathlib import Path

from hotplug_host.cpulist import parse_cpulist

#: The longest and the shortest time, and other amounts, that make sense: 12 days, a millisecond.
LEAST, MOST = 1e-3, 1e6
#: For --initrd in the place of a path: the host's own tool makes one, once the kernel is installed.
MAKE = "make"


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a result says of its host that the host itself may not show."""
    parser.add_argument(
        "--boot-method",
        choices=("kexec", "firmware"),
        default="unknown",
        help="how this kernel was started; recorded, so that mixed ones get noticed",
    )
    parser.add_argument(
        "--emulated",
        action="store_true",
        help="record that the CPUs are emulated where the host does not show it itself",
    )


def add_sysroot(parser: argparse.ArgumentParser) -> None:
    """Add --sysroot."""
    parser.add_argument(
        "--sysroot",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="use DIR/sys and DIR/proc, for tests without root (default: %(default)s)",
    )


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    return whole(text, 1)


def count(text: str) -> int:
    """Read a whole number, 0 included."""
    return whole(text, 0)


def even(text: str) -> int:
    """Read an even number of at least 2."""
    number = whole(text, 2)
    if number % 2:
        raise argparse.ArgumentTypeError(f"'{text}' is not an even number")
    return number


def whole(text: str, least: int) -> int:
    """Read a whole number of at least LEAST."""
    # str.isdigit() also accepts other scripts' digits.
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1
    if number < least:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {least}")
    return number


def seconds(text: str) -> float:
    """Read a number of seconds above 0."""
    return above_zero(text, "seconds")


def minutes(text: str) -> float:
    """Read a number of minutes above 0."""
    return above_zero(text, "minutes")


def pause(text: str) -> float:
    """Read a number of seconds, or 0 for none."""
    return 0.0 if is_zero(text) else seconds(text)


def ppm(text: str) -> float:
    """Read a number of parts per million above 0."""
    return above_zero(text, "ppm")


def percent(text: str) -> float:
    """Read a percentage, 0 included; it may be above 100."""
    return 0.0 if is_zero(text) else above_zero(text, "percent")


def above_zero(text: str, unit: str) -> float:
    """Read a number of UNIT from `LEAST` to `MOST`."""
    number = _number(text)
    if not LEAST <= number <= MOST:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of {unit} from {LEAST:g} to {MOST:.0f}")
    return number


def is_zero(text: str) -> bool:
    """Whether a text is the number 0."""
    return _number(text) == 0


def cpus(text: str) -> tuple[int, ...]:
    """Read a CPU list such as 0-3,8, in the order given."""
    try:
        found = tuple(cpu for part in text.split(",") for cpu in sorted(parse_cpulist(part)))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not found:
        raise argparse.ArgumentTypeError("names no CPU")
    return found


def numbers(text: str) -> tuple[int, ...]:
    """Read numbers above 0 such as 1-4,8, which come ascending and each once."""
    try:
        found = sorted(parse_cpulist(text))
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers above 0, such as 1-4,8")
    return tuple(found)


def given(text: str) -> str:
    """Read a text that is more than blanks."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty")
    return text


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
