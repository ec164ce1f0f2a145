"""The orders of pipeline stages, for all small pipelines; and the faults that the check of orders catches."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from zero_emulator.pipeline import (
    SCHEDULES,
    Action,
    Backward,
    Forward,
    Order,
    OrderError,
    Receive,
    Send,
    check_orders,
    most_held,
    orders,
    runs,
    timetable,
)
from zero_emulator.pipeline.actions import cell

Pipeline = tuple[str, int, int, int]


def _is_possible(pipeline: Pipeline) -> bool:
    schedule, stages, chunks, micro_batches = pipeline
    return schedule == "gpipe" or chunks == 1 or micro_batches % stages == 0


SMALL = [*filter(_is_possible, product(SCHEDULES, range(1, 5), range(1, 4), range(1, 9)))]
LARGE = [
    ("1f1b", stages, chunks, micro_batches)
    for stages, chunks in product(range(1, 9), range(1, 7))
    for micro_batches in {stages, stages * (16 // stages)}
]


def cells(order: Order, kinds: tuple[type, ...] = (Forward, Backward)) -> str:
    return " ".join(cell(action) for action in order if isinstance(action, kinds))


def mutant(made: Sequence[Order], stage: int, old: Action, *new: Action) -> list[Order]:
    """The orders with an action of one stage replaced."""
    place = [cell(action) for action in made[stage]].index(cell(old))
    order = made[stage][:place] + new + made[stage][place + 1 :]
    return [*made[:stage], order, *made[stage + 1 :]]


def test_every_pipeline_has_orders_that_cannot_wait_in_vain_and_match_their_messages_in_the_order_sent() -> (
    None
):
    for pipeline in SMALL + LARGE:
        check_orders(orders(*pipeline))


def test_every_chunk_runs_once_each_way_on_every_micro_batch_on_its_stage() -> None:
    for schedule, stages, chunks, micro_batches in SMALL:
        for stage, order in enumerate(orders(schedule, stages, chunks, micro_batches)):
            own = sorted(product(range(stage, stages * chunks, stages), range(micro_batches)))
            for kind in (Forward, Backward):
                assert sorted(action for action in order if isinstance(action, kind)) == own


def test_a_receive_stands_right_before_what_needs_it_and_a_send_right_after_what_made_it() -> None:
    kinds = {"activation": Forward, "gradient": Backward}
    for pipeline in SMALL:
        for order in orders(*pipeline):
            for place, action in enumerate(order):
                if isinstance(action, Receive):
                    needs = order[place + 1]
                    assert isinstance(needs, kinds[action.what])
                    assert needs[:2] == (action.chunk, action.micro_batch)
                elif isinstance(action, Send):
                    made = order[place - 1]
                    assert isinstance(made, kinds[action.what])
                    step = 1 if action.what == "activation" else -1
                    assert made[:2] == (action.chunk - step, action.micro_batch)


def test_one_stage_has_no_messages() -> None:
    for schedule, chunks in product(SCHEDULES, (1, 3)):
        (order,) = orders(schedule, 1, chunks, 4)
        assert cells(order, (Send, Receive)) == ""


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        (("gpipe", 1, 1, 2), ["F0.0 F0.1 B0.0 B0.1"]),
        (("gpipe", 1, 2, 2), ["F0.0 F0.1 F1.0 F1.1 B1.0 B1.1 B0.0 B0.1"]),
        (("1f1b", 1, 1, 2), ["F0.0 B0.0 F0.1 B0.1"]),
        (("1f1b", 1, 2, 2), ["F0.0 F1.0 B1.0 B0.0 F0.1 F1.1 B1.1 B0.1"]),
        (("1f1b", 2, 1, 3), ["F0.0 F0.1 B0.0 F0.2 B0.1 B0.2", "F1.0 B1.0 F1.1 B1.1 F1.2 B1.2"]),
        (("1f1b", 3, 1, 1), ["F0.0 B0.0", "F1.0 B1.0", "F2.0 B2.0"]),
        (
            ("1f1b", 2, 2, 4),
            [
                "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3",
                "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3",
            ],
        ),
    ],
)
def test_the_orders_are_those_of_the_papers(pipeline: Pipeline, expected: list[str]) -> None:
    assert [cells(order) for order in orders(*pipeline)] == expected


def test_messages_carry_the_numbers_of_the_chunk_that_needs_them() -> None:
    assert [cells(order, (Forward, Backward, Send, Receive)) for order in orders("1f1b", 2, 1, 1)] == [
        "F0.0 A1.0>1 G0.0<1 B0.0",
        "A1.0<0 F1.0 B1.0 G0.0>0",
    ]


def test_the_interleaved_warm_up_is_a_round_trip_and_a_round_for_each_further_chunk() -> None:
    for stages, chunks in product(range(2, 6), range(2, 5)):
        for stage, order in enumerate(orders("1f1b", stages, chunks, 4 * stages)):
            early = cells(order).split(" B")[0].split()
            assert len(early) - 1 == (stages - stage - 1) * 2 + (chunks - 1) * stages


def test_a_stage_has_a_run_for_each_chunk_and_interleaved_for_each_group_of_it() -> None:
    for schedule, stages, chunks, micro_batches in SMALL:
        groups = micro_batches // stages if schedule == "1f1b" and chunks > 1 else 1
        for order in orders(schedule, stages, chunks, micro_batches):
            assert len(runs(order)) == chunks * groups
            assert {len(run) for _, run in runs(order)} == {micro_batches // groups}


def test_what_stands_between_two_backwards_does_not_end_their_run() -> None:
    order = (Backward(2, 0), Send("gradient", 1, 0, 1), Forward(0, 2), Backward(2, 1), Backward(0, 0))
    assert runs(order) == ((2, (0, 1)), (0, (0,)))


def test_1f1b_holds_as_many_activations_as_there_are_stages_behind_and_gpipe_all() -> None:
    assert [most_held(order) for order in orders("1f1b", 4, 1, 8)] == [4, 3, 2, 1]
    assert [most_held(order) for order in orders("1f1b", 4, 1, 2)] == [2, 2, 2, 1]
    assert [most_held(order) for order in orders("1f1b", 4, 2, 8)] == [11, 9, 7, 5]
    assert [most_held(order) for order in orders("gpipe", 4, 2, 8)] == [16] * 4


def test_the_bubble_is_that_of_the_closed_form_and_chunks_shorten_it() -> None:
    for schedule, stages, chunks, micro_batches in SMALL:
        if chunks > 1 and micro_batches < stages:
            continue  # gpipe: the first stage waits for the last once a chunk
        table = timetable(orders(schedule, stages, chunks, micro_batches))
        bubble = (stages - 1) / (chunks * micro_batches + stages - 1)
        assert table.bubbles == pytest.approx([bubble] * stages)
        assert set(table.busy) == {3 * chunks * micro_batches}


def test_an_action_starts_when_its_stage_and_its_message_are_ready() -> None:
    table = timetable(orders("1f1b", 2, 1, 1))
    assert table.starts == ((0, 1, 4, 4), (1, 1, 2, 4))
    assert table.units == 6
    slow = timetable(orders("1f1b", 2, 1, 1), forward=3, backward=4)
    assert slow.starts == ((0, 3, 10, 10), (3, 3, 6, 10))


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (("1f1b", 0, 1, 1), "stages 0: give 1 or more"),
        (("1f1b", 1, -1, 1), "chunks -1: give 1 or more"),
        (("gpipe", 1, 1, 0), "micro_batches 0: give 1 or more"),
        (("zigzag", 1, 1, 1), "no schedule is called 'zigzag': take one of gpipe, 1f1b"),
        (
            ("1f1b", 4, 2, 6),
            "--micro-batches 6 do not divide by --pipeline 4, as 1f1b with --chunks 2 needs: take a multiple "
            "of 4, --chunks 1 or --schedule gpipe",
        ),
    ],
)
def test_what_no_schedule_can_do_is_refused_with_the_numbers(pipeline: Pipeline, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        orders(*pipeline)


def test_a_schedule_of_ones_own_is_checked_before_anybody_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEDULES, "rash", lambda stage, *rest: SCHEDULES["gpipe"](stage, *rest)[::-1])
    with pytest.raises(OrderError, match=r"rash, 2 stages: stage 1 does B1\.1 before"):
        orders("rash", 2, 1, 2)


def test_no_units_make_no_timetable() -> None:
    with pytest.raises(ValueError, match="forward 0 and backward 2 units: give 1 or more"):
        timetable(orders("1f1b", 2, 1, 1), forward=0)


F, B = Forward, Backward
A10, A11, G00 = Send("activation", 1, 0, 1), Send("activation", 1, 1, 1), Receive("gradient", 0, 0, 1)
RECEIVE_A10, RECEIVE_A11 = Receive("activation", 1, 0, 0), Receive("activation", 1, 1, 0)

FAULTS: dict[str, Any] = {
    "a backward is missing": ((0, B(0, 1)), "stage 0 never does B0.1"),
    "a forward is missing": ((1, F(1, 1)), "stage 1 does B1.1 before its forward"),
    "a backward comes twice": ((0, B(0, 1), B(0, 1), B(0, 1)), "stage 0 does B0.1 twice"),
    "a forward comes twice": ((0, F(0, 1), F(0, 1), F(0, 1)), "stage 0 does F0.1 twice"),
    "backwards fall": (
        (0, B(0, 0)),
        (0, B(0, 1), B(0, 1), B(0, 0)),
        "stage 0 does B0.0 after micro-batch 1: gradients are summed in rising order",
    ),
    "a chunk is elsewhere": ((0, F(0, 1), F(1, 1)), "stage 0 has F1.1, but chunk 1 is on stage 1"),
    "a number is negative": ((0, F(0, 1), F(0, -1)), "F0.-1, but chunks and micro-batches count from 0"),
    "an activation goes to the wrong micro-batch": (
        (0, A10, A11),
        "stage 0 does A1.1>1 before it has the activation of micro-batch 1 for chunk 1",
    ),
    "two activations change places": (
        (0, A10),
        (0, A11, A11, A10),
        "stage 1 receives the activation of micro-batch 0 for chunk 1 from stage 0, whose next message is "
        "the activation of micro-batch 1 for chunk 1: receive in the order sent",
    ),
    "a message is not sent": (
        (0, A11),
        "stage 0 waits for the gradient of micro-batch 1 for chunk 0 from stage 1, which waits for the "
        "activation of micro-batch 1 for chunk 1 from stage 0: they wait in a ring, so one must send first",
    ),
    "the last message is not sent": (
        (1, Send("gradient", 0, 1, 0)),
        "stage 0 waits for the gradient of micro-batch 1 for chunk 0 from stage 1, which has ended without",
    ),
    "a message is not received": ((1, RECEIVE_A11), "stage 1 does F1.1 before it has the activation of"),
    "a message is left": (
        (0, A11, A11, A11),
        "stage 0 sends the activation of micro-batch 1 for chunk 1 to stage 1, which never receives it",
    ),
    "a message is sent and received twice": (
        (0, A10, A10, A10),
        (1, RECEIVE_A10, RECEIVE_A10, RECEIVE_A10),
        "stage 1 does A1.0<0 twice",
    ),
    "a message goes to the wrong stage": (
        (0, A10, A10._replace(peer=0)),
        "stage 0 has A1.0>0, but the activation of micro-batch 0 for chunk 1 goes from stage 0 to stage 1",
    ),
    "a message comes from the wrong stage": (
        (1, RECEIVE_A10, RECEIVE_A10._replace(peer=7)),
        "stage 1 has A1.0<7, but the activation of micro-batch 0 for chunk 1 goes from stage 0 to stage 1",
    ),
    "a message is for no chunk": (
        (1, F(1, 0), F(1, 0), Send("activation", 2, 0, 0)),
        "stage 1 has A2.0>0, but it is between chunks 1 and 2 of 0 to 1",
    ),
    "a gradient is not awaited": ((0, G00), "stage 0 does B0.0 before it has the gradient of micro-batch 0"),
    "who receives before it sends waits in a ring": (
        (0, G00),
        (0, F(0, 0), F(0, 0), G00),
        "1f1b, 2 stages: stage 0 waits for the gradient of micro-batch 0 for chunk 0 from stage 1, which "
        "waits for the activation of micro-batch 0 for chunk 1 from stage 0: they wait in a ring",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_check_names_what_is_wrong(fault: str) -> None:
    *changes, message = FAULTS[fault]
    made: Sequence[Order] = orders("1f1b", 2, 1, 2)
    for change in changes:
        made = mutant(made, *change)
    with pytest.raises(OrderError) as caught:
        check_orders(made, "1f1b")
    assert message in str(caught.value)
    assert str(caught.value).startswith("1f1b, 2 stages: ")
    assert "\n" not in str(caught.value)


def test_a_message_on_one_stage_is_refused() -> None:
    (order,) = orders("gpipe", 1, 2, 1)
    with pytest.raises(
        OrderError, match=r"orders, 1 stage: stage 0 has A1.0>0, but both chunks are on stage 0"
    ):
        check_orders([(*order, Send("activation", 1, 0, 0))])


@pytest.mark.parametrize("nothing", [(), ((), ())])
def test_orders_without_work_are_refused(nothing: Sequence[Order]) -> None:
    with pytest.raises(OrderError, match="no stage runs a chunk"):
        check_orders(nothing)


def test_two_neighbours_that_change_places_are_caught_or_leave_every_sum_as_it_was() -> None:
    made = orders("1f1b", 2, 2, 4)
    caught = 0
    for stage, order in enumerate(made):
        for place in range(len(order) - 1):
            swapped = (*order[:place], order[place + 1], order[place], *order[place + 2 :])
            changed = [*made[:stage], swapped, *made[stage + 1 :]]
            try:
                check_orders(changed)
            except OrderError:
                caught += 1
            else:
                assert _summed(swapped) == _summed(order)
    assert caught > 50


def _summed(order: Order) -> list[tuple[int, ...]]:
    """The micro-batches of each chunk in the order in which their gradients are added."""
    chunks = sorted({action.chunk for action in order if isinstance(action, Backward)})
    return [
        tuple(
            action.micro_batch for action in order if isinstance(action, Backward) and action.chunk == chunk
        )
        for chunk in chunks
    ]
