"""The data model of a pipeline: an order is what one stage does, one action after the other.

An order touches no array and no network, so the same one can be checked, timed, printed and run. The layers
of a model are cut into ``stages * V`` chunks, and chunk c lives on stage ``c % stages``. So a chunk is a few
layers here, and not a piece of a block as in the collectives. Its forward makes the activation that the next
chunk needs, its backward the gradient that the chunk before needs.

The rules that every interpreter keeps:

* a Send never blocks, a Receive waits for its Send;
* messages from one stage to another arrive in the order sent, activations and gradients alike;
* where a stage has both chunks (there is one stage) no message is needed: what one makes the other finds.

Two actions of the same numbers are equal, whatever they are, as named tuples are: ask for their class.
"""

from typing import Literal, NamedTuple

What = Literal["activation", "gradient"]


class Forward(NamedTuple):
    """Run a chunk of the model forward on a micro-batch."""

    chunk: int
    micro_batch: int


class Backward(NamedTuple):
    """Run a chunk of the model backward on a micro-batch."""

    chunk: int
    micro_batch: int


class Receive(NamedTuple):
    """Take from stage ``peer`` what the Forward or Backward of ``chunk`` on this stage needs."""

    what: What
    chunk: int
    micro_batch: int
    peer: int


class Send(NamedTuple):
    """Give stage ``peer`` what ``chunk`` there needs; its Receive has the same first three fields."""

    what: What
    chunk: int
    micro_batch: int
    peer: int


Compute = Forward | Backward
Message = Receive | Send
Action = Compute | Message
Order = tuple[Action, ...]


class OrderError(ValueError):
    """Orders that do not work together; the message names the stage, the chunk and the micro-batch."""


def source_of(message: Message) -> int:
    """The chunk that makes what is sent: the one before for activations, the one behind for gradients."""
    return message.chunk - 1 if message.what == "activation" else message.chunk + 1


def cell(action: Action) -> str:
    """The action in a table, numbers as chunk.micro-batch.

    >>> cell(Forward(0, 1)), cell(Send("activation", 1, 1, peer=3)), cell(Receive("gradient", 0, 1, peer=3))
    ('F0.1', 'A1.1>3', 'G0.1<3')
    """
    numbers = f"{action.chunk}.{action.micro_batch}"
    if isinstance(action, Forward):
        return f"F{numbers}"
    if isinstance(action, Backward):
        return f"B{numbers}"
    return f"{action.what[0].upper()}{numbers}{'>' if isinstance(action, Send) else '<'}{action.peer}"


def in_words(message: Message) -> str:
    """``the activation of micro-batch 0 for chunk 1``."""
    return f"the {message.what} of micro-batch {message.micro_batch} for chunk {message.chunk}"
