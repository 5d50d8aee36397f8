"""What the sockets show while it happens: runs event by event, experiments by their progress. Reads only."""
