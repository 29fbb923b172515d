"""``twinrig estimate``: what fits, per card, before anything is downloaded or started."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from twinrig.cli.estimate_json import document
from twinrig.cli.session import FINE, UNKNOWN, Session
from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import UsageError
from twinrig.domain.memory import (
    GIB,
    Card,
    Lever,
    Measurement,
    MemoryPlan,
    PartKind,
    SizingRules,
    SizingSettings,
    UnsizableError,
    Verdict,
)
from twinrig.domain.wording import PART_WORDS, VERDICT_WORDS
from twinrig.messages import Message, message
from twinrig.services.calibration import match, settings_key
from twinrig.services.estimating import SAFE_RESERVE_BYTES, Estimating
from twinrig.services.workbench import Workbench
from twinrig.sizing.cards import nominal_card
from twinrig.sizing.estimate import SizedModel, estimate
from twinrig.sizing.solve import Quantization, best_quantization, levers

_STYLES = {
    Verdict.FITS: "good",
    Verdict.TIGHT: "warn",
    Verdict.DOES_NOT_FIT: "bad",
    Verdict.UNKNOWN: "",
}
_SHOWN_LEVERS = 5


async def run(session: Session) -> int:
    """Exit code: 0 whenever a plan is printed, 3 when the model cannot be sized."""
    args, terminal = session.args, session.terminal
    async with session.bench() as bench:
        facts = bench.estimating()
        rules = _rules(bench, args.engine)
        try:
            model = await facts.model(_absolute(args.model))
            cards, machine = await _cards(args, facts)
            settings = _settings(args, facts, cards, rules)
            settings = replace(settings, **_measured(args, facts, machine, settings))
            plan = estimate(model, settings)
            found = levers(model, settings) if settings.cards else ()
            best = _best(model, settings, args.want_context)
        except UnsizableError as error:
            terminal.error(error)
            return UNKNOWN
    terminal.data(document(plan, found, best))
    _show(terminal, plan, found)
    if args.want_context:
        _show_best(terminal, best, args.want_context)
    return FINE


def _absolute(path: str) -> str:
    """Paths of this machine may be relative; those of another target are taken as they are."""
    return str(Path(path).absolute()) if Path(path).exists() else path


def _rules(bench: Workbench, engine_id: str) -> SizingRules:
    """Raises UsageError for an engine that nobody knows, or that only plays one."""
    engine = bench.engines.get(engine_id)
    if engine is None or engine.simulated:
        names = ", ".join(e.id for e in bench.engines.values() if not e.simulated)
        raise UsageError(
            message("There is no engine {id}.", id=engine_id),
            message("Known engines: {names}", names=names),
        )
    return engine.sizing_rules


def _settings(
    args: argparse.Namespace, facts: Estimating, cards: tuple[Card, ...], rules: SizingRules
) -> SizingSettings:
    exl3 = rules is SizingRules.EXL3
    tp = args.tp
    if tp is None and not exl3 and len(cards) > 1:
        tp = len(cards) // args.pp or 1
    pool = None if args.kv_pool_gib is None else int(args.kv_pool_gib * GIB)
    reserve = facts.reserve_bytes if args.gpus is None else SizingSettings.reserve_bytes
    if args.safe:
        reserve = SAFE_RESERVE_BYTES
    if args.reserve_gib is not None:
        reserve = int(args.reserve_gib * GIB)
    return SizingSettings(
        rules=rules,
        engine_id=args.engine,
        engine_version=args.engine_version,
        cards=cards,
        tensor_parallel=tp,
        pipeline_parallel=args.pp,
        context_tokens=args.cache_size if exl3 and args.cache_size else args.context,
        quantization=args.quantization,
        kv_dtype=args.kv_cache_dtype,
        max_num_seqs=args.max_num_seqs,
        max_num_batched_tokens=args.max_num_batched_tokens,
        draft_tokens=args.draft_tokens,
        mamba_cache_mode=args.mamba_cache_mode,
        utilization=args.gpu_memory_utilization,
        kv_pool_bytes=pool,
        enforce_eager=args.enforce_eager,
        text_only=args.text_only,
        bits_per_weight=args.bpw,
        head_bits=args.head_bits,
        cache_mode=args.cache_mode,
        max_batch_size=args.max_batch_size,
        chunk_size=args.chunk_size,
        gpu_split=args.gpu_split or (),
        reserve_bytes=reserve,
    )


async def _cards(args: argparse.Namespace, facts: Estimating) -> tuple[tuple[Card, ...], str]:
    """The cards, and the key of this machine; "" for cards that are only talked of."""
    if args.gpu_total_gib is not None:
        return tuple(Card(int(size * GIB)) for size in args.gpu_total_gib), ""
    if args.gpus is not None:
        return tuple(nominal_card(size) for size in args.gpus), ""
    if args.kv_pool_gib is not None:
        return (), ""
    return await facts.cards()


def _measured(
    args: argparse.Namespace, facts: Estimating, machine: str, settings: SizingSettings
) -> dict[str, Any]:
    """What an earlier start of this model on this machine showed, as on the Plan page.

    Another quantisation or a drafter makes it another model. A version that was not named is
    that of the start.
    """
    if not machine or args.no_measurements or args.quantization or args.draft_tokens:
        return {}
    wanted = Measurement(
        machine,
        settings.engine_id,
        settings.engine_version,
        _absolute(args.model),
        0.0,
        settings_key=settings_key(
            {
                "max_num_batched_tokens": settings.max_num_batched_tokens or 0,
                "max_num_seqs": settings.max_num_seqs or 0,
                "enforce_eager": settings.enforce_eager,
                "tensor_parallel_size": settings.tensor_parallel or 1,
                "pipeline_parallel_size": settings.pipeline_parallel,
                "language_model_only": settings.text_only,
            }
        ),
    )
    found = match(facts.store.all(), wanted)
    if found is None:
        return {}
    return {"measurement": found, "engine_version": found.engine_version}


def _best(model: SizedModel, settings: SizingSettings, context: int | None) -> Quantization | None:
    if not context or not settings.cards:
        return None
    return best_quantization(model, settings, context)


def _show(terminal: Terminal, plan: MemoryPlan, found: tuple[Lever, ...]) -> None:
    word = terminal.text(VERDICT_WORDS[plan.verdict])
    terminal.line(terminal.style(word, _STYLES.get(plan.verdict, "")))
    terminal.paragraph(plan.summary)
    for refusal in plan.refusals:
        terminal.paragraph(refusal, "  ", style="bad")
    terminal.line()
    if plan.gpus:
        terminal.table(_table(terminal, plan))
        _show_held(terminal, plan)
        terminal.line()
    for label, value in _figures(plan):
        terminal.line(f"{terminal.text(label)}: {value}")
    if found:
        terminal.line()
        terminal.say(message("What would give more context:"))
        for lever in found[:_SHOWN_LEVERS]:
            gain = terminal.text(message("+{tokens} tokens", tokens=f"{lever.gain_tokens:,}"))
            terminal.line(f"  {gain}  {terminal.text(lever.text)}")
    if plan.assumptions:
        terminal.line()
        terminal.say(message("Assumed:"))
        for sentence in plan.assumptions:
            terminal.paragraph(sentence, "  ")


def _show_held(terminal: Terminal, plan: MemoryPlan) -> None:
    """Who holds what is not for the engine, card by card."""
    for gpu in plan.gpus:
        for part in gpu.parts:
            if part.kind is PartKind.RESERVED and part.size_bytes:
                text = message(
                    "GPU {index}, {size} GiB: {text}",
                    index=gpu.index,
                    size=f"{part.size_bytes / GIB:.2f}",
                    text=part.text,
                )
                terminal.paragraph(text, "  ")


def _table(terminal: Terminal, plan: MemoryPlan) -> list[list[str]]:
    heads = [terminal.text(message("GPU {index}", index=gpu.index)) for gpu in plan.gpus]
    rows = [[terminal.text(message("GiB")), *heads]]
    for kind in PartKind:
        sizes = [gpu.size(kind) for gpu in plan.gpus]
        if any(sizes) or kind is PartKind.HEADROOM:
            rows.append([terminal.text(PART_WORDS[kind]), *(f"{s / GIB:7.2f}" for s in sizes)])
    rows.append(
        [
            terminal.text(message("Whole card")),
            *(f"{gpu.total_bytes / GIB:7.2f}" for gpu in plan.gpus),
        ]
    )
    return rows


def _figures(plan: MemoryPlan) -> list[tuple[Message, str]]:
    found: list[tuple[Message, str]] = []
    if plan.max_context_tokens is not None:
        found.append((message("Longest context in tokens"), f"{plan.max_context_tokens:,}"))
    if not plan.gpus and plan.weights_bytes is not None:
        size = f"{plan.weights_bytes / GIB:.2f}"
        found.append((message("Weights, per GPU, in GiB"), size))
    if plan.kv_needed_bytes is not None:
        found.append(
            (
                message("KV cache for one request, per GPU, in GiB"),
                f"{plan.kv_needed_bytes / GIB:.2f}",
            )
        )
    if plan.max_concurrency is not None:
        found.append((message("Requests of that length at a time"), f"{plan.max_concurrency:.2f}"))
    if plan.capacity_tokens is not None:
        found.append((message("Size of the KV cache in tokens"), f"{plan.capacity_tokens:,}"))
    return found


def _show_best(terminal: Terminal, best: Quantization | None, context: int) -> None:
    terminal.line()
    if best is None:
        terminal.say(message("No quantisation gives {tokens} tokens here.", tokens=context))
    else:
        terminal.say(
            message(
                "Best quantisation with {tokens} tokens: {name}, {bits} bits a weight.",
                tokens=context,
                name=best.name,
                bits=best.bits,
            )
        )
