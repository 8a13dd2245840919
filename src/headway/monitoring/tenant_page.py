"""The page of tenants: what each is promised, gets, is refused and uses."""

from headway.monitoring.dashboard import Dashboard, Query, Row, Unit, Variable, lines
from headway.monitoring.queries import CHOSEN, TENANT, gauges, legend_of, rate, rates

__all__ = ["tenant_page"]

_TIERED = f'{{{CHOSEN},tenant=~"$tenant",tier=~"$tier"}}'


def tenant_page() -> Dashboard:
    """Who gets what."""
    return Dashboard(
        name="tenants",
        title="headway: tenants",
        says="What each tenant sends, gets, is refused and uses. Empty without tenants.",
        variables=[
            Variable("job", "headway_slots"),
            Variable("instance", "headway_slots"),
            Variable("tenant", "headway_tenant_in_flight"),
            Variable("tier", "headway_queue_depth"),
        ],
        rows=[_service_row(), _use_row()],
    )


def _service_row() -> Row:
    by = "tenant, tier"
    violations = rate("headway_tenant_violations_total", by, _TIERED)
    answers = rate("headway_tenant_answers_total", by, _TIERED)
    return Row(
        "Is each served as promised?",
        [
            lines(
                "Attainment by tenant and tier",
                "Part of a tenant's requests that were answered within their budget.",
                Unit.RATIO,
                Query(f"1 - {violations} / {answers}", legend_of(by)),
                alerts=["HeadwayErrorBudgetBurn"],
            ),
            lines(
                "Requests by outcome",
                "Those that the tenant's limits let in, by how they ended.",
                Unit.REQUESTS_PER_SECOND,
                rates("headway_tenant_requests_total", "tenant, outcome", TENANT),
                is_stacked=True,
            ),
            lines(
                "Refused by a limit",
                "Those that one of the tenant's limits stood against.",
                Unit.REQUESTS_PER_SECOND,
                rates("headway_tenant_refused_total", "tenant, limit", TENANT),
                is_stacked=True,
            ),
            lines(
                "Waiting requests by tenant and tier",
                "Whose requests wait now.",
                Unit.COUNT,
                gauges("headway_tenant_queue_depth", by, _TIERED),
                is_stacked=True,
                alerts=["HeadwayQueueOld"],
            ),
            lines(
                "Oldest waiting request by tenant and tier",
                "How long it has waited.",
                Unit.SECONDS,
                gauges("headway_tenant_queue_oldest_age_seconds", by, _TIERED, how="max"),
                alerts=["HeadwayQueueOld"],
            ),
        ],
    )


def _use_row() -> Row:
    device = rate("headway_tenant_device_seconds_total", "tenant", TENANT)
    whole = f"sum(rate(headway_tenant_device_seconds_total{{{CHOSEN}}}[$__rate_interval]))"
    return Row(
        "What does each use?",
        [
            lines(
                "Slots in use",
                "Slots that a tenant's completed requests kept busy on average.",
                Unit.COUNT,
                rates("headway_tenant_device_seconds_total", "tenant", TENANT),
                is_stacked=True,
            ),
            lines(
                "Share of what all use",
                "Of the time of devices.",
                Unit.RATIO,
                Query(f"{device} / on () group_left () {whole}", legend_of("tenant")),
            ),
            lines(
                "Requests in flight",
                "Under way now.",
                Unit.COUNT,
                gauges("headway_tenant_in_flight", "tenant", TENANT),
                is_stacked=True,
            ),
            lines(
                "Rows",
                "Of requests that were answered or tried.",
                Unit.PER_SECOND,
                rates("headway_tenant_rows_total", "tenant", TENANT),
            ),
            lines(
                "Tokens",
                "As models count them.",
                Unit.PER_SECOND,
                rates("headway_tenant_tokens_total", "tenant", TENANT),
            ),
        ],
    )
