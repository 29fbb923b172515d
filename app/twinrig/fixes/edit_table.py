"""Rows of the profile edits. Sources: the failure catalogue and the engines as released.

Order of keys in a row: what it is, what it changes, where it may be used. tabbyAPI's rows are
of its config models of August 2026. The allocator's expandable segments stand in their own
module, as the two engines need opposite settings.
"""

from __future__ import annotations

from twinrig.fixes.planning import TABBY, VLLM
from twinrig.fixes.profile_edits import FreeShare, FromFinding, ProfileEdit, Scaled
from twinrig.messages import N_

NCCL_EDITS: tuple[ProfileEdit, ...] = (
    ProfileEdit(
        "env-nccl-cumem-0",
        N_("Keep NCCL away from CUDA's virtual memory interface"),
        "WSL2 rejects part of cuMem; vLLM since 0.10.2 no longer switches it off itself",
        env={"NCCL_CUMEM_ENABLE": "0"},
        risk=N_("Slightly slower traffic between the cards; results do not change."),
    ),
    ProfileEdit(
        "env-nccl-cumem-host-0",
        N_("Keep NCCL's host buffers away from CUDA's virtual memory interface"),
        "NCCL could not allocate its host buffers",
        env={"NCCL_CUMEM_HOST_ENABLE": "0"},
    ),
    ProfileEdit(
        "env-nccl-p2p-disable",
        N_("Let NCCL copy between the cards through the computer's memory"),
        "direct access between the cards hangs or fails",
        env={"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1"},
        risk=N_("Slower only where direct access between the cards really works."),
    ),
    ProfileEdit(
        "env-nccl-socket-lo",
        N_("Let NCCL meet over the loopback interface"),
        "NCCL chose an interface on which the workers cannot meet",
        env={"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"},
        risk=N_("Only for servers on a single computer."),
    ),
    ProfileEdit(
        "env-nccl-shm-on",
        N_("Let NCCL use shared memory again"),
        "without shared memory NCCL talks over the network inside one computer",
        env={"NCCL_SHM_DISABLE": None},
    ),
    ProfileEdit(
        "env-nccl-debug-info",
        N_("Let NCCL say in the log what it does"),
        "to learn the real reason of an NCCL error; remove it afterwards",
        env={"NCCL_DEBUG": "INFO"},
        risk=N_("The log becomes long; take this back once the reason is known."),
    ),
)

ENVIRONMENT_EDITS: tuple[ProfileEdit, ...] = (
    ProfileEdit(
        "env-cuda-launch-blocking",
        N_("Run CUDA step by step, for one diagnostic start"),
        "to see where a CUDA error really happens; remove it afterwards",
        env={"CUDA_LAUNCH_BLOCKING": "1"},
        risk=N_("Very slow; take this back after the diagnosis."),
    ),
    ProfileEdit(
        "env-diagnosis-off",
        N_("Take the settings of a diagnosis out"),
        "they are meant for one start",
        env={"CUDA_LAUNCH_BLOCKING": None, "NCCL_DEBUG": None},
    ),
    ProfileEdit(
        "env-device-order",
        N_("Number the cards by their slot"),
        "CUDA's own order puts the fastest card first and differs from nvidia-smi",
        env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    ),
    ProfileEdit(
        "env-flashinfer-sampler-0",
        N_("Use vLLM's own sampler instead of FlashInfer's"),
        "FlashInfer's sampler could not be built or ran out of memory",
        env={"VLLM_USE_FLASHINFER_SAMPLER": "0"},
        engines=VLLM,
        risk=N_("Sampling becomes a little slower."),
    ),
    ProfileEdit(
        "env-max-jobs",
        N_("Compile with two jobs at a time"),
        "compiling many kernels at once needs more RAM than there is",
        env={"MAX_JOBS": "2"},
        risk=N_("The first start takes longer."),
    ),
    ProfileEdit(
        "env-spawn",
        N_("Start the workers afresh instead of forking them"),
        "a forked worker cannot use CUDA again",
        env={"VLLM_WORKER_MULTIPROC_METHOD": "spawn"},
        engines=VLLM,
    ),
    ProfileEdit(
        "env-vllm-pin-memory",
        N_("Let vLLM pin memory under WSL2"),
        "parts of vLLM need pinned memory, which it avoids under WSL2",
        env={"VLLM_WSL2_ENABLE_PIN_MEMORY": "1"},
        engines=VLLM,
        versions=">=0.24",
        risk=N_("Pinned memory counts against a limit of Windows; large amounts fail."),
    ),
    ProfileEdit(
        "env-vllm-ready-timeout",
        N_("Give vLLM 30 minutes to get ready"),
        "loading takes longer than vLLM waits for its engine process",
        env={"VLLM_ENGINE_READY_TIMEOUT_S": "1800"},
        engines=VLLM,
        risk=N_("A start that hangs is noticed later."),
    ),
    ProfileEdit(
        "env-vllm-runner-v1",
        N_("Use vLLM's older model runner"),
        "the newer model runner needs memory access that WSL2 does not offer",
        env={"VLLM_USE_V2_MODEL_RUNNER": "0"},
        engines=VLLM,
        versions=">=0.22",
    ),
    ProfileEdit(
        "env-fix-cuda-home",
        N_("Leave the place of the CUDA compiler to the engine"),
        "CUDA_HOME named a folder without a compiler",
        env={"CUDA_HOME": None, "CUDA_PATH": None},
    ),
    ProfileEdit(
        "env-unset-ld-library-path",
        N_("Start without foreign libraries"),
        "libraries of another installation were loaded instead of the engine's own",
        env={"LD_LIBRARY_PATH": None, "LD_PRELOAD": None},
    ),
    ProfileEdit(
        "model-use-local",
        N_("Load local files only, without asking the model hub"),
        "the hub cannot be reached, and the files are here",
        env={"HF_HUB_OFFLINE": "1"},
    ),
)

PARALLEL_EDITS: tuple[ProfileEdit, ...] = (
    ProfileEdit(
        "flag-disable-custom-ar",
        N_("Switch custom all-reduce off"),
        "vLLM's own all-reduce needs direct access between the cards",
        settings={"disable_custom_all_reduce": True},
        engines=VLLM,
    ),
    ProfileEdit(
        "cfg-tp-1",
        N_("Use one card"),
        "fewer cards than the profile asks for",
        settings={"tensor_parallel_size": 1, "pipeline_parallel_size": None},
        settings_by_engine={"tabbyapi": {"tensor_parallel": False}},
        risk=N_("The model must fit on one card."),
    ),
    ProfileEdit(
        "cfg-tp-2",
        N_("Use both cards"),
        "the model does not fit on one card",
        settings={"tensor_parallel_size": 2},
        settings_by_engine={"tabbyapi": {"tensor_parallel": True}},
    ),
    ProfileEdit(
        "cfg-pp-2",
        N_("Give each card half of the layers"),
        "the cards cannot work on one layer together",
        settings={"tensor_parallel_size": 1, "pipeline_parallel_size": 2},
        engines=VLLM,
        risk=N_("One reply is not faster than on a single card."),
    ),
)

MEMORY_EDITS: tuple[ProfileEdit, ...] = (
    ProfileEdit(
        "cfg-lower-max-len",
        N_("Shorten the context"),
        "the KV cache does not hold one conversation of this length",
        settings={
            "context_length": Scaled(
                ("estimated", "limit"),
                factor=0.5,
                minimum=1024,
                round_down_to=256,
            )
        },
        risk=N_("Long conversations are cut earlier."),
    ),
    ProfileEdit(
        "cfg-raise-max-len",
        N_("Lengthen the context"),
        "requests are longer than the context",
        settings={"context_length": FromFinding(("wanted_max_len",), round_down_to=256)},
        risk=N_("The KV cache may not fit any more."),
    ),
    ProfileEdit(
        "cfg-lower-gpu-util",
        N_("Ask for less of each card's memory"),
        "other programs use a part of the cards",
        settings={
            "gpu_memory_utilization": FreeShare(
                Scaled((), offset=-0.05, minimum=0.3, maximum=0.97, start=0.9, whole=False)
            )
        },
        engines=VLLM,
        risk=N_("The KV cache becomes smaller."),
    ),
    ProfileEdit(
        "cfg-raise-gpu-util",
        N_("Ask for more of each card's memory"),
        "the KV cache is too small",
        settings={
            "gpu_memory_utilization": Scaled(
                (), offset=0.03, minimum=0.3, maximum=0.97, start=0.9, whole=False
            )
        },
        engines=VLLM,
        risk=N_("Keep half a GiB free on the card that drives the screen."),
    ),
    ProfileEdit(
        "cfg-kv-fp8",
        N_("Store the KV cache in 8 bits"),
        "the KV cache is too large",
        settings={"kv_cache_dtype": "fp8"},
        engines=VLLM,
        risk=N_("Replies may become slightly worse."),
    ),
    ProfileEdit(
        "cfg-lower-batched-tokens",
        N_("Read prompts in smaller pieces"),
        "activations of long prompt pieces do not fit",
        settings={"max_num_batched_tokens": Scaled((), factor=0.5, minimum=256, start=4096)},
        engines=VLLM,
        risk=N_("Long prompts are read more slowly."),
    ),
    ProfileEdit(
        "cfg-lower-max-num-seqs",
        N_("Serve fewer requests at once"),
        "buffers for many requests at once do not fit",
        settings={"max_num_seqs": Scaled((), factor=0.5, minimum=1, start=32)},
        engines=VLLM,
        risk=N_("More requests wait for each other."),
    ),
    ProfileEdit(
        "cfg-lower-cpu-offload",
        N_("Keep fewer weights in RAM"),
        "pinned RAM is limited under WSL2",
        settings={"cpu_offload_gb": Scaled((), factor=0.5, minimum=0, whole=False)},
        engines=VLLM,
        risk=N_("More of the model must fit on the cards."),
    ),
    ProfileEdit(
        "cfg-enforce-eager",
        N_("Run without CUDA graphs"),
        "capturing CUDA graphs fails or takes too much memory",
        settings={"enforce_eager": True},
        engines=VLLM,
        risk=N_("Replies become slower."),
    ),
    ProfileEdit(
        "flag-dtype-half",
        N_("Compute in float16"),
        "the card does not know bfloat16",
        settings={"dtype": "half"},
        engines=VLLM,
    ),
    ProfileEdit(
        "flag-no-sleep-mode",
        N_("Do without sleep mode"),
        "sleep mode does not work together with expandable segments",
        settings={"enable_sleep_mode": None},
        engines=VLLM,
        risk=N_("The cards cannot be freed while the server waits."),
    ),
    ProfileEdit(
        "cfg-quant-fallback",
        N_("Use another kernel for the quantised weights"),
        "the kernel that was chosen cannot run on this card",
        settings={"quantization": FromFinding(("quantization",), text=True)},
        engines=VLLM,
        risk=N_("Replies become slower."),
    ),
)

SERVING_EDITS: tuple[ProfileEdit, ...] = (
    ProfileEdit(
        "cfg-model-path",
        N_("Choose the model folder"),
        "the folder of the profile does not exist",
        fields={"model.path": FromFinding(("near",), text=True)},
    ),
    ProfileEdit(
        "use-actual-port",
        N_("Use the port that the server chose"),
        "the port of the profile was taken, so the server listens on another one",
        fields={"network.port": FromFinding(("port",))},
    ),
    ProfileEdit(
        "flag-served-model-name",
        N_("Serve the model under the name that clients use"),
        "clients ask for another name",
        fields={"model.served_name": FromFinding(("asked_name",), text=True)},
    ),
    ProfileEdit(
        "cfg-env-path",
        N_("Choose the Python environment"),
        "the engine is in another environment",
        fields={"engine.environment": FromFinding(("found_environment",), text=True)},
    ),
    ProfileEdit(
        "flag-trust-remote-code",
        N_("Let the model bring its own program code"),
        "the model needs program code that it brings along",
        settings={"trust_remote_code": True},
        engines=VLLM,
        risk=N_("Code from the model's download runs with your rights; look at it first."),
    ),
    ProfileEdit(
        "flag-chat-template",
        N_("Use a chat template from a file"),
        "the model brings no chat template",
        settings={"chat_template": FromFinding(("template",), text=True)},
        engines=VLLM,
    ),
)

TABBY_EDITS: tuple[ProfileEdit, ...] = (
    ProfileEdit(
        "tabby-disable-tp",
        N_("Give each card half of the layers"),
        "the cards cannot work on one layer together",
        settings={"tensor_parallel": False},
        engines=TABBY,
        risk=N_("Replies become slower: only one card works at a time."),
    ),
    ProfileEdit(
        "tabby-backend-nccl",
        N_("Let tabbyAPI join the cards with NCCL"),
        "exllamav3's own way between the cards does not work here",
        settings={"tensor_parallel_backend": "nccl"},
        engines=TABBY,
        risk=N_("NCCL must work on this machine; run its check first."),
    ),
    ProfileEdit(
        "tabby-malloc-async-false",
        N_("Let tabbyAPI keep its allocator setting"),
        "tabbyAPI would overwrite the allocator settings of the environment",
        settings={"cuda_malloc_async": False},
        engines=TABBY,
    ),
    ProfileEdit(
        "tabby-lower-batch",
        N_("Serve fewer requests at once"),
        "requests at once need more cache than there is",
        settings={"max_batch_size": Scaled((), factor=0.5, minimum=1, start=4)},
        engines=TABBY,
        risk=N_("More requests wait for each other."),
    ),
    ProfileEdit(
        "tabby-lower-chunk",
        N_("Read prompts in smaller pieces"),
        "activations of long prompt pieces do not fit",
        settings={"chunk_size": Scaled((), factor=0.5, minimum=256, start=2048, round_down_to=256)},
        engines=TABBY,
        risk=N_("Long prompts are read more slowly."),
    ),
    ProfileEdit(
        "tabby-prompt-template",
        N_("Choose a prompt template"),
        "the model brings no prompt template",
        settings={"prompt_template": FromFinding(("template",), text=True)},
        engines=TABBY,
    ),
)

EDITS: tuple[ProfileEdit, ...] = (
    *NCCL_EDITS,
    *ENVIRONMENT_EDITS,
    *PARALLEL_EDITS,
    *MEMORY_EDITS,
    *SERVING_EDITS,
    *TABBY_EDITS,
)
