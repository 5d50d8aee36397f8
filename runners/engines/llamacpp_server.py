"""`python -m runners.engines.llamacpp_server`: llama.cpp's own HTTP server, from the wheel `xllamacpp`.

For machines where no `llama-server` is installed: the wheel holds the same server as a library, so nothing has to be
built. A managed engine's command may name it; options are those of llama-server that the lab's examples use. The wheel
is built for any processor of its kind, so its speed is not that of a llama-server built on the machine.
"""

from __future__ import annotations

import argparse
import importlib
import signal
from pathlib import Path

PACKAGE = "xllamacpp"


def main(argv: list[str] | None = None) -> int:
    options = parse_options(argv)
    # Only a node that offers this engine has the package.
    llama = importlib.import_module(PACKAGE)
    if options.version:
        print(f"llama.cpp of {PACKAGE} {llama.__version__}")
        return 0
    params = llama.CommonParams()
    params.model.path = str(options.model)
    params.model_alias = {options.alias}
    params.hostnames, params.port = [options.host], options.port
    params.n_parallel, params.n_ctx = options.parallel, options.ctx_size
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.endpoint_metrics = params.endpoint_slots = True
    signals = {signal.SIGTERM, signal.SIGINT}
    # Blocked before the server starts its threads, so that none of them takes the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    server = llama.Server(params)
    print(f"listening at {server.listening_address}", flush=True)
    signal.sigwait(signals)
    return 0


def parse_options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m runners.engines.llamacpp_server")
    parser.add_argument("--version", action="store_true", help="say which llama.cpp it is, and end")
    parser.add_argument("--model", type=Path, help="a GGUF file")
    parser.add_argument("--alias", default="model", help="the name it serves the model by")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--parallel", type=int, default=1, help="sequences that run together")
    parser.add_argument("--ctx-size", type=int, default=4096, help="tokens of all of them")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
    if not options.version and options.model is None:
        parser.error("--model is needed")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
