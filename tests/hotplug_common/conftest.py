"""Shared with the lab's tests: paths that stay in a temporary folder, progress that is collected."""

from tests.lpar_lab.conftest import golden, paths, said

__all__ = ["golden", "paths", "said"]
