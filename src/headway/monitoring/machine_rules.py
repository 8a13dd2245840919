"""Rules about what serves: servers, devices, workers, their memory, the scheduler's loop."""

from collections.abc import Iterator
from typing import Final

from headway.monitoring.promql import number, window
from headway.monitoring.rule import Alert, Recording, RuleGroup, Severity
from headway.monitoring.settings import AlertSettings
from headway.units import NS_PER_S

__all__ = ["device_rules", "scheduler_rules", "server_rules", "worker_rules"]

_DEVICE: Final = "job, instance, device"
_HELD: Final = "instance_worker:headway_memory_bytes:max"
_HELD_DEVICE: Final = "instance_worker_device:headway_memory_bytes:max"


def server_rules(settings: AlertSettings) -> RuleGroup:
    """Whether anybody is there."""
    up = f'up{{job="{settings.job}"}}'
    over = window(settings.pending_urgent_ns)
    none = Alert(
        name="HeadwayNoServer",
        severity=Severity.CRITICAL,
        pending_ns=settings.pending_urgent_ns,
        expression=f"absent({up} == 1)",
        labels={"job": settings.job},
        summary=f"No server of job {settings.job} answers",
        description=(
            f"For {over} no target of the scrape job {settings.job} has answered, or the job has "
            "none. Nothing is served, and no other alert of headway can fire."
        ),
        dashboard="overview",
    )
    down = Alert(
        name="HeadwayServerDown",
        severity=Severity.WARNING,
        pending_ns=settings.pending_urgent_ns,
        expression=f"{up} == 0",
        summary="{{ $labels.instance }} does not answer",
        description=(
            f"{{{{ $labels.instance }}}} of job {{{{ $labels.job }}}} has not answered for {over}."
        ),
        dashboard="overview",
        about=("instance",),
    )
    return RuleGroup(name="headway-servers", rules=(none, down))


def device_rules(settings: AlertSettings) -> RuleGroup:
    """Devices that are idle beside work, or nearly full."""
    return RuleGroup(
        name="headway-devices", rules=(*_utilisation(settings), _device_memory(settings))
    )


def _utilisation(settings: AlertSettings) -> Iterator[Recording | Alert]:
    over = window(settings.window_ns)
    busy = f"instance_device:headway_slots_busy:ratio_rate{over}"
    use = f"instance_device:headway_utilization:ratio_avg{over}"
    waiting = f"instance_device:headway_queue_depth:avg{over}"
    yield Recording(
        name=busy,
        expression=f"""\
max by ({_DEVICE}) (rate(headway_slots_busy_seconds_total[{over}]))
/
(max by ({_DEVICE}) (headway_slots) > 0)""",
    )
    # Where a device cannot tell how busy it is, its slots have to.
    yield Recording(
        name=use,
        expression=f"""\
max by ({_DEVICE}) (avg_over_time(headway_device_utilization_ratio[{over}]))
or
{busy}""",
    )
    # A model's time on a device exists, at 0, once the model is to be loaded there: such models are
    # work for the device, those that never got there included. Others wait for another one.
    yield Recording(
        name=waiting,
        expression=f"""\
sum by ({_DEVICE}) (
  group by ({_DEVICE}, model) (headway_device_seconds_total)
  * on (job, instance, model) group_left ()
  sum by (job, instance, model) (avg_over_time(headway_queue_depth[{over}]))
)""",
    )
    yield Alert(
        name="HeadwayUtilisationLow",
        severity=Severity.INFO,
        pending_ns=settings.pending_ns,
        expression=f"""\
{use} < {number(settings.utilisation_ratio_min)}
and on ({_DEVICE})
(
  {waiting} >= {number(settings.waiting_min)}
  or
  {busy} > {number(settings.slots_busy_ratio_min)}
)""",
        summary="{{ $labels.device }} at {{ $labels.instance }} idles beside work",
        description=(
            "{{ $labels.device }} at {{ $labels.instance }} was used "
            f"{{{{ $value | humanizePercentage }}}} over the last {over}, while requests for it "
            "waited or its slots were busy."
        ),
        dashboard="devices",
        about=("instance", "device"),
    )


def _device_memory(settings: AlertSettings) -> Alert:
    return Alert(
        name="HeadwayDeviceMemoryHigh",
        severity=Severity.WARNING,
        pending_ns=settings.pending_ns,
        expression=f"""\
max by ({_DEVICE}) (headway_device_memory_used_bytes)
/
max by ({_DEVICE}) (headway_device_memory_total_bytes)
> {number(settings.memory_ratio_max)}""",
        summary="{{ $labels.device }} at {{ $labels.instance }} is nearly full",
        description=(
            "{{ $value | humanizePercentage }} of the memory of {{ $labels.device }} at "
            "{{ $labels.instance }} is in use, by headway and by all others on it."
        ),
        dashboard="devices",
        about=("instance", "device"),
    )


def worker_rules(settings: AlertSettings) -> RuleGroup:
    """Workers that end again and again, and memory that only grows."""
    over = window(settings.losses_window_ns)
    loop = Alert(
        name="HeadwayWorkerCrashLoop",
        severity=Severity.CRITICAL,
        # Rounded, for an increase is stretched to the ends of its window.
        expression=f"""\
round(sum by (job, instance) (increase(headway_worker_losses_total[{over}])))
  > {number(settings.losses_max)}""",
        summary="Workers at {{ $labels.instance }} end again and again",
        description=(
            f"{{{{ $value }}}} worker processes were lost at {{{{ $labels.instance }}}} within "
            f"{over}. What ran in them failed, and their models were not there meanwhile."
        ),
        dashboard="devices",
        about=("instance",),
    )
    return RuleGroup(name="headway-workers", rules=(loop, *_leaks(settings)))


def _leaks(settings: AlertSettings) -> Iterator[Recording | Alert]:
    yield Recording(
        name=_HELD,
        expression=f"""\
max by (job, instance, worker) (headway_worker_memory_bytes)
or
label_replace(
  max by (job, instance) (process_resident_memory_bytes{{job="{settings.job}"}}),
  "worker", "server", "", ""
)""",
    )
    yield Recording(
        name=_HELD_DEVICE,
        expression=("max by (job, instance, worker, device) (headway_worker_device_memory_bytes)"),
    )
    yield _leak(settings, _HELD, memory="host")
    yield _leak(settings, _HELD_DEVICE, memory="device")


def _leak(settings: AlertSettings, held: str, *, memory: str) -> Alert:
    """Memory grows over the whole window, and in nearly all of its parts at half the pace or more.

    A warm-up and a load are steps. Each lies in one part, so that even three of them leave half of
    the parts flat; what goes up and down has parts in which it falls.
    """
    whole, part = window(settings.leak_window_ns), window(settings.leak_part_ns)
    pace = f"deriv({held}[{whole}])"
    hourly = f"3600 * {pace}"
    least, ratio = number(settings.leak_bytes_min), number(settings.leak_ratio_min)
    return Alert(
        name="HeadwayLeakSuspected",
        severity=Severity.WARNING,
        pending_ns=settings.pending_ns,
        labels={"memory": memory},
        # What was not yet there when the window began is left out: it may still be warming up.
        expression=f"""\
{hourly} > {least}
and
{hourly} > {ratio} * {held}
and
quantile_over_time(0.25, deriv({held}[{part}])[{whole}:{part}]) > 0.5 * {pace}
and
{held} offset {whole}""",
        summary="Memory of {{ $labels.worker }} at {{ $labels.instance }} only grows",
        description=(
            f"The {memory} memory of {{{{ $labels.worker }}}} at {{{{ $labels.instance }}}} grows "
            f"by {{{{ $value | humanize1024 }}}}B an hour, and has all through the last {whole}."
        ),
        dashboard="devices",
        about=("instance",),
    )


def scheduler_rules(settings: AlertSettings) -> RuleGroup:
    """A scheduler that decides or wakes late, which delays every request."""
    decision = ("headway_decision_seconds", settings.decision_ns_max, "takes long to decide")
    lag = ("headway_loop_lag_seconds", settings.lag_ns_max, "is woken late")
    rules = (
        _slow(settings, "decision", *decision),
        _slow(settings, "lag", *lag),
    )
    return RuleGroup(name="headway-scheduler", rules=rules)


def _slow(settings: AlertSettings, sign: str, metric: str, limit_ns: int, what: str) -> Alert:
    over = window(settings.window_ns)
    return Alert(
        name="HeadwaySchedulerSlow",
        severity=Severity.WARNING,
        pending_ns=settings.pending_ns,
        labels={"sign": sign},
        expression=f"""\
histogram_quantile(0.99, sum by (job, instance, le) (rate({metric}_bucket[{over}])))
  > {number(limit_ns / NS_PER_S)}""",
        summary=f"The scheduler at {{{{ $labels.instance }}}} {what}",
        description=(
            f"The scheduler at {{{{ $labels.instance }}}} {what}: p99 is "
            f"{{{{ $value | humanizeDuration }}}} over the last {over}. Every request waits for it."
        ),
        dashboard="overview",
        about=("instance",),
    )
