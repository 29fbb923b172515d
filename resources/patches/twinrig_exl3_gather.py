"""Collects the logits of several cards in exllamav3 by send and receive, in ascending card order.

For tensor parallelism over NCCL. exllamav3 up to 1.0.0 collects with a kernel of its own that
reads host addresses, wrong under WSL2. A ``.pth`` file beside this one loads it into every Python
of the environment, workers too; without ``TWINRIG_EXL3_GATHER=1`` it does nothing there.

Only a class with the two known methods and parameters is touched. Anything else: one line on
stderr, and exllamav3 stays as it is. To remove it, delete the ``.pth`` file.
"""

import inspect
import os
import sys
from importlib.machinery import PathFinder

TARGET = "exllamav3.model.model_tp_backend"
CLASS = "TPBackendNCCL"
METHODS = ("gather", "gather_small")
PARAMETERS = ("self", "tensor", "out_tensor", "gather_devices", None, "ldims")
"""The fifth is called ``out_device`` or ``output_device``."""
FIFTH = ("out_device", "output_device")


def tell(text):
    """One line where the engine's log is."""
    if sys.stderr is not None:
        sys.stderr.write("Twinrig: " + text + "\n")


def gather(self, tensor, out_tensor, gather_devices, out_device, ldims):
    """``out_tensor[..., columns]`` in the order of ``gather_devices``, ascending; others None.

    Cards without a share (width 0) take no part. Ranks that are not named never call, so a
    collective of all would wait for ever.
    """
    import torch
    import torch.distributed as dist

    shares = sorted(zip(gather_devices, ldims))  # noqa: B905 Python 3.9 has no strict
    if self.device != out_device:
        if dict(shares).get(self.device, 0):
            dist.send(tensor.contiguous(), dst=self.active_devices.index(out_device))
        return
    first = 0
    for device, width in shares:
        if not width:
            continue
        columns = out_tensor[..., first : first + width]
        first += width
        if device == self.device:
            columns.copy_(tensor)
            continue
        # Receiving needs memory in one piece, which columns are not.
        received = torch.empty(columns.shape, dtype=columns.dtype, device=columns.device)
        dist.recv(received, src=self.active_devices.index(device))
        columns.copy_(received)


def parameters_fit(function):
    """Whether ``function`` takes what ``gather`` takes, in the same order."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    if len(names) != len(PARAMETERS):
        return False
    wanted = [FIFTH if name is None else (name,) for name in PARAMETERS]
    return all(name in allowed for name, allowed in zip(names, wanted))  # noqa: B905


def patch(module):
    """Replace both methods on the class, or leave all as it is and say why."""
    owner = getattr(module, CLASS, None)
    for name in METHODS:
        if not parameters_fit(getattr(owner, name, None)):
            tell(f"exllamav3 has another {CLASS}.{name}; its own is kept.")
            return
    for name in METHODS:
        setattr(owner, name, gather)
    tell("exllamav3 collects the logits of the cards by send and receive.")


class Loader:
    """The module's own loader, and the patch after it."""

    def __init__(self, own):
        self._own = own

    def create_module(self, spec):
        return self._own.create_module(spec)

    def exec_module(self, module):
        self._own.exec_module(module)
        patch(module)

    def __getattr__(self, name):
        return getattr(self._own, name)


class Finder:
    """Finds the one module as Python does, and wraps its loader."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != TARGET:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader)
        return spec


if os.environ.get("TWINRIG_EXL3_GATHER") == "1":
    sys.meta_path.insert(0, Finder)
