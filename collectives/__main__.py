"""`python -m collectives`."""

from collectives.cli import main

main()
