"""A node without a chip: a cost model of one, and an executor that runs the real engine on a virtual clock.

shape, formats, weighing       what a model holds, computes and moves, in which format
work, quantisation             a step's work on one chip, and its seconds
coefficients … calibrate       what chips and engines reach of their peaks, fitted on published results
tuning, profiles, power        what a run takes of a fit
chip_group, cost               chips of one kind under a model, and the cost of any step
split, speculate, tier_loads   attention and experts apart, drafts, prefixes that come back
parallel, layouts, links       how an engine lies over chips, and what joins them
capacity, topology             what fits, and from a placement to a system's plan
executor, fleet, phases        engines of a system on one clock, and what bound them
local, validate, beside        a measured machine as a chip
predict, claims                what the model says of published results and of claims
"""
