"""The face of the package: collectives on NumPy arrays, each started here and finished by its Work."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from operator import index
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from collectives.algorithms import Algorithm, find_algorithm
from collectives.blocks import even_cut
from collectives.call_check import check_calls, describe
from collectives.engine import Binding, Buffers, bind, walk
from collectives.ledger import Call, Label
from collectives.operators import Operator, find_operator
from collectives.transports.base import Transport
from collectives.work import CollectiveTimeoutError, Lane, Work

Array = npt.NDArray[Any]

TIME_LIMIT = 60.0

MAX_CHUNKS = 1024
"""Of a block, and so lanes of a call: chunks grow beyond ``chunk_bytes`` rather than use up MPI's tags."""


class InPlace(Enum):
    """What stands for the input when the call works in place."""

    IN_PLACE = "IN_PLACE"


IN_PLACE: Final = InPlace.IN_PLACE


class Communicator:
    """Collectives among the ranks of a transport.

    Every rank makes the same calls in the same order; Works may be awaited in any. Arrays are C-contiguous
    and seen flat. Block r, of sizes[r] elements, belongs to rank r; without ``sizes`` the cut is even_cut. An
    input is only read, and must not be changed until its Work is done; with IN_PLACE the output is the input.

    ``time_limit``: seconds without any news after which a wait ends in CollectiveTimeoutError.
    ``check``: whether ranks first compare what they are about to call, so that a difference is an error on
    all of them and not a hang: costs 128 (world_size - 1) control bytes a call.
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
        if chunk_bytes is not None and chunk_bytes < 1:
            raise ValueError(f"chunks of {chunk_bytes} bytes: give 1 or more, or None for one chunk a block")
        self.transport = transport
        self.rank, self.world_size = transport.rank, transport.world_size
        self.time_limit, self.check, self.chunk_bytes = time_limit, check, chunk_bytes
        self.label = Label()
        self._in_flight: list[Work] = []  # shared with all that are split off, so that a wait moves them too
        self._way: tuple[int, ...] = ()  # the splits that led here: tells its calls from other communicators'
        self._num_splits = 0
        self._num_calls = 0
        self._next_tag = 0
        self._idle_scratch: list[Array] = []

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
        return self._start("all_gather", algorithm, input, output, sizes, None)

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

    def split(self, color: int | None, key: int = 0) -> "Communicator | None":
        """A Communicator with the same settings among the ranks of the same color, ordered by key, then rank.

        Every rank calls it; None where color is None.
        """
        self._num_splits += 1
        part = self.transport.split(color, key)
        if part is None or color is None:
            return None
        communicator = Communicator(
            part, time_limit=self.time_limit, check=self.check, chunk_bytes=self.chunk_bytes
        )
        communicator._in_flight = self._in_flight
        communicator._way = (*self._way, self._num_splits, color)
        return communicator

    def exchange(self, value: object) -> list[Any]:
        """Every rank's value, on every rank, by the transport's own means and uncounted: for reports."""
        return self.transport.exchange(value, self.time_limit)

    @contextmanager
    def labelled(self, label: Label) -> Iterator[None]:
        """Collectives that are started inside carry this label into the ledger."""
        before, self.label = self.label, label
        try:
            yield
        finally:
            self.label = before

    def close(self) -> None:
        """Give back what the transport holds. No Work may be in flight."""
        if num_in_flight := len(self._own_in_flight()):
            raise ValueError(f"{num_in_flight} collectives are in flight: wait for them before closing")
        self.transport.close()

    def _start(
        self,
        collective: str,
        algorithm: str | Algorithm,
        input: Array | InPlace,
        output: Array,
        sizes: Sequence[int] | None,
        operator: str | Operator | None,
    ) -> Work:
        algorithm = find_algorithm(algorithm, collective)
        reduction = None if operator is None else find_operator(operator)
        if reduction is not None and algorithm.commutative_only and not reduction.commutative:
            raise ValueError(
                f"{algorithm} reorders its operands, and {reduction.name!r} does not commute: "
                "take an algorithm that keeps their order"
            )
        in_place = isinstance(input, InPlace)
        result = _flat("output", output)
        source = result if isinstance(input, InPlace) else _flat("input", input)
        cut = self._cut(max(source.size, result.size), sizes)
        num_chunks = self._num_chunks(cut, result.itemsize)
        binding = bind(algorithm, self.rank, cut, result.itemsize, in_place, num_chunks)
        _check_arrays(algorithm, binding, source, result, in_place)

        if self._next_tag > self.transport.max_tag - MAX_CHUNKS:
            # Tags start again: only when nothing is in flight that a new message could meet. All ranks get
            # here at the same call, and whatever is in flight has been started on all of them before it.
            for earlier in self._own_in_flight():
                self._drive(earlier)
            self._next_tag = 0
        call = Call(self._num_calls, collective, algorithm.name, self.label, self._way)
        record = describe(algorithm, reduction and reduction.name, result.dtype, cut, num_chunks)
        stages = self._stages(call, self._next_tag, record, binding, source, result, reduction)
        work = Work(call, self.transport, stages, self._drive, self._nudge_all)
        self._num_calls += 1
        self._next_tag += 1 + num_chunks  # one for the check, one for each lane
        self._in_flight.append(work)
        self._nudge_all()
        return work

    def _cut(self, total: int, sizes: Sequence[int] | None) -> tuple[int, ...]:
        if sizes is None:
            return even_cut(total, self.world_size)
        if len(sizes) != self.world_size or min(sizes) < 0:
            raise ValueError(f"block sizes {tuple(sizes)} for {self.world_size} ranks: one a rank, 0 or more")
        return tuple(index(size) for size in sizes)

    def _num_chunks(self, sizes: Sequence[int], itemsize: int) -> int:
        if self.chunk_bytes is None:
            return 1
        return min(MAX_CHUNKS, max(1, -(-max(sizes) * itemsize // self.chunk_bytes)))

    def _stages(
        self,
        call: Call,
        tag: int,
        record: bytes,
        binding: Binding,
        source: Array,
        result: Array,
        operator: Operator | None,
    ) -> Iterator[list[Lane]]:
        """What a call does, stage by stage; the lanes of a stage are walked side by side."""
        if self.check and self.world_size > 1:
            yield [check_calls(self.transport, tag, call, record)]
        scratch = self._borrow(binding.scratch_size * result.itemsize)
        typed = scratch[: binding.scratch_size * result.itemsize].view(result.dtype), result, source
        buffers = Buffers(typed, (scratch, result.view(np.uint8), source.view(np.uint8)))
        yield [
            walk(rounds, buffers, operator, self.transport, tag + 1 + chunk, call, chunk)
            for chunk, rounds in enumerate(binding.lanes)
        ]
        self._idle_scratch.append(scratch)

    def _borrow(self, num_bytes: int) -> Array:
        """Scratch of at least so many bytes, an earlier Work's if one fits: new pages cost faults."""
        for place, scratch in enumerate(self._idle_scratch):
            if scratch.size >= num_bytes:
                return self._idle_scratch.pop(place)
        if self._idle_scratch:
            self._idle_scratch.pop()  # too small for what is called now: grow rather than hoard
        return np.empty(num_bytes, np.uint8)

    def _own_in_flight(self) -> list[Work]:
        return [work for work in self._in_flight if work.call.communicator == self._way]

    def _nudge_all(self) -> bool:
        news = False
        for work in tuple(self._in_flight):
            news = work.nudge() or news
            if work.over:
                self._in_flight.remove(work)
        return news

    def _drive(self, work: Work) -> None:
        """Nudge all Works until this one is over."""
        last_news = time.monotonic()
        while not work.over:
            now = time.monotonic()
            if self._nudge_all():
                last_news = now
                continue
            if now - last_news > self.time_limit:
                raise CollectiveTimeoutError(
                    f"rank {self.rank} waited {self.time_limit:g} s in {work.describe_wait()}"
                )
            self.transport.pause(now - last_news)


def _flat(name: str, array: Array) -> Array:
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        raise ValueError(
            f"the {name} is {type(array).__name__} of {getattr(array, 'dtype', 'no dtype')}: "
            "give a NumPy array of numbers"
        )
    if not array.flags.c_contiguous:
        raise ValueError(
            f"the {name} of shape {array.shape} is not C-contiguous: pass np.ascontiguousarray(...)"
        )
    return array.reshape(-1)


def _check_arrays(
    algorithm: Algorithm, binding: Binding, source: Array, result: Array, in_place: bool
) -> None:
    if source.dtype != result.dtype:
        raise ValueError(
            f"{algorithm}: the input is {source.dtype}, the output {result.dtype}: make them alike"
        )
    if not result.flags.writeable:
        raise ValueError(f"{algorithm}: the output is read-only: pass an array that may be written")
    if result.size != binding.output_size or (not in_place and source.size != binding.input_size):
        raise ValueError(
            f"{algorithm}: the blocks need {binding.input_size or 'no'} elements of input and "
            f"{binding.output_size} of output, there are {0 if in_place else source.size} and {result.size}"
        )
    if not in_place and np.may_share_memory(source, result):
        raise ValueError(f"{algorithm}: input and output share memory: pass IN_PLACE as the input")
