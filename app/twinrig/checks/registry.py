"""The checks, in the order in which they are shown. Prerequisites stand before dependants."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from twinrig.checks import (
    allocator_settings,
    collective,
    compiler,
    cuda_wheels,
    diagnostic_settings,
    disk_free,
    display_card,
    driver_version,
    engine_installed,
    exllamav3_version,
    gpu_both_sides,
    gpu_count,
    gpu_mismatch,
    gpu_visible,
    lan_open,
    model_folder,
    native_import,
    nccl_proof,
    orphan_workers,
    parallel_split,
    pcie_link,
    pinned_memory,
    port_free,
    power_limit,
    process_limits,
    ptrace_scope,
    python_version,
    ram_size,
    session_end,
    shell_settings,
    shm_size,
    tabby_config,
    tdr_delay,
    virtualisation,
    vllm_uva,
    vram_free,
    vram_holders,
    vram_spill,
    windows_build,
    windows_power,
    wsl_distro_version,
    wsl_driver,
    wsl_idle,
    wsl_network,
    wsl_systemd,
    wsl_version,
    wslconfig,
    wslconfig_memory,
)
from twinrig.domain.checks import Check
from twinrig.messages import N_

SECTIONS: tuple[tuple[str, tuple[Check, ...]], ...] = (
    (
        N_("Windows and WSL"),
        (
            windows_build.CHECK,
            virtualisation.CHECK,
            wsl_distro_version.CHECK,
            wsl_systemd.CHECK,
            wsl_idle.CHECK,
            wslconfig.CHECK,
            tdr_delay.CHECK,
            windows_power.CHECK,
        ),
    ),
    (
        N_("Cards"),
        (
            gpu_visible.CHECK,
            gpu_count.CHECK,
            gpu_mismatch.CHECK,
            driver_version.CHECK,
            wsl_version.CHECK,
            wsl_driver.CHECK,
            gpu_both_sides.CHECK,
            display_card.CHECK,
            pcie_link.CHECK,
            power_limit.CHECK,
            orphan_workers.CHECK,
            vram_holders.CHECK,
            vram_free.CHECK,
            vram_spill.CHECK,
        ),
    ),
    (
        N_("Engine"),
        (
            engine_installed.CHECK,
            python_version.CHECK,
            cuda_wheels.CHECK,
            vllm_uva.CHECK,
            exllamav3_version.CHECK,
            tabby_config.CHECK,
            compiler.CHECK,
            native_import.CHECK,
        ),
    ),
    (
        N_("Model and memory"),
        (
            model_folder.CHECK,
            parallel_split.CHECK,
            ram_size.CHECK,
            wslconfig_memory.CHECK,
            pinned_memory.CHECK,
            shm_size.CHECK,
            disk_free.CHECK,
        ),
    ),
    (
        N_("Server and network"),
        (
            process_limits.CHECK,
            session_end.CHECK,
            port_free.CHECK,
            wsl_network.CHECK,
            lan_open.CHECK,
        ),
    ),
    (
        N_("How the cards talk"),
        (
            ptrace_scope.CHECK,
            shell_settings.CHECK,
            allocator_settings.CHECK,
            diagnostic_settings.CHECK,
            nccl_proof.CHECK,
            collective.CHECK,
        ),
    ),
)
"""As shown: a title, and its checks. A check stands behind those it requires."""
CHECKS: tuple[Check, ...] = tuple(check for _, checks in SECTIONS for check in checks)
AREAS: Mapping[str, str] = {check.id: title for title, checks in SECTIONS for check in checks}
"""Title of the section by check id."""


def with_prerequisites(checks: Sequence[Check], ids: Collection[str]) -> tuple[Check, ...]:
    """The named checks and all they require, in registry order.

    Raises KeyError for an id that is not registered.
    """
    by_id = {check.id: check for check in checks}
    wanted: set[str] = set()
    queue = list(ids)
    while queue:
        check = by_id[queue.pop()]
        if check.id not in wanted:
            wanted.add(check.id)
            queue += check.requires
    return tuple(check for check in checks if check.id in wanted)


def with_dependants(checks: Sequence[Check], ids: Collection[str]) -> tuple[str, ...]:
    """The named checks and all that depend on them, directly or not, in registry order."""
    wanted = set(ids)
    for check in checks:  # prerequisites stand before dependants: one pass suffices
        if wanted.intersection(check.requires):
            wanted.add(check.id)
    return tuple(check.id for check in checks if check.id in wanted)
