"""The serving runtime: scheduler, engine, executor, kernels and the OpenAI-compatible server."""
