"""The smaller rules: watermark, victims, peak, aging, lengths."""

import pytest

from headway.generate import (
    Aging,
    AgingSettings,
    Candidate,
    OutputLengths,
    PeakForecast,
    Sequence,
    SequenceParams,
    TierTerms,
    Watermark,
    WatermarkSettings,
    choose_victims,
)

S = 1_000_000_000


def a_candidate(number, *, blocks, lost_ns, priority=2):
    """Somebody who may be preempted."""
    params = SequenceParams(
        sequence_id=number,
        model="llm",
        tag="t",
        terms=TierTerms(name="low", priority=priority),
        arrived_at_ns=number,
        prompt_tokens=8,
        output_tokens_max=8,
    )
    return Candidate(Sequence(params, None), blocks, lost_ns)


def taken(candidates, blocks):
    """Numbers of those who are chosen, in order."""
    return sorted(each.sequence_id for each in choose_victims(candidates, blocks))


# -- watermark -------------------------------------------------------------------------------------


def test_gate_stays_as_it_is_between_the_marks():
    """Shut at the high mark, open at the low one, and nothing in between."""
    gate = Watermark(WatermarkSettings(high_ratio=0.85, low_ratio=0.70))
    seen = [gate.look(ratio) for ratio in (0.80, 0.85, 0.80, 0.71, 0.70, 0.84, 0.86)]
    assert seen == [True, False, False, False, True, True, False]
    assert (gate.figures.shut_count, gate.figures.use_ratio) == (2, 0.86)


def test_marks_must_be_in_order():
    """A low mark above the high one would shut what it has just opened."""
    with pytest.raises(ValueError, match="does not hold"):
        WatermarkSettings(high_ratio=0.7, low_ratio=0.85)


# -- victims ---------------------------------------------------------------------------------------


def test_victims_are_the_least_important_first():
    """However cheap a more important one would be."""
    candidates = [
        a_candidate(1, blocks=9, lost_ns=1.0, priority=1),
        a_candidate(2, blocks=9, lost_ns=99.0, priority=2),
    ]
    assert taken(candidates, 5) == [2]


def test_victims_lose_the_least_for_what_they_free():
    """Of one class the cheapest a block goes, not the largest."""
    candidates = [
        a_candidate(1, blocks=10, lost_ns=1_000.0),
        a_candidate(2, blocks=4, lost_ns=40.0),
    ]
    assert taken(candidates, 3) == [2]


def test_no_victim_is_taken_for_nothing():
    """If all together are not enough, all stay."""
    candidates = [a_candidate(number, blocks=2, lost_ns=1.0) for number in (1, 2, 3)]
    assert taken(candidates, 7) == []


def test_no_more_victims_than_are_needed():
    """A small one that was taken first is given back when the next is enough alone."""
    candidates = [
        a_candidate(1, blocks=2, lost_ns=1.0),
        a_candidate(2, blocks=8, lost_ns=80.0),
    ]
    assert taken(candidates, 8) == [2]


# -- peak ------------------------------------------------------------------------------------------


def test_peak_counts_who_has_ended_by_then():
    """Two of 100 tokens, one ends after 10 steps and one after 50: 220 at step 10 is the most."""
    peak = PeakForecast([(10, 100), (50, 100)])
    assert peak.tokens == 220
    assert peak.with_one_more(20, 100) == max(330, 240, 150)
    assert peak.tokens == 220


def test_peak_of_a_long_one_is_at_its_end():
    """Where one outlasts the others by far, it alone may be the most."""
    assert PeakForecast([(1, 10), (500, 10)]).tokens == 510


def test_admitted_sequence_counts_from_then_on():
    """What was only asked about and what was let in are different things."""
    peak = PeakForecast([(10, 100)])
    peak.admit(20, 100)
    assert peak.tokens == PeakForecast([(10, 100), (20, 100)]).tokens == 220


# -- aging -----------------------------------------------------------------------------------------


def test_class_is_owed_its_floor_once_its_first_has_waited_too_long():
    """Five parts in a hundred of what others are served, and no longer than it has not had them."""
    aging = Aging(AgingSettings(after_ns=10 * S, floor_ratio=0.05))
    aging.waits(2, is_aged=aging.is_aged(9 * S))
    aging.served({0: 1_000.0})
    assert not aging.is_owed(2)
    aging.waits(2, is_aged=aging.is_aged(11 * S))
    aging.served({0: 1_000.0})
    assert aging.is_owed(2)
    aging.served({0: 0.0, 2: 60.0})
    assert not aging.is_owed(2)


def test_class_that_is_served_anyway_is_owed_nothing():
    """A floor is not a bonus."""
    aging = Aging(AgingSettings(after_ns=0, floor_ratio=0.05))
    for _ in range(100):
        aging.waits(2, is_aged=True)
        aging.served({0: 90.0, 2: 10.0})
        assert not aging.is_owed(2)


def test_debt_to_a_class_is_bounded():
    """It cannot save up a hundred seconds of floor, to take them at once."""
    aging = Aging(AgingSettings(after_ns=0, floor_ratio=0.05, owed_max=100.0))
    aging.waits(2, is_aged=True)
    for _ in range(1_000):
        aging.served({0: 1_000.0})
    aging.served({2: 106.0})
    assert not aging.is_owed(2)


# -- lengths ---------------------------------------------------------------------------------------


def fed(lengths, tag, tokens, times=1):
    """Answers of a tag have ended."""
    for _ in range(times):
        for each in tokens:
            foreseen = lengths.foresee("llm", tag, tokens_max=4_096)
            lengths.ended("llm", tag, each, foreseen)
    return lengths


def test_unknown_model_may_write_all_it_is_allowed():
    """With nothing known, the cap."""
    assert OutputLengths().foresee("llm", "a", tokens_max=512) == 512


def test_length_is_a_quantile_of_the_tags_own_answers():
    """A tag that writes little is not foreseen to write much since others do."""
    lengths = fed(OutputLengths(0.6), "short", [10], times=100)
    fed(lengths, "long", [1_000], times=100)
    assert lengths.foresee("llm", "short", tokens_max=4_096) <= 12
    assert lengths.foresee("llm", "long", tokens_max=4_096) >= 900


def test_new_tag_borrows_from_its_model():
    """Until it has answers of its own."""
    lengths = fed(OutputLengths(0.6), "known", [100], times=100)
    assert 90 <= lengths.foresee("llm", "new", tokens_max=4_096) <= 115


def test_answer_that_goes_on_is_foreseen_anew():
    """Given that it is longer than most, only the longer ones say how long."""
    lengths = fed(OutputLengths(0.6), "a", [10] * 9 + [1_000], times=40)
    assert lengths.foresee("llm", "a", tokens_max=4_096) < 20
    assert lengths.foresee("llm", "a", generated=20, tokens_max=4_096) > 800


def test_foreseen_length_holds_for_its_part_of_answers():
    """The level corrects itself where answers grow all the time, and a quantile would lag."""
    lengths, within = OutputLengths(0.6), 0
    for number in range(2_000):
        tokens = 50 + number // 4 + 37 * (number * 7 % 11)
        foreseen = lengths.foresee("llm", "a", tokens_max=4_096)
        lengths.ended("llm", "a", tokens, foreseen)
        within += number >= 1_000 and tokens <= foreseen
    assert 0.5 <= within / 1_000 <= 0.75
