"""All dashboards."""

from headway.monitoring.dashboard import Dashboard
from headway.monitoring.device_page import device_page
from headway.monitoring.overview import overview
from headway.monitoring.predictor_page import predictor_page
from headway.monitoring.tenant_page import tenant_page

__all__ = ["dashboards"]


def dashboards() -> list[Dashboard]:
    """Every dashboard, the one to open first at the head."""
    return [overview(), device_page(), predictor_page(), tenant_page()]
