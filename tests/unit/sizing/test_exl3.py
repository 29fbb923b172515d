"""tabbyAPI with exllamav3: the machine of the first report, splits, rings, slots, drafting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.sizing_models import (
    ALL,
    DENSE_8B,
    GPT_OSS_20B,
    HYBRID_27B,
    LATENT_1T,
    SLIDING_26B,
)
from twinrig.domain.errors import UsageError
from twinrig.domain.memory import (
    GIB,
    MIB,
    Card,
    PartKind,
    SizingRules,
    SizingSettings,
    UnsizableError,
    Verdict,
)
from twinrig.sizing.cards import nominal_card
from twinrig.sizing.estimate import estimate, sized_model
from twinrig.sizing.exl3_plan import exl3_base, longest_in
from twinrig.sizing.exl3_rules import PAGE
from twinrig.sizing.exl3_split import shares
from twinrig.sizing.exl3_weights import TensorTotals, padded, read_tensor_table

SEED = SizingSettings(
    engine_id="tabbyapi",
    rules=SizingRules.EXL3,
    engine_version="0.0.43",
    cards=(nominal_card(12), nominal_card(12)),
    tensor_parallel=2,
    context_tokens=131_072,
    bits_per_weight=4.15,
    head_bits=6,
    cache_mode="2,2",
    max_batch_size=8,
)
"""The set-up of the first report: a 27B hybrid in production on two 12 GB cards."""
HYBRID = sized_model(HYBRID_27B)


def plan(config=HYBRID_27B, **changes):
    return estimate(sized_model(config), replace(SEED, **changes))


def test_the_machine_of_the_first_report() -> None:
    found = plan()
    assert found.verdict in (Verdict.FITS, Verdict.TIGHT)
    assert found.kv_bytes_per_token_total == 10_240
    assert found.kv_bytes_total == 1_342_177_280
    assert found.state_bytes_per_slot_total == 154_927_104
    assert found.weights_bytes_total / GIB == pytest.approx(12.70, abs=0.01)
    assert sum(g.size(PartKind.STATE) for g in found.gpus) == 8 * 154_927_104
    assert [g.size(PartKind.KV) for g in found.gpus] == [671_088_640] * 2


def test_a_cache_of_16_bits_does_not_fit_and_the_longest_is_told() -> None:
    found = plan(cache_mode="FP16")
    assert found.verdict is Verdict.DOES_NOT_FIT
    assert found.max_context_tokens is not None
    assert 40_000 < found.max_context_tokens < 127_000
    assert "Insufficient VRAM" in str(found.refusals[0])
    assert f"{found.max_context_tokens:,}" in str(found.summary)


@pytest.mark.parametrize(
    ("version", "drafts", "state"),
    [
        ("0.0.43", 4, 762_839_040),
        ("1.6.1", 4, 314_838_528),
        ("1.6.2", 0, 155_923_968),
        ("1.6.2", 4, 163_843_584),
    ],
)
def test_states_of_a_slot(version, drafts, state) -> None:
    found = plan(engine_version=version, draft_tokens=drafts)
    assert found.state_bytes_per_slot_total == state


@pytest.mark.parametrize(
    ("mode", "size"),
    [("FP16", 65_536), ("Q8", 34_816), ("8,8", 34_816), ("6,6", 26_624), ("4, 2", 14_336)],
)
def test_cache_modes(mode, size) -> None:
    assert plan(cache_mode=mode).kv_bytes_per_token_total == size


@pytest.mark.parametrize("mode", ["", "fp16", "9,9", "4", "4,4,4", "Q5"])
def test_a_cache_mode_that_tabbyapi_rejects(mode) -> None:
    with pytest.raises(UsageError) as caught:
        plan(cache_mode=mode)
    assert "cache mode" in str(caught.value.text)


def test_slots_left_out_are_four_for_states_and_many_for_others() -> None:
    found = plan(max_batch_size=None)
    assert sum(g.size(PartKind.STATE) for g in found.gpus) == 4 * 154_927_104
    assert plan(DENSE_8B, max_batch_size=None).max_num_seqs == 128
    assert sum(g.size(PartKind.STATE) for g in plan(DENSE_8B).gpus) == 0


@pytest.mark.parametrize(
    ("sizes", "heads"), [((20, 10), [3, 1]), ((12, 12), [2, 2]), ((10, 20), [1, 3])]
)
def test_whole_heads_on_uneven_cards(sizes, heads) -> None:
    found = plan(cards=tuple(nominal_card(s) for s in sizes))
    assert [g.size(PartKind.KV) // 335_544_320 for g in found.gpus] == heads


def test_an_empty_split_is_uneven_and_an_even_one_is_offered() -> None:
    uneven, even = plan(), plan(gpu_split=(10.0, 10.0))
    weights = [g.size(PartKind.WEIGHTS) for g in uneven.gpus]
    assert weights[0] > weights[1]
    assert len({g.size(PartKind.WEIGHTS) for g in even.gpus}) == 1
    assert any("gpu_split" in str(a) for a in uneven.assumptions)
    assert not any("gpu_split" in str(a) for a in even.assumptions)


@pytest.mark.parametrize(
    ("units", "ratio", "given"),
    [
        (136, (10, 9.5), [70, 66]),
        (1940, (10, 9.5), [995, 945]),
        (16, (20, 10), [11, 5]),
        (136, (20, 10), [91, 45]),
        (4, (1, 1, 1), [2, 1, 1]),
        (1, (1, 1), [1, 0]),
    ],
)
def test_largest_remainder(units, ratio, given) -> None:
    assert shares(units, ratio) == given


def test_every_byte_is_on_some_card() -> None:
    one = plan(cards=(nominal_card(48),), tensor_parallel=None)
    two = plan()
    layers = plan(tensor_parallel=None)
    for kind in (PartKind.WEIGHTS, PartKind.KV, PartKind.STATE):
        totals = {sum(g.size(kind) for g in found.gpus) // 8 for found in (one, two, layers)}
        assert len(totals) == 1


def test_layers_fill_the_first_card_first() -> None:
    found = plan(DENSE_8B, tensor_parallel=None, cards=(nominal_card(24), nominal_card(24)))
    first, second = found.gpus
    assert second.size(PartKind.WEIGHTS) == 0
    assert second.size(PartKind.RUNTIME) == 0
    assert first.size(PartKind.WEIGHTS) == found.weights_bytes_total
    tight = plan(tensor_parallel=None)
    assert all(g.size(PartKind.WEIGHTS) for g in tight.gpus)


def test_a_given_split_limits_each_card() -> None:
    found = plan(tensor_parallel=None, gpu_split=(6.0, 11.0))
    first, second = found.gpus
    assert first.used_bytes <= 6 * GIB
    assert second.used_bytes > first.used_bytes


def test_rings_by_class_and_version() -> None:
    options = {"cards": (nominal_card(48),), "tensor_parallel": None, "cache_mode": "Q8"}
    new = plan(SLIDING_26B, engine_version="1.6.5", **options)
    assert (new.kv_bytes_per_token_total, new.state_bytes_per_slot_total) == (10_880, 300 * MIB)
    old = plan(SLIDING_26B, engine_version="0.0.29", **options)
    assert (old.kv_bytes_per_token_total, old.state_bytes_per_slot_total) == (119_680, 0)
    ring = plan(GPT_OSS_20B, engine_version="1.0.0", **options)
    assert ring.state_bytes_per_slot_total == 18 * MIB
    other = {**GPT_OSS_20B, "architectures": ["SomethingElse"]}
    assert plan(other, engine_version="1.6.5", **options).state_bytes_per_slot_total == 0


def test_a_latent_cache_is_whole_on_every_card_and_ignores_value_bits() -> None:
    cards = (nominal_card(450), nominal_card(450))
    found = plan(LATENT_1T, cards=cards, cache_mode="8,8", context_tokens=32_768)
    assert [g.size(PartKind.KV) for g in found.gpus] == [1_343_225_856] * 2
    one = {"cards": (nominal_card(900),), "tensor_parallel": None}
    assert plan(LATENT_1T, cache_mode="4,8", **one).kv_bytes_per_token_total == 25_376
    assert plan(LATENT_1T, cache_mode="4,2", **one).kv_bytes_per_token_total == 25_376


def test_matrices_are_padded_to_tiles() -> None:
    assert [padded(n) for n in (1, 128, 129, 2880)] == [128, 128, 256, 2944]
    found = plan(GPT_OSS_20B, bits_per_weight=4.0, cards=(nominal_card(24),), tensor_parallel=None)
    assert found.weights_bytes_total == pytest.approx(10_781_257_728, rel=0.01)


def test_a_tied_model_has_a_head_all_the_same() -> None:
    tied = {**DENSE_8B, "tie_word_embeddings": True}
    assert plan(tied).weights_bytes_total == plan(DENSE_8B).weights_bytes_total
    more = plan(tied, head_bits=8).weights_bytes_total - plan(tied).weights_bytes_total
    assert more == pytest.approx(128_256 * 4096 * 2 / 8, rel=0.001)


def test_drafting_costs_weights_and_a_cache_on_the_first_card() -> None:
    found = plan(draft_tokens=4)
    sizes = [g.size(PartKind.DRAFTER) for g in found.gpus]
    assert sizes[1] == 0
    assert sizes[0] / GIB == pytest.approx(0.2 + 0.5, abs=0.05)
    assert found.weights_bytes_total == plan().weights_bytes_total
    assert plan(DENSE_8B, draft_tokens=4).gpus[0].size(PartKind.DRAFTER) == 0


def test_measured_free_memory_wins_over_the_reserve() -> None:
    total = nominal_card(12).total_bytes
    measured = plan(cards=(Card(total, total - 2 * GIB), Card(total, total - GIB // 2)))
    assert [g.size(PartKind.RESERVED) for g in measured.gpus] == [2 * GIB, GIB // 2]
    assert [g.size(PartKind.RESERVED) for g in plan().gpus] == [int(1.3 * GIB)] * 2
    safe = plan(reserve_bytes=2 * GIB)
    assert (safe.max_context_tokens or 0) <= (plan().max_context_tokens or 0)


def test_bits_may_stand_in_the_configuration() -> None:
    recipe = {"quant_method": "exl3", "bits": 3.0, "head_bits": 5}
    config = {**DENSE_8B, "quantization_config": recipe}
    assert plan(config, bits_per_weight=None, head_bits=None).weights_bytes_total == (
        plan(DENSE_8B, bits_per_weight=3.0, head_bits=5).weights_bytes_total
    )
    with pytest.raises(UnsizableError) as caught:
        plan({**DENSE_8B, "quantization_config": {"quant_method": "exl3"}}, bits_per_weight=None)
    assert "bits" in str(caught.value.text)


def test_unquantised_folders_are_16_bits() -> None:
    found = plan(DENSE_8B, bits_per_weight=None, cards=(nominal_card(48),), tensor_parallel=None)
    assert found.weights_bytes_total / GIB == pytest.approx(13.98, abs=0.02)


def test_the_tensor_table_is_exact() -> None:
    def entry(size: int) -> dict:
        return {"stored_tensors": {"t": {"n_bytes": size}, "bad": {"n_bytes": "x"}}}

    table = {
        "tensor_storage": {
            "model.layers.0.mlp.up_proj": entry(5 * GIB),
            "model.embed_tokens": entry(2 * GIB),
            "lm_head": entry(GIB),
            "mtp.layers.0.mlp": entry(MIB),
            "model.visual.blocks.0": entry(7 * MIB),
            "broken": 7,
        }
    }
    totals = read_tensor_table(table)
    assert totals == TensorTotals(5 * GIB, GIB, 2 * GIB, MIB, 7 * MIB)
    model = sized_model(HYBRID_27B, None, totals)
    found = estimate(model, SEED)
    assert found.weights_bytes_total == pytest.approx(6 * GIB, abs=4)
    drafted = estimate(model, replace(SEED, draft_tokens=4))
    assert drafted.gpus[0].size(PartKind.DRAFTER) == MIB + 4096 * 131_072
    with pytest.raises(UnsizableError):
        read_tensor_table({"tensor_storage": {}})


def test_no_card_is_a_question_back() -> None:
    with pytest.raises(UsageError):
        plan(cards=())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("tensor_parallel", [None, 2])
def test_the_longest_cache_fits_and_one_page_more_does_not(name, tensor_parallel) -> None:
    settings = replace(
        SEED,
        tensor_parallel=tensor_parallel,
        cards=(nominal_card(24), nominal_card(16)),
        bits_per_weight=2.0,
        max_batch_size=1,
    )
    base = exl3_base(sized_model(ALL[name]).shape, settings)
    limit = 2**23
    most = longest_in(base, limit)
    assert most % PAGE == 0
    if most:
        assert base.margin(most) >= 0
    if most < limit:
        assert base.margin(most + PAGE) < 0
