"""What the stages of a pipeline must send each other: activations, the gradients by them, and headers."""

from collectives.ledger import Kind
from zero_emulator.batches import rank_rows
from zero_emulator.config import RunConfig
from zero_emulator.partition import Partition
from zero_emulator.pipeline import Receive, Send
from zero_emulator.precision import ITEMSIZE
from zero_emulator.theory import HEADER_BYTES, Flow


def expected_messages(config: RunConfig, partition: Partition, rank: int) -> dict[tuple[str, str], Flow]:
    """Bytes that a rank sends and receives in an iteration: numbers for every row of a micro-batch."""
    share = partition.share(rank)
    rows = [*rank_rows(config.batch_size, config.micro_batches, share.stage_size, share.stage_position)]
    flows: dict[tuple[str, str], Flow] = {}
    for message in messages_of(partition, rank):
        here = rows[message.micro_batch]
        num_bytes = (here.stop - here.start) * _width(partition, message) * ITEMSIZE[config.policy.compute]
        key = "forward" if message.what == "activation" else "backward", "send"
        flows[key] = flows.get(key, Flow(0, 0)) + _flow(message, num_bytes)
    return flows


def expected_headers(partition: Partition, rank: int) -> dict[tuple[Kind, str], Flow]:
    """Bytes of what tells for which chunk and micro-batch each message is."""
    flow = Flow(0, 0)
    for message in messages_of(partition, rank):
        flow += _flow(message, HEADER_BYTES)
    return {("control", "headers"): flow}


def messages_of(partition: Partition, rank: int) -> list[Receive | Send]:
    """What a rank sends and receives in an iteration, in its order."""
    return [action for action in partition.share(rank).order if isinstance(action, Receive | Send)]


def _width(partition: Partition, message: Receive | Send) -> int:
    """Numbers of a row: as the chunk that it is for takes them in, or puts them out."""
    layers = partition.chunk_layers(message.chunk)
    if message.what == "activation":
        return partition.layers[layers[0]].inputs
    return partition.layers[layers[-1]].outputs


def _flow(message: Receive | Send, num_bytes: int) -> Flow:
    return Flow(num_bytes, 0) if isinstance(message, Send) else Flow(0, num_bytes)
