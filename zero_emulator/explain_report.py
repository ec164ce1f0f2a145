"""What a person reads of an explanation: a pure function of its document."""

from collections.abc import Sequence

from collectives.table import counted, format_table
from zero_emulator.documents import Json
from zero_emulator.spans import signed, span

SHOWN = 10
"""Remainders: a fault in every iteration of a long run would fill the screen."""


def describe_explanation(document: Json) -> str:
    """A waterfall for each run, from the claim to the counted bytes, and a sentence on every step."""
    return "\n\n".join(_describe_run(run) for run in document["runs"])


def _describe_run(run: Json) -> str:
    weight_psi = run["weight_bytes"] * run["num_params"]
    # What moves nothing is left out.
    steps = [step for step in run["steps"] if any((*step["bytes"], *step["whole_run"]))]
    rows = [
        [
            step["name"],
            step["kind"],
            span(step["bytes"], signed),
            span(step["sum"]),
            span([value / weight_psi for value in step["sum"]], "{:.3f}".format),
            span(step["whole_run"], signed),
        ]
        for step in steps
    ]
    head = ["step", "kind", "bytes", "sum", "x Ψ", "whole run"]
    return "\n".join(
        [
            f"{run['strategy']}, {run['num_params']} parameters on {counted(run['world_size'], 'rank')}: "
            f"what {_who(run)} sends in iteration {run['iteration']} of {run['iterations']}, "
            f"and why not {run['claim']}",
            format_table(head, rows, right=(2, 3, 4, 5)),
            f"x Ψ: as a multiple of {run['num_params']} weights of {run['weight_bytes']} bytes",
            *(f"{step['name']}: {step['why']}" for step in steps),
            f"counted in iteration {run['iteration']}: {_kinds(run['counted'])}",
            f"counted in the whole run: {_kinds(run['totals'])}",
            *_verdict(run["remainders"]),
        ]
    )


def _who(run: Json) -> str:
    return f"rank {run['ranks'][0]}" if len(run["ranks"]) == 1 else "a rank (least..most)"


def _kinds(by_kind: dict[str, list[int]]) -> str:
    return ", ".join(f"{span(values)} {kind.replace('_', ' ')}" for kind, values in by_kind.items())


def _verdict(remainders: Sequence[Json]) -> list[str]:
    if not remainders:
        return ["the steps add up to every counted byte, on all ranks in all iterations"]
    shown = [_remainder(**one) for one in remainders[:SHOWN]]
    more = len(remainders) - len(shown)
    return [*shown, *([f"and {more} more"] if more else [])]


def _remainder(iteration: int | None, rank: int, what: str, counted: int, explained: int) -> str:
    where = "whole run" if iteration is None else f"iteration {iteration}"
    return (
        f"{where}, rank {rank}: counted {counted} bytes {what}, explained {explained}: nothing explains "
        f"{counted - explained:+}"
    )
