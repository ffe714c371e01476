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

    def written(self, root: Path, texts: Mapping[str, str]) -> bool:
        """Whether the units are there with these texts, and started with each boot."""
        files = {root / UNITS / name: text for name, text in texts.items()}
        same = (path.exists() and path.read_text(encoding="utf-8") == text for path, text in files.items())
        return all(same) and all((root / link).is_symlink() for link in self.links())

    def there(self, root: Path) -> list[Path]:
        """Return what there is of the units and of what starts them."""
        ours = [*self.links(), *(UNITS / name for name in self.names)]
        return [root / path for path in ours if (root / path).is_symlink() or (root / path).exists()]

    def write(self, root: Path, texts: Mapping[str, str]) -> bool:
        """Write the units, which the next boot reads; return whether they were others before."""
        if self.written(root, texts):
            return False
        (root / UNITS).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (root / UNITS / name).write_text(text, encoding="utf-8")
        for link in [root / link for link in self.links()]:
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(f"../{self.started}")
        return True

    def remove(self, root: Path) -> bool:
        """Stop what runs of them and remove them; whether there were any. OSError: systemctl is missing."""
        there = self.there(root)
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
