"""The server's command line as a value. Every refusal says what is allowed and ends with status 2."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Literal

from runners.runtime.model_source import ModelSource, RandomModel
from runners.runtime.serving.chat_format import REASONING_PARSERS, TOOL_CALL_PARSERS, ReasoningParser, ToolCallParser
from runners.runtime.serving.messages import EngineConfig


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """`model` is a registered name, or the path of a GGUF file or of a folder in Hugging Face layout; with a `shape`,
    what that model of random weights is called. At most `max_num_seqs + max_waiting` sequences are in flight. `drain_s`
    is how long an end on SIGTERM waits for them, `keep_alive_s` how long a stream may be silent (0: for ever). None
    leaves the choice to the executor."""

    model: str
    shape: RandomModel | None
    host: str
    port: int
    weights: Literal["bf16", "int8", "int4"]
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    num_blocks: int | None
    max_model_len: int | None
    prefix_cache: bool
    chunked_prefill: bool
    scheduling_policy: Literal["fcfs", "priority"]
    threads: int | None
    max_waiting: int
    drain_s: float
    keep_alive_s: float
    tool_call_parser: ToolCallParser
    reasoning_parser: ReasoningParser
    detached: bool

    @property
    def max_in_flight(self) -> int:
        return self.max_num_seqs + self.max_waiting

    def engine_config(self, source: ModelSource) -> EngineConfig:
        return EngineConfig(
            model=source,
            weights=self.weights,
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            max_model_len=self.max_model_len,
            threads=self.threads,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            prefix_cache=self.prefix_cache,
            chunked_prefill=self.chunked_prefill,
            policy=self.scheduling_policy,
        )


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: a whole number of at least 1")
    return int(text)


def _count(text: str) -> int:
    return 0 if text == "0" else _positive(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: 0 (any free port) to 65535")
    return int(text)


def _shape(text: str) -> RandomModel:
    try:
        return RandomModel.from_json(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}") from error


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: seconds of at least 0")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runners.runtime.server",
        description="An OpenAI-compatible server over the built-in engine.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--model", required=True, help="a registered model (fetched when absent), a GGUF file, a Hugging Face folder")
    add("--shape", type=_shape, help="a shape as JSON: --model names it, its weights are drawn, it has no words")
    add("--host", default="127.0.0.1", help="address to listen on")
    add("--port", type=_port, default=8100, help="0 takes a free one; the ready line says which")
    add(
        "--weights",
        choices=("bf16", "int8", "int4"),
        default="bf16",
        help="int8 is W8A8: quicker, at some quality; int4 is computed in bf16: its quality, not its speed",
    )
    add("--max-num-seqs", type=_positive, default=16, help="sequences in a step")
    add("--max-num-batched-tokens", type=_positive, default=2048, help="tokens in a step")
    add("--block-size", type=int, choices=(8, 16, 32, 64, 128), default=32, help="tokens in a KV block")
    add("--num-blocks", type=_positive, help="KV blocks; a share of memory unless given")
    add("--max-model-len", type=_positive, help="prompt and output together; the model's own unless given")
    add("--no-prefix-cache", dest="prefix_cache", action="store_false", help="keep no computed prefixes")
    add("--no-chunked-prefill", dest="chunked_prefill", action="store_false", help="a prompt in one step")
    add("--scheduling-policy", choices=("fcfs", "priority"), default="priority", help="fcfs ignores a priority")
    add("--threads", type=_positive, help="compute threads")
    add("--max-waiting", type=_count, default=1024, help="requests taken beyond --max-num-seqs")
    add("--drain-s", type=_seconds, default=5.0, help="how long SIGTERM waits for requests in flight")
    add("--keep-alive-s", type=_seconds, default=5.0, help="comment on a stream after that much silence; 0: never")
    add("--tool-call-parser", choices=TOOL_CALL_PARSERS, default="auto", help="how the model writes its tool calls")
    add("--reasoning-parser", choices=REASONING_PARSERS, default="auto", help="how the model writes its thoughts")
    add("--detached", action="store_true", help="outlive the process that started this one")
    return parser


def parse_options(argv: list[str] | None = None) -> ServerOptions:
    """Ends the process with status 2 and a line on stderr for options that are not allowed."""
    parser = _parser()
    given = parser.parse_args(argv)
    if given.max_num_batched_tokens < given.max_num_seqs:
        parser.error(
            f"--max-num-batched-tokens {given.max_num_batched_tokens} is not allowed; allowed: at least "
            f"--max-num-seqs ({given.max_num_seqs})"
        )
    return ServerOptions(**vars(given))
