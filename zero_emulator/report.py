"""What a person reads after a run: pure functions of run records."""

from collectives.table import counted, format_table
from zero_emulator.claims_report import notes_on_claims
from zero_emulator.documents import Json
from zero_emulator.grid_report import describe_axes, describe_experts, describe_grid
from zero_emulator.host_report import describe_gradients, describe_host, on_device
from zero_emulator.meter import FROZEN, PASSING, Moment, describe_kinds
from zero_emulator.reference_report import describe_reference
from zero_emulator.spans import span
from zero_emulator.theory import CLAIMED


def describe_run(record: Json) -> str:
    """A few lines on one run: model, outcome, traffic of an iteration, what is persistent, verdict."""
    config, last = record["config"], record["iterations"][-1]
    sent = [sum(rank["sent"].values()) for rank in last["traffic"]]
    lines = [
        f"{config['strategy']}: {_setting(record)}",
        *(f"  {line}" for line in describe_grid(record)),
        *(f"  {line}" for line in describe_reference(record)),
        f"  loss {_number(record['iterations'][0]['loss'])} -> {_number(last['loss'])}, "
        f"test accuracy {record['test_accuracy']:.3f}",
        f"  sent an iteration   {span(sent)} bytes a rank, expected "
        f"{span([rank['expected_sent'] for rank in last['traffic']])}; {_multiple(last)} f(N)Ψ, "
        f"claim {CLAIMED[config['strategy']].claim}Ψ",
        *describe_axes(last),
        *describe_experts(record),
        f"  sent in all         {span([rank['training'] for rank in record['totals']])} training, "
        f"{span([rank['control'] for rank in record['totals']])} control and "
        f"{span([rank['audit'] for rank in record['totals']])} audit bytes a rank",
        f"  persistent          {_persistent_per_param(record):.4g} bytes a parameter",
        *describe_gradients(record),
        *describe_host(record),
        f"  peak                {_peak(record)}",
        f"  parameters          {_identical(record)}",
        *_skipped(record),
        *(f"  {note}" for note in notes_on_claims(config, (config["strategy"],))),
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
            *describe_grid(first),
            *describe_reference(first),
            _comparison_table(document),
            *(
                f"{name} is not run: by its closed form it would hold {peak} bytes, and the device has "
                f"{first['config']['device_memory']}"
                for name, peak in document["too_large"].items()
            ),
            *notes_on_claims(first["config"], [name for name in CLAIMED if name in asked_for]),
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
                f"{_highest_peak(record)[0]:.4g}",
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
    return max(float(on_device(kept)) / float(own) for kept, own in ranks)


def _peak(record: Json) -> str:
    """The most held at once, when, and what there was beside what is persistent: all of one rank."""
    per_param, peak = _highest_peak(record)
    passing = {kind: peak["by_kind"].get(kind, 0) for kind in (*FROZEN, *PASSING)}
    return (
        f"{per_param:.4g} bytes a parameter: in {Moment(peak['iteration'], peak['phase'], peak['layer'])}, "
        f"{describe_kinds(passing)} bytes"
    )


def _highest_peak(record: Json) -> tuple[float, Json]:
    """Bytes that are held at once, of a parameter of the rank's own, on the rank of most; and its peak."""
    ranks = zip(record["peak"], record["rank_params"], strict=True)
    return max(((peak["total"] / own, peak) for peak, own in ranks), key=lambda rank: rank[0])


def _skipped(record: Json) -> list[str]:
    skipped = [str(one["iteration"]) for one in record["iterations"] if one["skipped"]]
    return [f"  skipped             updates of iterations {', '.join(skipped)}"] if skipped else []


def _identical(record: Json) -> str:
    audited = [one for one in record["iterations"] if one["digests"] is not None]
    equal = sum(one["identical"] for one in audited)
    who = "all copies of a layer" if describe_grid(record) else "all ranks"
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
