"""Which token comes next."""

from random import Random

import numpy as np
import pytest

from headway.decoder import SamplingParams, bias_of
from headway.decoder.sampling import Sampler
from headway.errors import InvalidRequestError

LOGITS = np.log(np.array([0.5, 0.25, 0.125, 0.125], np.float32))


def draws(count=4_000, logits=LOGITS, **params):
    sampler = Sampler(SamplingParams(**params), Random("a seed"))
    return [sampler.draw(logits).token for _ in range(count)]


def test_without_temperature_the_likeliest_is_said():
    """Always, and the first of equals."""
    assert draws(3, temperature=0.0) == [0, 0, 0]
    assert draws(1, np.zeros(5, np.float32), temperature=0.0) == [0]


def test_tokens_come_as_often_as_they_are_likely():
    """At temperature 1 by probability; a higher one makes them more alike."""
    counts = np.bincount(draws(), minlength=4) / 4_000
    assert np.allclose(counts, [0.5, 0.25, 0.125, 0.125], atol=0.03)
    flat = np.bincount(draws(temperature=2.0), minlength=4) / 4_000
    assert flat[0] < counts[0]


def test_nucleus_has_the_fewest_likeliest_tokens():
    """Those beyond the wanted mass never come; one always may."""
    assert set(draws(top_p=0.7)) == {0, 1}
    assert set(draws(top_p=0.5)) == {0}
    assert set(draws(top_p=0.0)) == {0}


def test_nucleus_of_a_flat_vocabulary_goes_beyond_the_first_look():
    """Where hundreds of tokens share the mass, all that are needed are found."""
    flat = np.zeros(2_000, np.float32)
    assert len(set(draws(4_000, flat, top_p=0.9))) > 1_000


def test_same_seed_says_the_same():
    """And another seed something else."""
    assert draws(50) == draws(50)
    other = Sampler(SamplingParams(), Random("another"))
    assert draws(50) != [other.draw(LOGITS).token for _ in range(50)]


def test_penalties_take_off_what_was_said():
    """A token that was said often enough loses to one that was not."""
    assert draws(2, temperature=0.0, presence_penalty=1.0) == [0, 1]
    assert draws(4, temperature=0.0, frequency_penalty=0.4) == [0, 0, 1, 0]


def test_bias_moves_a_token():
    """To certainty and to never."""
    assert set(draws(50, logit_bias={3: 100.0})) == {3}
    assert 0 not in draws(500, logit_bias={0: -100.0})


def test_logprobs_are_the_models_own():
    """Before temperature, bias and penalties; the likeliest first."""
    sampler = Sampler(SamplingParams(temperature=0.0, logprobs=2, logit_bias={2: 50.0}), Random(1))
    drawn = sampler.draw(LOGITS)
    assert drawn.token == 2
    assert drawn.logprob == pytest.approx(np.log(0.125), abs=1e-5)
    assert [token for token, _ in drawn.top] == [0, 1]
    assert drawn.top[0][1] == pytest.approx(np.log(0.5), abs=1e-5)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": -0.1},
        {"temperature": 2.1},
        {"temperature": float("nan")},
        {"top_p": 1.5},
        {"frequency_penalty": 3.0},
        {"presence_penalty": -3.0},
        {"logit_bias": {1: 101.0}},
        {"logprobs": 21},
        {"logprobs": -1},
    ],
)
def test_value_beyond_its_limits_is_refused_by_name(params):
    """The name and the value stand in the message."""
    with pytest.raises(InvalidRequestError, match=next(iter(params))):
        SamplingParams(**params)


def test_bias_of_what_is_no_token_is_refused():
    """Keys are numbers of tokens, as text."""
    assert bias_of({"3": 1.0}, 4) == {3: 1.0}
    for key in ("4", "-1", "x", "", "²"):
        with pytest.raises(InvalidRequestError, match="no token"):
            bias_of({key: 1.0}, 4)


def test_bias_has_no_number_that_is_too_long_to_read():
    """Python refuses to read thousands of digits, which must not end whoever is asked."""
    with pytest.raises(InvalidRequestError, match="no token"):
        bias_of({"9" * 5_000: 1.0}, 10)


@pytest.mark.parametrize("temperature", [1e-320, 1e-40, 1e-6])
def test_lowest_temperatures_are_greedy(temperature):
    """Though FP32 has no such number."""
    logits = np.array([1, 5, 2, 0], np.float32)
    assert draws(20, logits, temperature=temperature) == [1] * 20


def test_biases_are_added_to_their_tokens():
    """All of them, to no others, and the logits that were given stay as they are."""
    logits = np.zeros(4, np.float32)
    assert draws(3, logits, temperature=0.0, logit_bias={3: 2.0, 1: 1.0, 0: -5.0}) == [3] * 3
    assert not logits.any()
