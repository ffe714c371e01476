"""What the guest's scripts read from the kernel, on texts as the kernel writes them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import bare
import pytest

GUEST = Path(__file__).resolve().parents[1] / "guest"


def load(name: str) -> ModuleType:
    """A script of the guest's. It is no test of what the script does to a machine."""
    spec = importlib.util.spec_from_file_location(f"guest_{name}", GUEST / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


machine = load("machine")

VERSION_16 = """\
version 16
timestamp 4294939999
cpu0 0 0 0 0 0 0 1 2 3
domain0 00ff 12 0 0 0
domain1 ffff 15 0 0 0
cpu8 0 0 0 0 0 0 1 2 3
domain0 ff00 12 34 0 0
cpu9 0 0 0 0 0 0 1 2 3
"""
VERSION_17 = VERSION_16.replace("version 16", "version 17").replace("domain0 ", "domain0 SMT ")
VERSION_17 = VERSION_17.replace("domain1 ", "domain1 PKG ")


@pytest.mark.parametrize("text", [VERSION_16, VERSION_17])
def test_domains_of_either_version(text: str) -> None:
    low, high, every = list(range(8)), list(range(8, 16)), list(range(16))
    assert machine.spans_in(text) == {"0": [low, every], "8": [high], "9": []}


def test_lists_and_masks() -> None:
    assert machine.numbers("0-3,8\n") == [0, 1, 2, 3, 8]
    assert machine.numbers("\n") == []
    assert machine.mask("00000001,00000003") == [0, 1, 32]


def test_pieces_of_chunks_are_added_up() -> None:
    line = (
        "  kworker/0:1-12  [000] ..... 100.1: cpuhp_bulk_chunk: down cpus: 0001-0015 asked: 14 done: 14"
        " fallback: no ret: 0"
        " ns: lock 1000 callbacks 2000 domains 3000 deactivate 4000 takedown 5000 dead 6000\n"
    )
    text = f"# tracer: nop\n{line}{line.replace('takedown 5000', 'takedown 7000')}"
    names = ("lock", "callbacks", "domains", "deactivate", "takedown", "dead")
    each = zip(names, (2e-6, 4e-6, 6e-6, 8e-6, 12e-6, 12e-6), strict=True)
    assert machine.pieces_in(text) == pytest.approx(dict(each))
    assert machine.pieces_in("# tracer: nop\n") == {}


def test_the_host_understands_when_it_has_to_press_a_key() -> None:
    assert f'ASLEEP = "{bare.ASLEEP}"\n' in (GUEST / "early.py").read_text()
