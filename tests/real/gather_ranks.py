"""One rank on gloo: the gather of the patch against what torch.cat gives."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import torch
import torch.distributed as dist

rank, world, meeting, patch = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
spec = importlib.util.spec_from_file_location("patch", patch)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)


class Backend:
    """Cards are numbered 3, 5, 7 and the output card comes last, as exllamav3 orders them."""

    def __init__(self, order: list[int]) -> None:
        self.active_devices = order
        self.device = order[rank]


devices = [3, 5, 7][:world]
done = 0
widths = ([128] * world, [256, 128, 384][:world], [0, 128, 256][:world], [1] * world)
for out_device, ldims, dtype, rows in itertools.product(
    devices, widths, (torch.float16, torch.float32, torch.int64), ((1, 1), (2, 3))
):
    order = [d for d in devices if d != out_device] + [out_device]
    backend = Backend(order)
    backend.gather = module.gather.__get__(backend)
    torch.manual_seed(done)
    parts = [torch.randint(-9, 9, (*rows, width)).to(dtype) for width in ldims]
    own = parts[devices.index(backend.device)]
    out = torch.empty((*rows, sum(ldims)), dtype=dtype) if backend.device == out_device else None
    backend.gather(own, out, devices, out_device, ldims)
    if out is not None:
        assert torch.equal(out, torch.cat(parts, dim=-1)), (out_device, ldims, dtype)
    done += 1
dist.barrier()
sys.stdout.write(f"exact {done}\n")
