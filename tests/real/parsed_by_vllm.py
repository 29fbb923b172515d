"""Run inside vLLM's environment: what its own command line makes of each configuration file."""

from __future__ import annotations

import contextlib
import io
import json
import sys

import vllm.entrypoints.cli.main as cli
import vllm.entrypoints.cli.serve as serve


def parse(path: str) -> dict[str, object]:
    """The settings as vLLM understands them, or the words with which it refuses."""
    told: list[dict[str, object]] = []
    serve.ServeSubcommand.cmd = staticmethod(lambda args: told.append(dict(vars(args))))
    sys.argv = ["vllm", "serve", "--config", path]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            cli.main()
    except (Exception, SystemExit) as error:  # noqa: BLE001 whatever it raises is a refusal
        return {"refused": f"{error!r} {said.getvalue()[-400:]}"}
    return told[0]


answers = [parse(path) for path in sys.argv[1:]]
sys.stdout.write("\nANSWERS " + json.dumps(answers, default=repr) + "\n")
