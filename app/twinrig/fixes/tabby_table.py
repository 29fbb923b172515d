"""Profile edits for tabbyAPI with exllamav3. Source: its config models of August 2026."""

from __future__ import annotations

from twinrig.fixes.profile_edits import FromFinding, ProfileEdit, Scaled
from twinrig.messages import N_

_TABBY = frozenset({"tabbyapi"})

TABBY_EDITS: tuple[ProfileEdit, ...] = (
    ProfileEdit(
        "tabby-disable-tp",
        N_("Give each card half of the layers"),
        "the cards cannot work on one layer together",
        settings={"tensor_parallel": False},
        engines=_TABBY,
        risk=N_("Replies become slower: only one card works at a time."),
    ),
    ProfileEdit(
        "tabby-backend-nccl",
        N_("Let tabbyAPI join the cards with NCCL"),
        "exllamav3's own way between the cards does not work here",
        settings={"tensor_parallel_backend": "nccl"},
        engines=_TABBY,
        risk=N_("NCCL must work on this machine; run its check first."),
    ),
    ProfileEdit(
        "tabby-malloc-async-false",
        N_("Let tabbyAPI keep its allocator setting"),
        "tabbyAPI would overwrite the allocator settings of the environment",
        settings={"cuda_malloc_async": False},
        engines=_TABBY,
    ),
    ProfileEdit(
        "tabby-lower-batch",
        N_("Serve fewer requests at once"),
        "requests at once need more cache than there is",
        settings={"max_batch_size": Scaled((), factor=0.5, minimum=1, start=4)},
        engines=_TABBY,
        risk=N_("More requests wait for each other."),
    ),
    ProfileEdit(
        "tabby-lower-chunk",
        N_("Read prompts in smaller pieces"),
        "activations of long prompt pieces do not fit",
        settings={"chunk_size": Scaled((), factor=0.5, minimum=256, start=2048, round_down_to=256)},
        engines=_TABBY,
        risk=N_("Long prompts are read more slowly."),
    ),
    ProfileEdit(
        "tabby-prompt-template",
        N_("Choose a prompt template"),
        "the model brings no prompt template",
        settings={"prompt_template": FromFinding(("template",), text=True)},
        engines=_TABBY,
    ),
)
