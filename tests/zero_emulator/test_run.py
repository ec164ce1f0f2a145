"""A run: what all ranks must have been told alike before it starts."""

from typing import Any

import pytest

from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.run import run


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("what", [{"lr": 5.0}, {"seed": 2}])
def test_ranks_that_were_told_different_things_do_not_train(
    run_ranks: Any, toy: Dataset, settings: dict[str, Any], what: dict[str, Any]
) -> None:
    """Their gathers would make them alike, whatever each did to its own block."""

    def body(comm: Any) -> str:
        config = RunConfig(**settings | (what if comm.rank == 1 else {}))
        with pytest.raises(ValueError, match="give all the same") as raised:
            run(config, toy, comm.transport)
        return str(raised.value)

    (message,) = set(run_ranks(body))
    ((name, value),) = what.items()
    assert message.startswith(f"rank 0 has {name} ")
    assert f", rank 1 has {value}: " in message
