#!/usr/bin/env bash
# Writes requirements.lock anew from pyproject.toml: every package of the project and of its
# development group, for each Python from 3.11 on, with hashes and without naming a registry.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v uv >/dev/null || { echo "lock: error: uv is not installed; try: pip install uv" >&2 && exit 3; }
exec uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
    --group dev pyproject.toml -o requirements.lock
