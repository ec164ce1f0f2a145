"""What a person reads of memory that is not there all the time: accumulators, the host, the link to it."""

from collections.abc import Sequence

from collectives.table import counted
from zero_emulator.documents import Json
from zero_emulator.spans import span
from zero_emulator.theory import CLAIMED


def describe_gradients(record: Json) -> list[str]:
    """The most that gradients take on the device, where they add up in accumulators for a while."""
    config, ranks = record["config"], record["gradient_bytes"]
    if not (CLAIMED[config["strategy"]].reduces_runs or "gradients" in config["offload"]):
        return []
    counted_bytes, whole = span([of["counted"] for of in ranks]), span([of["whole"] for of in ranks])
    return [f"  gradients           {counted_bytes} bytes a rank at most; kept whole they would be {whole}"]


def describe_host(record: Json) -> list[str]:
    """What is on the host, and what goes there and back; nothing where nothing is kept there."""
    if not record["config"]["offload"]:
        return []
    kept = zip(record["persistent"], record["rank_params"], strict=True)
    on_host = max((sum(of.values()) - on_device(of)) / own for of, own in kept)
    to_host, to_device = ([rank[way] for rank in record["link"]] for way in ("to_host", "to_device"))
    lines = [
        f"  on the host         {on_host:.4g} bytes a parameter",
        f"  over the link       {span(to_host)} bytes to the host, {span(to_device)} to the device "
        "an iteration",
    ]
    most = max((rank["stalls"] for rank in record["link"]), key=_modelled_seconds)
    if most:
        lines.append(f"  modelled stall      {_modelled_seconds(most):.3g} s on the rank that waits most:")
    for stall in most:
        times = counted(stall["times"], "copy", "copies")
        lines.append(
            f"    {stall['modelled_seconds']:.3g} s in {times} of {stall['copy']} (modelled, not measured)"
        )
    return lines


def _modelled_seconds(stalls: Sequence[Json]) -> float:
    return float(sum(stall["modelled_seconds"] for stall in stalls))


def on_device(kept: Json) -> int:
    """Bytes of what is kept, without what is on the host."""
    return sum(int(num_bytes) for kind, num_bytes in kept.items() if not kind.startswith("host "))
