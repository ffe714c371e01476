#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, also after one that fails, and prints how long each took.
# Exits with 1 where one has failed.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

rows=()
failed=0

row() { rows+=("$(printf '%-16s %-12s %4d:%02d' "$1" "$2" $(($3 / 60)) $(($3 % 60)))"); }

print_rows() {
    row total "$([ "$failed" -eq 0 ] && echo passed || echo failed)" "$SECONDS"
    printf '\n%-16s %-12s %7s\n' part result min:s
    printf '%s\n' "${rows[@]}"
}

# shellcheck disable=SC2329  # the trap calls it
interrupt() {
    failed=1
    row "$part" interrupted "$((SECONDS - start))"
    print_rows
    exit 130
}

trap interrupt INT TERM HUP
for part in "$@"; do
    start=$SECONDS
    printf '\n== make %s\n' "$part"
    if "${MAKE:-make}" --no-print-directory "$part"; then
        row "$part" passed "$((SECONDS - start))"
    else
        failed=1
        row "$part" failed "$((SECONDS - start))"
    fi
done
print_rows
exit "$failed"
