"""The protocols that clients speak, each a pure codec (bytes <-> call, reply) and a thin app.

Knows `Engine`, its values and the errors that leave it; the sole home of uvicorn, h2 and protobuf,
of which the last two are an extra and imported only where gRPC is asked for. Must never import the
kernel's events and commands, a policy, or a worker: what a client wants is decided below.
"""

from headway.frontends.access import Access, Door, Need
from headway.frontends.admin_events import Viewers
from headway.frontends.admin_rest import AdminRest, Insight
from headway.frontends.cors import Cors
from headway.frontends.disconnect import DisconnectWatch
from headway.frontends.gate import GatedEngine
from headway.frontends.generating import (
    AnswerObserver,
    AnswerTimes,
    Generating,
    ServedGenerator,
)
from headway.frontends.grpc_door import Listener, grpc_listener, grpc_messages
from headway.frontends.http_app import HttpApp
from headway.frontends.http_connection import HttpLimits
from headway.frontends.oip_raw import decode_raw_infer
from headway.frontends.oip_reply import EncodedInfer, encode_infer
from headway.frontends.oip_request import (
    DecodedInfer,
    ReplyForm,
    decode_estimate,
    decode_infer,
)
from headway.frontends.oip_rest import OipRest
from headway.frontends.openai_rest import OpenAiRest
from headway.frontends.openapi import openapi_document
from headway.frontends.openapi_operations import OPERATIONS
from headway.frontends.page_app import PageApp
from headway.frontends.rest_errors import Answer, HttpError, answer_to, status_of
from headway.frontends.server import HttpServer
from headway.frontends.shared_memory import Regions
from headway.frontends.tls import Tls, TlsFiles
from headway.frontends.traced_engine import TracedEngine

__all__ = [
    "OPERATIONS",
    "Access",
    "AdminRest",
    "Answer",
    "AnswerObserver",
    "AnswerTimes",
    "Cors",
    "DecodedInfer",
    "DisconnectWatch",
    "Door",
    "EncodedInfer",
    "GatedEngine",
    "Generating",
    "HttpApp",
    "HttpError",
    "HttpLimits",
    "HttpServer",
    "Insight",
    "Listener",
    "Need",
    "OipRest",
    "OpenAiRest",
    "PageApp",
    "Regions",
    "ReplyForm",
    "ServedGenerator",
    "Tls",
    "TlsFiles",
    "TracedEngine",
    "Viewers",
    "answer_to",
    "decode_estimate",
    "decode_infer",
    "decode_raw_infer",
    "encode_infer",
    "grpc_listener",
    "grpc_messages",
    "openapi_document",
    "status_of",
]
