"""Which text format a scrape gets."""

import pytest

from headway.frontends.exposition import prefers_openmetrics

PROMETHEUS_2 = (
    b"application/openmetrics-text;version=1.0.0;q=0.5,"
    b"application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3 = (
    b"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    b"application/openmetrics-text;version=0.0.1;q=0.5,"
    b"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        (PROMETHEUS_2, True),
        (PROMETHEUS_3, True),
        (b"application/openmetrics-text", True),
        (b'Application/OpenMetrics-Text; Version="1.0.0"', True),
        (b"text/plain, application/openmetrics-text; version=1.0.0", True),
        (b"", False),
        (b"*/*", False),
        (b"text/plain;version=0.0.4", False),
        (b"application/openmetrics-text;version=0.0.1", False),
        (b"application/openmetrics-text;version=2.0.0,text/plain;q=0.5", False),
        (b"application/openmetrics-text;q=0.2,text/plain;q=0.5", False),
        (b"application/openmetrics-text;q=0,text/*;q=0.5", False),
        (b"application/openmetrics-text;q=much", False),
        (b"application/openmetrics-text;q=nan", False),
        (b"text/html," * 40 + b"application/openmetrics-text", False),
        (b",;=,;q,", False),
    ],
)
def test_format_is_what_the_client_prefers(accept, is_open):
    """OpenMetrics for those that name it, in a version that there is, and like nothing better."""
    assert prefers_openmetrics(accept) is is_open
