"""Tenants of a whole server: their keys, limits and books, over HTTP and gRPC."""

import json
import signal
import socket
import sqlite3

import grpc
import pytest
from tests.e2e.puppet import HOLD, Folder, puppet, row
from tests.e2e.server import MODELS, a_config, infer_body, serving, wait_until
from tests.models import identity

from headway.cli import main
from headway.core import Datatype
from headway.frontends.oip_messages import INFERENCE
from headway.tenancy import hash_of

GOLD, BRONZE, ADMIN = "hwk_gold", "hwk_bronze", "hwk_admin"
BEARER = {key: {"authorization": f"Bearer {key}"} for key in (GOLD, BRONZE, ADMIN)}
INFER = "/v2/models/tiny/infer"
ROW = [[1.0, 2.0, 3.0, 4.0]]
TIERS = {
    "gold": {"priority": 1, "budget": "10s"},
    "bronze": {"priority": 5, "budget": "10s", "slot_class": "low"},
}


def key_of(key, **more):
    """As a configuration has it."""
    return {"hash": hash_of(key), **more}


def a_tenancy(**sections):
    """A tenant of each tier, the lower one with limits."""
    gold = {"tier": "gold", "keys": [key_of(GOLD)], "quota": {"device_time": "1h"}}
    bronze = {
        "tier": "bronze",
        "keys": [key_of(BRONZE)],
        "concurrency": 2,
        "rates": {"requests": 0.001, "burst": "4000s"},
    }
    return {"tenants": {"big": gold, "small": bronze}, **sections}


def tenant_config(folder, *models, **server):
    """A configuration with both tenants, and a key for management."""
    tiny = {"name": "tiny", "path": identity(folder / "tiny.onnx", Datatype.FP32)}
    return a_config(
        tiny,
        *models,
        tiers=TIERS,
        tenancy=a_tenancy(),
        server={"port": 0, "admin": {"keys": [key_of(ADMIN)]}, "grpc": {"port": 0}, **server},
    )


def ask(server, key=None, path=INFER, body=None):
    """An infer request with a key."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    return server.call("POST", path, body or infer_body(ROW), headers)


def ask_grpc(server, key=None):
    """The same over gRPC; the call's answer, or its error."""
    request = INFERENCE["ModelInferRequest"](model_name="tiny")
    request.inputs.add(name="x", datatype="FP32", shape=(1, 4))
    request.raw_input_contents.append(bytes(16))
    metadata = () if key is None else (("authorization", f"Bearer {key}"),)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        try:
            return infer(request.SerializeToString(), metadata=metadata)
        except grpc.RpcError as error:
            return error


def test_keys_say_who_a_client_is_over_both_protocols(tmp_path):
    """Requests are counted for whoever has the key, and no log tells one."""
    with serving(tmp_path, tenant_config(tmp_path)) as server:
        assert ask(server).status == 401
        assert ask(server, "hwk_wrong").status == 401
        answer = ask(server, GOLD)
        assert (answer.status, answer.json["parameters"]["tier"]) == (200, "gold")
        assert isinstance(ask_grpc(server, BRONZE), bytes)
        assert ask_grpc(server).code() is grpc.StatusCode.UNAUTHENTICATED
        assert server.get("/v2/health/ready").status == 200
        assert server.get("/v2/models/tiny").status == 401
        text = server.call("GET", "/metrics", headers=BEARER[ADMIN]).body.decode()
        assert 'headway_tenant_requests_total{outcome="completed",tenant="big"} 1.0' in text
        assert 'headway_tenant_requests_total{outcome="completed",tenant="small"} 1.0' in text
        assert server.call("GET", "/metrics", headers=BEARER[GOLD]).status == 403
        assert "hwk_" not in server.log()


def test_limits_answer_with_what_remains_and_when(tmp_path):
    """The fifth of four requests, over either protocol, says which limit and how long."""
    with serving(tmp_path, tenant_config(tmp_path)) as server:
        assert [ask(server, BRONZE).status for _ in range(4)] == [200] * 4
        refused = ask(server, BRONZE)
        assert (refused.status, refused.json["reason"]) == (429, "tenant_requests")
        assert refused.json["remaining"] == 0
        assert float(refused.headers["retry-after"]) > 100
        failed = ask_grpc(server, BRONZE)
        assert failed.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert dict(failed.trailing_metadata())["headway-limit"] == "requests"
        own = server.call("GET", "/v2/tenant", headers=BEARER[BRONZE]).json
        assert {limit["name"]: limit["remaining"] for limit in own["limits"]} == {
            "concurrency": 2,
            "requests": 0,
        }
        assert ask(server, GOLD).status == 200


def test_request_may_not_ask_for_a_better_tier_than_its_tenant_s(tmp_path):
    """Nor say that it is somebody else's."""
    with serving(tmp_path, tenant_config(tmp_path)) as server:
        for name, value in (("headway-tier", "gold"), ("headway-tenant", "big")):
            headers = {**BEARER[BRONZE], name: value}
            assert server.call("POST", INFER, infer_body(ROW), headers).status == 403


def test_concurrency_counts_requests_that_clients_gave_up(tmp_path):
    """Their places are free again once their requests are taken back."""
    folder = Folder(tmp_path / "puppet")
    config = tenant_config(tmp_path, puppet(folder))
    with serving(tmp_path, config) as server:
        head = (
            f"POST /v2/models/puppet/infer HTTP/1.1\r\nhost: x\r\n"
            f"authorization: Bearer {BRONZE}\r\ncontent-length: %d\r\n\r\n"
        )
        body = infer_body(row(1, HOLD))
        held = []
        for _ in range(2):
            client = socket.create_connection(("127.0.0.1", server.port))
            client.sendall((head % len(body)).encode() + body)
            held.append(client)
        folder.wait_begun(1)
        wait_until(lambda: ask(server, BRONZE).status == 429, "both places are taken")
        for client in held:
            client.close()
        folder.open()
        wait_until(lambda: ask(server, BRONZE).status == 200, "the places are free again")


def test_keys_can_be_changed_without_a_restart(tmp_path):
    """A new one is added, an old one goes, and a file with a mistake changes nothing."""
    config = tenant_config(tmp_path)
    path = tmp_path / "serve.yaml"
    with serving(tmp_path, config) as server:
        assert ask(server, GOLD).status == 200
        config["tenancy"]["tenants"]["big"]["keys"] = [key_of("hwk_new")]
        path.write_text(json.dumps(config))
        wait_until(lambda: ask(server, "hwk_new").status == 200, "the new key is known")
        assert ask(server, GOLD).status == 401
        assert "after a restart" not in server.log()
        config["tiers"]["gold"]["budget"] = "11s"
        path.write_text(json.dumps(config))
        wait_until(lambda: "after a restart" in server.log(), "the change is told")
        path.write_text("tenancy: [")
        wait_until(lambda: "is not used" in server.log(), "the mistake is told")
        assert ask(server, "hwk_new").status == 200


def test_tier_that_is_new_is_not_given_to_a_tenant_before_a_restart(tmp_path):
    """Its requests would all be refused; what was read before stays."""
    config = tenant_config(tmp_path)
    with serving(tmp_path, config) as server:
        config["tiers"]["platinum"] = {"priority": 0}
        config["tenancy"]["tenants"]["big"]["tier"] = "platinum"
        config["tenancy"]["tenants"]["big"]["keys"] = [key_of("hwk_new")]
        (tmp_path / "serve.yaml").write_text(json.dumps(config))
        wait_until(lambda: "only after a restart" in server.log(), "the new tier is told")
        assert ask(server, GOLD).status == 200
        assert ask(server, "hwk_new").status == 401


def test_tokens_are_counted_whether_they_are_asked_for_or_not(tmp_path):
    """Else whoever leaves the output out would pay nothing."""
    model = {"name": "counted", "path": f"{MODELS}/counted.py:Counted"}
    config = tenant_config(tmp_path, model)
    config["tenancy"]["tenants"]["big"]["rates"] = {"tokens": 0.001, "burst": "10000s"}
    with serving(tmp_path, config) as server:
        asked = json.loads(infer_body(ROW)) | {"outputs": [{"name": "y"}]}
        body = json.dumps(asked).encode()
        first = ask(server, GOLD, "/v2/models/counted/infer", body)
        assert [output["name"] for output in first.json["outputs"]] == ["y"]
        second = ask(server, GOLD, "/v2/models/counted/infer", body)
        assert (second.status, second.json["limit"]) == (429, "tokens")


def test_ledger_outlives_a_server_that_is_killed(tmp_path, capsys):
    """What was asked more than a second before is in it, and `headway usage` reads it."""
    config = tenant_config(tmp_path)
    database = tmp_path / "headway-usage.db"

    def written():
        with sqlite3.connect(database) as connection:
            found = connection.execute("SELECT sum(requests) FROM headway_usage").fetchone()[0]
        connection.close()
        return found or 0

    with serving(tmp_path, config) as server:
        for _ in range(3):
            assert ask(server, GOLD).status == 200
        wait_until(lambda: written() == 3, "the ledger is written")
        server.signal(signal.SIGKILL)
        server.exit_code()
    assert main(["usage", f"sqlite:///{database}", "--by", "tenant,model", "--format", "csv"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    found = dict(zip(header.split(","), line.split(","), strict=True))
    assert (found["tenant"], found["model"], found["completed"]) == ("big", "tiny", "3")
    assert (found["rows"], found["bytes_in"], found["violations"]) == ("3", "48", "0")
    with serving(tmp_path, config) as server:
        assert ask(server, GOLD).status == 200
        own = server.call("GET", "/v2/tenant", headers=BEARER[GOLD]).json
        quota = next(limit for limit in own["limits"] if limit["name"] == "quota")
        assert quota["remaining"] < quota["limit"]


@pytest.mark.parametrize("with_key", [True, False])
def test_management_has_a_port_of_its_own(tmp_path, with_key):
    """On the public one it is refused, whatever the key."""
    admin = {"port": 0, "keys": [key_of(ADMIN)] if with_key else []}
    with serving(tmp_path, tenant_config(tmp_path, admin=admin)) as server:
        load = "/v2/repository/models/tiny/load"
        for path, method in (("/metrics", "GET"), (load, "POST")):
            assert server.call(method, path, headers=BEARER[ADMIN]).status == 403
            here = server.call(method, path, headers=BEARER[ADMIN], port=server.admin_port)
            assert here.status == 200
            keyless = server.call(method, path, port=server.admin_port)
            assert keyless.status == (401 if with_key else 200)


def test_model_with_a_class_path_is_served_to_its_tenants_alone(tmp_path):
    """Others are told which they may use."""
    config = tenant_config(tmp_path, {"name": "words", "path": f"{MODELS}/words.py:Words"})
    config["tenancy"]["tenants"]["small"]["models"] = ["tiny"]
    with serving(tmp_path, config) as server:
        refused = ask(server, BRONZE, "/v2/models/words/infer")
        assert (refused.status, "may use tiny" in refused.json["error"]) == (403, True)
        assert ask(server, BRONZE).status == 200
