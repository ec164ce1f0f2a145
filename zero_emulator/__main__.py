"""The `zero-emulator` command, and `python -m zero_emulator`."""

from collectives.quiet_start import end_quietly_on_ctrl_c


def main() -> None:
    """Import the command, which takes a moment, and run it."""
    end_quietly_on_ctrl_c()
    from zero_emulator.cli import main as command

    command()


if __name__ == "__main__":
    main()
