"""The engine process's loop in a thread of the test, and our end of its connection."""

from __future__ import annotations

import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from runners.runtime.engine import Engine
from runners.runtime.executor import Executor
from runners.runtime.sampling.grammar import StructureCompiler
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.serving.engine_process import EngineLoop
from runners.runtime.serving.messages import Command, Holders, Report, Stop

DEADLINE_S = 20.0


class LoopInThread:
    def __init__(self, executor: Executor, compiler: StructureCompiler) -> None:
        self.engine = Engine(executor, SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=8))
        ours, theirs = Pipe()
        self.connection: Connection[Command, Report] = ours
        self.thread = threading.Thread(target=EngineLoop(self.engine, theirs, compiler).run, daemon=True)
        self.thread.start()

    def send(self, *commands: Command) -> None:
        for command in commands:
            self.connection.send(command)

    def receive(self) -> Report:
        """The next report that is no news of who holds blocks, which comes by the clock."""
        while True:
            assert self.connection.poll(DEADLINE_S), "the loop said nothing"
            if not isinstance(report := self.connection.recv(), Holders):
                return report

    def end(self, gate: threading.Semaphore) -> None:
        """Stops the loop, which may still wait at the gate."""
        self.send(Stop())
        gate.release(10)
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()
