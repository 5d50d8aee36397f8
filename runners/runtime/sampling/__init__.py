"""From the logits of a step to its tokens: rules, draws, logprobs and the structure that an output must match."""
