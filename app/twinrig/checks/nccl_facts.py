"""What the fingerprint of a proof of NCCL settings is made of, as the probes tell it."""

from __future__ import annotations

from collections.abc import Mapping

from twinrig.checks.gpu_facts import driver_version
from twinrig.checks.judging import key_values
from twinrig.domain.checks import Facts


def machine_versions(facts: Facts) -> Mapping[str, str]:
    """Driver and kernel; "" for what is not known."""
    kernel = key_values(facts.probe("system")).get("kernel", "")
    return {"driver": driver_version(facts) or "", "kernel": kernel.split()[0] if kernel else ""}
