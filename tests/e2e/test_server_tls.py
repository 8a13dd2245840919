"""Encryption of a whole server: both protocols, certificates that are renewed, clients with one."""

import http.client
import shutil
import socket
import ssl

import grpc
import pytest
from tests.e2e.certificates import Authority
from tests.e2e.server import a_config, infer_body, serving, wait_until
from tests.models import identity

from headway.core import Datatype

ROW = [[1.0, 2.0, 3.0, 4.0]]


def a_tls_config(folder, pair, **tls):
    """Both interfaces, encrypted."""
    section = {"certificate": str(pair.certificate), "key": str(pair.key), **tls}
    tiny = {"name": "tiny", "path": identity(folder / "tiny.onnx", Datatype.FP32)}
    return a_config(tiny, server={"port": 0, "grpc": {"port": 0}, "tls": section})


def trusting(authority, pair=None):
    """A client's context that trusts an authority, and perhaps shows a certificate."""
    context = ssl.create_default_context(cafile=str(authority.path))
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


def serial_at(port, context):
    """The number of the certificate that a server shows."""
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        return int(client.getpeercert()["serialNumber"], 16)


def grpc_serial(server, authority, pair=None):
    """Whether a gRPC client that trusts an authority is answered."""
    shown = () if pair is None else (pair.key.read_bytes(), pair.certificate.read_bytes())
    credentials = grpc.ssl_channel_credentials(authority.path.read_bytes(), *shown)
    with grpc.secure_channel(f"127.0.0.1:{server.grpc_port}", credentials) as channel:
        live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        return live(b"", timeout=20, wait_for_ready=False)


def test_both_protocols_are_encrypted_and_a_renewed_certificate_is_used(tmp_path):
    """New connections are shown the new one without a restart; a broken file changes nothing."""
    authority = Authority(tmp_path)
    first = authority.sign("server")
    context = trusting(authority)
    config = a_tls_config(tmp_path, first)
    with serving(tmp_path, config, tls=context) as server:
        assert server.infer("tiny", ROW).status == 200
        assert grpc_serial(server, authority)
        assert serial_at(server.port, context) == first.serial
        assert serial_at(server.grpc_port, context) == first.serial
        second = authority.sign("renewed")
        first.key.write_bytes(b"nonsense")
        wait_until(lambda: "is not used" in server.log(), "the broken key is told")
        assert serial_at(server.port, context) == first.serial
        shutil.copy(second.key, first.key)
        shutil.copy(second.certificate, first.certificate)
        wait_until(lambda: serial_at(server.port, context) == second.serial, "it is renewed")
        assert serial_at(server.grpc_port, context) == second.serial
        assert server.infer("tiny", ROW).status == 200


def test_client_that_speaks_plainly_to_an_encrypted_port_is_cut_off(tmp_path):
    """It is answered nothing that could be taken for an answer."""
    authority = Authority(tmp_path)
    config = a_tls_config(tmp_path, authority.sign("server"))
    with serving(tmp_path, config, tls=trusting(authority)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("GET", "/v2/health/live")
        with pytest.raises((http.client.HTTPException, OSError)):
            connection.getresponse()
        connection.close()


def test_client_must_show_a_certificate_of_the_authority_that_is_asked_for(tmp_path):
    """One of another authority, or none, is no client; an authority that has gone is another."""
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    ours, theirs = authority.sign("client"), other.sign("stranger")
    trusted = tmp_path / "trusted.pem"
    shutil.copy(authority.path, trusted)
    config = a_tls_config(tmp_path, authority.sign("server"), client_ca=str(trusted))
    with serving(tmp_path, config, tls=trusting(authority, ours)) as server:
        assert server.infer("tiny", ROW).status == 200
        assert grpc_serial(server, authority, ours)
        for pair in (None, theirs):
            refuses(server, authority, pair)
        shutil.copy(other.path, trusted)
        wait_until(lambda: is_served(server, authority, theirs), "the other authority is trusted")
        refuses(server, authority, ours)


def refuses(server, authority, pair):
    """A client with this certificate, or none, is not served by either protocol."""
    assert not is_served(server, authority, pair)
    with pytest.raises(grpc.RpcError):
        grpc_serial(server, authority, pair)


def is_served(server, authority, pair):
    """Whether HTTP is answered to a client with this certificate."""
    server.tls = trusting(authority, pair)
    try:
        return server.call("POST", "/v2/models/tiny/infer", infer_body(ROW)).status == 200
    except (ConnectionError, ssl.SSLError):
        return False
