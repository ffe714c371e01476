#!/usr/bin/env bash
# Writes the locks anew from pyproject.toml, for each Python from 3.11 on, with hashes and without naming a registry:
# requirements.lock has every package of the project and of its development group, and the lock of the image for AWX
# has those of the same versions that the image needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v uv >/dev/null || { echo "lock: error: uv is not installed; try: pip install uv" >&2 && exit 3; }
lock() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links "$@" pyproject.toml
}
lock --upgrade --group dev -o requirements.lock
lock --group image -c requirements.lock -o ansible/execution-environment.lock
