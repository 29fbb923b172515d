"""Can the model be cut over as many cards as the profile asks for?

Told from config.json alone, before minutes of loading. vLLM cuts heads evenly; a quantised matrix
must still be whole groups afterwards. exllamav3 gives each card at least one KV head, and has no
tensor parallelism for some kinds of model (up to 1.6.5). Sources: vLLM's and exllamav3's code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from twinrig.checks.engine_facts import dist_version, within
from twinrig.checks.judging import evidence_of, failed, passed, probe_fault, skipped, unknown
from twinrig.checks.profile_facts import tensor_parallel_size
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding
from twinrig.domain.errors import TwinrigError
from twinrig.domain.memory import EngineRefusalError
from twinrig.messages import N_, message
from twinrig.sizing.model import read_model
from twinrig.sizing.parallel import check_vllm_parallel
from twinrig.sizing.shape import ModelShape

ID = "parallel-split"
_WITHOUT_TP = frozenset({"qwen3_next", "olmo_hybrid", "muse_glimmer", "lfm2"})
_GROUPED = frozenset({"awq", "gptq"})
_KEYS = (
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "moe_intermediate_size",
    "quantization_config",
    "model_type",
)


def judge(facts: Facts) -> CheckResult:
    """One card needs no cut; a model whose shape is not known is not called unfit."""
    cards = tensor_parallel_size(facts.profile)
    output = facts.probe("model_config")
    if facts.profile is None:
        return skipped(ID, message("No profile was given."))
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    if cards < 2:
        text = message("The profile does not split layers over cards")
        return passed(ID, text, Evidence("profile", "tensor parallel size 1"))
    try:
        config = json.loads(output.stdout)
        if not isinstance(config, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError):
        return unknown(ID, message("config.json could not be read."), evidence_of(output))
    inner = config.get("text_config")
    flat = {**config, **(inner if isinstance(inner, dict) else {})}
    evidence = Evidence("config.json", "\n".join(f"{k}: {flat[k]}" for k in _KEYS if k in flat))
    try:
        shape = read_model(config)
    except TwinrigError:
        return skipped(ID, message("The shape of this kind of model is not known."))
    judge_rows = _ROWS.get(facts.profile.engine.id)
    judged = judge_rows(facts, shape, flat, cards, evidence) if judge_rows is not None else None
    return judged or passed(
        ID, message("The model can be split over {count} cards", count=cards), evidence
    )


def _vllm(
    facts: Facts, shape: ModelShape, config: Mapping[str, Any], cards: int, evidence: Evidence
) -> CheckResult | None:
    try:
        check_vllm_parallel(shape, cards, 1)
    except EngineRefusalError as refusal:
        finding = Finding(
            "tp-not-divisible", (("size", str(cards)),), fixes=("cfg-pp-2", "cfg-tp-1")
        )
        return failed(ID, refusal.text, finding, evidence, next_step=refusal.next_step)
    group = _group_size(config)
    for name in ("intermediate_size", "moe_intermediate_size"):
        size = config.get(name)
        if group and isinstance(size, int) and size % (group * cards):
            return failed(
                ID,
                message(
                    "Groups of {group} do not divide a matrix of {size} over {cards} cards.",
                    group=group,
                    size=size,
                    cards=cards,
                ),
                Finding(
                    "quant-tp-shape",
                    (("size", str(size)), ("group", str(group))),
                    fixes=("cfg-pp-2", "cfg-tp-1", "cfg-quant-fallback", "model-other-quant"),
                ),
                evidence,
            )
    return None


def _group_size(config: Mapping[str, Any]) -> int:
    quantised = config.get("quantization_config")
    if not isinstance(quantised, dict) or quantised.get("quant_method") not in _GROUPED:
        return 0
    group = quantised.get("group_size")
    return group if isinstance(group, int) and group > 0 else 0


def _exllamav3(
    facts: Facts, shape: ModelShape, config: Mapping[str, Any], cards: int, evidence: Evidence
) -> CheckResult | None:
    kind = str(config.get("model_type", ""))
    old = within(dist_version(facts, "exllamav3"), "<=1.6.5")
    if kind in _WITHOUT_TP and old:
        return failed(
            ID,
            message("exllamav3 cannot split models of the kind {kind} over cards.", kind=kind),
            Finding(
                "exl3-tp-arch-unsupported",
                (("architecture", kind),),
                fixes=("tabby-disable-tp", "pkg-upgrade-exllamav3"),
            ),
            evidence,
        )
    few = [a.kv_heads for a, _ in shape.attentions if a.latent is None and a.kv_heads < cards]
    if not few:
        return None
    return failed(
        ID,
        message(
            "The model has {heads} KV heads, too few for {cards} cards.",
            heads=few[0],
            cards=cards,
        ),
        Finding(
            "tp-not-divisible",
            (("number", str(few[0])), ("size", str(cards))),
            fixes=("tabby-disable-tp",),
        ),
        evidence,
    )


_Judge = Callable[[Facts, ModelShape, Mapping[str, Any], int, Evidence], CheckResult | None]
_ROWS: Mapping[str, _Judge] = MappingProxyType({"vllm": _vllm, "tabbyapi": _exllamav3})
"""How each engine cuts a model."""

CHECK = Check(
    id=ID,
    title=N_("The model can be split over the cards"),
    probes=("model_config", "environment"),
    judge=judge,
    requires=("model-folder",),
    needs_profile=True,
    engines=tuple(_ROWS),
    findings=("tp-not-divisible", "quant-tp-shape", "exl3-tp-arch-unsupported"),
)
