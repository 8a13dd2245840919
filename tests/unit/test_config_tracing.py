"""The section `tracing`: what it may say."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from headway.config import Config

GUIDE = Path(__file__).parents[2] / "docs/guides/tracing.md"


@pytest.mark.parametrize(
    "otlp",
    ["http://localhost:4318/v1/traces", "https://collector.example/otlp/v1/traces"],
)
def test_address_of_a_receiver_is_whole(otlp):
    """With its path, as the exporter takes it; a tenth of the traces that begin here by default."""
    section = Config.model_validate({"tracing": {"otlp": otlp}}).tracing
    assert (section.otlp, section.ratio, section.service) == (otlp, 0.1, "headway")


@pytest.mark.parametrize(
    "tracing",
    [
        {"otlp": "localhost:4318"},
        {"otlp": "http://localhost:4318"},
        {"otlp": "grpc://localhost:4317/v1/traces"},
        {"ratio": 1.5},
        {"ratio": -0.1},
        {"service": ""},
    ],
)
def test_what_cannot_be_exported_to_is_refused(tracing):
    """A missing path would be found out only by a log line at run time."""
    with pytest.raises(ValidationError):
        Config.model_validate({"tracing": tracing})


def test_nothing_is_traced_by_default():
    """Tracing is asked for."""
    assert Config().tracing.otlp is None


def test_example_of_the_guide_is_valid():
    """What the page shows can be written into a configuration."""
    (example,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert Config.model_validate(yaml.safe_load(example)).tracing.otlp is not None
