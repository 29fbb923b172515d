"""The OpenAI-compatible endpoints of the demo server."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from twinrig import __version__
from twinrig.hosts.demo.batch import Batch, Sequence
from twinrig.hosts.demo.config import DemoConfig
from twinrig.hosts.demo.httpd import HttpFault, Reply, Request, fault
from twinrig.hosts.demo.naps import Naps
from twinrig.hosts.demo.words import count_tokens, reply_tokens

CLIENT_CHECK_S = 0.2
_ENGINE_DEAD = {
    "error": {
        "message": "EngineCore encountered an issue. See the log for the root cause.",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
}


@dataclass(frozen=True)
class _Job:
    """A checked request: what to say, and how to wrap it."""

    id: str
    chat: bool
    stream: bool
    usage: bool
    sequence: Sequence
    ends_itself: bool

    @property
    def finish_reason(self) -> str:
        if self.sequence.aborted:
            return "abort"
        return "stop" if self.ends_itself else "length"


class Endpoints:
    """Answers requests out of one Batch. ``key`` "" means that no key is asked for.

    With ``naps`` it can be put to sleep; no key guards that, as with vLLM.
    """

    def __init__(
        self, config: DemoConfig, batch: Batch, key: str = "", naps: Naps | None = None
    ) -> None:
        self._naps = naps
        self._config = config
        self._batch = batch
        self._key = key
        self._started_s = time.time()
        self._count = 0

    async def answer(self, request: Request, reply: Reply) -> None:
        """Answer one request. Raises HttpFault before anything was sent."""
        handlers = {
            ("GET", "/health"): self._health,
            ("GET", "/version"): self._version,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/v1/models"): self._models,
            ("POST", "/v1/chat/completions"): self._complete,
            ("POST", "/v1/completions"): self._complete,
        }
        if self._naps is not None:
            handlers |= {
                ("POST", "/sleep"): self._sleep,
                ("POST", "/wake_up"): self._wake,
                ("GET", "/is_sleeping"): self._is_sleeping,
            }
        handler = handlers.get((request.method, request.path))
        if handler is None:
            known = any(path == request.path for _, path in handlers)
            raise fault(405 if known else 404, "Not Found", "NotFoundError")
        if request.path.startswith("/v1/"):
            self._check_key(request)
        await handler(request, reply)

    def _check_key(self, request: Request) -> None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._key and not hmac.compare_digest(given.encode(), self._key.encode()):
            raise HttpFault(401, {"error": "Unauthorized"})

    async def _health(self, _request: Request, reply: Reply) -> None:
        await reply.send(200, b"", "text/plain")

    async def _sleep(self, _request: Request, reply: Reply) -> None:
        assert self._naps is not None
        await self._naps.sleep()
        await reply.send(200, b"", "text/plain")

    async def _wake(self, _request: Request, reply: Reply) -> None:
        assert self._naps is not None
        await self._naps.wake()
        await reply.send(200, b"", "text/plain")

    async def _is_sleeping(self, _request: Request, reply: Reply) -> None:
        asleep = self._naps is not None and self._naps.asleep
        await reply.send_json(200, {"is_sleeping": asleep})

    async def _version(self, _request: Request, reply: Reply) -> None:
        await reply.send_json(200, {"version": __version__})

    async def _models(self, _request: Request, reply: Reply) -> None:
        model = {
            "id": self._config.served_name,
            "object": "model",
            "created": int(self._started_s),
            "owned_by": "twinrig-demo",
            "root": self._config.model_path,
            "max_model_len": self._config.context_length,
        }
        await reply.send_json(200, {"object": "list", "data": [model]})

    async def _metrics(self, _request: Request, reply: Reply) -> None:
        body = metrics_text(self._batch, self._config, self._started_s)
        await reply.send(200, body.encode(), "text/plain; version=0.0.4; charset=utf-8")

    async def _complete(self, request: Request, reply: Reply) -> None:
        job = self._job(request.json(), chat=request.path.startswith("/v1/chat"))
        if job.stream:
            await self._stream(job, reply)
            return
        async with self._tokens(job, reply) as tokens:
            text = "".join([token async for token in tokens])
        if job.sequence.failed:
            raise HttpFault(500, _ENGINE_DEAD)
        await reply.send_json(200, self._whole(job, text))

    def _job(self, body: Mapping[str, Any], *, chat: bool) -> _Job:
        self._check_model(body)
        prompt = _prompt(body, chat=chat)
        prompt_tokens = max(1, count_tokens(prompt))
        room = self._config.context_length - prompt_tokens
        limit = _limit(body, room, prompt_tokens, self._config.context_length)
        ignore_end = body.get("ignore_eos") is True
        tokens, ends = reply_tokens(prompt, self._config.seed, limit, ignore_end=ignore_end)
        self._count += 1
        options = body.get("stream_options")
        return _Job(
            id=f"{'chatcmpl' if chat else 'cmpl'}-demo-{self._count}",
            chat=chat,
            stream=body.get("stream") is True,
            usage=isinstance(options, Mapping) and options.get("include_usage") is True,
            sequence=Sequence(prompt_tokens, tokens),
            ends_itself=ends,
        )

    def _check_model(self, body: Mapping[str, Any]) -> None:
        model = body.get("model", self._config.served_name)
        if model != self._config.served_name:
            raise fault(
                404,
                f"The model `{model}` does not exist. Valid aliases: {self._config.served_name}",
                "NotFoundError",
                "model",
            )
        if body.get("n", 1) != 1:
            raise fault(400, "The demo engine gives one reply per request (n=1).", param="n")

    @contextlib.asynccontextmanager
    async def _tokens(self, job: _Job, reply: Reply) -> AsyncIterator[AsyncGenerator[str, None]]:
        """Tokens as they come; a client that hangs up, even in the queue, aborts the reply."""
        watch = asyncio.create_task(self._watch(job.sequence, reply))
        try:
            async with contextlib.aclosing(self._batch.tokens(job.sequence)) as tokens:
                yield tokens
        finally:
            watch.cancel()

    async def _watch(self, sequence: Sequence, reply: Reply) -> None:
        while not reply.gone:
            await asyncio.sleep(CLIENT_CHECK_S)
        self._batch.abort(sequence)

    async def _stream(self, job: _Job, reply: Reply) -> None:
        await reply.begin_events()
        if job.chat:
            await reply.event(self._chunk(job, {"role": "assistant", "content": ""}))
        async with self._tokens(job, reply) as tokens:
            async for token in tokens:
                await reply.event(self._chunk(job, {"content": token}))
        if reply.gone:
            return
        if job.sequence.failed:
            await reply.event(_ENGINE_DEAD)
        else:
            await reply.event(self._chunk(job, {}, job.finish_reason))
            if job.usage:
                await reply.event({**self._chunk(job, {}), "choices": [], "usage": _usage(job)})
        await reply.event("[DONE]")
        await reply.end_events()

    def _chunk(
        self, job: _Job, delta: Mapping[str, str], finish_reason: str | None = None
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish_reason}
        if job.chat:
            choice["delta"] = delta
        else:
            choice["text"] = delta.get("content", "")
        kind = "chat.completion.chunk" if job.chat else "text_completion"
        return {**self._envelope(job, kind), "choices": [choice]}

    def _whole(self, job: _Job, text: str) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": job.finish_reason}
        if job.chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        kind = "chat.completion" if job.chat else "text_completion"
        return {**self._envelope(job, kind), "choices": [choice], "usage": _usage(job)}

    def _envelope(self, job: _Job, kind: str) -> dict[str, Any]:
        model = self._config.served_name
        return {"id": job.id, "object": kind, "created": int(time.time()), "model": model}


def metrics_text(batch: Batch, config: DemoConfig, started_s: float) -> str:
    """Prometheus text with the counters and gauges of the engine."""
    label = f'{{model_name="{_escaped(config.served_name)}"}}'
    rows = (
        ("demo:generation_tokens_total", "counter", batch.counters.generation_tokens),
        ("demo:prompt_tokens_total", "counter", batch.counters.prompt_tokens),
        ("demo:num_requests_running", "gauge", batch.running),
        ("demo:num_requests_waiting", "gauge", batch.waiting),
        ("demo:kv_cache_usage_ratio", "gauge", round(batch.kv_usage, 6)),
        ("demo:kv_cache_size_tokens", "gauge", batch.kv_tokens),
        ("demo:requests_finished_total", "counter", batch.counters.finished),
        ("demo:requests_aborted_total", "counter", batch.counters.aborted),
    )
    lines = [f"# TYPE {name} {kind}\n{name}{label} {value}" for name, kind, value in rows]
    lines.append(f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {started_s}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _usage(job: _Job) -> dict[str, int]:
    prompt, reply = job.sequence.prompt_tokens, job.sequence.produced
    return {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}


def _prompt(body: Mapping[str, Any], *, chat: bool) -> str:
    if not chat:
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            raise fault(400, "prompt must be text.", param="prompt")
        return prompt
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise fault(400, "messages must be a list with at least one entry.", param="messages")
    return "\n".join(_content(entry) for entry in messages)


def _content(entry: Any) -> str:
    content = entry.get("content", "") if isinstance(entry, Mapping) else None
    if isinstance(content, list):
        parts = [part.get("text", "") for part in content if isinstance(part, Mapping)]
        content = "".join(part for part in parts if isinstance(part, str))
    if content is None or not isinstance(content, str):
        raise fault(400, "A message needs text content.", param="messages")
    return content


def _limit(body: Mapping[str, Any], room: int, prompt_tokens: int, context_length: int) -> int:
    value = body.get("max_completion_tokens", body.get("max_tokens"))
    if value is None:
        value = max(room, 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise fault(400, "max_tokens must be a whole number of at least 1.", param="max_tokens")
    if value > room:
        raise fault(
            400,
            f"This model's maximum context length is {context_length} tokens. However, you "
            f"requested {value} output tokens and your prompt contains {prompt_tokens} input "
            "tokens. Shorten the prompt or lower max_tokens.",
            param="max_tokens",
        )
    return value
