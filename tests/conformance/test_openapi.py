"""The description of the HTTP interface: all that is served and nothing else, and well formed."""

import asyncio
import json

import jsonschema
import pytest
from tests.admin_rig import Shown
from tests.asgi_client import call
from tests.fakes import FakeEngine

from headway import errors
from headway.frontends import (
    OPERATIONS,
    HttpApp,
    OipRest,
    OpenAiRest,
    openapi_document,
    status_of,
)
from headway.frontends.rest_errors import answer_to


@pytest.fixture(scope="module")
def document():
    return openapi_document("1.2.3")


def app():
    engine = FakeEngine()
    return HttpApp(
        OipRest(engine, version="1.2.3"), OpenAiRest(engine, created_at_s=0), Shown().app
    )


def test_every_route_is_described_and_no_other():
    """What the apps serve is what the list of operations has."""
    served = {(path, method) for path, methods in app().routes.items() for method in methods}
    described = [(operation.path, operation.method) for operation in OPERATIONS]
    assert served == set(described)
    assert len(set(described)) == len(described)


def test_operations_have_names_of_their_own():
    """Generated clients call their methods by them."""
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)


def test_the_description_is_served(document):
    """The file is one of the paths that it describes."""
    response = asyncio.run(call(app(), "GET", "/openapi.json"))
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert response.json == json.loads(json.dumps(document))
    assert document["info"]["version"] == "1.2.3"


def test_every_reference_leads_somewhere(document):
    """No component is missing, and none is there for nothing."""
    text = json.dumps(document)
    there = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "responses")
        for name in document["components"][kind]
    }
    wanted = {part.split('"')[0] for part in text.split('"$ref": "')[1:]}
    assert wanted <= there
    unused = {name for name in there - wanted if "/schemas/" in name}
    assert not unused


def test_every_schema_is_one(document):
    """They are JSON Schema 2020-12, as OpenAPI 3.1 has it."""
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_fields_say_what_they_are(document):
    """The string under a field of a class is what the description says of it."""
    properties = document["components"]["schemas"]["EstimateBody"]["properties"]
    assert properties["limit"]["description"] == "What set the budget."


def test_each_error_of_a_call_has_its_status(document):
    """Whatever an infer request may end in is described, with the body that it has."""
    responses = document["paths"]["/v2/models/{model}/infer"]["post"]["responses"]
    ends = [
        errors.InvalidRequestError("x"),
        errors.ModelNotFoundError("x"),
        errors.RejectedError("x", reason="x", retry_after_ns=1),
        errors.UnavailableError("x"),
        errors.DeadlineExceededError("x", limit="x", stage="x"),
        errors.NotAuthenticatedError("x"),
        errors.NotAllowedError("x"),
        errors.ExecutorError("x"),
        errors.WorkerLostError("x"),
        errors.InternalError("x"),
    ]
    for status in {status_of(end) for end in ends}:
        assert responses[str(status)] == {"$ref": f"#/components/responses/Error{status}"}


def test_each_header_of_a_refusal_is_described(document):
    """Those of a tenant's limit among them, and each as its schema says."""
    refusal = errors.RejectedError(
        "x", reason="x", retry_after_ns=1, limit="requests", remaining=0.5
    )
    described = document["components"]["responses"]["Error429"]["headers"]
    schemas = {name.lower(): header["schema"] for name, header in described.items()}
    for name, value in answer_to(refusal).headers:
        if name != b"content-type":
            jsonschema.validate(value.decode(), schemas[name.decode()])
