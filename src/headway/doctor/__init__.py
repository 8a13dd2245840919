"""Diagnosis: what ails a server, with evidence, how sure that is, and what to do about it.

Knows measured values: Records, metrics, processes, devices, profilers' exports. Each check is a
pure function of them, and one table holds all checks. Must never change anything: a server is only
asked, a process only looked at.
"""

from headway.doctor.chance import Point, Trend, confidence_above, trend_of
from headway.doctor.chart import SURE_RATIO, Chart, Check
from headway.doctor.checks import CHECKS, diagnose
from headway.doctor.course import Course
from headway.doctor.finding import (
    Diagnosis,
    Evidence,
    Finding,
    Severity,
    Sign,
    Source,
    Unknown,
    worst,
)
from headway.doctor.follow import follow
from headway.doctor.processes import Processes, listener_of
from headway.doctor.readings import (
    MachineReading,
    OtherProcess,
    ProcessReading,
    Reading,
    Role,
)
from headway.doctor.visit import (
    Clock,
    Patient,
    Recorded,
    chart_of,
    find_patient,
    read_recorded,
    watch,
)
from headway.doctor.wire import ServerDoor

__all__ = [
    "CHECKS",
    "SURE_RATIO",
    "Chart",
    "Check",
    "Clock",
    "Course",
    "Diagnosis",
    "Evidence",
    "Finding",
    "MachineReading",
    "OtherProcess",
    "Patient",
    "Point",
    "ProcessReading",
    "Processes",
    "Reading",
    "Recorded",
    "Role",
    "ServerDoor",
    "Severity",
    "Sign",
    "Source",
    "Trend",
    "Unknown",
    "chart_of",
    "confidence_above",
    "diagnose",
    "find_patient",
    "follow",
    "listener_of",
    "read_recorded",
    "trend_of",
    "watch",
    "worst",
]
