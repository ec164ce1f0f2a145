"""A collective call whose arrays, places and tags are settled: what is left is to move the bytes."""

from collections.abc import Callable, Iterator

from collectives.bindings import Bindings
from collectives.call_check import check_calls
from collectives.engine import PlacedRound, walk
from collectives.ledger import Call
from collectives.transports.base import Transport
from collectives.work import Lane, Work


class PreparedCollective:
    """A collective to be started as often as one likes, on the same arrays: MPI calls it persistent.

    Every rank starts it in the same order among its calls. One start must be done before the next. If it runs
    into its time limit it stays in flight, and other waits finish it; a failed one is of no more use.
    """

    def __init__(
        self,
        transport: Transport,
        new_call: Callable[[], Call],
        time_limit: Callable[[], float],
        tag: int,
        record: bytes | None,
        bindings: Bindings,
        lanes: tuple[tuple[PlacedRound, ...], ...],
    ) -> None:
        self._transport, self._new_call, self._time_limit = transport, new_call, time_limit
        self._tag, self._record, self._bindings, self._lanes = tag, record, bindings, lanes
        self._last: Work | None = None

    def start(self, memory: object = None) -> Work:
        """Its Work, in flight; it holds ``memory`` until its owner has seen it done."""
        work = self._new_work()
        work.memory = memory
        work.start()
        return work

    def run(self) -> None:
        """Start it and wait, with little ado where nothing else is in flight."""
        transport = self._transport
        if self._record is not None or transport.in_flight.works or len(self._lanes) > 1:
            self.start().wait()
            return
        self._check_last()
        call, landed = self._new_call(), transport.landed
        lane = self._walk(call, 0)
        for pending, origin in lane:
            # A peer on a core of its own answers within a few questions; else this becomes a Work that waits.
            if not (landed(pending) or landed(pending) or landed(pending) or landed(pending)):
                if self._last is None or self._last.call is not call:
                    self._last = Work(call, transport, iter(()), self._time_limit())
                self._last.await_step(lane, pending, origin)
        if self._last is not None:
            self._last.done = True

    def _new_work(self) -> Work:
        self._check_last()
        call = self._new_call()
        self._last = Work(call, self._transport, self._stages(call), self._time_limit())
        return self._last

    def _check_last(self) -> None:
        self._transport.tags.check_open()
        if self._last is not None and not self._last.done:
            state = "has failed: prepare it anew" if self._last.failure else "is still in flight: wait for it"
            raise ValueError(f"{self._last.call} was started before, and {state} before starting it again")

    def _stages(self, call: Call) -> Iterator[list[Lane]]:
        """What a call does, stage by stage; the lanes of a stage are walked side by side."""
        if self._record is not None:
            yield [check_calls(self._transport, self._tag, call, self._record, self._bindings)]
        yield [self._walk(call, chunk) for chunk in range(len(self._lanes))]

    def _walk(self, call: Call, chunk: int) -> Lane:
        return walk(self._lanes[chunk], self._transport, self._tag + 1 + chunk, call, chunk)
