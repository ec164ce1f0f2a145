"""The copy thread: in order, in bounded time, with its failures heard and nothing kept alive."""

import subprocess
import sys
import weakref
from collections.abc import Iterator
from functools import partial
from threading import Event, active_count, current_thread, main_thread

import numpy as np
import pytest

from zero_emulator.layout import Array
from zero_emulator.meter import Meter
from zero_emulator.offload import Copier, CopyTimeoutError, Link, Transfers


@pytest.fixture
def copier() -> Iterator[Copier]:
    copier = Copier(time_limit=30)
    yield copier
    copier.close()


def assert_set(event: Event) -> None:
    assert event.wait(30)


def test_jobs_are_done_in_order_on_another_thread(copier: Copier) -> None:
    done, threads = [], set()

    def job(number: int) -> None:
        done.append(number)
        threads.add(current_thread())

    tickets = [copier.submit(partial(job, number)) for number in range(50)]
    tickets[-1].wait()
    assert done == [*range(50)]
    assert len(threads) == 1
    assert main_thread() not in threads


def test_a_rank_computes_while_its_copier_copies(copier: Copier) -> None:
    go = Event()
    ticket = copier.submit(partial(assert_set, go))
    go.set()
    ticket.wait()


def test_a_failed_job_raises_in_every_wait_and_the_next_is_done(copier: Copier) -> None:
    failed = copier.submit(partial(divmod, 1, 0))
    done: list[int] = []
    copier.submit(partial(done.append, 1)).wait()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            failed.wait()
    assert done == [1]


def test_a_wait_ends_at_its_limit_and_may_be_made_again() -> None:
    copier, begun, go = Copier(time_limit=0.05), Event(), Event()

    def job() -> None:
        begun.set()
        assert_set(go)

    slow = copier.submit(job)
    behind = [copier.submit(lambda: None) for _ in range(2)]
    assert_set(begun)
    with pytest.raises(CopyTimeoutError, match=r"waited 0\.05 s for job 3 .* has begun 1: take a longer"):
        behind[1].wait()
    with pytest.raises(CopyTimeoutError, match=r"waited 0\.05 s for job 1 of"):
        slow.wait()
    with pytest.raises(CopyTimeoutError, match="copy thread to end, which has begun 1 of 3 jobs"):
        copier.close()
    go.set()
    copier.time_limit = 30
    copier.close()
    for ticket in (slow, *behind):
        ticket.wait()


def test_no_thread_before_the_first_job_and_none_after_close() -> None:
    before, copier = active_count(), Copier()
    assert active_count() == before
    copier.submit(lambda: None).wait()
    assert active_count() == before + 1
    copier.close()
    assert active_count() == before
    with pytest.raises(RuntimeError, match="closed after 1 jobs: make another"):
        copier.submit(lambda: None)
    Copier().close()  # there is nothing to end


@pytest.mark.parametrize("to_device", [True, False])
def test_bytes_are_gone_right_after_the_wait(copier: Copier, to_device: bool) -> None:
    meter, transfers = Meter(), Transfers(Link(), copier)
    for _ in range(200):  # a reference that lives a moment longer shows in one of them
        source, target = (meter.zeros("slot", 1000, np.uint8) for _ in range(2))
        transfer = (transfers.to_device if to_device else transfers.to_host)("it", source, target)
        transfer.wait()
        del source, target
        assert meter.alive["slot"] == 0


def test_a_job_that_failed_keeps_nothing_alive_either(copier: Copier) -> None:
    def fail(array: Array) -> None:
        held = array[:1]
        raise ArithmeticError(f"{held.nbytes} bytes")

    array = np.zeros(10)
    alive = weakref.ref(array)
    ticket = copier.submit(partial(fail, array))
    with pytest.raises(ArithmeticError, match="8 bytes"):
        ticket.wait()
    del array
    assert alive() is None


def test_a_copier_made_before_a_fork_works_after_it() -> None:
    script = (
        "import os, sys; from zero_emulator.offload import Copier; copier = Copier(time_limit=20)\n"
        "if (child := os.fork()): sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "copier.submit(lambda: None).wait(); copier.close(); sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 7
