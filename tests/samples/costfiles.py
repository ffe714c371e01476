"""Results of `hotplug-timer measure-costs`: a kept one, as another machine's."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests import ROOT

EXAMPLE = ROOT / "docs/data/prediction/6.12-ppc64le-16"
KERNEL = "6.12.118-stock-864de745"


def costs_of(folder: Path, host: str, release: str = KERNEL, cpus: int = 16) -> Path:
    """Write the costs of a host into a folder, as of a kernel and of so many CPUs in two cores."""
    folder.mkdir(exist_ok=True)
    text = (EXAMPLE / "costs.jsonl").read_text().replace(KERNEL, release)
    for key in ("possible", "present", "online"):
        text = text.replace(f'"{key}":"0-15"', f'"{key}":"0-{cpus - 1}"')
    for trace in EXAMPLE.glob("*.xz"):
        shutil.copy(trace, folder)
    file = folder / f"{host}.jsonl"
    file.write_text(text.replace('"threads_per_core":8', f'"threads_per_core":{cpus // 2}'))
    return file
