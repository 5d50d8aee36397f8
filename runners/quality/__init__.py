"""Whether a run's answers are right: figures on a text against the model's own full precision, and checked tasks."""
