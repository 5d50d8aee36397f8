"""Compiles structures in a thread of its own, so that a step never waits for one.

llguidance lets go of the interpreter while it compiles, and bounds the work. The engine's loop owns the rest: it hands
commands in, takes them back compiled or refused, and sleeps on `fileno()` too while any is here.
"""

from __future__ import annotations

import os
import queue
import threading
from dataclasses import dataclass

from runners.runtime.sampling.grammar import StructureCompiler
from runners.runtime.sampling.structure import StructureError, StructureState
from runners.runtime.serving.messages import Add


@dataclass(frozen=True, slots=True)
class Compiled:
    """A command whose structure is ready, or can't be used: then `state` is null and `message` says why."""

    command: Add
    state: StructureState | None
    message: str = ""


class StructureWorker:
    """Begins its thread with the first structure. It is a daemon: the process's end does not wait for a compilation."""

    def __init__(self, compiler: StructureCompiler) -> None:
        self._compiler = compiler
        self._todo: queue.SimpleQueue[Add | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Compiled] = queue.SimpleQueue()
        self._pending: set[str] = set()
        self._read_end, self._write_end = os.pipe()
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a command is here that `take_done` has yet to give back."""
        return bool(self._pending)

    def fileno(self) -> int:
        """Readable while a command waits in `take_done`."""
        return self._read_end

    def submit(self, command: Add) -> None:
        """Take a command whose parameters have a structure."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="structures", daemon=True)
            self._thread.start()
        self._pending.add(command.key)
        self._todo.put(command)

    def cancel(self, key: str) -> None:
        """Forget a command: `take_done` will not give it."""
        self._pending.discard(key)

    def take_done(self) -> list[Compiled]:
        """What has been compiled since the last call, in the order of the commands."""
        done = []
        while not self._done.empty():
            os.read(self._read_end, 1)
            compiled = self._done.get()
            if compiled.command.key in self._pending:
                self._pending.remove(compiled.command.key)
                done.append(compiled)
        return done

    def stop(self) -> None:
        """End the thread, once what it compiles is done; nothing may be submitted after."""
        os.close(self._read_end)
        self._todo.put(None)
        if self._thread is None:
            os.close(self._write_end)

    def _work(self) -> None:
        with open(self._write_end, "wb", buffering=0) as write_end:
            while (command := self._todo.get()) is not None:
                self._done.put(self._compile(command))
                try:
                    write_end.write(b"\0")
                except BrokenPipeError:  # stopped meanwhile: no one is left to tell
                    return

    def _compile(self, command: Add) -> Compiled:
        structure = command.params.structure
        assert structure is not None  # as only such commands are submitted
        try:
            return Compiled(command, self._compiler.compile(structure, command.params))
        except StructureError as error:
            return Compiled(command, None, str(error))
        except BaseException as error:  # a panic of the library is no Exception; whatever it was, its client must learn
            return Compiled(command, None, f"it can't be compiled: {type(error).__name__}: {error}")
