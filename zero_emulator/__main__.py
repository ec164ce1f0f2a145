"""`python -m zero_emulator`."""

from zero_emulator.cli import main

main()
