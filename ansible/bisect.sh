#!/usr/bin/env bash
# Finds the patch of a series that changed how long a switch takes: git bisect over the series, each step built, booted
# and timed in turns with both ends, and judged by the statistics of hotplug-timer compare.
set -euo pipefail

exit_usage=2
exit_environment=3
# What git bisect run takes an exit code for; above 127 it gives up.
old=0
new=1
skip=125
give_up=128

usage() {
    cat <<USAGE
Usage: ansible/bisect.sh DIR OLD NEW [option of ansible-playbook]...

  DIR   absolute path for the steps, their results and the log; a bisection that was interrupted goes on there
  OLD   patches of the series at the end before the change; 0 is the stock kernel
  NEW   patches at the end after it

Prints the first patch after which a switch takes as long as at NEW. A step that shows no difference from either end,
or one from both, is skipped. Needs git, ansible-playbook and lpar-lab on PATH, and one host.

Example:
  ansible/bisect.sh /srv/bisect 0 12 -i inventory/example --limit lpar17.example.com -e ab_iterations=5
USAGE
}

die() {
    printf 'bisect: error: %s\n' "$1" >&2
    exit "$2"
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ANSIBLE_CONFIG="${ANSIBLE_CONFIG:-$here/ansible.cfg}"

# One step: git bisect has checked out a commit that says how many patches it stands for.
if [ "${1-}" = --step ]; then
    directory=$2 from=$3 to=$4
    shift 4
    step=$(cat patches)
    verdict="$directory/verdicts/$step"
    if [ ! -s "$verdict" ]; then
        # What an interrupted step measured is no whole answer.
        rm -r -f -- "${directory:?}/steps/$step"
        ansible-playbook "$here/playbooks/bisect.yml" "$@" \
            -e "bisect_dir=$directory" -e "bisect_old=$from" -e "bisect_new=$to" -e "bisect_step=$step" >&2 ||
            exit "$give_up"
    fi
    case $(cat "$verdict") in
        old) exit "$old" ;;
        new) exit "$new" ;;
        *) exit "$skip" ;;
    esac
fi

case ${1-} in
    -h | --help) usage && exit 0 ;;
    /*) directory=$1 ;;
    *) usage >&2 && die "name the directory by its absolute path; see above" "$exit_usage" ;;
esac
[[ $directory =~ ^[A-Za-z0-9/._-]+$ ]] ||
    die "$directory has characters other than letters, digits, dots, dashes and underscores; name another" "$exit_usage"
from=${2-} to=${3-}
[[ $from =~ ^[0-9]+$ && $to =~ ^[0-9]+$ && $from -lt $to ]] ||
    die "OLD and NEW are '$from' and '$to'; give two numbers of patches, the smaller first" "$exit_usage"
shift 3

# A history in which a commit stands for each number of patches.
walk="$directory/walk"
if [ ! -d "$walk/.git" ]; then
    mkdir -p -- "$walk" || die "cannot make $walk; name another directory" "$exit_environment"
    git -C "$walk" init --quiet
    for ((number = from; number <= to; number++)); do
        printf '%s\n' "$number" >"$walk/patches"
        git -C "$walk" add patches
        git -C "$walk" -c user.name=bisect -c user.email=bisect@localhost commit --quiet --message "$number patches"
        git -C "$walk" tag "p$number"
    done
fi
cd "$walk"
[ -e .git/refs/tags/p"$from" ] && [ -e .git/refs/tags/p"$to" ] ||
    die "$directory is of a bisection between other ends; name another directory" "$exit_usage"
git bisect reset >/dev/null 2>&1 || true
git bisect start --term-old=before --term-new=after "p$to" "p$from" >/dev/null
exec git bisect run "$here/bisect.sh" --step "$directory" "$from" "$to" "$@"
