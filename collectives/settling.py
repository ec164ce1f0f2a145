"""Tags for a call: where they must be used again, whatever is in flight with them is ended first."""

from functools import partial

from collectives.transports.base import Transport, TransportError
from collectives.transports.in_flight import Flight


def take_tags(transport: Transport, number: int, limit: float) -> int:
    """The first of ``number`` tags that nothing in flight uses."""
    return transport.tags.take(number, partial(_settle, transport, limit))


def keep_tags(transport: Transport, number: int, limit: float) -> int:
    """The first of ``number`` tags for good."""
    return transport.tags.keep(number, partial(_settle, transport, limit))


def own_flights(transport: Transport, works: list[Flight]) -> list[Flight]:
    """Those of a rank's Works that use this transport's tags: not those of its splits, or of its whole."""
    return [work for work in works if work.tags is transport.tags]


def _settle(transport: Transport, limit: float) -> None:
    who, in_flight = transport.tell(transport.rank), transport.in_flight

    def to_settle(works: list[Flight]) -> list[Flight]:
        # A message between two ranks keeps its tags: it may be answered only after this.
        return [work for work in own_flights(transport, works) if not work.tags_are_kept]

    if not transport.wait_until(lambda: not to_settle(in_flight.works), limit):
        left = len(to_settle(in_flight.works))
        raise TransportError(
            f"{who} waited {limit:g} s for {left} collectives in flight, to use their tags again"
        )
    if failed := to_settle(in_flight.failed):
        raise TransportError(
            f"{who} cannot use its tags again: {len(failed)} collectives have failed with messages under way"
        )
