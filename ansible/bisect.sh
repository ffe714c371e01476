#!/usr/bin/env bash
# Finds the patch of a series, or the commit of a git range, that changed how long a switch takes: git bisect over the
# patches, each step built, booted and timed in turns with both ends, and judged by the statistics of hotplug-timer compare.
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
       ansible/bisect.sh DIR --range TREE OLD..NEW [--line LINE] [option of ansible-playbook]...

  DIR   absolute path for the steps, their results and the log; a bisection that was interrupted goes on there
  OLD   patches of the series at the end before the change; 0 is the stock kernel
  NEW   patches at the end after it

  --range TREE OLD..NEW   the commits of a git tree's range instead, each as a patch on the lab's source; without merges
  --line LINE             the kernel line that they apply to, default: 6.12

Prints the first patch after which a switch takes as long as at NEW. A step that shows no difference from either end,
or one from both, is skipped. Needs git, ansible-playbook and lpar-lab on PATH, and one host.

Examples:
  ansible/bisect.sh /srv/bisect 0 12 -i inventory/example --limit lpar17.example.com -e ab_iterations=5
  ansible/bisect.sh /srv/bisect --range /srv/linux v6.12.90..topic -i inventory/example --limit lpar17.example.com -e ab_iterations=5
USAGE
}

die() {
    printf 'bisect: error: %s\n' "$1" >&2
    exit "$2"
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ANSIBLE_CONFIG="${ANSIBLE_CONFIG:-$here/ansible.cfg}"

# One step: git bisect has checked out a commit whose message gives the number of patches it stands for.
if [ "${1-}" = --step ]; then
    directory=$2 from=$3 to=$4 called_in=$5
    shift 5
    step=$(cat patches)
    verdict="$directory/verdicts/$step"
    if [ ! -s "$verdict" ]; then
        # What an interrupted step measured is no whole answer.
        rm -r -f -- "${directory:?}/steps/$step"
        # Where the options were given: an inventory may be named from there.
        cd -- "$called_in"
        # Forth and back once, unless the options ask for more: a bisection has many steps.
        ansible-playbook "$here/playbooks/bisect.yml" -e ab_repeat=1 "$@" \
            -e "bisect_dir=$directory" -e "bisect_old=$from" -e "bisect_new=$to" -e "bisect_step=$step" >&2 ||
            exit "$give_up"
    fi
    case $(cat "$verdict") in
        old) exit "$old" ;;
        new) exit "$new" ;;
        *) exit "$skip" ;;
    esac
fi

# What a step is called, of which git prints the first that is like the new end.
step_name() {
    if [ -z "$tree" ] || [ "$1" -eq 0 ]; then
        printf '%s patches\n' "$1"
    else
        git -C "$tree" log -1 --format="$1 patches: %h %s" "${commits[$1 - 1]}"
    fi
}

case ${1-} in
    -h | --help) usage && exit 0 ;;
    /*) directory=$1 ;;
    *) usage >&2 && die "name the directory by its absolute path; see above" "$exit_usage" ;;
esac
plain='^[A-Za-z0-9/._-]+$' plain_words="letters, digits, dots, dashes and underscores"
[[ $directory =~ $plain ]] || die "$directory has characters other than $plain_words; name another" "$exit_usage"
tree=
if [ "${2-}" = --range ]; then
    named=${3-} range=${4-} line=6.12
    shift "$(($# < 4 ? $# : 4))"
    if [ "${1-}" = --line ]; then
        line=${2-}
        shift "$(($# < 2 ? $# : 2))"
    fi
    tree=$(realpath -e -- "$named" 2>/dev/null) || die "there is no folder '$named'; name a git tree" "$exit_usage"
    [[ $tree =~ $plain ]] || die "$tree has characters other than $plain_words; name it by another path" "$exit_usage"
    lpar-lab build-kernel --line "$line" --variant patched --commits "$tree" "$range" --apply-only >/dev/null || exit "$?"
    # The ends as they are now: a branch may move on while steps are taken.
    range=$(git -C "$tree" rev-parse "${range%%..*}^{commit}")..$(git -C "$tree" rev-parse "${range#*..}^{commit}")
    [ ! -d "$directory/walk/.git" ] || [ "$(cat "$directory/range" 2>/dev/null)" = "$range" ] ||
        die "$directory is of a bisection between other ends; name another directory" "$exit_usage"
    mkdir -p -- "$directory" || die "cannot make $directory; name another directory" "$exit_environment"
    printf '%s\n' "$range" >"$directory/range"
    mapfile -t commits < <(git -C "$tree" rev-list --reverse "$range")
    from=0 to=${#commits[@]}
    set -- "$@" -e "bisect_line=$line" -e "bisect_tree=$tree" -e "bisect_range=$range"
else
    from=${2-} to=${3-}
    [[ $from =~ ^[0-9]+$ && $to =~ ^[0-9]+$ && $from -lt $to ]] ||
        die "OLD and NEW are '$from' and '$to'; give two numbers of patches, the smaller first" "$exit_usage"
    shift 3
    [ ! -e "$directory/range" ] ||
        die "$directory is of a bisection between other ends; name another directory" "$exit_usage"
fi

# A history in which a commit stands for each number of patches.
walk="$directory/walk"
if [ ! -d "$walk/.git" ]; then
    mkdir -p -- "$walk" || die "cannot make $walk; name another directory" "$exit_environment"
    git -C "$walk" init --quiet
    for ((number = from; number <= to; number++)); do
        printf '%s\n' "$number" >"$walk/patches"
        git -C "$walk" add patches
        step_name "$number" | git -C "$walk" -c user.name=bisect -c user.email=bisect@localhost commit --quiet --file -
        git -C "$walk" tag "p$number"
    done
fi
called_in=$PWD
cd "$walk"
[ -e .git/refs/tags/p"$from" ] && [ -e .git/refs/tags/p"$to" ] ||
    die "$directory is of a bisection between other ends; name another directory" "$exit_usage"
git bisect reset >/dev/null 2>&1 || true
git bisect start --term-old=before --term-new=after "p$to" "p$from" >/dev/null
exec git bisect run "$here/bisect.sh" --step "$directory" "$from" "$to" "$called_in" "$@"
