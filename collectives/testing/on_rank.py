"""All calls of a run on one of its ranks: two in flight at a time, on a transport that delays and watches."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from collectives.algorithms import Algorithm
from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.schedule import Block
from collectives.testing.cases import Case, make_cases
from collectives.testing.check_error import CheckError
from collectives.testing.expected import Part, make_parts
from collectives.testing.guarded_call import GuardedCall
from collectives.testing.guards import Guards
from collectives.transports.base import Transport
from collectives.transports.checking import BufferHazardError, CheckingTransport
from collectives.transports.delaying import DelayingTransport
from collectives.transports.metered import MeteredTransport
from collectives.verify import Proof

TIME_LIMIT = 20.0
"""Seconds without news after which a rank gives up."""

LATE = 0.002
"""Seconds that one rank after the other is late at a barrier: whoever leaves too early is seen to."""


class CaseOnRanks(NamedTuple):
    """A case, and what every rank gives and gets in it."""

    case: Case
    parts: tuple[Part, ...]


Proofs = Mapping[int | None, Proof]
"""By the root; None for an algorithm that has none."""


class Ended(NamedTuple):
    """What one rank tells of a run: the bytes of the last result, and when each call began and was over."""

    last: bytes
    times: tuple[tuple[float, float], ...]


def make_calls(
    algorithm: Algorithm, proofs: Proofs, calls: Sequence[CaseOnRanks], transport: Transport
) -> Ended:
    """All calls of a run. Raises CheckError, whatever has happened."""
    try:
        return _RankOfRun(algorithm, transport).make(calls, proofs)
    except CheckError:
        raise
    except Exception as error:
        check = "in flight" if isinstance(error, BufferHazardError) else "run"
        fault = f"rank {transport.rank} raised {type(error).__name__}: {error}"
        raise CheckError(check, f"{algorithm} on {transport.world_size} ranks: {fault}") from error


def check_refused(algorithm: Algorithm, transport: Transport) -> None:
    """Nothing, if a call on a world size that is not among its own is refused."""
    case = make_cases(transport.world_size)[-1]
    part = make_parts(algorithm.collective.name, case)[transport.rank]
    comm = Communicator(transport, time_limit=TIME_LIMIT, check=False)
    try:
        GuardedCall(comm, algorithm, case, part, Guards()).finish()
    except ValueError as error:
        if "needs a world size" in str(error):
            return
        raise
    raise CheckError("limit", f"{algorithm} ran on {comm.world_size} ranks, which it says that it does not")


class _RankOfRun:
    def __init__(self, algorithm: Algorithm, transport: Transport) -> None:
        self.algorithm, self.ledger, self.guards = algorithm, Ledger(), Guards()
        watched = MeteredTransport(DelayingTransport(CheckingTransport(transport)), self.ledger)
        self.comm = Communicator(watched, time_limit=TIME_LIMIT, check=False, allocate=self.guards.bytes)
        self.where = f"{algorithm} on rank {transport.rank} of {transport.world_size}"

    def make(self, calls: Sequence[CaseOnRanks], proofs: Proofs) -> Ended:
        ended: dict[Case, GuardedCall] = {}
        last = b""
        for number, pair in enumerate(zip(calls[::2], calls[1::2], strict=True)):
            if self.algorithm.collective.empty and self.comm.rank == number % self.comm.world_size:
                time.sleep(LATE)
            started = [guarded for call in pair if (guarded := self._start(call)) is not None]
            # Neighbours wait for the two in different orders.
            for guarded in started if self.comm.rank % 2 else reversed(started):
                result = guarded.finish()
                last = result if guarded.case is calls[-1].case else last
                ended[guarded.case] = guarded
        if broken := self.guards.num_broken():
            raise CheckError("margins", f"{self.where}: {broken} bytes beside its buffers were overwritten")
        self._check_bytes(proofs, ended)
        times = [(ended[case].entered, ended[case].left) for case, _ in calls if case in ended]
        return Ended(last, tuple(times))

    def _start(self, call: CaseOnRanks) -> GuardedCall | None:
        """The call in flight; None if it was refused, as it had to be."""
        case, part = call.case, call.parts[self.comm.rank]
        must_refuse = self.algorithm.collective.reduces and (
            self.algorithm.commutative_only and not case.operator.commutative
        )
        try:
            guarded = GuardedCall(self.comm, self.algorithm, case, part, self.guards)
        except ValueError as error:
            if must_refuse and "does not commute" in str(error):
                return None
            raise
        if must_refuse:
            raise CheckError("order", f"{self.where} reorders operands, and takes some that do not commute")
        return guarded

    def _check_bytes(self, proofs: Proofs, ended: Mapping[Case, GuardedCall]) -> None:
        """Every call has sent and received the blocks of the proof, to the byte."""
        sent: Counter[int] = Counter()
        received: Counter[int] = Counter()
        for entry in self.ledger.entries:
            number = entry.origin.call.number
            sent[number] += sum(num_bytes for _, num_bytes in entry.sends)
            received[number] += sum(num_bytes for _, num_bytes in entry.recvs)
        for case, guarded in ended.items():
            proof, number = proofs[root_of(self.algorithm, case)], guarded.work.call.number
            counted = sent[number], received[number]
            proved = proof.sent[self.comm.rank], proof.received[self.comm.rank]
            expected = tuple(self._bytes(blocks, case) for blocks in proved)
            if counted != expected:
                raise CheckError(
                    "bytes",
                    f"{self.where}, {case}: counted {counted[0]} sent and {counted[1]} received, "
                    f"and the proof has {expected[0]} and {expected[1]}",
                )

    def _bytes(self, blocks: Sequence[Block], case: Case) -> int:
        collective = self.algorithm.collective
        if collective.empty:
            return 0
        size_of = self.algorithm.block_sizes(case.pairs if collective.by_pair else case.sizes)
        return case.dtype.itemsize * sum(size_of[block] or 0 for block in blocks)


def root_of(algorithm: Algorithm, case: Case) -> int | None:
    """The root of the case, if the algorithm has one."""
    return None if algorithm.collective.root is None else case.root
