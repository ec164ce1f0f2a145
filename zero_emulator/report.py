"""What a person reads after a run: pure functions of run records."""

from collections.abc import Collection, Sequence

from collectives.table import counted, format_table
from zero_emulator.chosen import no_rings
from zero_emulator.config import RunConfig
from zero_emulator.documents import Json
from zero_emulator.expected_traffic import num_rounds
from zero_emulator.meter import FROZEN, PASSING, Moment, describe_kinds
from zero_emulator.precision import find_precision
from zero_emulator.reference_report import describe_reference
from zero_emulator.spans import span
from zero_emulator.theory import CLAIMED, UPDATES, is_sharded


def describe_run(record: Json) -> str:
    """A few lines on one run: model, outcome, traffic of an iteration, what is persistent, verdict."""
    config, last = record["config"], record["iterations"][-1]
    sent = [sum(rank["sent"].values()) for rank in last["traffic"]]
    lines = [
        f"{config['strategy']}: {_setting(record)}",
        *(f"  {line}" for line in _grid(record)),
        *(f"  {line}" for line in describe_reference(record)),
        f"  loss {_number(record['iterations'][0]['loss'])} -> {_number(last['loss'])}, "
        f"test accuracy {record['test_accuracy']:.3f}",
        f"  sent an iteration   {span(sent)} bytes a rank, expected "
        f"{span([rank['expected_sent'] for rank in last['traffic']])}; {_multiple(last)} f(N)Ψ, "
        f"claim {CLAIMED[config['strategy']].claim}Ψ",
        *_along_axes(last),
        *_routed(record),
        f"  sent in all         {span([rank['training'] for rank in record['totals']])} training, "
        f"{span([rank['control'] for rank in record['totals']])} control and "
        f"{span([rank['audit'] for rank in record['totals']])} audit bytes a rank",
        f"  persistent          {_persistent_per_param(record):.4g} bytes a parameter",
        *_gradients(record),
        *_over_the_link(record),
        f"  peak                {_peak_per_param(record):.4g} bytes a parameter: {_peak(record)}",
        f"  parameters          {_identical(record)}",
        *_skipped(record),
        *(f"  {note}" for note in _claims_note(config, (config["strategy"],))),
        f"verdict {record['verdict']}",
    ]
    return "\n".join(lines + [f"  {fault}" for fault in record["faults"]])


def describe_comparison(document: Json) -> str:
    """The model, a row a strategy, who agreed with whom bit for bit, and the verdict."""
    runs = document["runs"]
    first = next(iter(runs.values()))
    asked_for = runs.keys() | document["too_large"].keys()
    faults = [fault for one in document["faults"].values() for fault in one]
    return "\n".join(
        [
            _setting(first),
            *_grid(first),
            *describe_reference(first),
            _comparison_table(document),
            *(
                f"{name} is not run: by its closed form it would hold {peak} bytes, and the device has "
                f"{first['config']['device_memory']}"
                for name, peak in document["too_large"].items()
            ),
            *_claims_note(first["config"], [name for name in CLAIMED if name in asked_for]),
            *(
                f"{' = '.join(group)}, bit for bit, after every audited iteration"
                for group in document["agreement"]
                if not faults and len(group) > 1
            ),
            *faults,
            *(f"{name}, {fault}" for name, record in runs.items() for fault in record["faults"]),
            f"verdict {document['verdict']}",
        ]
    )


def _setting(record: Json) -> str:
    config = record["config"]
    return (
        f"{counted(record['num_params'], 'parameter')} on {counted(record['world_size'], 'rank')}, "
        f"{counted(config['iterations'], 'iteration')} of {counted(config['batch_size'], 'sample')}, "
        f"{counted(config['micro_batches'], 'micro-batch', 'micro-batches')}, {config['optimizer']}, "
        f"{config['precision'] or config['dtype'] or 'float32'}"
    )


def _grid(record: Json) -> list[str]:
    """What stands on the axes of the grid, and the sharding degrees; nothing for data parallelism alone."""
    grid = record["grid"]
    everywhere = {"copies": record["world_size"], "sharding_degree": record["world_size"]}
    if grid["chunks"] == 1 and grid["parameters"] == {"dense": everywhere}:
        return []
    degrees = ", ".join(
        f"{kind} {of['sharding_degree']} of {counted(of['copies'], 'copy', 'copies')}"
        for kind, of in grid["parameters"].items()
    )
    chunks = f", {grid['chunks']} chunks a stage" if grid["chunks"] > 1 else ""
    return [
        f"grid: pipeline {grid['pipeline']} x data {grid['data']} x expert {grid['expert']}{chunks}; "
        f"sharding degree: {degrees}"
    ]


def _along_axes(iteration: Json) -> list[str]:
    """What each axis of the grid carries, where there are several."""
    traffic = iteration["traffic"]
    axes = sorted({axis for rank in traffic for axis in rank["sent_by_axis"]})
    if axes in ([], ["data"]):
        return []
    sent = (f"{span([rank['sent_by_axis'].get(axis, 0) for rank in traffic])} {axis}" for axis in axes)
    return [f"  sent by axis        {', '.join(sent)} bytes a rank"]


def _routed(record: Json) -> list[str]:
    """How evenly samples chose their experts, and what capacities dropped of it, in all iterations."""
    routers = [router for one in record["iterations"] for router in one["experts"]]
    if not routers:
        return []
    chosen = sum(sum(router["chosen"]) for router in routers)
    dropped = sum(sum(router["dropped"]) for router in routers)
    last = record["iterations"][-1]["experts"]
    return [
        f"  experts             {dropped} of {chosen} choices dropped; in the last iteration an expert was "
        f"chosen {span([count for router in last for count in router['chosen']])} times"
    ]


def _claims_note(config: Json, strategies: Collection[str]) -> list[str]:
    """Why the multiples of these strategies are not those of the claims, where they are not."""
    many = config["micro_batches"]
    notes = []
    if others := no_rings(config["algorithm"]):
        notes.append(f"the claims are of rings, the exact bytes of the proof of --algorithm {others}")
    passes = {name: _passes(name, _rounds(name, config)) for name in strategies}
    more = [f"{name} sends {times}Ψ" for name, times in passes.items() if times != CLAIMED[name].claim]
    if more:
        notes.append(f"the claims are for one micro-batch: with {many} {', '.join(more)}")
    sharers = ", ".join(name for name in strategies if is_sharded(name, "moment"))
    if UPDATES[config["optimizer"]].whole_matrices and config["cut"] == "even" and sharers:
        notes.append(f"{config['optimizer']}: {sharers} gather the updates of matrices that ranks share, too")
    gatherers = ", ".join(name for name in strategies if is_sharded(name, "weight"))
    if config["keep_views"] != "none" and gatherers:
        notes.append(f"views that stay from forward to backward: fewer gathers than claimed in {gatherers}")
    return notes


def _rounds(strategy: str, config: Json) -> int:
    """The micro-batches of the strategy's closed form, or runs of them."""
    shape = {name: config[name] for name in ("micro_batches", "schedule", "pipeline", "chunks")}
    return num_rounds(RunConfig(strategy=strategy, **shape))


def _passes(strategy: str, rounds: int) -> int:
    """How often Ψ passes through a ring in an iteration with no view kept: the claim, for one micro-batch.

    >>> [_passes(strategy, 4) for strategy in CLAIMED]
    [2, 2, 5, 12, 5]
    """
    one_dtype = find_precision("fp32")
    return sum(use.passes for use in CLAIMED[strategy].uses(rounds, "none", one_dtype))


def _comparison_table(document: Json) -> str:
    head = [
        "strategy", "persistent B/param", "peak B/param", "claim", "exact bytes", "counted bytes", "x f(N)Ψ",
        "gathers/layer", "digest", "vs serial", "verdict",
    ]  # fmt: skip
    rows = []
    for name, record in document["runs"].items():
        last = record["iterations"][-1]
        traffic = last["traffic"]
        rows.append(
            [
                name,
                f"{_persistent_per_param(record):.4g}",
                f"{_peak_per_param(record):.4g}",
                f"{CLAIMED[name].claim}Ψ",
                span([rank["expected_sent"] for rank in traffic]),
                span([sum(rank["sent"].values()) for rank in traffic]),
                _multiple(last),
                f"{record['gathers_a_layer']:.3g}",
                last["digests"][0][:8],
                _number(document["differences_from_serial"][name], ".1e"),
                document["verdicts"][name],
            ]
        )
    return format_table(head, rows, right=(1, 2, 4, 5, 6, 7, 9))


def _persistent_per_param(record: Json) -> float:
    """Bytes that are kept between iterations, of a parameter of the rank's own: on the rank of most."""
    ranks = zip(record["persistent"], record["rank_params"], strict=True)
    return max(float(_on_device(kept)) / float(own) for kept, own in ranks)


def _on_device(kept: Json) -> int:
    return sum(int(num_bytes) for kind, num_bytes in kept.items() if not kind.startswith("host "))


def _gradients(record: Json) -> list[str]:
    """The most that gradients take on the device, where they add up in accumulators for a while."""
    config, ranks = record["config"], record["gradient_bytes"]
    if not (CLAIMED[config["strategy"]].reduces_runs or "gradients" in config["offload"]):
        return []
    counted_bytes, whole = span([of["counted"] for of in ranks]), span([of["whole"] for of in ranks])
    return [f"  gradients           {counted_bytes} bytes a rank at most; kept whole they would be {whole}"]


def _modelled_seconds(stalls: Sequence[Json]) -> float:
    return float(sum(stall["modelled_seconds"] for stall in stalls))


def _over_the_link(record: Json) -> list[str]:
    """What is on the host, and what goes there and back; nothing where nothing is kept there."""
    if not record["config"]["offload"]:
        return []
    kept = zip(record["persistent"], record["rank_params"], strict=True)
    on_host = max((sum(of.values()) - _on_device(of)) / own for of, own in kept)
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


def _peak_per_param(record: Json) -> float:
    """Bytes that are held at once, of a parameter of the rank's own: on the rank of most."""
    ranks = zip(record["peak"], record["rank_params"], strict=True)
    return max(float(peak["total"]) / float(own) for peak, own in ranks)


def _peak(record: Json) -> str:
    """When, and what there was beside what is persistent, on the rank that holds most."""
    peak = max(record["peak"], key=lambda peak: peak["total"])
    passing = {kind: peak["by_kind"].get(kind, 0) for kind in (*FROZEN, *PASSING)}
    return f"in {Moment(peak['iteration'], peak['phase'], peak['layer'])}, {describe_kinds(passing)} bytes"


def _skipped(record: Json) -> list[str]:
    skipped = [str(one["iteration"]) for one in record["iterations"] if one["skipped"]]
    return [f"  skipped             updates of iterations {', '.join(skipped)}"] if skipped else []


def _identical(record: Json) -> str:
    audited = [one for one in record["iterations"] if one["digests"] is not None]
    equal = sum(one["identical"] for one in audited)
    who = "all copies of a layer" if _grid(record) else "all ranks"
    return (
        f"identical on {who} after {equal} of {len(audited)} audited iterations, "
        f"last digest {audited[-1]['digests'][0]}"
    )


def _multiple(iteration: Json) -> str:
    """Bytes sent as a multiple of f(N) Ψ, least and most over the ranks; a dash on one rank."""
    if iteration["multiple"] is None:
        return "-"
    return span(iteration["multiple"], "{:.3f}".format)


def _number(value: float | None, form: str = ".4f") -> str:
    return "not finite" if value is None else f"{value:{form}}"
