"""Messages between two ranks, counted like all others, under names that both ends must agree on."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np

from collectives.arguments import Array, flat
from collectives.call_check import dtype_name
from collectives.communicator import Communicator
from collectives.ledger import SEND, Call, Origin
from collectives.messages import Message, Reception
from collectives.settling import keep_tags
from collectives.transports.base import Messages
from collectives.work import Lane, Work

HEADER_BYTES = 128
"""Of the text that goes before a message, and says what it is."""


class MessageMismatchError(ValueError):
    """A rank receives another message than was sent to it; the text names both."""


class PointToPoint:
    """Messages between two ranks of a communicator, each under a name that both ends must agree on.

    >>> from collectives.transports.threads import run_threads
    >>> def pass_on(transport) -> list[float]:
    ...     comm, numbers = Communicator(transport), np.full(2, 10.0 * transport.rank)
    ...     messages = PointToPoint(comm)
    ...     if comm.rank == 1:
    ...         messages.send(numbers, 0, "gradient of layer 3").wait()
    ...     else:
    ...         messages.receive(numbers, 1, "gradient of layer 3").wait()
    ...     return numbers.tolist()
    >>> run_threads(2, pass_on)
    [[10.0, 10.0], [10.0, 10.0]]

    Every rank of ``comm`` makes it, at the same place among its calls and with as many ``lanes``. After that
    only the two ranks of a message take part in it, and those from one rank to the other in one lane are
    matched in the order of the calls. Each lane keeps a tag for good.

    *Arrays* are seen flat, as those of collectives. Until its Work is done, what is sent must not be changed,
    nor what is received be read.

    *Headers.* 128 control bytes go before each message: its name, dtype and number of bytes. The receiver
    compares them before it looks for the message itself, and raises MessageMismatchError if they are not what
    it expects. It is then out of step with the sender for good: every later receive from it in the lane fails
    alike, and the `PointToPoint` is of no more use.

    *Cost.* The message and its header, in one step each; an empty message is its header alone.
    """

    def __init__(self, comm: Communicator, lanes: int = 1) -> None:
        if not _is_whole(lanes) or lanes < 1:
            raise ValueError(f"{lanes!r} lanes: give 1 or more")
        self.comm, self.lanes = comm, int(lanes)
        self._tag = keep_tags(comm.transport, self.lanes, comm.time_limit)
        self._path = comm.new_path()
        self._num_messages: Counter[tuple[int, int, int]] = Counter()  # by sender, receiver and lane
        self._queues: defaultdict[tuple[int, int], deque[Reception]] = defaultdict(deque)  # by sender, lane

    def send(self, array: Array, peer: int, name: str, lane: int = 0) -> Work:
        """The array, on its way to the peer."""
        self._check(peer, lane)
        data = flat(f'message "{name}"', array)
        header, call = _header(name, data), self._new_call(self.comm.rank, peer, lane)
        work = Message(call, self.comm, self._send_stages(header, data, peer, lane, call), name)
        work.start()
        return work

    def receive(self, array: Array, peer: int, name: str, lane: int = 0) -> Work:
        """What the peer sends, on its way into the array, which has its dtype and its number of bytes."""
        self._check(peer, lane)
        data = flat(f'message "{name}"', array)
        if not data.flags.writeable:
            raise ValueError(f'the message "{name}" is read-only: pass an array that may be written')
        header, call = _header(name, data), self._new_call(peer, self.comm.rank, lane)
        stages = self._receive_stages(header, data, peer, lane, call)
        work = Reception(call, self.comm, stages, name, self._queues[peer, lane])
        work.start()
        return work

    def _check(self, peer: int, lane: int) -> None:
        comm = self.comm
        comm.transport.tags.check_open()
        if not _is_whole(peer) or peer == comm.rank or not 0 <= peer < comm.world_size:
            raise ValueError(f"rank {comm.rank} of {comm.world_size} has no peer {peer!r}: give another rank")
        if not _is_whole(lane) or not 0 <= lane < self.lanes:
            raise ValueError(f"there is no lane {lane!r} among {self.lanes}: they are counted from 0")

    def _new_call(self, sender: int, receiver: int, lane: int) -> Call:
        """The same one at both ends, but for the label."""
        number = self._num_messages[sender, receiver, lane]
        self._num_messages[sender, receiver, lane] += 1
        return Call(number, SEND, "direct", self.comm.message_label, (*self._path, int(lane)))

    def _send_stages(
        self, header: Array, data: Array, peer: int, lane: int, call: Call
    ) -> Iterator[list[Lane]]:
        lanes = [self._post([(peer, header)], [], lane, _of_header(call))]
        if data.size:
            lanes.append(self._post([(peer, data.view(np.uint8))], [], lane, Origin(call, 1, 0)))
        yield lanes  # posted in this order, and at once

    def _receive_stages(
        self, header: Array, data: Array, peer: int, lane: int, call: Call
    ) -> Iterator[list[Lane]]:
        found = np.empty(HEADER_BYTES, np.uint8)
        yield [self._post([], [(peer, found)], lane, _of_header(call))]
        if (found != header).any():  # and so the message itself is not looked for
            own, other = map(self.comm.transport.tell, (self.comm.rank, peer))
            raise MessageMismatchError(
                f"{own} receives {_text(header)} from {other}, which sent {_text(found)}"
            )
        if data.size:
            yield [self._post([], [(peer, data.view(np.uint8))], lane, Origin(call, 1, 0))]

    def _post(self, sends: Messages, recvs: Messages, lane: int, origin: Origin) -> Lane:
        yield self.comm.transport.post(sends, recvs, self._tag + lane, origin), origin


def _is_whole(number: Any) -> bool:
    return isinstance(number, Integral)


def _of_header(call: Call) -> Origin:
    return Origin(call._replace(label=call.label._replace(kind="control")), 0, 0)


def _header(name: str, data: Array) -> Array:
    """What the message is: the text of an error, so that no two messages that differ have the same."""
    text = f'"{name}" ({data.nbytes} bytes of {dtype_name(data.dtype)})'.encode()
    if len(text) > HEADER_BYTES:
        raise ValueError(
            f"{text.decode()} is a header of {len(text)} bytes, and there is room for {HEADER_BYTES}: "
            f"give the message a name that is shorter by {len(text) - HEADER_BYTES}"
        )
    return np.frombuffer(text.ljust(HEADER_BYTES, b"\0"), np.uint8)


def _text(header: Array) -> str:
    return header.tobytes().rstrip(b"\0").decode(errors="replace")
