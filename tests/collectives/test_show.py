from collectives.algorithms import Algorithm, find_algorithm
from collectives.promises import ALL_GATHER
from collectives.schedule import Recv, Schedule, Send
from collectives.show import show, show_fault


def test_a_schedule_is_shown_a_row_a_step_and_a_column_a_rank() -> None:
    assert show(find_algorithm("ring", "reduce_scatter"), 3).splitlines() == [
        "ring reduce_scatter on 3 ranks, 2 steps",
        "step  rank 0    rank 1    rank 2",
        "0     2>1 1<2+  0>2 2<0+  1>0 0<1+",
        "1     1>1 0<2+  2>2 1<0+  0>0 2<1+",
    ]


def test_an_all_gather_shows_no_combining() -> None:
    table = show(find_algorithm("ring", "all_gather"), 4)
    assert "+" not in table
    assert len(table.splitlines()) == 2 + 3


def test_one_rank_has_an_empty_table() -> None:
    assert show(find_algorithm("ring", "all_reduce"), 1).splitlines()[1:] == ["step  rank 0"]


def test_three_or_more_blocks_in_a_row_are_shown_by_the_first_and_the_last() -> None:
    def blocks(rank: int, world_size: int) -> Schedule:
        yield tuple(Send(1 - rank, names) for names in ((0, 1, 2), (0, 1), (2, 3, 0), (1, 1, 1), ()))

    cells = show(Algorithm("some", ALL_GATHER, blocks), 2).splitlines()[2].split()
    assert cells[1:6] == ["0-2>1", "0,1>1", "2,3,0>1", "1,1,1>1", ">1"]


def test_a_fault_among_many_ranks_is_shown_with_those_that_it_is_about_and_what_led_there() -> None:
    ring = find_algorithm("ring", "all_gather")
    head, *rows = show_fault(ring, 40, ((30, 20),)).splitlines()
    assert head.split() == ["step", "rank", "29", "rank", "30", "rank", "31"]
    assert [int(row.split()[0]) for row in rows] == list(range(9, 21))
    assert "[10>31 9<29]" in rows[-1]
    assert "[" not in "".join(rows[:-1])


def test_a_fault_of_all_ranks_is_shown_for_some_of_them() -> None:
    ring = find_algorithm("ring", "all_gather")
    head = show_fault(ring, 64, [(rank, 0) for rank in range(64)]).splitlines()[0]
    assert head.count("rank") == 8


def test_what_is_no_step_has_its_place_in_the_table() -> None:
    def odd(rank: int, world_size: int) -> Schedule:
        yield ()
        if rank == 1:
            yield Send(0, (1,))  # type: ignore[misc]

    rows = show_fault(Algorithm("odd", ALL_GATHER, odd), 2, ((1, 1),)).splitlines()[1:]
    assert [row.split() for row in rows] == [["0"], ["1", "end", "[?]"]]


def test_ranks_with_fewer_steps_sides_and_tuple_names_have_their_cells() -> None:
    def odd(rank: int, world_size: int) -> Schedule:
        if rank == 0:
            yield Send(1, ((0, 1), (1, 1))), Recv(1, (2, 3), "after")
            yield ()
        else:
            yield Recv(0, ((0, 1), (1, 1))), Send(0, (2, 3))

    assert show(Algorithm("odd", ALL_GATHER, odd), 2).splitlines() == [
        "odd all_gather on 2 ranks, 2 steps",
        "step  rank 0                 rank 1",
        "0     (0,1),(1,1)>1 2,3<1+'  (0,1),(1,1)<0 2,3>0",
        "1",
    ]
