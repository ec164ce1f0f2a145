"""One call, from its arguments to messages in flight: settled, compared with the other ranks', started."""

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from collectives.algorithms import Algorithm, at_root, find_algorithm
from collectives.arguments import (
    Array,
    InPlace,
    all_see_all,
    check_arrays,
    check_operator,
    check_settings,
    find_sizes,
    flat,
)
from collectives.bindings import Bindings
from collectives.call_check import CallMismatchError, describe, describe_refusal
from collectives.choice import AUTO, choose
from collectives.choices_file import choices_in_use
from collectives.engine import place, staged
from collectives.ledger import Call, Label, LabelHolder
from collectives.operators import Operator, find_operator
from collectives.prepared import PreparedCollective
from collectives.promises import Collective, Sizes, all_sizes
from collectives.settling import keep_tags, take_tags
from collectives.transports.base import Transport, TransportError
from collectives.user_error import UserError
from collectives.work import CollectiveTimeoutError, Work

MAX_CHUNKS = 1024
"""Of a block, and so lanes of a call: chunks grow beyond ``chunk_bytes`` rather than use up MPI's tags."""

NOTHING: Array = np.empty(0, np.uint8)
"""The arrays of a call that has none, a barrier's."""


class Request(NamedTuple):
    """What the caller has asked for, not yet looked at."""

    collective: str
    algorithm: str | Algorithm | None
    input: Array | InPlace | None
    output: Array | None
    sizes: Any = None
    operator: str | Operator = "sum"
    root: Any = None


class Caller:
    """Makes the calls of one rank: what a Communicator does behind its face, and remembers between calls."""

    def __init__(
        self,
        transport: Transport,
        time_limit: float,
        check: bool,
        chunk_bytes: int | None,
        allocate: Callable[[int], Array] | None,
    ) -> None:
        check_settings(transport, time_limit, chunk_bytes)
        self.transport = transport
        self.rank, self.world_size = transport.rank, transport.world_size
        self.time_limit, self.check, self.chunk_bytes = time_limit, check, chunk_bytes
        self.allocate = transport.empty if allocate is None else allocate
        self.axis: str | None = None  # of a grid of ranks, along which these ranks lie
        self._label_holder = LabelHolder()
        self._path: tuple[int, ...] = ()  # the splits that led here: tells its calls from others'
        self._bindings = Bindings()
        self._describe = lru_cache(maxsize=256)(describe)
        self._num_calls = self._num_parts = 0

    @property
    def label(self) -> Label:
        """Why the next calls are made: one for this Communicator, its parts, and what it is a part of."""
        return self._label_holder.label

    @label.setter
    def label(self, label: Label) -> None:
        self._label_holder.label = label

    @property
    def message_label(self) -> Label:
        """What the messages of a call carry: the label of the rank, and the axis of this Communicator."""
        label = self._label_holder.label
        return label if label.axis == self.axis else label._replace(axis=self.axis)

    def new_path(self) -> tuple[int, ...]:
        """The way to what is made of it next. Every rank calls it, so that its calls are numbered apart."""
        self._num_parts += 1
        return (*self._path, self._num_parts)

    def _start(self, request: Request) -> Work:
        """The call, in flight. ValueError or ScheduleError if it cannot be made: the other ranks are told."""
        try:
            prepared, scratch = self._settle(request, take_tags)
        except (TransportError, UserError):
            raise  # they cannot be told; or this rank has a word to its user, which must come first
        except Exception as error:
            self._tell(request.collective, error)
            raise
        return prepared.start(memory=scratch)

    def _keep(self, request: Request) -> PreparedCollective:
        """The call, to be started many times. It keeps its tags and its scratch memory for good."""
        return self._settle(request, keep_tags)[0]

    def _settle(
        self, request: Request, get_tags: Callable[[Transport, int, float], int]
    ) -> tuple[PreparedCollective, Array]:
        """The call with all its places, and the scratch memory that it works in."""
        if request.algorithm == AUTO:
            request = request._replace(algorithm=self._choose(request))
        algorithm = find_algorithm(request.algorithm, request.collective)
        if algorithm.collective.root is not None:
            algorithm = at_root(algorithm, request.root, self.world_size)
        operator = find_operator(request.operator) if algorithm.collective.reduces else None
        check_operator(algorithm, operator)
        in_place = isinstance(request.input, InPlace)
        source, result = self._arrays(request, algorithm.collective)
        largest = max(source.size, result.size)
        sizes = find_sizes(algorithm, self.rank, self.world_size, largest, request.sizes)
        # Ranks that know different sizes can neither compare them nor cut by them.
        shared = () if algorithm.own_sizes and request.sizes is not None else sizes
        num_chunks = self._num_chunks(shared, result.itemsize)
        # In place, the blocks of an all-to-all come to lie where others have not yet left.
        stages = in_place and algorithm.collective.by_pair
        binding = self._bindings.get(
            algorithm, self.rank, sizes, result.itemsize, in_place and not stages, num_chunks
        )
        check_arrays(algorithm, binding, source, result, in_place)

        num_staged = binding.input_size if stages else 0
        scratch = self.allocate((binding.scratch_size + num_staged) * result.itemsize)
        slots = scratch.view(result.dtype)
        if stages:
            source = slots[binding.scratch_size :]
        lanes = tuple(place(rounds, slots, result, source, operator) for rounds in binding.lanes)
        if stages:
            lanes = staged(lanes, partial(np.copyto, source, result))
        record = None
        if self.check and self.world_size > 1:
            record = self._describe(algorithm, operator and operator.name, result.dtype, shared, num_chunks)
        tag = get_tags(self.transport, 1 + num_chunks, self.time_limit)  # for the check, and for each lane
        new_call = partial(self._new_call, request.collective, algorithm.name)
        prepared = PreparedCollective(
            self.transport, new_call, lambda: self.time_limit, tag, record, self._bindings, lanes
        )
        return prepared, scratch

    def _choose(self, request: Request) -> Algorithm:
        """What the table of choices says for what all ranks know of the call."""
        any_one = find_algorithm(None, request.collective)
        if any_one.collective.root is not None:
            any_one = at_root(any_one, request.root, self.world_size)
        collective = any_one.collective
        commutes = not collective.reduces or find_operator(request.operator).commutative
        num_bytes = None
        if request.sizes is None or all_see_all(collective, self.world_size):
            source, result = self._arrays(request, collective)
            largest = max(source.size, result.size)
            sizes = find_sizes(any_one, self.rank, self.world_size, largest, request.sizes)
            arrays = self.world_size if collective.by_pair else 1
            num_bytes = sum(all_sizes(sizes)) // arrays * result.itemsize
        return choose(request.collective, self.world_size, num_bytes, commutes, choices_in_use())

    def _arrays(self, request: Request, collective: Collective) -> tuple[Array, Array]:
        """Input and output, flat; in place, the output twice. What a rank has no use for is not looked at."""
        starts = collective.starts_with(self.rank, self.world_size)
        ends = collective.ends_with(self.rank, self.world_size)
        if isinstance(request.input, InPlace):
            result = flat("output", request.output)
            return result, result
        if not starts:
            result = flat("output", request.output)
            return result[:0], result
        if not ends:
            source = flat("input", request.input)
            return source, source[:0]
        result = flat("output", request.output)
        return flat("input", request.input), result

    def _num_chunks(self, sizes: Sizes, itemsize: int) -> int:
        if self.chunk_bytes is None:
            return 1
        return min(MAX_CHUNKS, max(1, -(-max(all_sizes(sizes), default=0) * itemsize // self.chunk_bytes)))

    def _new_call(self, collective: str, algorithm: str) -> Call:
        self._num_calls += 1
        return Call(self._num_calls - 1, collective, algorithm, self.message_label, self._path)

    def _tell(self, collective: str, error: Exception) -> None:
        """Take part in the call's check all the same, so that the others hear why this rank does not call."""
        if not self.check or self.world_size == 1 or self.transport.tags.closed:
            return
        refusal = PreparedCollective(
            self.transport,
            partial(self._new_call, collective, "no algorithm"),
            lambda: self.time_limit,
            take_tags(self.transport, 1, self.time_limit),
            describe_refusal(collective, error),
            self._bindings,
            lanes=(),
        )
        with suppress(CallMismatchError, CollectiveTimeoutError):  # what is wrong here is already known
            refusal.start().wait()
