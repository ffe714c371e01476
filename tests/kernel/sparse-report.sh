#!/usr/bin/env bash
# sparse, for kbuild's CHECK=. It ends in failure over what some stock files hold, which would end the
# build: here counts what it says, compared with what it says of the stock file, and not how it ends.
set -euo pipefail
sparse "$@" || true
