"""The schedules: in which order a stage computes. What has to be sent for that follows from it.

Each is a function of ``(stage, stages, chunks, micro_batches)``, with so many chunks a stage. In all of them
the micro-batches of a chunk come in rising order, forward and backward: gradients add up in that order.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from zero_emulator.pipeline.actions import Backward, Compute, Forward

Schedule = Callable[[int, int, int, int], list[Compute]]
Work = tuple[int, int]
"""A chunk and a micro-batch."""


def gpipe(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Compute]:
    """All forwards, then all backwards: the activations of all micro-batches are held in between.

    Forwards go chunk by chunk, all micro-batches each; backwards from the last chunk to the first. So a
    chunk's backwards are one run. Source: Huang et al., GPipe, NeurIPS 2019.
    """
    own, every = range(stage, stages * chunks, stages), range(micro_batches)
    forwards = [Forward(chunk, micro_batch) for chunk in own for micro_batch in every]
    backwards = [Backward(chunk, micro_batch) for chunk in reversed(own) for micro_batch in every]
    return [*forwards, *backwards]


def one_forward_one_backward(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Compute]:
    """One forward, one backward in turn, once a few forwards have filled the pipeline behind this stage.

    With more chunks a stage it is interleaved. One stage has nothing to fill: each micro-batch goes forward
    through all chunks and back, as in training without a pipeline.
    """
    if stages == 1:
        return _one_by_one(chunks, micro_batches)
    alternate = _plain if chunks == 1 else _interleaved
    return alternate(stage, stages, chunks, micro_batches)


SCHEDULES: dict[str, Schedule] = {"gpipe": gpipe, "1f1b": one_forward_one_backward}


def _one_by_one(chunks: int, micro_batches: int) -> list[Compute]:
    done: list[Compute] = []
    for micro_batch in range(micro_batches):
        done += (Forward(chunk, micro_batch) for chunk in range(chunks))
        done += (Backward(chunk, micro_batch) for chunk in reversed(range(chunks)))
    return done


def _plain(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Compute]:
    """One chunk a stage; an iteration ends when all of its micro-batches have come back.

    Source: PipeDream-Flush in Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021.
    """
    return _alternating(stage, stages, chunks, micro_batches, warm_up=stages - stage - 1)


def _interleaved(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Compute]:
    """More chunks a stage, in turn, for ``stages`` micro-batches each: shorter bubbles, more messages.

    ValueError for micro-batches that do not divide. Source: Narayanan et al., Efficient Large-Scale Language
    Model Training on GPU Clusters Using Megatron-LM, SC 2021, section 2.2.
    """
    if micro_batches % stages:
        raise ValueError(
            f"--micro-batches {micro_batches} do not divide by --pipeline {stages}, as 1f1b with --chunks "
            f"{chunks} needs: take a multiple of {stages}, --chunks 1 or --schedule gpipe"
        )
    # A round trip of the first group: down to the last stage and back, and once round for each further chunk.
    warm_up = (stages - stage - 1) * 2 + (chunks - 1) * stages
    return _alternating(stage, stages, chunks, micro_batches, warm_up)


def _alternating(stage: int, stages: int, chunks: int, micro_batches: int, warm_up: int) -> list[Compute]:
    """So many forwards, then a forward and a backward in turn, then the backwards that are left."""
    own = range(stage, stages * chunks, stages)
    forwards = [Forward(*work) for work in _by_groups(own, stages, micro_batches)]
    backwards = [Backward(*work) for work in _by_groups(own[::-1], stages, micro_batches)]
    early, late = forwards[:warm_up], forwards[warm_up:]
    in_turn: Iterable[Compute] = chain.from_iterable(zip(late, backwards, strict=False))
    return [*early, *in_turn, *backwards[len(late) :]]


def _by_groups(own: Sequence[int], size: int, micro_batches: int) -> list[Work]:
    """The chunks in turn for each group of ``size`` micro-batches; the last group may have fewer."""
    groups = (range(micro_batches)[start : start + size] for start in range(0, micro_batches, size))
    return [(chunk, micro_batch) for group in groups for chunk in own for micro_batch in group]
