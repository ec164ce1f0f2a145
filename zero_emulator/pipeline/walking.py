"""All stages at once, message by message: the one place that knows how orders meet."""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

from zero_emulator.pipeline.actions import Order, OrderError, Receive, Send, in_words

UnderWay = dict[tuple[int, int], deque[Send]]
"""Messages sent and not yet received, by sending and receiving stage."""


def walk(orders: Sequence[Order]) -> Iterator[tuple[int, int]]:
    """The stage and the place in its order of every action, in a sequence that all stages can keep.

    A Send never blocks and a Receive names its peer, so which stage goes first changes nothing: if this walk
    gets to the end, every run does. OrderError where stages wait in vain, take a message that is not the
    next of its pair, or leave one.
    """
    places = [0] * len(orders)
    under_way: UnderWay = defaultdict(deque)
    went_on = True
    while went_on:
        went_on = False
        for stage, order in enumerate(orders):
            while places[stage] < len(order) and _can_do(orders, places, stage, under_way):
                yield stage, places[stage]
                places[stage] += 1
                went_on = True
    for stage, order in enumerate(orders):
        if places[stage] < len(order):
            raise OrderError(_waiting(orders, places, stage))
    for (stage, peer), messages in under_way.items():
        if messages:
            raise OrderError(
                f"stage {stage} sends {in_words(messages[0])} to stage {peer}, which never receives it"
            )


def _can_do(orders: Sequence[Order], places: Sequence[int], stage: int, under_way: UnderWay) -> bool:
    """Whether the stage's action can be done now; its message is then under way, or taken."""
    action = orders[stage][places[stage]]
    if isinstance(action, Send):
        under_way[stage, action.peer].append(action)
    elif isinstance(action, Receive):
        messages = under_way[action.peer, stage]
        if not messages:
            return False
        if messages[0][:3] != action[:3]:
            raise OrderError(
                f"stage {stage} receives {in_words(action)} from stage {action.peer}, whose next message is "
                f"{in_words(messages[0])}: receive in the order sent"
            )
        messages.popleft()
    return True


def _waiting(orders: Sequence[Order], places: Sequence[int], stage: int) -> str:
    """Who waits for whom, from this stage on, until one comes again or has ended."""
    line, seen = f"stage {stage}", set[int]()
    while stage not in seen and places[stage] < len(orders[stage]):
        seen.add(stage)
        action = orders[stage][places[stage]]
        assert isinstance(action, Receive), "nothing else waits"
        line += f" waits for {in_words(action)} from stage {action.peer}, which"
        stage = action.peer
    if stage in seen:
        return f"{line.removesuffix(', which')}: they wait in a ring, so one must send first"
    return f"{line} has ended without sending it"
