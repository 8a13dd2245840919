"""What clients of the Open Inference Protocol rely on, as cases that any server can be asked.

Knows the protocol as it is on the wire. Must never know headway's engine or codecs: a suite that
shared code with the server would pass whatever that does.
"""

from headway.conformance.case import Case, Outcome, Result
from headway.conformance.suite import cases_of, run_cases

__all__ = ["Case", "Outcome", "Result", "cases_of", "run_cases"]
