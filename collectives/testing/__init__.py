"""For whoever writes an algorithm: all that it must survive, as one line of a pytest file."""

from collectives.testing.matrix import matrix

__all__ = ["matrix"]
