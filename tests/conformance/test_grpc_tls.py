"""gRPC over TLS: the library's client against the listener on loopback."""

import asyncio
import datetime
import ipaddress
import threading

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.fakes import FakeEngine

from headway.frontends import Door, Regions, Tls, TlsFiles, grpc_listener
from headway.frontends.oip_messages import INFERENCE


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key and a certificate for it that it signed itself, as files and as PEM."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "headway test")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin.replace(year=2090))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    (folder / "cert.pem").write_bytes(pem)
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder, pem


class Serving:
    """The listener in a thread of its own."""

    def __init__(self, folder):
        self._folder = folder
        self._listens = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self.port = 0

    async def _main(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        tls = Tls(TlsFiles(self._folder / "cert.pem", self._folder / "key.pem"))
        listener = grpc_listener(
            FakeEngine(),
            version="1",
            regions=Regions(is_allowed=False),
            can_load=True,
            door=Door(),
            host="127.0.0.1",
            port=0,
            message_bytes_max=8 << 20,
            keep_alive_s=60.0,
            tls=tls,
        )
        await listener.start()
        self.port = listener.port
        self._listens.set()
        await self._stop.wait()
        await listener.stop(5.0)

    def __enter__(self):
        self._thread.start()
        assert self._listens.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def request(columns):
    """An infer request with one raw input."""
    made = INFERENCE["ModelInferRequest"](model_name="echo")
    made.inputs.add(name="INPUT", datatype="FP32", shape=[1, columns])
    made.raw_input_contents.append(bytes(range(4)) * columns)
    return made


def test_calls_over_tls(certificate):
    """Small and large messages, many at once; who speaks plainly is not served."""
    folder, pem = certificate
    with Serving(folder) as server:
        trust = grpc.ssl_channel_credentials(pem)
        with grpc.secure_channel(f"127.0.0.1:{server.port}", trust) as channel:
            ask = channel.unary_unary(f"/{INFERENCE.service}/ModelInfer")
            sent = [request(columns) for columns in (16, 1_000_000, 16, 500_000, 1)]
            calls = [ask.future(one.SerializeToString(), timeout=20) for one in sent]
            for one, call in zip(sent, calls, strict=True):
                answer = INFERENCE["ModelInferResponse"].FromString(call.result())
                assert answer.raw_output_contents[0] == one.raw_input_contents[0]
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            plain = channel.unary_unary(f"/{INFERENCE.service}/ModelInfer")
            with pytest.raises(grpc.RpcError) as error:
                plain(request(1).SerializeToString(), timeout=5)
            assert error.value.code() is grpc.StatusCode.UNAVAILABLE
