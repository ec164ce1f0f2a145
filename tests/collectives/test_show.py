from collectives.algorithms import Algorithm, find_algorithm
from collectives.promises import ALL_GATHER
from collectives.schedule import Recv, Schedule, Send
from collectives.show import show


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
