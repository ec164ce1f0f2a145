"""What a person reads of the frozen model in a run's record."""

from zero_emulator.documents import Json
from zero_emulator.spans import span


def describe_reference(record: Json) -> list[str]:
    """One line on what of it was on the device and what came over the link; nothing if there is none."""
    told, ranks = record["config"]["reference"], record["reference"]
    if told is None:
        return []
    iterations = record["config"]["iterations"]
    stalls = [rank["modelled_stall"] / iterations for rank in ranks if rank["modelled_stall"] is not None]
    waits = f", {span(stalls, _milliseconds)} ms of waiting for it (modelled)" if stalls else ""
    crossed = [rank["to_device"] // iterations for rank in ranks]
    return [
        f"reference {told['file']}, KL x {told['kl']:g}: "
        f"{span([rank['on_device'] for rank in ranks])} bytes on the device at most, "
        f"{span(crossed)} bytes over the link an iteration{waits}"
    ]


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}"
