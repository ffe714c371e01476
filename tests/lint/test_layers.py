"""The layers of the packages, and that an import against them is found."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

#: Modules of each package and what they import: every layer uses those below.
TREE = {
    "hotplug_host.text": [],
    "hotplug_common.tables": ["hotplug_host.text"],
    "hotplug_timer.cli": ["hotplug_timer.predict.command", "hotplug_timer.rcu_variants.render"],
    "hotplug_timer.compare.text": ["hotplug_common.tables", "hotplug_host.text"],
    "hotplug_timer.predict.command": ["hotplug_timer.compare.text", "hotplug_timer.predict.costs"],
    "hotplug_timer.predict.costs": [],
    "hotplug_timer.rcu_variants.render": ["hotplug_timer.compare.text"],
    "clock_check.hosts": ["hotplug_common.tables"],
    "lpar_lab.cli": ["hotplug_common.tables"],
    "kernel_qualify.cli": ["hotplug_common.tables"],
    "clock_harness.cli": ["hotplug_host.text"],
    "smt_fleet.cli": ["hotplug_common.tables"],
}


def lint(path: str) -> subprocess.CompletedProcess[str]:
    """Run import-linter with this project's contracts on the packages in PATH."""
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", ROOT / "pyproject.toml"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def plant(folder: Path, more: dict[str, list[str]]) -> str:
    """Write packages with these modules; returns where they are."""
    for module, imported in {**TREE, **more}.items():
        path = folder / f"{module.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        for package in path.relative_to(folder).parents[:-1]:
            (folder / package / "__init__.py").touch()
        path.write_text("".join(f"import {name}\n" for name in imported))
    return str(folder)


def test_no_import_is_against_the_layers() -> None:
    done = lint(os.pathsep.join(sys.path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Contracts: 2 kept, 0 broken." in done.stdout


def test_the_tree_that_the_breaking_imports_go_into_is_sound(tmp_path: Path) -> None:
    assert "Contracts: 2 kept, 0 broken." in lint(plant(tmp_path, {})).stdout


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("hotplug_host.fresh", "hotplug_common.tables"),
        ("hotplug_host.fresh", "lpar_lab.cli"),
        ("hotplug_common.fresh", "hotplug_timer.compare.text"),
        ("clock_check.fresh", "hotplug_timer.compare.text"),
        ("hotplug_timer.fresh", "clock_check.hosts"),
        ("lpar_lab.fresh", "clock_harness.cli"),
        ("kernel_qualify.fresh", "lpar_lab.cli"),
        ("clock_harness.fresh", "clock_check.hosts"),
        ("smt_fleet.fresh", "lpar_lab.cli"),
        ("hotplug_timer.compare.fresh", "hotplug_timer.predict.costs"),
        ("hotplug_timer.rcu_variants.fresh", "hotplug_timer.predict.costs"),
    ],
)
def test_an_import_against_the_layers_is_named(tmp_path: Path, module: str, imported: str) -> None:
    done = lint(plant(tmp_path, {module: [imported]}))
    assert done.returncode == 1
    assert re.search(rf"{module} -> {imported}\b", done.stdout), done.stdout
