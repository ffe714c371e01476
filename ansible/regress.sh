#!/usr/bin/env bash
# One regression run that ends with an exit code of hotplug-timer's: the verdict of its history, or that the run did not
# get to its end. ansible-playbook has no codes to tell a regression from a host that is down.
set -euo pipefail

exit_usage=2
exit_environment=3
exit_interrupted=130
# What no program called here ends with; 99 is ansible-playbook's when somebody pressed Ctrl-C.
busy=75
interrupted=99

usage() {
    cat <<USAGE
Usage: ansible/regress.sh DIR [--until TIME] [option of ansible-playbook]...

  DIR            absolute path for the results, the history and the trend page; one run at a time works on it
  --until TIME   HH:MM or YYYY-MM-DDTHH:MM: begin no host that could not be ready by then; fleet_host_minutes is
                 how long one takes, where fleet_costs_dir has no costs that predict it

Ends with 8 (regression), 5 (a newest run failed), 9 (not enough history yet) or 0, or with 3 when the run did not get
to its end. Needs ansible-playbook, hotplug-timer and the python3 beside them on PATH.

Example:
  ansible/regress.sh /srv/regress --until 06:00 -i inventory/example -e @vars.json
USAGE
}

die() {
    printf 'regress: error: %s\n' "$1" >&2
    exit "$2"
}

case ${1-} in
    -h | --help) usage && exit 0 ;;
    /*) directory=$1 && shift ;;
    *) usage >&2 && die "name the directory by its absolute path; see above" "$exit_usage" ;;
esac
# It goes into one of ansible-playbook's arguments, which has quotes of its own.
[[ $directory =~ ^[A-Za-z0-9/._-]+$ ]] ||
    die "$directory has characters other than letters, digits, dots, dashes and underscores; name another" "$exit_usage"

window=()
if [[ ${1-} == --until ]]; then
    # -P: not what happens to be in the directory from which it is started.
    end=$(python3 -P -m smt_fleet.window -- "${2-}")
    window=(-e "fleet_window_end=$end")
    shift 2
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ANSIBLE_CONFIG="${ANSIBLE_CONFIG:-$here/ansible.cfg}"
mkdir -p -- "$directory" || die "cannot make $directory; name another" "$exit_environment"

nothing=$directory/nothing-timed
rm -f -- "$nothing"
# --close: ssh's master connections outlive the run, and would keep the lock.
code=0
flock --nonblock --close --conflict-exit-code "$busy" "$directory/lock" \
    ansible-playbook "$here/playbooks/regress.yml" "$@" \
    -e "regress_dir=$directory" -e regress_verdict_fails=false "${window[@]}" || code=$?
case $code in
    0) ;;
    "$busy") die "another run is at work in $directory; wait for it" "$exit_environment" ;;
    "$interrupted") die "interrupted; roll the host back, then give the command again" "$exit_interrupted" ;;
    *) die "regress.yml ended with exit code $code before the history could be asked; see what it said" "$exit_environment" ;;
esac
if [[ -e $nothing ]]; then
    printf 'regress: nothing was timed: the newest kernels were measured before: %s\n' "$(paste -s -d ' ' "$nothing")"
    exit 0
fi
exec hotplug-timer history check --store "$directory/history"
