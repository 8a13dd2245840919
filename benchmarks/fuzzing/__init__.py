"""Inputs that are nearly right, put to every decoder of a server in this process.

`doors.py` is the table of decoders, `corpus.py` what inputs are made from, `mutate.py` how they are
made wrong, `target.py` the server, `attack.py` the run. Everything is made from a seed.
"""

from fuzzing.attack import Finding, Tally, attack
from fuzzing.doors import ACCEPTED, DOORS, Door, seeds_of
from fuzzing.target import Target, serving

__all__ = [
    "ACCEPTED",
    "DOORS",
    "Door",
    "Finding",
    "Tally",
    "Target",
    "attack",
    "seeds_of",
    "serving",
]
