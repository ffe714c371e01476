"""The project's tests; each folder mirrors a package, a folder of Ansible, or a kind of test."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
GOLDEN = Path(__file__).resolve().parent / "golden"
"""Recorded inputs, and what is to come out of them."""
FAKES = Path(__file__).resolve().parent / "fakes"
"""Fake hosts, kernels and programs."""
