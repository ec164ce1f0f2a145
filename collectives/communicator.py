"""The face of the package: collectives on NumPy arrays, each started here and finished by its Work."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import Any

import numpy.typing as npt

from collectives.algorithms import Algorithm, find_algorithm
from collectives.arguments import (
    IN_PLACE,
    InPlace,
    block_sizes,
    check_arrays,
    check_operator,
    check_settings,
    flat,
)
from collectives.bindings import Bindings
from collectives.call_check import CallMismatchError, describe, describe_refusal
from collectives.engine import place
from collectives.ledger import Call, Label
from collectives.meetings import exchange, split
from collectives.operators import Operator, find_operator
from collectives.prepared import PreparedCollective
from collectives.schedule import ScheduleError
from collectives.scratch import ScratchPool
from collectives.transports.base import TIME_LIMIT, Transport, TransportError
from collectives.transports.in_flight import Flight
from collectives.work import CollectiveTimeoutError, Work

__all__ = ["IN_PLACE", "Communicator", "InPlace"]

Array = npt.NDArray[Any]

MAX_CHUNKS = 1024
"""Of a block, and so lanes of a call: chunks grow beyond ``chunk_bytes`` rather than use up MPI's tags."""


class Communicator:
    """Collectives among the ranks of a transport.

    Every rank makes the same calls in the same order, those of all Communicators on the transport together;
    Works may be awaited in any, and waiting for one thing moves all the others. Arrays are C-contiguous
    and seen flat. Block r, of sizes[r] elements, belongs to rank r; without ``sizes`` the cut is even_cut. An
    input is only read, and must not be changed until its Work is done; with IN_PLACE the output is the input.
    An algorithm of the caller's own is proved before it first runs: ScheduleError says where it breaks.

    ``check``: whether ranks first compare what they are about to call, so that a difference is an error on
    all of them; costs 128 (world_size - 1) control bytes a call. Without it a difference is a hang until the
    time limit, or, over MPI, a block whose tail is left as it was. Either way the ranks are out of step:
    after a CallMismatchError the communicator is of no more use.
    ``time_limit``: seconds without any news after which a wait ends in CollectiveTimeoutError; each Work has
    the one of its start.
    ``chunk_bytes``: cut blocks into chunks of at most so many bytes, each in a lane of its own.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        time_limit: float = TIME_LIMIT,
        check: bool = True,
        chunk_bytes: int | None = None,
    ) -> None:
        check_settings(transport, time_limit, chunk_bytes)
        self.transport = transport
        self.rank, self.world_size = transport.rank, transport.world_size
        self.check, self.chunk_bytes = check, chunk_bytes
        self.label = Label()
        self.time_limit = time_limit
        self._path: tuple[int, ...] = ()  # the splits that led here: tells its calls from others'
        self._num_splits = 0
        self._scratch, self._bindings = ScratchPool(), Bindings()
        self._describe = lru_cache(maxsize=256)(describe)
        self._num_calls = 0

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
        return self._start("all_gather", algorithm, input, output, sizes, "sum")

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
        return self._start("reduce_scatter", algorithm, input, output, sizes, operator)

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
        return self._start("all_reduce", algorithm, input, output, sizes, operator)

    def prepare(
        self,
        collective: str,
        input: Array | InPlace,
        output: Array,
        *,
        operator: str | Operator = "sum",
        sizes: Sequence[int] | None = None,
        algorithm: str | Algorithm = "ring",
    ) -> PreparedCollective:
        """The same call settled once, to be started many times: arguments as of the method of that name.

        It keeps its tags and its scratch memory for good.
        """
        prepared, _ = self._prepare(self._keep_tags, collective, algorithm, input, output, sizes, operator)
        return prepared

    def split(self, color: int | None, key: int = 0) -> "Communicator | None":
        """A Communicator with the same settings among the ranks of the same color, ordered by key, then rank.

        Every rank calls it; None where color is None. Colors are 0 or more; ValueError on all if one is not.
        """
        self._num_splits += 1
        part = split(self.transport, color, key, self.time_limit)
        if part is None or color is None:
            return None
        communicator = Communicator(
            part, time_limit=self.time_limit, check=self.check, chunk_bytes=self.chunk_bytes
        )
        communicator._path = (*self._path, self._num_splits, color)
        return communicator

    def exchange(self, value: object) -> list[Any]:
        """Every rank's value, on every rank, by the transport's own means and uncounted: for reports."""
        return exchange(self.transport, value, self.time_limit)

    @contextmanager
    def labelled(self, label: Label) -> Iterator[None]:
        """Collectives that are started inside carry this label into the ledger."""
        before, self.label = self.label, label
        try:
            yield
        finally:
            self.label = before

    def release_scratch(self) -> None:
        """Let go of the scratch memory that earlier calls have left for later ones."""
        self._scratch.clear()

    def close(self) -> None:
        """Give back what the transport holds. Every rank calls it; no Work may be in flight on it."""
        if num_in_flight := len(self._own(self.transport.in_flight.works)):
            raise ValueError(f"{num_in_flight} collectives are in flight: wait for them before closing")
        self.transport.close(self.time_limit)

    def _start(self, collective: str, *arguments: Any) -> Work:
        try:
            prepared, scratch = self._prepare(self._take_tags, collective, *arguments)
        except (ValueError, ScheduleError) as error:
            self._tell(collective, error)
            raise
        return prepared.start(when_done=lambda: self._scratch.give_back(scratch))

    def _tell(self, collective: str, error: Exception) -> None:
        """Take part in the call's check all the same, so that the others hear why this rank does not call."""
        if not self.check or self.world_size == 1:
            return
        refusal = PreparedCollective(
            self.transport,
            partial(self._new_call, collective, "no algorithm"),
            lambda: self.time_limit,
            self._take_tags(1),
            describe_refusal(collective, error),
            self._bindings,
            lanes=(),
        )
        with suppress(CallMismatchError, CollectiveTimeoutError):  # what is wrong here is already known
            refusal.start().wait()

    def _prepare(
        self,
        take_tags: Callable[[int], int],
        collective: str,
        algorithm: str | Algorithm,
        input: Array | InPlace,
        output: Array,
        sizes: Sequence[int] | None,
        operator: str | Operator,
    ) -> tuple[PreparedCollective, Array]:
        """The call, settled, and the scratch memory that it works in."""
        algorithm = find_algorithm(algorithm, collective)
        reduction = find_operator(operator) if algorithm.collective.reduces else None
        check_operator(algorithm, reduction)
        in_place = isinstance(input, InPlace)
        result = flat("output", output)
        source = result if isinstance(input, InPlace) else flat("input", input)
        cut = block_sizes(max(source.size, result.size), self.world_size, sizes)
        num_chunks = self._num_chunks(cut, result.itemsize)
        binding = self._bindings.get(algorithm, self.rank, cut, result.itemsize, in_place, num_chunks)
        check_arrays(algorithm, binding, source, result, in_place)

        scratch = self._scratch.take(binding.scratch_size * result.itemsize)
        slots = scratch[: binding.scratch_size * result.itemsize].view(result.dtype)
        lanes = tuple(place(rounds, slots, result, source, reduction) for rounds in binding.lanes)
        record = None
        if self.check and self.world_size > 1:
            record = self._describe(algorithm, reduction and reduction.name, result.dtype, cut, num_chunks)
        new_call = partial(self._new_call, collective, algorithm.name)
        tag = take_tags(1 + num_chunks)  # one for the check, one for each lane
        prepared = PreparedCollective(
            self.transport, new_call, lambda: self.time_limit, tag, record, self._bindings, lanes
        )
        return prepared, scratch

    def _num_chunks(self, sizes: Sequence[int], itemsize: int) -> int:
        if self.chunk_bytes is None:
            return 1
        return min(MAX_CHUNKS, max(1, -(-max(sizes) * itemsize // self.chunk_bytes)))

    def _new_call(self, collective: str, algorithm: str) -> Call:
        self._num_calls += 1
        return Call(self._num_calls - 1, collective, algorithm, self.label, self._path)

    def _take_tags(self, number: int) -> int:
        """Tags that nothing in flight uses."""
        return self.transport.tags.take(number, self._settle)

    def _keep_tags(self, number: int) -> int:
        """Tags for good."""
        return self.transport.tags.keep(number, self._settle)

    def _settle(self) -> None:
        """End what is in flight on the transport, so that its tags may be used again."""
        in_flight = self.transport.in_flight
        if not self.transport.wait_until(lambda: not self._own(in_flight.works), self.time_limit):
            raise TransportError(
                f"rank {self.rank} waited {self.time_limit:g} s for {len(self._own(in_flight.works))} "
                "collectives in flight, to use their tags again"
            )
        if failed := self._own(in_flight.failed):
            raise TransportError(
                f"rank {self.rank} cannot use its tags again: {len(failed)} collectives have failed with "
                "messages under way"
            )

    def _own(self, works: list[Flight]) -> list[Flight]:
        return [work for work in works if work.tags is self.transport.tags]
