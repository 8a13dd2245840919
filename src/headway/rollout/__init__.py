"""A plan in the hands of others: as files of their formats, checked, and carried out here.

Knows plans, the formats of those who cut, share and schedule devices, and this machine's driver.
Must never import a live server, nor decide who sits where.
"""

from headway.rollout.carrying_out import Outcome, carry_out
from headway.rollout.check_crds import (
    Definition,
    Definitions,
    read_definitions,
    shipped_definitions,
)
from headway.rollout.check_files import Checked, check_file
from headway.rollout.check_shapes import Fault
from headway.rollout.differences import Difference, Standing, differences
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, dns_name
from headway.rollout.environments import ServerEnvironment, environments
from headway.rollout.fleet_today import FleetToday, fleet_today
from headway.rollout.formats import FORMATS, Format
from headway.rollout.machine import LocalMachine, Machine, open_machine
from headway.rollout.mps_daemons import MpsClient, MpsDaemon, daemons_of
from headway.rollout.plan_file import read_plan
from headway.rollout.proposal import Proposal, assumed_gpu, propose
from headway.rollout.servers import Deployable, Server, deployables_of, nodes_of, servers_of
from headway.rollout.steps import (
    CreateInstance,
    DaemonToday,
    DestroyInstance,
    SetMode,
    StartDaemon,
    Step,
    StopDaemon,
)
from headway.rollout.yaml_text import to_yaml

__all__ = [
    "FORMATS",
    "Checked",
    "CreateInstance",
    "DaemonToday",
    "Definition",
    "Definitions",
    "Deployable",
    "DestroyInstance",
    "Difference",
    "Emission",
    "EmitOptions",
    "EmittedFile",
    "Fault",
    "FleetToday",
    "Format",
    "LocalMachine",
    "Machine",
    "MpsClient",
    "MpsDaemon",
    "Outcome",
    "Proposal",
    "Server",
    "ServerEnvironment",
    "SetMode",
    "Standing",
    "StartDaemon",
    "Step",
    "StopDaemon",
    "assumed_gpu",
    "carry_out",
    "check_file",
    "daemons_of",
    "deployables_of",
    "differences",
    "dns_name",
    "environments",
    "fleet_today",
    "nodes_of",
    "open_machine",
    "propose",
    "read_definitions",
    "read_plan",
    "servers_of",
    "shipped_definitions",
    "to_yaml",
]
