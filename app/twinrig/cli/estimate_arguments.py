"""Options of ``twinrig estimate``."""

from __future__ import annotations

import argparse
import math

from twinrig.messages import N_, Translator


def add_estimate(parser: argparse.ArgumentParser, tr: Translator) -> None:
    """All options; what is left out is the engine's default."""
    text = tr.text
    parser.add_argument(
        "--model",
        required=True,
        metavar="PATH",
        help=text(N_("model folder, or a config.json alone")),
    )
    parser.add_argument(
        "--engine", default="vllm", metavar="ENGINE", help=text(N_("server program, such as vllm"))
    )
    parser.add_argument("--engine-version", default="", metavar="VERSION")
    _cards(parser, tr)
    parser.add_argument(
        "--context",
        type=_count,
        metavar="TOKENS",
        help=text(N_("length of one conversation, prompt and reply together")),
    )
    parser.add_argument(
        "--want-context",
        type=_count,
        metavar="TOKENS",
        help=text(N_("find the best quantisation with which so many tokens fit")),
    )
    parser.add_argument("--tp", type=_count, metavar="N", help=text(N_("tensor parallel size")))
    parser.add_argument(
        "--speculative-tokens",
        "--draft-tokens",
        dest="draft_tokens",
        type=_size,
        default=0,
        metavar="N",
        help=text(N_("tokens drafted ahead by speculative decoding")),
    )
    _vllm(parser, tr)
    _exl3(parser, tr)


def _cards(parser: argparse.ArgumentParser, tr: Translator) -> None:
    text = tr.text
    parser.add_argument(
        "--gpus",
        type=_numbers,
        metavar="GB,GB",
        help=text(N_("sizes on the boxes of the cards, such as 12,12; else this machine's cards")),
    )
    parser.add_argument(
        "--gpu-total-gib",
        type=_numbers,
        metavar="GIB,GIB",
        help=text(N_("total memory of each card as CUDA reports it")),
    )
    parser.add_argument(
        "--reserve-gib",
        type=_number,
        metavar="GIB",
        help=text(N_("kept free on each card whose free memory is not measured")),
    )
    parser.add_argument(
        "--no-measurements",
        action="store_true",
        help=text(N_("ignore what earlier starts of this model on this machine showed")),
    )
    parser.add_argument(
        "--safe", action="store_true", help=text(N_("keep 2 GiB free on each card, for WSL2"))
    )


def _vllm(parser: argparse.ArgumentParser, tr: Translator) -> None:
    text = tr.text
    group = parser.add_argument_group("vLLM")
    group.add_argument("--pp", type=_count, default=1, metavar="N")
    group.add_argument("--quantization", default="", metavar="NAME")
    group.add_argument("--kv-cache-dtype", default="auto", metavar="TYPE")
    group.add_argument("--max-num-seqs", type=_count, metavar="N")
    group.add_argument("--max-num-batched-tokens", type=_count, metavar="N")
    group.add_argument("--mamba-cache-mode", default="", metavar="MODE")
    group.add_argument("--gpu-memory-utilization", type=_share, metavar="SHARE")
    group.add_argument(
        "--kv-pool-gib",
        type=float,
        metavar="GIB",
        help=text(N_("size of the KV cache per card, instead of what is left over")),
    )
    group.add_argument("--enforce-eager", action="store_true")
    group.add_argument(
        "--text-only", action="store_true", help=text(N_("leave out the image encoder"))
    )


def _exl3(parser: argparse.ArgumentParser, tr: Translator) -> None:
    text = tr.text
    group = parser.add_argument_group("tabbyAPI, exllamav3")
    group.add_argument(
        "--bpw", type=_bits, metavar="BITS", help=text(N_("bits per weight of the decoder"))
    )
    group.add_argument("--head-bits", type=_bits, metavar="BITS")
    group.add_argument("--cache-mode", default="FP16", metavar="K,V")
    group.add_argument("--cache-size", type=_count, metavar="TOKENS")
    group.add_argument("--max-batch-size", type=_count, metavar="N")
    group.add_argument("--chunk-size", type=_count, default=2048, metavar="N")
    group.add_argument("--gpu-split", type=_numbers, metavar="GB,GB")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or not 0 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text}: 0 ... 1e6")
    return value


def _numbers(text: str) -> tuple[float, ...]:
    values = tuple(_number(part) for part in text.split(","))
    if not 1 <= len(values) <= 64 or min(values) <= 0:
        raise argparse.ArgumentTypeError(f"{text}: > 0")
    return values


def _size(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 2**30:
        raise argparse.ArgumentTypeError(f"{text}: 0 ... 2^30")
    return value


def _count(text: str) -> int:
    value = _size(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: 1 ... 2^30")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: 0 ... 1")
    return value


def _bits(text: str) -> float:
    value = float(text)
    if not 0.5 <= value <= 16:
        raise argparse.ArgumentTypeError(f"{text}: 0.5 ... 16")
    return value
