"""A mixture of experts: a router that chooses, experts that compute, and rows that travel between ranks.

Two layers one behind the other. The Router's rows are [x | gates], and an expert works on a row where its
gate is not 0. So all that Experts need stands in what comes in, and a pipeline may cut between the two.
"""

from zero_emulator.experts.build import ExpertSettings, build_expert_mlp, part
from zero_emulator.experts.experts import Experts
from zero_emulator.experts.peers import ALONE, CommunicatorPeers, Peers
from zero_emulator.experts.router import Router, RouterSaved
from zero_emulator.experts.routing import Routing, alike
from zero_emulator.experts.travel import NUM_EXCHANGES, exchanged_rows, travel_table

__all__ = [
    "ALONE",
    "NUM_EXCHANGES",
    "CommunicatorPeers",
    "ExpertSettings",
    "Experts",
    "Peers",
    "Router",
    "RouterSaved",
    "Routing",
    "alike",
    "build_expert_mlp",
    "exchanged_rows",
    "part",
    "travel_table",
]
