import json

import pytest
from click.testing import CliRunner

from zero_emulator.rounding import rounding_errors
from zero_emulator.rounding_cli import rounding


def test_rounding_every_hop_costs_the_root_of_the_number_of_ranks_and_rounding_once_nothing_more() -> None:
    two, eight, many = rounding_errors([2, 8, 32])
    assert two.every_hop == two.once
    assert eight.every_hop == pytest.approx(two.every_hop * 2, rel=0.1)
    assert many.every_hop == pytest.approx(two.every_hop * 4, rel=0.1)
    assert many.once == pytest.approx(two.once, rel=0.1)


def test_one_rank_rounds_nothing() -> None:
    ((_, every_hop, once),) = rounding_errors([1])
    assert every_hop == once == 0


def test_json_is_one_document() -> None:
    document = json.loads(CliRunner().invoke(rounding, ["--ranks", "2", "--json"]).output)
    assert [error["num_ranks"] for error in document["errors"]] == [2]


@pytest.mark.parametrize("ranks", ["", "a", "0", "-1", "2,,3", "100000"])
def test_what_is_no_list_of_world_sizes_is_refused(ranks: str) -> None:
    assert CliRunner().invoke(rounding, ["--ranks", ranks]).exit_code == 2
