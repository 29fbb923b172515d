"""All fixes by id: plans first, guidance where there is no plan or it cannot decide."""

from __future__ import annotations

from collections.abc import Mapping

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import Fix, FixPlan, Guidance
from twinrig.fixes.allocator import AllocatorUnset, ExpandableOff, ExpandableOn
from twinrig.fixes.change_port import ChangePort
from twinrig.fixes.driver_libraries import DriverLibraries
from twinrig.fixes.drop_argument import DropArgument
from twinrig.fixes.edit_table import EDITS
from twinrig.fixes.gpu_select import GpuSelect
from twinrig.fixes.guidance import load_guidance
from twinrig.fixes.hosts_file import HostsFile
from twinrig.fixes.install_packages import PACKAGE_FIXES
from twinrig.fixes.lan_open import LanClose, LanOpen
from twinrig.fixes.limits import LIMIT_FIXES
from twinrig.fixes.own_gather import WISH, OwnGather
from twinrig.fixes.planning import UndecidedError
from twinrig.fixes.profile_edits import ProfileEditFix
from twinrig.fixes.shm_leftovers import ShmLeftovers
from twinrig.fixes.stop_processes import StopOldServer, StopOrphanWorkers
from twinrig.fixes.sysctl_ptrace import SysctlPtrace
from twinrig.fixes.tabby_memory import AutosplitReserve, CacheQuant, GpuSplit, LowerCache
from twinrig.fixes.tdr_delay import TdrDelay
from twinrig.fixes.wsl_restart import WslRestartFix
from twinrig.fixes.wsl_systemd import WslSystemd
from twinrig.fixes.wslconfig_edits import ROWS, WslConfigFix
from twinrig.fixes.wslconfig_fix import WslConfigLines

PLANNED: tuple[Fix, ...] = (
    SysctlPtrace(),
    ExpandableOff(),
    ExpandableOn(),
    AllocatorUnset(),
    GpuSelect(),
    DropArgument(),
    ChangePort(),
    WslRestartFix(),
    WslSystemd(),
    WslConfigLines(),
    *(WslConfigFix(row) for row in ROWS),
    TdrDelay(),
    LanOpen(),
    LanClose(),
    HostsFile(),
    DriverLibraries(),
    StopOrphanWorkers(),
    StopOldServer(),
    ShmLeftovers(),
    *LIMIT_FIXES,
    *PACKAGE_FIXES,
    CacheQuant(),
    LowerCache(),
    AutosplitReserve(),
    GpuSplit(),
    *(ProfileEditFix(row) for row in EDITS),
    OwnGather(),
)
WISHES: Mapping[str, Finding] = {OwnGather.id: WISH}
"""Fixes that may be asked for by name although no check asks for them."""


class PlanOrGuidance:
    """A plan that may lack a value, with the words for that case."""

    def __init__(self, planned: Fix, words: Fix) -> None:
        self.id = planned.id
        self.title = planned.title
        self.probes = planned.probes
        self._planned = planned
        self._words = words

    def plan(self, finding: Finding, facts: Facts) -> FixPlan | Guidance:
        """The plan; the guidance when a value is not known."""
        try:
            return self._planned.plan(finding, facts)
        except UndecidedError:
            return self._words.plan(finding, facts)


def load_fixes(advice: str) -> Mapping[str, Fix]:
    """``advice`` is the text of ``resources/advice/fixes.yaml``."""
    words = load_guidance(advice)
    fixes: dict[str, Fix] = dict(words)
    for planned in PLANNED:
        other = words.get(planned.id)
        fixes[planned.id] = planned if other is None else PlanOrGuidance(planned, other)
    return fixes
