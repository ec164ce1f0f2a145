"""What a person reads of the grid in a run's record: who is where, and what goes along each axis."""

from collectives.table import counted
from zero_emulator.documents import Json
from zero_emulator.spans import span


def describe_grid(record: Json) -> list[str]:
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


def describe_axes(iteration: Json) -> list[str]:
    """What each axis of the grid carries, where there are several."""
    traffic = iteration["traffic"]
    axes = sorted({axis for rank in traffic for axis in rank["sent_by_axis"]})
    if axes in ([], ["data"]):
        return []
    sent = (f"{span([rank['sent_by_axis'].get(axis, 0) for rank in traffic])} {axis}" for axis in axes)
    return [f"  sent by axis        {', '.join(sent)} bytes a rank"]


def describe_experts(record: Json) -> list[str]:
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
