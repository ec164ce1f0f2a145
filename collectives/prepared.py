"""A collective call whose arrays, places and tags are settled: what is left is to move the bytes."""

from collections.abc import Callable, Iterator

from collectives.call_check import check_calls
from collectives.engine import PlacedRound, walk
from collectives.ledger import Call
from collectives.transports.base import Transport
from collectives.work import InFlight, Lane, Work


class PreparedCollective:
    """A collective to be started as often as one likes, on the same arrays: MPI calls it persistent.

    Every rank starts it in the same order among its calls. One start must be done before the next.
    """

    def __init__(
        self,
        in_flight: InFlight,
        transport: Transport,
        new_call: Callable[[], Call],
        tag: int,
        record: bytes | None,
        lanes: tuple[tuple[PlacedRound, ...], ...],
    ) -> None:
        self._in_flight, self._transport, self._new_call = in_flight, transport, new_call
        self._tag, self._record, self._lanes = tag, record, lanes

    def start(self, when_done: Callable[[], object] = lambda: None) -> Work:
        """Its Work, in flight."""
        call = self._new_call()
        return self._in_flight.start(call, self._transport, self._stages(call, when_done))

    def run(self) -> None:
        """Start it and wait, with little ado where nothing else is in flight."""
        if self._record is not None or self._in_flight.works or len(self._lanes) > 1:
            self.start().wait()
        else:
            self._in_flight.walk_through(self._transport, self._walk(self._new_call(), 0))

    def _stages(self, call: Call, when_done: Callable[[], object]) -> Iterator[list[Lane]]:
        """What a call does, stage by stage; the lanes of a stage are walked side by side."""
        if self._record is not None:
            yield [check_calls(self._transport, self._tag, call, self._record)]
        yield [self._walk(call, chunk) for chunk in range(len(self._lanes))]
        when_done()

    def _walk(self, call: Call, chunk: int) -> Lane:
        return walk(self._lanes[chunk], self._transport, self._tag + 1 + chunk, call, chunk)
