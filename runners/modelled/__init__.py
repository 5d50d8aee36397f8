"""A node without a chip: a cost model of one, and an executor that runs the real engine on a virtual clock."""
