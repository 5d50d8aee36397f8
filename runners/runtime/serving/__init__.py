"""The parts of the OpenAI-compatible server: request bodies, incremental text, the engine's own process,
HTTP."""
