"""The recorder: moves events from the nodes' streams into the record tables, each once, in order.

Postgres holds the cursor (Attempt.stored_seq), so any number of recorders may run, and any may die at any time. What
an event means for its run's state is for experiments.services to say.
"""

from experiments.recorder.follow import Recorder, record_until

__all__ = ["Recorder", "record_until"]
