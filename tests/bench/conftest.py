"""Threads wait as an engine's do, which is settled before any benchmark imports torch."""

import os

from runners.runtime.threads import thread_environment

os.environ.update(thread_environment(os.environ))
