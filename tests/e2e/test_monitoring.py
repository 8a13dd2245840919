"""A real Prometheus watches a real server: alerts fire while it is ill, and clear afterwards."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest
from tests.e2e.prometheus import watching
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, serving, wait_until
from tests.metric_catalogue import filled, selected_in

from headway.monitoring import dashboards, rule_groups

ROOT = Path(__file__).parents[2]
# As short as a scrape every quarter of a second allows. The first window of the error budget is a
# 720th of its period, 12 s, and has to be as bad over its last twelfth.
FLAGS = (
    "--window 3s --pending 500ms --pending-urgent 500ms --requests-min 10 --budget-period 8640s "
    "--queue-age-ratio-max 0.2 --losses-window 8s --losses-max 1"
)
CLIENTS = 8
LATE = "HeadwayLatencyOverBudget"
LOOP = "HeadwayWorkerCrashLoop"
ONLY_A_GPU_TELLS = {
    "headway_device_pcie_bytes_total",
    "headway_device_power_watts",
    "headway_device_temperature_celsius",
    "headway_device_throttled",
    "headway_worker_device_memory_bytes",
}
PIPELINE = {
    "name": "pipe",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
    "pipeline": {
        "outputs": {"y": "step.y"},
        "steps": [{"name": "step", "model": "puppet", "inputs": {"x": "input.x"}}],
    },
}
ALSO_ILL = ["HeadwayErrorBudgetBurn", "HeadwayQueueOld"]


def shortened_rules():
    """What the command line writes for whoever wants to be told within seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "headway", "monitoring", "rules", *FLAGS.split()],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout


def config_of(folder):
    """One slot, first come first served; a pipeline, a tenant and gRPC: all there is is counted."""
    return a_config(
        puppet(folder, batch={"rows_max": 1}),
        PIPELINE,
        server={"port": 0, "admin": {"port": 0}, "grpc": {"port": 0}},
        tiers={"live": {"budget": "400ms"}},
        policy={"kind": "fifo"},
        limits={"restart_delay_min": "50ms"},
        tenancy={"tenants": {"team": {}}, "anonymous": "team", "ledger": None},
    )


def flood(server, stop):
    """One client that asks again as soon as it is answered."""
    while not stop.is_set():
        assert server.infer("puppet", row(2)).status in {200, 429, 504}


def ask_grpc(server):
    """One call of any method."""
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"")


def queries():
    """Every expression of rules and panels, as Prometheus is asked."""
    yield from (rule.expression for group in rule_groups() for rule in group.rules)
    for page in dashboards():
        for panel in page.panels:
            yield from (filled(query.expression) for query in panel.queries)


def check_what_is_asked_for(prometheus):
    """Each series that a rule or a panel selects is one of the server's now, with those labels."""
    asked = {each for query in queries() for each in selected_in(query) if ":" not in each.name}
    missing = {each.name for each in asked if prometheus.labels_of(each.name) is None}
    assert missing <= ONLY_A_GPU_TELLS
    assert len({each.name for each in asked} - missing) > 30
    for each in asked:
        if each.name not in missing:
            assert each.labels <= prometheus.labels_of(each.name), each
    # A query may be valid and name what is there, and yet match nothing with nothing.
    for page in dashboards():
        for panel in page.panels:
            for query in map(filled, (query.expression for query in panel.queries)):
                if not missing & {each.name for each in selected_in(query)}:
                    assert prometheus.query(query), f"{page.name}: {panel.title}: {query}"


@pytest.mark.timeout(180)
def test_alerts_fire_while_the_server_is_ill_and_clear(tmp_path, folder, clients):
    """A batch that hangs, workers that are killed, a server that ends: each is told in its turn."""
    with (
        serving(tmp_path, config_of(folder)) as server,
        watching(tmp_path, f"127.0.0.1:{server.admin_port}", shortened_rules()) as prometheus,
    ):
        ask_grpc(server)
        assert server.infer("puppet", row(1)).status in {200, 504}
        assert server.infer("pipe", row(1)).status in {200, 504}
        wait_until(lambda: prometheus.query("headway_requests_total > 0"), "it is scraped")
        # The server was not there for the first looks.
        wait_until(lambda: not prometheus.query('ALERTS{alertstate="firing"}'), "all is well")

        # A batch hangs on the only slot, and clients go on asking.
        stop = threading.Event()
        held = clients.submit(server.infer, "puppet", row(3, HOLD))
        folder.wait_begun(3)
        floods = [clients.submit(flood, server, stop) for _ in range(CLIENTS)]
        try:
            for name in (LATE, *ALSO_ILL):
                wait_until(lambda name=name: prometheus.firing(name), f"{name} is told")
            (alert,) = prometheus.firing(LATE)
            check_what_is_asked_for(prometheus)
        finally:
            stop.set()
            folder.open()
        assert held.result().status == 504
        for one in floods:
            one.result()
        assert (alert["labels"]["model"], alert["labels"]["tier"]) == ("puppet", "live")
        assert (ROOT / alert["annotations"]["runbook_url"]).is_file()
        assert "requests of puppet in tier live" in alert["annotations"]["description"]

        # Well again.
        wait_until(lambda: server.infer("puppet", row(4)).status == 200, "it answers")
        for name in (LATE, *ALSO_ILL):
            only = {"window": "12s"} if name == "HeadwayErrorBudgetBurn" else {}
            wait_until(lambda name=name, only=only: not prometheus.firing(name, **only), "clear")
        assert not prometheus.firing(LOOP)

        # Its worker is killed twice.
        ready, killed = "/v2/models/puppet/ready", set()
        for _ in range(2):
            wait_until(lambda: set(server.worker_pids()) - killed, "there is a worker")
            wait_until(lambda: server.get(ready).status == 200, "it is ready")
            (victim,) = set(server.worker_pids()) - killed
            os.kill(victim, signal.SIGKILL)
            killed.add(victim)
            wait_until(lambda: server.get(ready).status != 200, "it is gone")
        wait_until(lambda: prometheus.firing(LOOP), f"{LOOP} is told")
        wait_until(lambda: not prometheus.firing(LOOP), "it clears")

        # It ends.
        gone = ("HeadwayNoServer", "HeadwayServerDown")
        for name in gone:
            assert not prometheus.firing(name)
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
        for name in gone:
            wait_until(lambda name=name: prometheus.firing(name), f"{name} is told")
