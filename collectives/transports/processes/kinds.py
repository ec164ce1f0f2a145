"""Kinds of records, by which the two ends of a message come together: messages.py says who answers what."""

SMALL = 0
"""A message, whole, behind its own record."""
OFFER = 1
"""A message that lies in the sender's memory."""
TAKEN = 2
"""The answer to an offer: it has been read there."""
REFUSED = 3
"""The answer to an offer of the wrong size."""
ASK = 4
"""The answer to an offer by one who may not read there: send it in pieces."""
PIECE = 5
"""A piece lies in a slot of the sender's window."""
EMPTIED = 6
"""The answer to a piece: its slot is free again."""
ABORT = 7
"""The parent's, and the only one that nobody answers: its sender has failed."""
