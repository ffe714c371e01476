"""Units of systemd that a run leaves on a host, and takes away again."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

UNITS = Path("etc/systemd/system")


@dataclass(frozen=True)
class Units:
    """Units by their names, of which the targets start one, `started`, with each boot."""

    names: Sequence[str]
    started: str
    targets: Sequence[str]

    def links(self) -> list[Path]:
        """Return what makes systemd start it, relative to the root."""
        return [UNITS / f"{target}.wants" / self.started for target in self.targets]

    def write(self, root: Path, texts: Mapping[str, str]) -> bool:
        """Write the units, which the next boot reads; return whether they were others before."""
        files = {root / UNITS / name: text for name, text in texts.items()}
        links = [root / link for link in self.links()]
        same = (path.exists() and path.read_text(encoding="utf-8") == text for path, text in files.items())
        if all(same) and all(link.is_symlink() for link in links):
            return False
        (root / UNITS).mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        for link in links:
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(f"../{self.started}")
        return True

    def remove(self, root: Path) -> bool:
        """Stop what runs of them and remove them; whether there were any. OSError: systemctl is missing."""
        ours = [*self.links(), *(UNITS / name for name in self.names)]
        there = [root / path for path in ours if (root / path).is_symlink() or (root / path).exists()]
        if not there:
            return False
        # Of a boot in which it never started systemctl knows nothing to stop, which is as good.
        subprocess.run(["systemctl", "stop", self.started], capture_output=True, check=False)
        for path in there:
            path.unlink(missing_ok=True)
        for link in self.links():
            # Ours if nothing else is in it; systemd looks into it either way.
            folder = (root / link).parent
            if folder.is_dir() and not any(folder.glob("*")):
                folder.rmdir()
        subprocess.run(["systemctl", "daemon-reload"], capture_output=True, check=False)
        return True
