"""Loads the compiled part of an engine on its own Python and runs one kernel on each card.

Fed to that Python on standard input; nothing is installed or written. ``sys.argv[1]`` is JSON:
nonce, modules. The answer is one line: the nonce, a blank and a JSON object with one entry a step.
"""

import importlib
import json
import os
import sys
import warnings


def main(modules):
    steps = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch = attempt(steps, "torch", lambda: importlib.import_module("torch"))
        for name in modules if torch is not None else ():
            attempt(steps, name, lambda name=name: importlib.import_module(name))
        count = attempt(steps, "cards", lambda: cards(torch)) if torch is not None else 0
        for index in range(count or 0):
            attempt(steps, f"kernel {index}", lambda index=index: kernel(torch, index))
    texts = dict.fromkeys(str(item.message).strip()[:500] for item in told)
    versions = {} if torch is None else {"torch": torch.__version__, "cuda": torch.version.cuda}
    return {"schema": 1, "steps": steps, "warnings": list(texts)[:20], "versions": versions}


def attempt(steps, name, action):
    """Result of ``action``, None when it raised; either way a step is told."""
    try:
        found = action()
    except BaseException as error:  # noqa: BLE001 - everything is told: the reader judges
        text = f"{type(error).__name__}: {error}"
        steps.append({"name": name, "ok": False, "text": text[-2000:]})
        return None
    steps.append({"name": name, "ok": True, "text": ""})
    return found


def cards(torch):
    if torch.version.cuda is None:
        raise RuntimeError("Torch not compiled with CUDA enabled")
    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device")
    return torch.cuda.device_count()


def kernel(torch, index):
    """1 + 2 + ... + 8 on the card."""
    device = torch.device("cuda", index)
    total = int(torch.arange(1, 9, dtype=torch.int32, device=device).sum().item())
    if total != 36:
        raise RuntimeError(f"the card computes 1 + 2 + ... + 8 = {total}")


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    # What libraries print must not be mistaken for the answer.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    line = request["nonce"] + " " + json.dumps(main(request["modules"])) + "\n"
    os.write(answer_to, line.encode())
