"""What an emulated model would be measured to take alone: its profile, without a run.

Knows the law's noise and pauses, as the machine draws them. Refuses to know neighbours: what those
do is for predictors to find out.
"""

from math import exp, log
from statistics import NormalDist

from headway.core import DeviceName
from headway.devices.emulated import Accelerator, EmulatedModel
from headway.predict import ModelProfile, SoloTime

__all__ = ["emulated_profile"]


def emulated_profile(
    machine: Accelerator, model: EmulatedModel, device: DeviceName, rows_max: int
) -> ModelProfile:
    """Solo times of one row and of the largest batch, between which they are linear; and bytes.

    Solo work is log-normal around `solo_ns` + `row_ns` * (rows - 1) with a mean of that, so that
    its q-quantile is work * exp(sigma * z(q) - sigma^2 / 2), sigma^2 = log(1 + cv^2); the pauses of
    an execution's launches are taken at their mean.

    Returns:
        What a profile measured on the emulated device would come to, as if of one run.
    """
    law = machine.execution
    sigma = log(1 + law.noise_cv**2) ** 0.5
    slow = sigma * NormalDist().inv_cdf(0.95)
    pauses_ns = model.kernels * law.launch_jitter_ns
    solo = []
    for rows in sorted({1, rows_max}):
        work_ns = (model.solo_ns + model.row_ns * (rows - 1)) * exp(-sigma * sigma / 2)
        median_ns, p95_ns = round(work_ns + pauses_ns), round(work_ns * exp(slow) + pauses_ns)
        solo.append(SoloTime(rows=rows, median_ns=median_ns, p95_ns=p95_ns, runs=1))
    return ModelProfile(
        model=model.name,
        device=device,
        solo=tuple(solo),
        transfer_in_bytes=model.in_bytes,
        transfer_out_bytes=model.out_bytes,
    )
