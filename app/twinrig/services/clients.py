"""What to enter in clients of the server, from ``resources/advice/clients.yaml``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import yaml

TABLE = "advice/clients.yaml"
KEY_PLACE = "API_KEY"
"""In the place of a key that is not to be shown."""
NO_KEY = "none"
"""Clients insist on some key; a server without one takes any."""


@dataclass(frozen=True)
class Client:
    """One client. ``help`` is a marked sentence; ``name`` a proper name."""

    id: str
    name: str
    help: str
    template: str

    def snippet(self, base_url: str, model: str, key: str) -> str:
        """Ready to copy. ``base_url`` ends with ``/v1``; quotes in the model's name are escaped
        as JSON and Python both read them."""
        quoted = json.dumps(model, ensure_ascii=False)[1:-1]
        return self.template.format(base_url=base_url, model=quoted, key=key)


def load_clients(read_text: Callable[[str], str]) -> tuple[Client, ...]:
    """All clients, in the order in which they are offered. ``read_text`` gives a resource."""
    rows = yaml.safe_load(read_text(TABLE))["clients"]
    return tuple(Client(r["id"], r["name"], r["help"], r["snippet"].rstrip("\n")) for r in rows)
