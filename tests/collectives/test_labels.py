"""Why a message was sent: one label a rank, on whichever communicator it is set, and an axis of each."""

import contextlib

import numpy as np
import pytest

from collectives.communicator import Communicator
from collectives.ledger import Entry, Label, Ledger, pair_messages


def add(comm: Communicator) -> None:
    comm.all_reduce(np.ones(8), np.empty(8)).wait()


def part_of(comm: Communicator, axis: str | None = None) -> Communicator:
    part = comm.split(0, axis=axis)
    assert part is not None
    return part


def labels_of(ledger: Ledger) -> list[Label]:
    return [entry.origin.call.label for entry in ledger.entries]


def test_labels_reach_the_ledger_and_are_taken_back(run_metered) -> None:
    def body(comm: Communicator, ledger: Ledger) -> None:
        label = Label("audit", 3, "forward", 1)
        with contextlib.suppress(ZeroDivisionError), comm.labelled(label):
            add(comm)
            raise ZeroDivisionError
        add(comm)
        labels = labels_of(ledger)
        half = len(labels) // 2
        assert set(labels[:half]) == {label}
        assert set(labels[half:]) == {Label()}

    run_metered(body, check=False)


@pytest.mark.ranks(min=2)
@pytest.mark.few_sizes
def test_a_label_set_on_a_communicator_or_a_part_is_that_of_all_of_them(run_metered) -> None:
    def body(comm: Communicator, ledger: Ledger) -> None:
        part = part_of(comm)
        part_of_part, family = part_of(part), [comm, part]
        family.append(part_of_part)
        for iteration, setter in enumerate(family):
            setter.label = Label("training", iteration, "forward")
            assert [one.label for one in family] == [setter.label] * 3
            for one in family:
                ledger.entries.clear()
                add(one)
                assert set(labels_of(ledger)) == {setter.label}

    run_metered(body, check=False)


def test_labelled_on_a_part_ends_on_the_whole(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part, before = part_of(comm), comm.label
        with part.labelled(Label("audit")):
            assert comm.label == Label("audit")
        assert comm.label == part.label == before

    run_ranks(body)


def test_another_communicator_on_the_transport_keeps_its_label(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        other = Communicator(comm.transport)
        comm.label = Label("audit")
        assert other.label == Label()

    run_ranks(body)


@pytest.mark.ranks(min=2)
@pytest.mark.few_sizes
def test_every_message_carries_the_axis_of_its_communicator_also_those_of_the_check(run_metered) -> None:
    def body(comm: Communicator, ledger: Ledger) -> list[Entry]:
        part = part_of(comm, axis="data")
        comm.label = Label("training", 1, axis="of no account")
        for one, axis in ((comm, None), (part, "data"), (comm, None)):
            start = len(ledger.entries)
            add(one)
            assert {(label.kind, label.axis) for label in labels_of(ledger)[start:]} == {
                ("control", axis),
                ("training", axis),
            }
        return [*ledger.entries]

    assert pair_messages(run_metered(body))


def test_a_part_of_an_axis_runs_along_it_unless_it_is_given_its_own(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        assert part_of(comm).axis is None
        comm.axis = "data"
        assert part_of(comm).axis == "data"
        assert part_of(comm, axis="expert").axis == "expert"

    run_ranks(body)
