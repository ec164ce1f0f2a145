"""The face of the package: collectives on NumPy arrays, each started here and finished by its Work."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from collectives.algorithms import Algorithm
from collectives.arguments import IN_PLACE, Array, InPlace
from collectives.caller import NOTHING, Caller, Request
from collectives.ledger import Label
from collectives.meetings import exchange, split
from collectives.operators import Operator
from collectives.prepared import PreparedCollective
from collectives.settling import own_flights
from collectives.transports.base import TIME_LIMIT, Transport
from collectives.work import Work

__all__ = ["IN_PLACE", "Communicator", "InPlace"]


class Communicator(Caller):
    """Eleven collectives among the ranks of a transport: each method starts one, and its Work finishes it.

    >>> import numpy as np
    >>> from collectives.transports.threads import run_threads
    >>> def add(transport: Transport) -> list[float]:
    ...     comm, total = Communicator(transport), np.empty(3)
    ...     work = comm.all_reduce(np.full(3, 10.0**transport.rank), total)  # in flight: compute here
    ...     work.wait()
    ...     return total.tolist()
    >>> run_threads(2, add)
    [[11.0, 11.0, 11.0], [11.0, 11.0, 11.0]]

    *Order.* Every rank makes the same calls in the same order, those of all Communicators on the transport
    together, from one thread. Works may be awaited in any order: waiting for one thing moves all the others.

    *Arrays* are of one dtype in and out, of numbers (bfloat16 among them), C-contiguous, and seen flat. Until
    its Work is done an input must not be changed, nor an output read. They may share no memory, but for
    IN_PLACE as the input: then it stands in the output. A rank that has no input or output passes None.

    *Blocks.* Block r, of sizes[r] elements, belongs to rank r. Without ``sizes`` a rank's largest array is
    cut: near-equally (`blocks.even_cut`), but for gather, scatter and all_to_all equally, for there no rank
    sees all. A size may be 0.

    *Operators* are sum, prod, max, min, or an Operator. What is added in which order is the schedule's, so
    that the same call gives the same bits again.

    *Algorithms* are those of `algorithms/`, by name; "auto", chosen by `choice.py` from collective, ranks and
    bytes, alike on all ranks; or an Algorithm of your own, proved before it first runs.

    *Errors.* ValueError says what is wrong with the arguments, ScheduleError where an algorithm of your own
    breaks; both at the start, and the other ranks are told. CallMismatchError: the ranks' calls differ.
    CollectiveTimeoutError: nothing has come for ``time_limit`` seconds, from whom, in which step.
    TransportError: another rank has failed. Ranks whose calls differed are out of step: the communicator is
    of no more use to them.

    ``time_limit``: seconds without any news after which a wait ends; each Work has the one of its start.
    ``check``: whether ranks first compare what they are about to call, so that a difference is an error on
    all of them; costs 128 (world_size - 1) control bytes a call. Without it a difference is a hang until the
    time limit, a TransportError where more is sent than fits or, over MPI, a block whose tail is left as it
    was.
    ``chunk_bytes``: cut blocks into chunks of at most so many bytes, each in a lane of its own, so that one
    moves on while the next comes in; they grow where a block would have more than 1024.
    ``allocate``: where the memory that a call works in comes from, so many bytes flat, for who counts it; it
    is held until the call's Work has been found done.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        time_limit: float = TIME_LIMIT,
        check: bool = True,
        chunk_bytes: int | None = None,
        allocate: Callable[[int], Array] | None = None,
    ) -> None:
        super().__init__(transport, time_limit, check, chunk_bytes, allocate)

    def all_gather(
        self,
        input: Array | InPlace,
        output: Array,
        *,
        sizes: Sequence[int] | None = None,
        algorithm: str | Algorithm = "ring",
    ) -> Work:
        """Every rank's block, on every rank.

        input: block ``rank``, sizes[rank] elements; IN_PLACE: it stands in the output already.
        output: sum(sizes) elements.
        """
        return self._start(Request("all_gather", algorithm, input, output, sizes))

    def reduce_scatter(
        self,
        input: Array | InPlace,
        output: Array,
        *,
        operator: str | Operator = "sum",
        sizes: Sequence[int] | None = None,
        algorithm: str | Algorithm = "ring",
    ) -> Work:
        """Block ``rank`` of all ranks' inputs, reduced.

        input: sum(sizes) elements. output: sizes[rank] elements. IN_PLACE: the output has sum(sizes)
        elements, the result stands in block ``rank`` of it, the other blocks are left with partial results.
        """
        return self._start(Request("reduce_scatter", algorithm, input, output, sizes, operator))

    def all_reduce(
        self,
        input: Array | InPlace,
        output: Array,
        *,
        operator: str | Operator = "sum",
        sizes: Sequence[int] | None = None,
        algorithm: str | Algorithm = "ring",
    ) -> Work:
        """All ranks' inputs, reduced, on every rank: sum(sizes) elements in input and output."""
        return self._start(Request("all_reduce", algorithm, input, output, sizes, operator))

    def broadcast(
        self,
        buffer: Array,
        *,
        root: int = 0,
        sizes: Sequence[int] | None = None,
        algorithm: str | Algorithm = "binomial",
    ) -> Work:
        """The root's buffer, on every rank: sum(sizes) elements everywhere."""
        return self._start(Request("broadcast", algorithm, IN_PLACE, buffer, sizes, root=root))

    def reduce(
        self,
        input: Array | InPlace,
        output: Array | None,
        *,
        root: int = 0,
        operator: str | Operator = "sum",
        sizes: Sequence[int] | None = None,
        algorithm: str | Algorithm = "binomial",
    ) -> Work:
        """All ranks' inputs, reduced, on the root: sum(sizes) elements. Elsewhere the output may be None."""
        return self._start(Request("reduce", algorithm, input, output, sizes, operator, root))

    def gather(
        self,
        input: Array | InPlace,
        output: Array | None,
        *,
        root: int = 0,
        sizes: Sequence[int | None] | None = None,
        algorithm: str | Algorithm = "binomial",
    ) -> Work:
        """Every rank's block, on the root; without ``sizes`` they are equal.

        input: block ``rank``; IN_PLACE on the root: it stands in the output already.
        output: sum(sizes) elements on the root; elsewhere it may be None.
        A size may be None where this rank does not know it: for the algorithm direct.
        """
        return self._start(Request("gather", algorithm, input, output, sizes, root=root))

    def scatter(
        self,
        input: Array | InPlace | None,
        output: Array,
        *,
        root: int = 0,
        sizes: Sequence[int | None] | None = None,
        algorithm: str | Algorithm = "binomial",
    ) -> Work:
        """The root's block ``rank``; without ``sizes`` they are equal.

        input: sum(sizes) elements on the root; elsewhere it may be None. output: sizes[rank] elements.
        IN_PLACE on the root: the output has all the blocks, its own among them.
        A size may be None where this rank does not know it: for the algorithm direct.
        """
        return self._start(Request("scatter", algorithm, input, output, sizes, root=root))

    def all_to_all(
        self,
        input: Array | InPlace,
        output: Array,
        *,
        sizes: Sequence[Sequence[int | None]] | None = None,
        algorithm: str | Algorithm = "pairwise",
    ) -> Work:
        """From every rank the block that it has for this one; without ``sizes`` they are equal.

        ``sizes[s][d]``: the elements of the block that rank s has for rank d; None where this rank does not
        know it: for the algorithm direct.
        input: the blocks for ranks 0, 1 and so on. output: those from ranks 0, 1 and so on. IN_PLACE: the
        output is both, of as many elements; it is copied first.
        """
        return self._start(Request("all_to_all", algorithm, input, output, sizes))

    def barrier(self, *, algorithm: str | Algorithm = "dissemination") -> Work:
        """Nothing, but not before every rank has come."""
        return self._start(Request("barrier", algorithm, NOTHING, NOTHING))

    def scan(
        self,
        input: Array | InPlace,
        output: Array,
        *,
        operator: str | Operator = "sum",
        sizes: Sequence[int] | None = None,
        algorithm: str | Algorithm = "recursive_doubling",
    ) -> Work:
        """The inputs of ranks 0 to ``rank``, reduced: sum(sizes) elements in input and output."""
        return self._start(Request("scan", algorithm, input, output, sizes, operator))

    def exscan(
        self,
        input: Array | InPlace,
        output: Array | None,
        *,
        operator: str | Operator = "sum",
        sizes: Sequence[int] | None = None,
        algorithm: str | Algorithm = "recursive_doubling",
    ) -> Work:
        """The inputs of ranks 0 to ``rank`` - 1, reduced. Rank 0's output is left alone, and may be None."""
        return self._start(Request("exscan", algorithm, input, output, sizes, operator))

    def prepare(
        self,
        collective: str,
        input: Array | InPlace | None = NOTHING,
        output: Array | None = NOTHING,
        *,
        root: int = 0,
        operator: str | Operator = "sum",
        sizes: Sequence[Any] | None = None,
        algorithm: str | Algorithm | None = None,
    ) -> PreparedCollective:
        """The same call settled once, to be started many times: arguments as of the method of that name.

        The algorithm is the first of the table unless one is named. A broadcast takes its buffer as the
        output, with IN_PLACE as the input. It keeps its tags and its scratch memory for good.
        """
        return self._keep(Request(collective, algorithm, input, output, sizes, operator, root))

    def split(self, color: int | None, key: int = 0, axis: str | None = None) -> "Communicator | None":
        """A Communicator with the same settings among the ranks of the same color, ordered by key, then rank.

        Every rank calls it; None where color is None. Colors are 0 or more; ValueError on all if one is not.
        ``axis``: which one of a grid of ranks it runs along; without it that of the whole. It has the label
        of the whole, too: to set one is to set the other.
        """
        path = self.new_path()
        part = split(self.transport, color, key, self.time_limit)
        if part is None or color is None:
            return None
        communicator = Communicator(
            part,
            time_limit=self.time_limit,
            check=self.check,
            chunk_bytes=self.chunk_bytes,
            allocate=self.allocate,
        )
        communicator.axis = self.axis if axis is None else axis
        communicator._label_holder = self._label_holder
        communicator._path = (*path, int(color))
        return communicator

    def nudge(self) -> None:
        """Move everything in flight along, and never wait: for who computes meanwhile.

        Unlike a poll it lets go of nothing that a Work holds: when that is freed does not depend on timing.
        """
        self.transport.in_flight.nudge_all()

    def exchange(self, value: object) -> list[Any]:
        """Every rank's value, on every rank, by the transport's own means and uncounted: for reports."""
        return exchange(self.transport, value, self.time_limit)

    @contextmanager
    def labelled(self, label: Label) -> Iterator[None]:
        """What is started inside carries this label into the ledger, on parts of the communicator too."""
        before, self.label = self.label, label
        try:
            yield
        finally:
            self.label = before

    def close(self) -> None:
        """Give back what the transport holds. Every rank calls it; no Work may be in flight on it.

        After that every use of the communicator is a ValueError, and of every other one on the transport.
        """
        if num_in_flight := len(own_flights(self.transport, self.transport.in_flight.works)):
            raise ValueError(f"{num_in_flight} collectives are in flight: wait for them before closing")
        self.transport.close(self.time_limit)
