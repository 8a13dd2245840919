"""The command line: one file a verb, which parses, calls `app` and prints.

Knows arguments and terminals. Must never hold logic that a test could want without a terminal.
"""

from headway.cli.verbs import EXIT_FAILED, EXIT_MISSED, EXIT_OK, EXIT_USAGE, VERBS, main, parser_of

__all__ = ["EXIT_FAILED", "EXIT_MISSED", "EXIT_OK", "EXIT_USAGE", "VERBS", "main", "parser_of"]
