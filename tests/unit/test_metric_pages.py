"""The page on metrics: each documented query asks for what is there."""

import pytest
from prometheus_client.core import HistogramMetricFamily

import metric_pages


@pytest.mark.parametrize("question", list(metric_pages.QUERIES))
def test_query_names_metrics_that_are_exported(question):
    """A query with a name that no server has would answer with nothing, for ever."""
    names = metric_pages.names_in(metric_pages.QUERIES[question])
    assert names
    assert names <= metric_pages.exposed_names()


def test_unknown_name_in_a_query_would_be_found():
    """The names of a query are all of them, with what a histogram adds to its own."""
    query = "rate(headway_made_up_total[5m]) / nv_made_up + vllm:made_up_seconds_bucket"
    names = {"headway_made_up_total", "nv_made_up", "vllm:made_up_seconds_bucket"}
    assert metric_pages.names_in(query) == names
    assert not names & metric_pages.exposed_names()


def test_every_family_has_words_and_its_labels():
    """Families without a series yet are described like the others."""
    rows = {row[0]: row for row in metric_pages.rows(metric_pages.families())}
    assert all(row[3] for row in rows.values())
    assert rows["`headway_device_pcie_bytes_total`"][2] == "`device`, `direction`"
    assert rows["`headway_pipeline_calls_total`"][2] == "`pipeline`, `tier`, `outcome`"
    assert rows["`vllm:num_requests_waiting`"][2] == "`model_name`, `engine`"
    assert rows["`nv_inference_request_failure`"][2] == "`model`, `version`, `reason`"
    assert rows["`nv_energy_consumption`"][2] == "`gpu_uuid`"


def test_label_of_buckets_is_not_described():
    """`le` is the histogram's own."""
    family = HistogramMetricFamily("headway_x_seconds", "?", labels=("model",))
    family.add_metric(("m",), [("+Inf", 0)], 0)
    assert metric_pages.labels_of(family) == "`model`"
