"""`inference-lab` as a person at a terminal has it, with a configuration of its own: as a process, or, which is faster,
by its entry point with standard streams, environment and working directory of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from runners.cli.app import main

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass
class Said:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Terminal:
    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: object, given: str = "") -> Said:
        streams = {name: _stream() for name in ("stdin", "stdout", "stderr")}
        streams["stdin"].write(given)
        streams["stdin"].seek(0)
        with (
            mock.patch.dict(os.environ, self._environment(), clear=True),
            mock.patch.multiple(sys, **streams),
            contextlib.chdir(self.home),
        ):
            status = main([str(argument) for argument in arguments])
        return Said(status, _text_of(streams["stdout"]), _text_of(streams["stderr"]))

    def good(self, *arguments: object, given: str = "") -> Said:
        said = self.run(*arguments, given=given)
        assert said.status == 0, said.err
        return said

    def process(self, *arguments: object, given: str = "", within_s: float = 60.0) -> Said:
        with self.start(*arguments) as process:
            out, err = process.communicate(given, timeout=within_s)
        assert "Traceback" not in err, err
        return Said(process.returncode, out, err)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "runners.cli", *map(str, arguments)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=self._environment(), cwd=self.home, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

    def _environment(self) -> dict[str, str]:
        plain = {key: value for key, value in os.environ.items() if key not in ("LAB_URL", "LAB_TOKEN")}
        own = {"XDG_CONFIG_HOME": str(self.home / "config"), "PYTHONPATH": str(REPOSITORY), "PYTHONUTF8": "1"}
        return plain | own | self.env


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="", write_through=True)


def _text_of(stream: io.TextIOWrapper) -> str:
    stream.flush()
    content = stream.buffer
    assert isinstance(content, io.BytesIO)
    return content.getvalue().decode()
