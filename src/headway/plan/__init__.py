"""What-if: what a workload is like, and which policies are worth trying on it.

Knows scenarios. Plays nothing, and must never import a live server.
"""

from headway.plan.candidates import Candidate, candidates_for, with_linger
from headway.plan.character import Character, characterise

__all__ = ["Candidate", "Character", "candidates_for", "characterise", "with_linger"]
