#!/usr/bin/env bash
# sparse, for kbuild's CHECK=. It ends in failure over what some stock files hold, which would end the
# build: here counts what it says, compared with what it says of the stock file, and not how it ends.
# Releases of sparse do not know __typeof_unqual__, which later kernels use, and which is the same but
# for qualifiers; without it kbuild would leave sparse out, with no more than a warning.
set -euo pipefail
sparse -D__typeof_unqual__=__typeof__ "$@" || true
