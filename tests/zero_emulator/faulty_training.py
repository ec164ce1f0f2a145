"""`python -m faulty_training train ...` is the command with a fault in it, for test_failures.

FAULT says what happens, VICTIM to which rank, in its third iteration. Ranks start this module again.
"""

import os
import signal
import sys
import time
from pathlib import Path

from collectives import ranks
from collectives.launching.launch import launch
from zero_emulator.cli import main
from zero_emulator.trainer import Trainer


def throw(error):
    raise error


FAULTS = {
    "raise": lambda: throw(ArithmeticError("out of\nnumbers")),
    "sys.exit(0)": lambda: sys.exit(0),
    "os._exit(0)": lambda: os._exit(0),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def iterate(iterate_in_order, trainer, x, y):
    if trainer.iteration == 2 and trainer.comm.rank == int(os.environ["VICTIM"]):
        Path(os.environ["WHEN"]).write_text(str(time.time()))
        FAULTS[os.environ["FAULT"]]()
    return iterate_in_order(trainer, x, y)


if __name__ == "__main__":
    plain = Trainer.iterate
    Trainer.iterate = lambda self, x, y: iterate(plain, self, x, y)
    ranks.launch = lambda num_ranks, module, arguments: launch(num_ranks, "faulty_training", arguments)
    main()
