"""The parts of one run's execution: server, load client, their joint record, and the evidence about the node."""
