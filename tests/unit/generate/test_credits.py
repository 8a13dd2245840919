"""Tag credits: rounds, weights, what is carried over, and debts."""

import pytest

from headway.generate import CreditSettings, TagCredits


def credits_of(**settings):
    """Rounds of 100 units, one of which is carried over."""
    return TagCredits(CreditSettings(**{"quantum": 100.0, "carry_rounds": 1.0} | settings))


def test_newcomer_has_what_can_be_carried():
    """A tag that was never seen has been away for long."""
    assert credits_of().balance("a") == 200.0


def test_round_begins_only_when_nobody_who_wants_has_credit():
    """One tag's credit is another's wait."""
    account = credits_of()
    account.spend("a", 250.0)
    account.begin_round(["a", "b"])
    assert not account.has_credit("a")
    account.spend("b", 200.0)
    account.begin_round(["a", "b"])
    assert (account.balance("a"), account.balance("b")) == (50.0, 100.0)


def test_lone_tag_goes_through_rounds_without_debt():
    """Nothing is held back while there is work, and what was used alone is not held against it."""
    account = credits_of()
    for _ in range(50):
        account.begin_round(["a"])
        assert account.has_credit("a")
        account.spend("a", 90.0)
    assert account.balance("a") > -90.0


def test_large_debt_is_paid_in_as_many_rounds_as_it_takes():
    """A single look may cost more than a round."""
    account = credits_of()
    account.spend("a", 1_000.0)
    account.begin_round(["a"])
    assert 0.0 < account.balance("a") <= 100.0


def test_idle_tag_saves_up_no_more_than_is_carried():
    """What was not used for long is lost."""
    account = credits_of()
    assert account.balance("idle") == 200.0
    for _ in range(50):
        account.spend("busy", 100.0)
        account.begin_round(["busy"])
    assert account.balance("idle") == 200.0
    assert account.is_conserved()


def test_weights_divide_a_round():
    """Weight three has three times the units of weight one in every round."""
    account = credits_of(weights={"large": 3.0}, carry_rounds=0.0)
    account.spend("large", 300.0)
    account.spend("small", 100.0)
    account.begin_round(["large", "small"])
    assert (account.balance("large"), account.balance("small")) == (300.0, 100.0)


def test_output_tokens_cost_what_they_weigh():
    """Units are input and output tokens, each by its weight."""
    account = credits_of(input_weight=1.0, output_weight=2.0)
    assert account.spend_tokens("a", 10, 5) == 20.0
    assert account.figures() == {"a": 20.0}


@pytest.mark.parametrize(
    "settings", [{"quantum": 0.0}, {"carry_rounds": -1.0}, {"weights": {"a": 0.0}}]
)
def test_credit_settings_refuse_what_cannot_be_shared(settings):
    """A round without units, or a tag without a part, would never end."""
    with pytest.raises(ValueError, match="above 0"):
        CreditSettings(**settings)
