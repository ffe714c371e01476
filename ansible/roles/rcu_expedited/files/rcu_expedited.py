"""Set /sys/kernel/rcu_expedited on this host, and print what it was as one JSON object.

Runs on the measured host, on its own Python (3.9 or newer), fed through standard input. Exit code 0 means
that the file says what was asked for; otherwise "error" says why not.
"""

import argparse
import json
import sys
from pathlib import Path


class SettingError(Exception):
    """The host did not take the setting."""


def set_expedited(kernel: Path, wanted: str) -> str:
    """Make `rcu_expedited` in /sys/kernel, or a copy of it, say what is wanted; return what it said.

    Raises SettingError where that would do nothing, or the file does not say so afterwards.
    """
    setting, forbids = kernel / "rcu_expedited", kernel / "rcu_normal"
    try:
        before = setting.read_text(encoding="utf-8").strip()
        if wanted != "0" and forbids.exists() and forbids.read_text(encoding="utf-8").strip() != "0":
            raise SettingError(f"{forbids} forbids expedited grace periods, as real-time kernels do")
        if before != wanted:
            setting.write_text(wanted, encoding="utf-8")
        after = setting.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingError(f"{error.filename}: {error.strerror}") from error
    if after != wanted:
        raise SettingError(f"{setting} says {after} after {wanted} was written to it")
    return before


def main() -> int:
    """Parse the command line, set, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sysroot", type=Path, default=Path("/"), help="directory with sys/")
    parser.add_argument("--value", required=True, help="what the file has to say, 0 or 1")
    options = parser.parse_args()
    try:
        before = set_expedited(options.sysroot / "sys/kernel", options.value)
    except SettingError as error:
        json.dump({"error": str(error)}, sys.stdout)
        return 1
    json.dump({"changed": before != options.value, "before": before}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
