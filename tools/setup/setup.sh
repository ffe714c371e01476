#!/usr/bin/env bash
# Prepares a Debian 12 or 13 amd64 machine: packages, and the project's own Python environment.
# On other Linux systems it makes the environment only, of the Python and git that are there.
# Says what it will install before it does; a second run finds nothing to do.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv="$root/.venv"
qemu_wanted=8.1
exit_usage=2
exit_environment=3

usage() {
    cat <<USAGE
Usage: tools/setup/setup.sh [--dry-run] [python|lab|tests|validation]

  python      what operators and the unit tests need: Python, git and the locked Python packages in .venv;
              on systems other than Debian 12 and 13 only .venv, without root
  lab         (default) that, and what builds kernels and boots guests: cross compiler, QEMU $qemu_wanted or newer
  tests       that, and what opens reports and builds an image in the tests: a headless Chromium, buildah
  validation  what lab installs, and what else compiles the kernel series: a cross compiler for arm64

  --dry-run   only say what would be installed

Examples:
  tools/setup/setup.sh --dry-run      # what is missing on this machine?
  tools/setup/setup.sh                # install it (asks sudo when not root)
USAGE
}

die() {
    printf 'setup: error: %s\n' "$1" >&2
    exit "${2:-$exit_environment}"
}

# Package names of a list file, without comments and blank lines.
list() { sed -e 's/[[:space:]]*#.*//' -e '/^[[:space:]]*$/d' "$here/packages-$1.txt"; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing() {
    list "$1" | grep -vxF -f <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p') || true
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "installing packages needs root; run this as root, or install sudo"
    fi
}

# Wait for another apt instead of failing on its lock, and never stop for a question.
apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"; }

codename() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release; }

# QEMU new enough? "candidate" asks what apt would install, "installed" what is there.
qemu_version() {
    case $1 in
        installed) installed qemu-system-ppc && dpkg-query -W -f '${Version}' qemu-system-ppc ;;
        candidate) LC_ALL=C apt-cache policy qemu-system-ppc | sed -n 's/^ *Candidate: //p' ;;
    esac
}

new_enough() { [ -n "$1" ] && [ "$1" != "(none)" ] && dpkg --compare-versions "${1#*:}" ge "$qemu_wanted"; }

# Each QEMU package wants its own version of their common files: apt refuses two versions side by side.
install_qemu() {
    local packages
    mapfile -t packages < <(list qemu)
    if new_enough "$(qemu_version candidate)" && apt-get -qq -s install "${packages[@]}" >/dev/null 2>&1; then
        apt_get install --no-install-recommends "${packages[@]}" ||
            die "installing QEMU failed; see apt's message above"
    else
        install_from_backports "${packages[@]}"
    fi
}

# Backports of this very mirror, in lists of their own: the machine's sources stay as they are.
# All packages come from there, also ones that a newer version of another archive is installed of.
install_from_backports() {
    local state uri suite options
    suite="$(codename)-backports"
    # shellcheck disable=SC2016  # apt-get's own placeholders
    uri=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' |
        awk -v codename="$(codename)" '$1 == "Debian" && $2 == codename { print $3; exit }')
    [ -n "$uri" ] || die "apt knows no archive for $(codename); add the Debian archive to its sources"
    state=$(mktemp -d)
    # shellcheck disable=SC2064  # the folder of now, not of later
    trap "rm -rf -- '$state'" EXIT
    chmod 0755 "$state"
    mkdir -p "$state/lists/partial"
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$uri" "$(codename)" "$keyring" "$uri" "$suite" \
        >"$state/sources.list"
    options=(-o "Dir::State::Lists=$state/lists" -o "Dir::Etc::SourceList=$state/sources.list"
        -o Dir::Etc::SourceParts=/dev/null)
    apt_get "${options[@]}" update || die "cannot read $suite; check the network and apt's sources"
    apt_get "${options[@]}" install --no-install-recommends --allow-downgrades -t "$suite" "${@/%//$suite}" ||
        die "installing $* from $suite failed; see apt's message above"
}

# Packages that dpkg did not finish: half installed, unpacked only, or with a trigger to come.
unfinished() { dpkg-query -W -f '${db:Status-Abbrev}\n' | grep -q '^.[HUFWt]'; }

# apt installs nothing while what an interrupted installation left is not finished.
finish_interrupted_installation() {
    unfinished || return 0
    echo "setup: will first finish an installation of Debian packages that was interrupted"
    [ "$dry_run" = no ] || return 0
    as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a || true
    ! unfinished || apt_get --fix-broken install ||
        die "finishing the interrupted installation failed; see apt's message above"
}

install_packages() {
    local wanted=() package profile qemu_wanting=""
    finish_interrupted_installation
    for profile in "$@"; do
        while read -r package; do wanted+=("$package"); done < <(missing "$profile")
    done
    if [[ " $* " == *" lab "* ]]; then
        if ! new_enough "$(qemu_version installed)" || [ -n "$(missing qemu)" ]; then qemu_wanting=yes; fi
    fi
    if [ "${#wanted[@]}" -eq 0 ] && [ -z "$qemu_wanting" ]; then
        echo "setup: all Debian packages are there"
        return
    fi
    [ "${#wanted[@]}" -eq 0 ] || echo "setup: will install from the Debian archive: ${wanted[*]}"
    [ -z "$qemu_wanting" ] || echo "setup: will install QEMU $qemu_wanted or newer ($(list qemu | tr '\n' ' ')), from backports if the release has none"
    [ "$dry_run" = no ] || return 0
    apt_get update || die "apt-get update failed; check the network and apt's sources"
    [ "${#wanted[@]}" -eq 0 ] || apt_get install --no-install-recommends "${wanted[@]}" ||
        die "installing packages failed; see apt's message above"
    if [ -n "$qemu_wanting" ]; then install_qemu; fi
}

# The first Python that is new enough; the system's own is the one Debian's python3-venv serves.
find_python() {
    local candidate
    # RHEL 9 and SLES 15 have a newer one beside their python3.
    for candidate in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "no Python 3.11 or newer with venv found; install python3-venv (Debian), python3.12 (RHEL 9) or python311 (SLES 15)"
}

install_python_packages() {
    local stamp="$venv/.requirements" wanted
    wanted=$(cat "$root/requirements.lock" "$root/pyproject.toml" | sha256sum | cut -d' ' -f1)
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted $root" ]; then
        echo "setup: the Python environment is up to date"
        return
    fi
    echo "setup: will install $(grep -cE '^[a-z]' "$root/requirements.lock") locked Python packages into .venv"
    [ "$dry_run" = no ] || return 0
    rm -f "$stamp"
    "$(find_python)" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$root/requirements.lock" ||
        die "installing the locked Python packages failed; check the network and pip's configuration"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e "$root" ||
        die "installing this project into .venv failed; see pip's message above"
    printf '%s %s\n' "$wanted" "$root" >"$stamp"
}

dry_run=no
profile=lab
for argument in "$@"; do
    case $argument in
        --dry-run) dry_run=yes ;;
        python | lab | tests | validation) profile=$argument ;;
        -h | --help) usage && exit 0 ;;
        *) usage >&2 && die "unknown argument '$argument'; see above" "$exit_usage" ;;
    esac
done

is_debian() { command -v apt-get >/dev/null && [[ "$(codename)" =~ ^(bookworm|trixie)$ ]]; }

# Operators need no Debian: the packages of their system are theirs to install.
use_what_is_there() {
    [ "$profile" = python ] ||
        die "the lab needs Debian 12 or 13, which this is not; 'tools/setup/setup.sh python' prepares what operators need"
    command -v git >/dev/null || die "git is not installed; install git (git-core on RHEL and SLES)"
    echo "setup: not Debian 12 or 13: using $(find_python) and $(command -v git)"
}

if ! is_debian; then
    use_what_is_there
else
    [ "$(dpkg --print-architecture)" = amd64 ] || [ "$profile" = python ] ||
        die "the lab's cross compilers are for amd64; this is $(dpkg --print-architecture)"
    case $profile in
        python) install_packages python ;;
        lab) install_packages python lab ;;
        tests) install_packages python lab tests ;;
        validation) install_packages python lab validation ;;
    esac
fi
install_python_packages
