"""A run of a policy, for tests that compare some."""

from headway.report import PolicyRun


def a_policy_run(**fields):
    """Of `fifo` on mix `m`: a tenth of the high requests late, low work on half a core."""
    given = {
        "mix": "m",
        "policy": "fifo",
        "niced": True,
        "seed": 1,
        "duration_s": 12.0,
        "high_requests": 100,
        "low_requests": 50,
        "high_violations": 0.1,
        "low_violations": 0.2,
        "high_goodput_rps": 8.0,
        "low_goodput_rps": 4.0,
        "high_goodput_work": 0.4,
        "low_goodput_work": 0.5,
        "high_p50_ms": 10.0,
        "high_p99_ms": 30.0,
        "low_p50_ms": None,
        "low_p99_ms": None,
        "error_mean": 0.15,
        "error_median": 0.1,
        "utilisation": 0.9,
        "waste_ratio": 0.05,
        "decision_p50_us": 50.0,
        "decision_p99_us": 150.0,
        "refused": 0,
        "expired": 10,
        "given_up": 0,
        "failed": 0,
        "others_cores": 0.02,
    }
    return PolicyRun(**given | fields)
