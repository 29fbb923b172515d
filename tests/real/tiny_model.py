"""The tiny model of a set-up's proof, as the product writes it."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location

from twinrig import assets

_spec = spec_from_file_location("tiny_model", assets.resource_path("setup/tiny_model.py"))
assert _spec is not None and _spec.loader is not None
_module = module_from_spec(_spec)
_spec.loader.exec_module(_module)
write_model = _module.write_model
tokenizer_files = _module.tokenizer_files
