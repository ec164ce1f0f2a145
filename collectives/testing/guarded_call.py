"""One call on one rank: started with guarded memory, finished, and held against what must come out."""

import math
import time
from typing import Any

import numpy as np

from collectives.algorithms import Algorithm
from collectives.communicator import IN_PLACE, Communicator
from collectives.testing.cases import Array, Case
from collectives.testing.check_error import CheckError
from collectives.testing.expected import DEFINITIONS, Part
from collectives.testing.guards import Guards
from collectives.work import Work

UNTOUCHED = 99
"""What an output holds before the call."""


class GuardedCall:
    """A call in flight, in memory with margins that nobody may write to."""

    def __init__(
        self, comm: Communicator, algorithm: Algorithm, case: Case, part: Part, guards: Guards
    ) -> None:
        self.where = f"{algorithm} on rank {comm.rank} of {comm.world_size}, {case}"
        self.case, self.part = case, part
        self.input: Array | None = None
        self.found: Array | None = None  # where the result is to be
        self.left = math.inf
        given, output = part.input, part.output
        commutes = case.operator.commutative or not algorithm.collective.reduces
        self.subject = "result" if commutes else "order"
        takes = DEFINITIONS[algorithm.collective.name].takes
        argument: Any = None
        if given is not None and output is not None and (case.in_place or "buffer" in takes):
            argument, output = IN_PLACE, self._in_place(given, output, guards)
        else:
            if given is not None:
                argument = self.input = guards.copy(given)
            if output is not None:
                output = self.found = guards.copy(np.full_like(output, UNTOUCHED))
        whole: dict[str, Any] = {"input": argument, "output": output, "buffer": output}
        whole |= {"operator": case.operator, "root": case.root, "sizes": _sizes(algorithm, case, comm.rank)}
        comm.chunk_bytes = case.chunk_bytes
        call = getattr(comm, algorithm.collective.name)
        self.entered = time.monotonic()
        self.work: Work = call(algorithm=algorithm, **{name: whole[name] for name in takes})

    def _in_place(self, given: Array, output: Array, guards: Guards) -> Array:
        """A buffer as large as the larger of the two; the smaller is this rank's block in it."""
        buffer = guards.copy(np.full_like(max(given, output, key=np.size), UNTOUCHED))

        def lies(one: Array) -> Array:
            return buffer if one.size == buffer.size else buffer[self.part.own]

        lies(given)[...] = given
        self.found = lies(output)
        return buffer

    def finish(self) -> bytes:
        """Wait for it and check what it has left; the bytes of the result."""
        self.work.wait()
        self.left = time.monotonic()
        if self.input is not None and self.part.input is not None:
            self._compare("input", self.input, self.part.input, exactly=True)
        if self.found is None or self.part.output is None:
            return b""
        self._compare(self.subject, self.found, self.part.output, exactly=not self.case.rounds)
        return self.found.tobytes()

    def _compare(self, check: str, found: Array, expected: Array, *, exactly: bool) -> None:
        alike = found == expected if exactly else np.isclose(found, expected, rtol=1e-4, atol=1e-4)
        if not alike.all():
            place = int(np.argmin(alike))
            raise CheckError(
                check,
                f"{self.where}: element {place} of {found.size} is {found[place]}, "
                f"and must be {expected[place]}",
            )


def _sizes(algorithm: Algorithm, case: Case, rank: int) -> Any:
    """Of all blocks; if the algorithm needs no others, of those alone that begin or end on this rank."""
    if algorithm.collective.by_pair:
        return [
            [size if _knows(algorithm, rank, source, to) else None for to, size in enumerate(row)]
            for source, row in enumerate(case.pairs)
        ]
    return [size if _knows(algorithm, rank, one, case.root) else None for one, size in enumerate(case.sizes)]


def _knows(algorithm: Algorithm, rank: int, *ends: int) -> bool:
    return not algorithm.own_sizes or rank in ends
