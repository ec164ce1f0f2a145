"""The order of work of a pipeline: which chunk each stage runs when, and what messages that takes."""

from zero_emulator.pipeline.actions import Action, Backward, Forward, Order, OrderError, Receive, Send, What
from zero_emulator.pipeline.checking import check_orders
from zero_emulator.pipeline.figures import most_held, most_runs, runs
from zero_emulator.pipeline.ordering import orders
from zero_emulator.pipeline.schedules import SCHEDULES
from zero_emulator.pipeline.timing import Timetable, timetable

__all__ = [
    "SCHEDULES",
    "Action",
    "Backward",
    "Forward",
    "Order",
    "OrderError",
    "Receive",
    "Send",
    "Timetable",
    "What",
    "check_orders",
    "most_held",
    "most_runs",
    "orders",
    "runs",
    "timetable",
]
