"""What travels to measured hosts needs Python 3.9 and its standard library, and no other package of ours."""

import sys
from pathlib import Path

import pytest

from hotplug_common.bundle import PACKAGE
from tests.samples.standalone import imports

SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_standard_library_is_enough(path: Path) -> None:
    """Each file also has to be Python 3.9's syntax, which `imports` parses it as."""
    for name in imports(path):
        top = name.partition(".")[0]
        assert top == "hotplug_host" or top in sys.stdlib_module_names, name
