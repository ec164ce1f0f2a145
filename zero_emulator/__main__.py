"""The `zero-emulator` command, and `python -m zero_emulator`."""

import os

from collectives.quiet_start import end_quietly_on_ctrl_c


def main() -> None:
    """Import the command, which takes a moment, and run it."""
    end_quietly_on_ctrl_c()
    # Before NumPy is loaded, and as under mpiexec: the ranks share the cores, and sums keep their order.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from zero_emulator.cli import main as command

    command()


if __name__ == "__main__":
    main()
