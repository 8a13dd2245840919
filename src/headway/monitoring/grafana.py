"""A dashboard as the JSON that Grafana imports.

Knows Grafana's classic model as of version 10, which later ones read too. The Prometheus that a
panel asks is a variable, so that a file can be imported anywhere without an edit. Addresses (`uid`)
are fixed: alerts and dashboards link to them.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from headway.monitoring.dashboard import Dashboard, Kind, Panel, Row, Unit, Variable

__all__ = ["dashboard_text"]

_SCHEMA_VERSION: Final = 38
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_COLUMNS: Final = 24
_PANEL_ROWS: Final = 8
_HEADING_ROWS: Final = 1

Node = dict[str, Any]


def dashboard_text(dashboard: Dashboard, runbooks: str) -> str:
    """The file.

    Args:
        dashboard: what it shows.
        runbooks: address of the runbook pages; panels link there if it is one that a browser opens.
    """
    node = {
        "uid": f"headway-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.says,
        "tags": ["headway"],
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "schemaVersion": _SCHEMA_VERSION,
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [_others()],
        "templating": {"list": [_source(), *map(_variable, dashboard.variables)]},
        "panels": list(_panels(dashboard.rows, runbooks)),
    }
    return json.dumps(node, indent=2, ensure_ascii=False) + "\n"


def _others() -> Node:
    """A way to the other dashboards, with the same choices and the same time."""
    return {
        "type": "dashboards",
        "title": "headway",
        "tags": ["headway"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
    }


def _source() -> Node:
    return {
        "type": "datasource",
        "name": "source",
        "label": "Prometheus",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
    }


def _variable(variable: Variable) -> Node:
    query = f"label_values({variable.metric}, {variable.name})"
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.name,
        "datasource": _SOURCE,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "hide": 0,
    }


def _panels(rows: Sequence[Row], runbooks: str) -> Iterator[Node]:
    """Rows one below the other, their panels from left to right."""
    number, y = 0, 0
    for row in rows:
        number += 1
        place = {"x": 0, "y": y, "w": _COLUMNS, "h": _HEADING_ROWS}
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": place,
            "panels": [],
        }
        y += _HEADING_ROWS
        x = 0
        for panel in row.panels:
            if x + panel.width > _COLUMNS:
                x, y = 0, y + _PANEL_ROWS
            number += 1
            place = {"x": x, "y": y, "w": panel.width, "h": _PANEL_ROWS}
            yield {"id": number, "gridPos": place, **_panel(panel, runbooks)}
            x += panel.width
        y += _PANEL_ROWS


def _panel(panel: Panel, runbooks: str) -> Node:
    return {
        "type": str(panel.kind),
        "title": panel.title,
        "description": panel.says,
        "datasource": _SOURCE,
        "targets": [_target(panel, index) for index in range(len(panel.queries))],
        "fieldConfig": {"defaults": _field(panel), "overrides": _overrides(panel, runbooks)},
        "options": _options(panel),
        **_links(panel, runbooks),
        **_shaping(panel.kind),
    }


def _target(panel: Panel, index: int) -> Node:
    query = panel.queries[index]
    is_now = panel.kind in {Kind.TABLE, Kind.NUMBERS}
    return {
        "refId": chr(ord("A") + index),
        "datasource": _SOURCE,
        "editorMode": "code",
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        "range": not is_now,
        "instant": is_now,
        "format": {Kind.TABLE: "table", Kind.HEATMAP: "heatmap"}.get(panel.kind, "time_series"),
    }


def _field(panel: Panel) -> Node:
    if panel.kind is Kind.HEATMAP:
        return {"unit": str(Unit.PER_SECOND)}  # of its cells; what it is a panel of is on its axis
    unit = {"unit": str(panel.unit)}
    if panel.kind is not Kind.LINES:
        return unit
    drawing = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 20 if panel.is_stacked else 0,
        "showPoints": "never",
        "stacking": {"mode": "normal" if panel.is_stacked else "none", "group": "A"},
    }
    return unit | {"custom": drawing}


def _options(panel: Panel) -> Node:
    match panel.kind:
        case Kind.LINES:
            legend = {
                "displayMode": "table",
                "placement": "bottom",
                "calcs": ["lastNotNull", "max"],
            }
            return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
        case Kind.NUMBERS:
            return {
                "colorMode": "value",
                "graphMode": "none",
                "textMode": "auto",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            }
        case Kind.HEATMAP:
            return {
                "calculate": False,
                "color": {"mode": "scheme", "scheme": "Blues"},
                "yAxis": {"unit": str(panel.unit)},
            }
        case Kind.TABLE:
            return {"showHeader": True}


def _links(panel: Panel, runbooks: str) -> Node:
    """To the runbook pages of the alerts whose cause it shows."""
    if not _is_address(runbooks):
        return {}
    links = [_runbook(name, name, runbooks) for name in panel.alerts]
    return {"links": links} if links else {}


def _overrides(panel: Panel, runbooks: str) -> list[Node]:
    """In a table of alerts each name is a link to its page."""
    if panel.kind is not Kind.TABLE or not _is_address(runbooks):
        return []
    links = {"id": "links", "value": [_runbook("${__value.raw}", "this alert", runbooks)]}
    return [{"matcher": {"id": "byName", "options": "alertname"}, "properties": [links]}]


def _is_address(runbooks: str) -> bool:
    return runbooks.startswith(("http://", "https://"))


def _runbook(name: str, words: str, runbooks: str) -> Node:
    url = f"{runbooks.rstrip('/')}/{name}.md"
    return {"title": f"Runbook: {words}", "url": url, "targetBlank": True}


def _shaping(kind: Kind) -> Node:
    """A table shows labels as columns, but for those that say nothing here."""
    if kind is not Kind.TABLE:
        return {}
    hidden = {"Time": True, "Value": True, "__name__": True, "alertstate": True}
    return {"transformations": [{"id": "organize", "options": {"excludeByName": hidden}}]}
