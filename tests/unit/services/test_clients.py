from __future__ import annotations

import ast
import json
import shlex

import yaml

from twinrig import assets
from twinrig.services.clients import KEY_PLACE, load_clients

URL = "http://127.0.0.1:8000/v1"
CLIENTS = {client.id: client for client in load_clients(assets.read_text)}


def test_all_the_clients_people_use() -> None:
    assert list(CLIENTS) == ["open-webui", "sillytavern", "continue", "cline", "curl", "python"]
    for client in CLIENTS.values():
        text = client.snippet(URL, "Qwen3-8B", KEY_PLACE)
        assert URL in text and "Qwen3-8B" in text and KEY_PLACE in text
        assert "{" not in client.snippet(URL, "m", "k").replace('{"', "").replace("[{", "")


def test_curl_is_a_command_with_valid_json() -> None:
    words = shlex.split(CLIENTS["curl"].snippet(URL, "Qwen3 8B", "abc"))
    assert words[1] == f"{URL}/chat/completions"
    assert "Authorization: Bearer abc" in words
    assert json.loads(words[-1])["model"] == "Qwen3 8B"


def test_python_is_python_whatever_the_models_name() -> None:
    tree = ast.parse(CLIENTS["python"].snippet(URL, 'odd"name\\', "abc"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert 'odd"name\\' in texts and URL in texts


def test_continue_is_yaml() -> None:
    (model,) = yaml.safe_load(CLIENTS["continue"].snippet(URL, "Qwen3-8B", "abc"))["models"]
    assert (model["apiBase"], model["model"], model["apiKey"]) == (URL, "Qwen3-8B", "abc")
