"""Labelled sets of results: which setup is advised to whom, and when nobody can tell."""

from __future__ import annotations

import pytest

from fixtures.bench_results import LAYERS, MTP, NO_DRAFT, TP, Case, Measured, result
from twinrig.messages import Translator
from twinrig.services.recommendation import Use, recommend

SEED_LAYERS = result(
    "Layer split", {**LAYERS, "settings.draft_mode": "disabled"}, {1: (13, 14, 15), 8: (60, 62, 64)}
)
SEED_TP = result(
    "TP",
    NO_DRAFT,
    {1: (24, 25, 26), 8: Measured((118, 120, 123), stagger=0.03)},
    state_mib=148,
)
SEED_MTP = result(
    "TP + MTP",
    MTP,
    {
        1: Measured((55, 60, 66), accepted=0.71),
        8: Measured((100, 108, 117), stagger=0.5, loops=3, accepted=0.61),
    },
    state_mib=727,
)


def pair(
    a: tuple[object, object], b: tuple[object, object], sets: tuple[dict, dict] = (NO_DRAFT, MTP)
) -> tuple:
    """Two setups A and B, each as (one stream, eight streams)."""
    return (
        result("A", sets[0], {1: a[0], 8: a[1]}),
        result("B", sets[1], {1: b[0], 8: b[1]}),
    )


FAST, SLOW, SAME = (50, 51, 52), (24, 25, 26), (24, 25.3, 26)
FAST8, SLOW8 = (200, 204, 208), (110, 112, 114)
FP8 = {**TP, "settings.kv_cache_dtype": "fp8"}
VLLM_TP = {"settings.tensor_parallel_size": 2, "settings.max_num_seqs": 8}
VLLM_PP = {"settings.pipeline_parallel_size": 2, "settings.max_num_seqs": 8}
VLLM_MTP = {
    **VLLM_TP,
    "settings.speculative_config": '{"method": "qwen3_next_mtp", "num_speculative_tokens": 2}',
}

CASES = (
    Case(
        "the first report: layers, TP, TP + MTP",
        (SEED_LAYERS, SEED_TP, SEED_MTP),
        "TP + MTP",
        "TP",
        ("faster", "faster"),
    ),
    Case(
        "the first report, MTP on or off",
        (SEED_TP, SEED_MTP),
        "TP + MTP",
        "TP",
        words=(
            "Speculative decoding (MTP) makes 2.4 times the speed for one stream and 0.9 times "
            "for 8 at once.",
            "On, if you use the server alone.",
            "Off, if several people use the server: replies fall into loops with it.",
        ),
    ),
    Case(
        "the first report, TP or layers",
        (SEED_LAYERS, SEED_TP),
        "TP",
        "TP",
        words=("Tensor parallel makes 1.8 times the speed for one stream and 1.9 times for 8",),
    ),
    Case("MTP better for both", pair((SLOW, SLOW8), (FAST, FAST8)), "B", "B"),
    Case("MTP worse for both", pair((FAST, FAST8), (SLOW, SLOW8)), "A", "A"),
    Case("MTP fast alone, slow for several", pair((SLOW, FAST8), (FAST, SLOW8)), "B", "A"),
    Case("no difference at all", pair((SLOW, SLOW8), (SLOW, SLOW8)), "", "", ("tied", "tied")),
    Case("difference inside the spread", pair((SLOW, SLOW8), (SAME, (109, 113, 116))), "", ""),
    Case(
        "a wide spread hides a large difference",
        pair(((20, 25, 40), SLOW8), ((22, 36, 41), SLOW8)),
        "",
        "",
    ),
    Case(
        "one round each within two percent is not told",
        pair(((25,), (100,)), ((25.9,), (103.0,))),
        "",
        "",
    ),
    Case("one round each, far apart", pair(((25,), (100,)), ((50,), (200,))), "B", "B"),
    Case(
        "loops disqualify, however fast",
        pair((SLOW, SLOW8), (FAST, Measured(FAST8, loops=4))),
        "B",
        "A",
        ("faster", "only"),
    ),
    Case(
        "loops that both have are the model's",
        pair((SLOW, Measured(SLOW8, loops=4)), (FAST, Measured(FAST8, loops=4))),
        "B",
        "B",
    ),
    Case(
        "a single loop in many replies is chance",
        pair((SLOW, SLOW8), (FAST, Measured(FAST8, loops=1))),
        "B",
        "B",
    ),
    Case(
        "requests that failed",
        pair((SLOW, SLOW8), (FAST, Measured(FAST8, failures=2))),
        "B",
        "A",
        ("faster", "only"),
    ),
    Case(
        "a server that died under load",
        pair((SLOW, SLOW8), (FAST, Measured((), fault="The reply was cut off."))),
        "B",
        "A",
    ),
    Case(
        "nothing works for several",
        pair((SLOW, Measured(SLOW8, failures=1)), (FAST, Measured((), fault="gone"))),
        "B",
        "",
        ("faster", "none"),
    ),
    Case(
        "alike, but one lets people wait",
        pair(
            (SLOW, Measured(SLOW8, stagger=0.04)),
            (SLOW, Measured((109, 111, 115), stagger=0.45)),
        ),
        "",
        "A",
        ("tied", "steadier"),
    ),
    Case(
        "alike, but one answers sooner",
        pair(
            (Measured(SLOW, first_s=(0.2, 0.21, 0.22)), SLOW8),
            (Measured(SAME, first_s=(0.6, 0.61, 0.65)), SLOW8),
        ),
        "A",
        "",
        ("sooner", "tied"),
    ),
    Case(
        "alike, sooner but less steady: nobody can tell",
        pair(
            (SLOW, Measured(SLOW8, stagger=0.45, first_s=(0.2, 0.21, 0.22))),
            (SLOW, Measured(SLOW8, stagger=0.04, first_s=(0.6, 0.61, 0.65))),
        ),
        "",
        "",
    ),
    Case(
        "alike, but a slot costs a fifth of the memory",
        (
            result("A", NO_DRAFT, {1: SLOW, 8: SLOW8}, state_mib=148),
            result("B", MTP, {1: SLOW, 8: SLOW8}, state_mib=727),
        ),
        "A",
        "A",
        ("cheaper", "cheaper"),
    ),
    Case(
        "KV cache of 8 bits is slower",
        pair((FAST, FAST8), (SLOW, SLOW8), (TP, FP8)),
        "A",
        "A",
        words=("kv_cache_dtype = fp8 makes 0.5 times the speed for one stream",),
    ),
    Case(
        "vLLM: pipeline or tensor parallel",
        pair((SLOW, SLOW8), (FAST, FAST8), (VLLM_PP, VLLM_TP)),
        "B",
        "B",
        words=("Tensor parallel makes 2.0 times",),
    ),
    Case(
        "vLLM: MTP by its JSON",
        pair((SLOW, FAST8), (FAST, SLOW8), (VLLM_TP, VLLM_MTP)),
        "B",
        "A",
        words=("Speculative decoding (MTP) makes 2.0 times", "0.5 times for 8"),
    ),
    Case(
        "more slots help several people only",
        pair(
            (SLOW, SLOW8),
            (SLOW, FAST8),
            ({**TP, "settings.max_batch_size": 4}, {**TP, "settings.max_batch_size": 8}),
        ),
        "",
        "B",
        words=("max_batch_size = 8 makes 1.0 times the speed for one stream and 1.8 times",),
    ),
    Case(
        "three setups, two of them alike at the top",
        (
            result("A", LAYERS, {1: (13, 14, 15)}),
            result("B", NO_DRAFT, {1: (24, 25, 26)}),
            result("C", FP8, {1: (24.5, 25.2, 26)}),
        ),
        "",
        None,
        ("tied", ""),
    ),
    Case(
        "several things differ: named by profile",
        pair((SLOW, SLOW8), (FAST, FAST8), (NO_DRAFT, {**MTP, "settings.cache_mode": "4,4"})),
        "B",
        "B",
        words=("B, if you use the server alone: it is the fastest.",),
    ),
    Case("one setup alone", (SEED_TP,), "TP", "TP", ("only", "only")),
    Case(
        "only one stream in common",
        (result("A", TP, {1: FAST, 4: FAST8}), result("B", LAYERS, {1: SLOW, 8: SLOW8})),
        "A",
        None,
    ),
)


def test_there_are_enough_labelled_sets() -> None:
    assert len(CASES) >= 20
    assert len({case.label for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_advice(case: Case) -> None:
    told = []
    for use, wanted, reason in zip(Use, (case.alone, case.several), case.reasons, strict=True):
        advice = recommend(case.results, use)
        if wanted is None:
            assert advice is None
            continue
        assert advice is not None
        assert (advice.best.profile_name if advice.best else "") == wanted
        assert not reason or advice.reason.value == reason
        assert (advice.best is None) == (advice.reason.value in ("tied", "none"))
        told.append(str(advice.text))
    for word in case.words:
        assert any(word in text for text in told), told


def test_the_seeds_evidence_is_told() -> None:
    advice = recommend((SEED_TP, SEED_MTP), Use.SEVERAL)
    assert advice is not None
    lines = [str(line) for line in advice.evidence]
    assert "TP: 120 ± 4.8 T/s for 8 at once, first token after 0.31 s." in lines
    assert "TP + MTP: 3 of 24 replies fell into a loop, 8 at once." in lines
    assert "TP + MTP: equally long replies ended 50 % of the time apart." in lines
    assert "TP + MTP: 61 % of the guessed tokens were right." in lines
    assert "TP: each parallel request takes 148 MiB of GPU memory for its state." in lines
    assert "TP + MTP: each parallel request takes 727 MiB of GPU memory for its state." in lines


def test_the_order_of_the_results_does_not_matter() -> None:
    for case in CASES:
        for use in Use:
            names = set()
            for results in (case.results, case.results[::-1]):
                advice = recommend(results, use)
                best = advice.best if advice else None
                names.add(best.profile_name if best else "")
            assert len(names) == 1, case.label


def test_no_results_no_advice() -> None:
    assert recommend((), Use.ALONE) is None
    assert recommend((result("A", TP, {8: FAST8}),), Use.ALONE) is None


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_sentence_can_be_shown(language: str) -> None:
    translator = Translator(language)
    for case in CASES:
        for use in Use:
            advice = recommend(case.results, use)
            for line in (advice.text, *advice.evidence) if advice else ():
                assert "{" not in translator.text(line)
