"""The composition root: a configuration in, wired objects out; and the life of a server.

Knows every folder below, and which class stands behind which port. Takes no decisions, and is
imported by nobody but the command line, the experiments and the demo.
"""

from headway.app.kernels import (
    build_policy,
    journal_header,
    kernel_of,
    own_predictor,
    policy_from_section,
    policy_section,
    predictor_of,
)
from headway.app.recipe import circumstances, recipe_of
from headway.app.serve import serve
from headway.app.server import ConfigCatalogue, Server

__all__ = [
    "ConfigCatalogue",
    "Server",
    "build_policy",
    "circumstances",
    "journal_header",
    "kernel_of",
    "own_predictor",
    "policy_from_section",
    "policy_section",
    "predictor_of",
    "recipe_of",
    "serve",
]
