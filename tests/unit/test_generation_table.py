"""The measured part of the page on token-by-token models: what the files say, and no more."""

import generation_table

TIERS = {
    "command": "python benchmarks/generate_tiers.py",
    "date": "2030-01-02",
    "rows": [
        {
            "trace": "a trace",
            "speed": 1.6,
            "policy": "headway",
            "gold_ttft_p50_s": 0.123,
            "gold_ttft_p99_s": 0.456,
            "silver_ttft_p99_s": 0.789,
            "bronze_ttft_p50_s": 41.7,
            "bronze_ttft_p99_s": 65.43,
            "bronze_tpot_p99_ms": 24.7,
            "preemptions": 1234,
            "makespan_s": 253.7,
        }
    ],
}
SWAP = {
    "command": "python benchmarks/swap_or_recompute.py",
    "date": "2030-01-02",
    "rows": [
        {
            "engine": "an engine",
            "crossover_tokens": None,
            "way": "by cost",
            "makespan_s": 900.4,
            "latency_mean_s": 9.96,
            "over_best_makespan": 0.012,
            "over_best_latency": -0.004,
            "swaps": 7,
            "recomputes": 1300,
        }
    ],
}


def test_tiers_are_told_with_their_figures():
    """Every figure of a row that the page has is the file's."""
    text = "\n".join(generation_table.blocks({"generate_tiers": TIERS}))
    row = "| a trace | 1.6 | headway | 0.12 / 0.46 | 0.79 | 41.7 / 65.4 | 25 | 1,234 | 254 |"
    assert row in text
    assert "`python benchmarks/generate_tiers.py`, 2030-01-02." in text


def test_rule_is_told_beside_the_better_way():
    """What the rule is over the better of the two, and that some lines do not cross."""
    text = "\n".join(generation_table.blocks({"swap_or_recompute": SWAP}))
    assert "| an engine | none | by cost | 900 | 9.96 | +1.2 %, -0.4 % | 7 | 1,300 |" in text


LAYOUTS = {
    "command": "python benchmarks/generate_layouts.py",
    "date": "2030-01-02",
    "rows": [
        {
            "trace": "a trace",
            "targets": "even",
            "speed": 3.0,
            "layout": "apart 2:2",
            "met_pct": 98.76,
            "goodput_rps": 11.693,
            "ttft_p99_s": 0.412,
            "tpot_p99_ms": 15.4,
            "refused": 3,
            "busy": 0.4,
            "busy_receivers": 0.962,
        }
    ],
}
CAPACITY = {
    "command": "python benchmarks/generate_capacity.py",
    "date": "2030-01-02",
    "rows": [
        {
            "lengths": "a trace",
            "load": 0.5,
            "law_rate_rps": 2.5,
            "played_rate_rps": 2.44,
            "sequences": 9.96,
            "played_sequences": 10.4,
            "sequences_off_pct": -4.2,
            "kv_tokens": 11_000.2,
            "played_kv_tokens": 10_800.0,
            "kv_off_pct": 1.9,
        }
    ],
}


def test_layouts_are_told_as_simulated():
    """A row has what the file has, and the words above it say what it is."""
    text = "\n".join(generation_table.blocks({"generate_layouts": LAYOUTS}))
    row = "| a trace | even | 3 | apart 2:2 | 98.8 % | 11.69 | 0.41 | 15 | 3 | 40 % / 96 % |"
    assert row in text
    assert "Simulated:" in text


def test_law_is_told_beside_what_was_played():
    """Both, and by how much they differ."""
    text = "\n".join(generation_table.blocks({"generate_capacity": CAPACITY}))
    row = "| a trace | 0.5 | 10.0 | 10.4 | -4 % | 11,000 | 10,800 | +2 % | 2.50 / 2.44 |"
    assert row in text


def test_page_without_results_says_nothing():
    """A file that is not there leaves no trace."""
    assert list(generation_table.blocks({})) == []
