"""The protocols that clients speak, each a pure codec (bytes <-> call, reply) and a thin app.

Knows `Engine`, its values and the errors that leave it; the sole home of uvicorn and of gRPC, which
is an extra and imported only where it is asked for. Must never import
the kernel's events and commands, a policy, or a worker: what a client wants is decided below.
"""

from headway.frontends.disconnect import DisconnectWatch
from headway.frontends.grpc_door import Listener, grpc_listener, grpc_messages
from headway.frontends.oip_raw import decode_raw_infer
from headway.frontends.oip_reply import EncodedInfer, encode_infer
from headway.frontends.oip_request import (
    DecodedInfer,
    ReplyForm,
    decode_estimate,
    decode_infer,
)
from headway.frontends.oip_rest import OipRest
from headway.frontends.rest_errors import Answer, HttpError, answer_to, status_of
from headway.frontends.server import HttpServer
from headway.frontends.shared_memory import Regions

__all__ = [
    "Answer",
    "DecodedInfer",
    "DisconnectWatch",
    "EncodedInfer",
    "HttpError",
    "HttpServer",
    "Listener",
    "OipRest",
    "Regions",
    "ReplyForm",
    "answer_to",
    "decode_estimate",
    "decode_infer",
    "decode_raw_infer",
    "encode_infer",
    "grpc_listener",
    "grpc_messages",
    "status_of",
]
