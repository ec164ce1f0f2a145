#!/usr/bin/env bash
# Trains the digits with DDP and ZeRO-1, 2 and 3 on 4 ranks and compares them; sets itself up on first use.
# Arguments are passed on: bash run/demo.sh --iterations 20. PYTHON and MPI_WHEEL: see environment.sh.
set -euo pipefail
# shellcheck source=run/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

prepare "$mpi_wheel"
exec "$environment/bin/zero-emulator" compare --ranks 4 "$@"
