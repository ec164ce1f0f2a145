"""Why a message was sent: one label a rank, on whichever communicator it is set."""

import contextlib

import numpy as np
import pytest

from collectives.communicator import Communicator
from collectives.ledger import Label, Ledger


def add(comm: Communicator) -> None:
    comm.all_reduce(np.ones(8), np.empty(8)).wait()


def part_of(comm: Communicator) -> Communicator:
    part = comm.split(0)
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
