"""The engine's own process: takes commands between steps, runs steps, reports each with one message.

Started as `python -m runners.runtime.serving.engine_process FD PARENT_PID`, where FD is its end of a socket
pair. It ends when told to, when that socket closes, or when its parent dies; it does no HTTP and no text.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection, wait

from runners.runtime import torch_executor
from runners.runtime.admission import max_sequence_tokens
from runners.runtime.engine import Engine, RequestRejected, StepOutput
from runners.runtime.model_source import ModelSource, RandomModel
from runners.runtime.sampling.grammar import StructureCompiler
from runners.runtime.sampling.structure import StructureError, StructureState
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.serving.messages import (
    Abort,
    Aborted,
    Accepted,
    Add,
    Command,
    EngineConfig,
    Fatal,
    Holders,
    Loading,
    Progress,
    Ready,
    Rejected,
    Report,
    Stop,
)
from runners.runtime.serving.steps import step_values
from runners.runtime.serving.structure_worker import Compiled, StructureWorker
from runners.runtime.tokenizer import Tokenizer
from runners.runtime.tokenizer_ids import NoWords

PR_SET_PDEATHSIG = 1
HOLDERS_EVERY_S = 0.2
log = logging.getLogger(__name__)


def follow_parent(parent_pid: int) -> None:
    """Be killed when the parent dies (Linux; elsewhere the closed socket ends us at the next step)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        raise SystemExit("the server ended before its engine began")


class EngineLoop:
    """Engine and socket: `run` returns when the other end says Stop or is gone.

    A request with a structure joins the engine once that is compiled, which happens beside the steps.
    """

    def __init__(self, engine: Engine, connection: Connection[Report, Command], compiler: StructureCompiler) -> None:
        self.engine = engine
        self.connection = connection
        self.stopping = False
        self._holders_due_s = 0.0
        self._structures = StructureWorker(compiler)

    def run(self) -> None:
        try:
            while not self.stopping:
                output = self.engine.step()  # with nothing to do, this checks the block accounting
                if output is not None:
                    self.connection.send(self.progress(output))
                    self.tell_holders()
                self.take_commands(wait=output is None)
        finally:
            self._structures.stop()

    def tell_holders(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._holders_due_s:
            self._holders_due_s = now_s + HOLDERS_EVERY_S
            self.connection.send(Holders(self.engine.kv_blocks()))

    def take_commands(self, *, wait: bool) -> None:
        """All that have arrived. Raises EOFError when the server is gone."""
        if wait:
            self._sleep()
        while not self.stopping and self.connection.poll(0):
            self.obey(self.connection.recv())
        if self._structures.busy:
            for compiled in self._structures.take_done():
                self.connection.send(self._join(compiled))

    def _sleep(self) -> None:
        """Until there is a command, or a structure is ready."""
        wait([self.connection, self._structures.fileno()] if self._structures.busy else [self.connection])

    def obey(self, command: Command) -> None:
        match command:
            case Add():
                if (answer := self.add(command)) is not None:
                    self.connection.send(answer)
            case Abort():
                self.connection.send(self.abort(command.key))
            case Stop():
                self.stopping = True

    def add(self, command: Add) -> Report | None:
        """The answer; None for a structure, whose answer comes once it is compiled."""
        if command.params.structure is None or command.params.embed:
            return self._queue(command, None)
        try:
            self.engine.check(command.key, command.prompt_ids, command.params)
        except RequestRejected as error:
            return Rejected(command.key, error.field, str(error))
        self._structures.submit(command)
        return None

    def abort(self, key: str) -> Report:
        self._structures.cancel(key)
        timing = self.engine.timing(key)
        self.engine.abort(key)
        return Aborted(key, timing, self.engine.stats())

    def progress(self, output: StepOutput) -> Progress:
        return Progress(
            step_values(output.step),
            tuple((t.request_id, t.token_id, t.finish_reason, t.timing, t.logprobs) for t in output.tokens),
            self.engine.stats(),
            tuple((told.request_id, told.logprobs) for told in output.prompt_logprobs),
            tuple((told.request_id, told.embedding, told.timing) for told in output.embeddings),
            tuple((told.request_id, told.field, f"{told.field}: {told.message}") for told in output.failures),
        )

    def _join(self, compiled: Compiled) -> Report:
        command, structure = compiled.command, compiled.command.params.structure
        if compiled.state is None and structure is not None:
            return Rejected(command.key, structure.field, f"{structure.field}: {compiled.message}")
        return self._queue(command, compiled.state)

    def _queue(self, command: Add, state: StructureState | None) -> Report:
        try:
            self.engine.add(command.key, command.prompt_ids, command.params, command.priority, state)
        except RequestRejected as error:
            return Rejected(command.key, error.field, str(error))
        return Accepted(command.key)


def build_engine(config: EngineConfig, connection: Connection[Report, Command]) -> Engine:
    connection.send(Loading("loading weights"))
    executor = torch_executor.build(
        config.model,
        weights=config.weights,
        block_size=config.block_size,
        num_blocks=config.num_blocks,
        max_model_len=config.max_model_len,
        threads=config.threads,
    )
    engine = Engine(
        executor,
        SchedulerConfig(
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            prefix_cache=config.prefix_cache,
            chunked_prefill=config.chunked_prefill,
            policy=config.policy,
        ),
    )
    connection.send(Ready(max_sequence_tokens(executor), engine.stats(), executor.facts()))
    return engine


def vocabulary_of(source: ModelSource) -> Tokenizer:
    """What structures are compiled for. Raises StructureError where the model has no words."""
    if isinstance(source, RandomModel):
        raise StructureError(str(NoWords()))
    return Tokenizer.from_path(source)


def serve(connection: Connection[Report, Command]) -> int:
    """The process's life; gives its exit status. The first thing on the socket is the EngineConfig."""
    try:
        config: EngineConfig = connection.recv()  # type: ignore[assignment]  # the only one of its kind
        engine = build_engine(config, connection)
        compiler = StructureCompiler(lambda: vocabulary_of(config.model), engine.executor.vocab_size)
        EngineLoop(engine, connection, compiler).run()
    except (EOFError, ConnectionError):
        log.warning("the server is gone; the engine ends")
        return 0
    except Exception as error:  # whatever it was, the server must learn of it before this process ends
        traceback.print_exc()
        connection.send(Fatal(f"{type(error).__name__}: {error}"))
        return 1
    return 0


def main() -> int:
    descriptor, parent_pid = int(sys.argv[1]), int(sys.argv[2])
    follow_parent(parent_pid)
    # Ctrl-C reaches the whole group; the server decides when we end, so that requests in flight can drain.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return serve(Connection(descriptor))


if __name__ == "__main__":
    raise SystemExit(main())
