"""Choices for the Plan page: model folders with size or problem, and engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinrig.engines.base import Engine
from twinrig.messages import N_, Translator

if TYPE_CHECKING:
    from twinrig.services.models import ModelFolder
    from twinrig.services.workbench import Workbench

GIB = 1024**3
MIB = 1024**2


def size_text(size_bytes: int | None, translator: Translator) -> str:
    """``24.1 GiB`` or ``312 MiB``; "size unknown" is never zero."""
    if size_bytes is None:
        return translator.text(N_("size unknown"))
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:.1f} GiB"
    return f"{max(1, round(size_bytes / MIB))} MiB"


def model_text(model: ModelFolder, translator: Translator) -> str:
    """One line of the list: name, then size, or what is wrong with it."""
    if model.problem is not None:
        return f"{model.name} — {translator.text(model.problem)}"
    return f"{model.name} — {size_text(model.size_bytes, translator)}"


def model_details(model: ModelFolder, translator: Translator) -> str:
    """Tooltip: where it is and what it can do."""
    lines = [model.path]
    if model.architecture:
        lines.append(translator.text(N_("Architecture: {name}"), name=model.architecture))
    if model.context_length is not None:
        limit = f"{model.context_length:,}"
        lines.append(
            translator.text(N_("Longest context of the model: {count} tokens"), count=limit)
        )
    if model.on_windows:
        lines.append(
            translator.text(
                N_("It lies on a Windows drive, from which it loads many times slower.")
            )
        )
    if model.problem is not None:
        lines.append(translator.text(model.problem))
    return "\n".join(lines)


def engines_for(workbench: Workbench) -> tuple[Engine, ...]:
    """Engines to choose from: the simulated one for the simulated machine, the real ones else."""
    return tuple(e for e in workbench.engines.values() if e.simulated == workbench.demo)
