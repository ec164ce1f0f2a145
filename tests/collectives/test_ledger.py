import pytest

from collectives.ledger import Call, Entry, Label, Ledger, LedgerError, Origin, pair_messages


def origin(step: int = 0, chunk: int = 0, label: Label | None = None) -> Origin:
    return Origin(Call(4, "all_gather", "ring", label or Label()), step, chunk)


def test_sent_adds_up_one_kind_or_all() -> None:
    ledger = Ledger()
    ledger.entries.append(Entry(origin(), [(1, 10), (2, 5)], [(1, 99)], 0.0))
    ledger.entries.append(Entry(origin(label=Label("control")), [(1, 7)], [], 0.0))
    assert ledger.sent() == 22
    assert (ledger.sent("training"), ledger.sent("control"), ledger.sent("audit")) == (15, 7, 0)


def test_several_messages_of_one_step_between_two_ranks_pair_in_order() -> None:
    sender = [Entry(origin(), [(1, 3), (1, 8)], [], 1.0)]
    receiver = [Entry(origin(), [], [(0, 3), (0, 8)], 0.5)]
    receiver[0].end = 2.0
    assert [(one.num_bytes, one.start, one.end) for one in pair_messages([sender, receiver])] == [
        (3, 1.0, 2.0),
        (8, 1.0, 2.0),
    ]


@pytest.mark.parametrize("other", [origin(step=1), origin(chunk=1), origin(label=Label("audit"))])
def test_a_message_of_another_step_chunk_or_label_is_no_pair(other: Origin) -> None:
    with pytest.raises(
        LedgerError, match="ring all_gather #4, step 0: rank 0 counted 3 bytes sent to rank 1"
    ):
        pair_messages([[Entry(origin(), [(1, 3)], [], 0.0)], [Entry(other, [], [(0, 3)], 0.0)]])


def test_nothing_sent_is_nothing_paired() -> None:
    assert pair_messages([[], [Entry(origin(), [], [], 0.0)]]) == []
