"""ZeRO-2 for a model in chunks: gradients add up over a run of micro-batches, and are reduced once a run."""

from collections.abc import Iterator

from zero_emulator.share import Share
from zero_emulator.strategies.run_gradients import Run, RunGradients, chunk_runs


class PipelineZero2(RunGradients):
    """Reduce-scatter each run of a chunk into shards, update, gather the weights.

    With V chunks of φ parameters a rank holds V φ bg / N + 2 φ bg bytes of gradients and not V φ bg, which is
    less for V > 2N / (N - 1). It sends f(N) (K + 1) Ψ where a chunk has K runs, between ZeRO-1 and ZeRO-2.
    """

    name = "pipeline_zero2"
    stage = 2

    @staticmethod
    def plan_runs(share: Share) -> Iterator[Run]:
        return chunk_runs(share)
