"""What a person reads of a ledger document: a pure function of it."""

from collections.abc import Callable

from collectives.table import counted, format_table
from zero_emulator.documents import Json
from zero_emulator.theory import UPDATES
from zero_emulator.units import format_gb, format_gib

Column = tuple[str, Callable[[Json], str]]

RIGHT = {
    "persistent GB",
    "GiB",
    "B/param",
    "sent bytes",
    "with a layer GB",
    "fewest ranks",
    "ranks with a layer",
}
"""Numbers stand flush right."""


def describe_ledger(document: Json) -> str:
    """The table of a ledger, a row a strategy, under what was asked, and over what its words mean."""
    columns: list[Column] = [
        ("strategy", lambda row: str(row["strategy"])),
        ("persistent GB", lambda row: format_gb(row["persistent"]["total"])),
        ("GiB", lambda row: format_gib(row["persistent"]["total"])),
        ("B/param", lambda row: f"{row['bytes_a_parameter']['value']:.4g}"),
        ("formula", lambda row: ", rest ".join(row["bytes_a_parameter"]["formulas"])),
        ("claim", lambda row: str(row["claim"])),
        ("exactly", lambda row: str(row["sent"]["formula"])),
        ("sent bytes", lambda row: str(row["sent"]["bytes"])),
        *_layer_columns(document),
        *_memory_columns(document),
    ]
    head = [name for name, _ in columns]
    rows = [[cell(row) for _, cell in columns] for row in document["rows"]]
    table = format_table(head, rows, right=[at for at, name in enumerate(head) if name in RIGHT])
    return "\n".join([*_asked(document), table, *_notes(document)])


def _has_shapes(document: Json) -> bool:
    return document["rows"][0]["with_a_layer"] is not None


def _layer_columns(document: Json) -> list[Column]:
    return (
        [("with a layer GB", lambda row: format_gb(row["with_a_layer"]["total"]))]
        if _has_shapes(document)
        else []
    )


def _memory_columns(document: Json) -> list[Column]:
    if document["device_memory"] is None:
        return []
    persistent: list[Column] = [
        ("fits", lambda row: "yes" if row["fits"]["persistent"] else "no"),
        ("fewest ranks", lambda row: _ranks(row["fits"]["fewest_ranks"])),
    ]
    if not _has_shapes(document):
        return persistent
    return [
        *persistent,
        ("fits with a layer", lambda row: "yes" if row["fits"]["with_a_layer"] else "no"),
        ("ranks with a layer", lambda row: _ranks(row["fits"]["fewest_ranks_with_a_layer"])),
    ]


def _ranks(number: int | None) -> str:
    return "never" if number is None else str(number)


def _asked(document: Json) -> list[str]:
    model = document["model"]
    source = f"{model['source']}: " if model["source"] else ""
    experts = f" ({model['num_expert_params']} of experts)" if model["num_expert_params"] else ""
    batches = counted(document["micro_batches"], "micro-batch", "micro-batches")
    lines = [
        f"{source}{model['num_params']} parameters{experts} on {counted(document['ranks'], 'rank')}, "
        f"{document['precision']}, {document['optimizer']}, {batches} an iteration"
    ]
    degrees = {name: document[name] for name in ("tensor_parallel", "pipeline", "expert")}
    if set(degrees.values()) != {1}:
        most = max(row["rank_params"] for row in document["rows"])
        split = ", ".join(f"{name.replace('_', ' ')} {degree}" for name, degree in degrees.items())
        lines.append(f"{split}: {most} parameters on the fullest rank, before sharding")
    if _has_shapes(document):
        lines.append(
            f"with a layer: the largest in its backward pass, {document['prefetch']} prefetched, computed in "
            f"{document['compute']}; without activations, so a run's peak is higher"
        )
    return lines


def _notes(document: Json) -> list[str]:
    degree = document["sharding_degree"]
    expert = f", of an expert's {degree['expert']}" if document["model"]["num_expert_params"] else ""
    notes = [
        "persistent between iterations, sent in one, by the fullest rank; GB is 10^9 bytes, GiB is 2^30",
        f"N is the number of copies of a weight, {degree['dense']}{expert}; f = (N - 1)/N",
    ]
    if document["device_memory"] is not None:
        notes.append(f"fits: into {format_gb(document['device_memory'])} GB; activations need room, too")
    if not _has_shapes(document):
        notes.append("what a layer in use adds needs the layers' shapes: give --config or --safetensors")
    optimizer = document["optimizer"]
    if document["keep_views"] == "last":
        notes.append("last: the parameters of a stage's last layer, whose view stays; (Ψ - last) is the rest")
    if UPDATES[optimizer].whole_matrices:
        which = (
            "matrices of the blocks"
            if _has_shapes(document)
            else "all parameters are taken for matrices: they"
        )
        notes.append(f"{optimizer}: {which} have one moment; what gathering them sends is not included")
    return notes
