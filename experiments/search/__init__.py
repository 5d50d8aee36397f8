"""Which runs an experiment that plans its own next ones should have: pure planners, from what is stored to what is
wanted. They keep nothing: asked again with the same runs they want the same."""
