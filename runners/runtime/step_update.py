"""What a step gives its sequences: tokens appended under the stop rules, embeddings, prompt logprobs, and who ends.

Ended sequences still hold their blocks: whoever describes the step does so before it lets them go.
"""

from __future__ import annotations

from runners.events import Step
from runners.runtime.executor import ScheduledSequence, StepResult
from runners.runtime.outputs import (
    EmbeddingOutput,
    Failure,
    FinishReason,
    PromptLogprobs,
    RequestTiming,
    StepOutput,
    TokenOutput,
)
from runners.runtime.sampling.structure import StructureError
from runners.runtime.scheduler import Schedule, Scheduler
from runners.runtime.sequence import Sequence, TokenLogprobs


class ExecutorContractError(RuntimeError):
    """The executor gave tokens or embeddings for other requests than those it was to, or more than it might."""


class StepUpdate:
    """One step's result on its way to the sequences; `take` each that was sampled, in order."""

    def __init__(self, scheduler: Scheduler, result: StepResult, end_s: float) -> None:
        self.ended: list[Sequence] = []
        self.accepted_tokens = 0
        self._scheduler = scheduler
        self._result = result
        self._end_s = end_s
        self._tokens: list[TokenOutput] = []
        self._embeddings: list[EmbeddingOutput] = []
        self._prompt_logprobs: list[PromptLogprobs] = []
        self._failures: list[Failure] = []

    def take(self, sequence: Sequence, share: ScheduledSequence) -> None:
        name, result = sequence.request_id, self._result
        if sequence.prefill_done_s is None:
            self._note_prefill(sequence)
        if share.params.embed:
            self.ended.append(sequence)
            timing = timing_of(sequence, self._end_s)
            self._embeddings.append(EmbeddingOutput(name, result.embeddings[name], timing))
            return
        sequence.draft_tokens += share.num_draft_tokens
        try:
            self._append(sequence, result.tokens[name], result.logprobs.get(name) if result.logprobs else None)
            if self._scheduler.config.num_lookahead_tokens:
                self._append_accepted(sequence, result.accepted.get(name, ()))
        except StructureError as error:
            self.ended.append(sequence)
            self._failures.append(Failure(name, _structure_field(sequence), str(error)))

    def output(self, step: Step) -> StepOutput:
        return StepOutput(
            step, tuple(self._tokens), tuple(self._embeddings), tuple(self._prompt_logprobs), tuple(self._failures)
        )

    def _note_prefill(self, sequence: Sequence) -> None:
        sequence.prefill_done_s = self._end_s
        if sequence.params.prompt_logprobs is not None and not sequence.lacks_prompt_logprobs:
            self._prompt_logprobs.append(PromptLogprobs(sequence.request_id, (None, *sequence.prompt_logprobs)))

    def _append(self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None) -> None:
        sequence.output_ids.append(token_id)
        if sequence.structure is not None:
            sequence.structure.advance(token_id)
        reason = finish_reason(sequence, token_id)
        timing = None
        if reason is not None:
            self.ended.append(sequence)
            timing = timing_of(sequence, self._end_s)
        self._tokens.append(TokenOutput(sequence.request_id, token_id, reason, timing, logprobs))

    def _append_accepted(self, sequence: Sequence, accepted: tuple[int, ...]) -> None:
        """Append what follows the step's one token, as far as the sequence goes on."""
        for token_id in accepted:
            if self.ended and self.ended[-1] is sequence:
                break
            sequence.accepted_tokens += 1
            self.accepted_tokens += 1
            self._append(sequence, token_id, None)
        self._scheduler.settle_drafts(sequence)


def check_result(plan: Schedule, result: StepResult) -> None:
    """Raise ExecutorContractError unless the result has what was to be sampled and nothing else."""
    told = result.tokens.keys() | result.embeddings.keys() if result.embeddings else result.tokens.keys()
    if told != {share.request_id for share in plan.batch if share.sample}:
        raise ExecutorContractError(f"tokens for {sorted(told)}, not for those to be sampled")
    wanted = {share.request_id for share in plan.batch if share.params.embed and share.sample}
    if wanted != result.embeddings.keys():
        raise ExecutorContractError(f"embeddings for {sorted(result.embeddings)}, not for {sorted(wanted)}")
    if result.accepted:
        drafted = {share.request_id: share.num_draft_tokens for share in plan.batch if share.sample}
        if any(len(tokens) > drafted.get(name, 0) for name, tokens in result.accepted.items()):
            raise ExecutorContractError(f"accepted {dict(result.accepted)}, of drafts {drafted}")


def finish_reason(sequence: Sequence, token_id: int) -> FinishReason | None:
    """Why the sequence ends with `token_id`, its last one; None if it goes on."""
    params, num_output_tokens = sequence.params, len(sequence.output_ids)
    if sequence.structure is not None:
        if sequence.structure.finished:
            return "stop"
    elif not params.ignore_eos and token_id in params.stop_token_ids and num_output_tokens >= params.min_tokens:
        return "stop"
    return "length" if num_output_tokens >= params.max_tokens else None


def timing_of(sequence: Sequence, end_s: float) -> RequestTiming:
    """The times of a sequence that ends at `end_s`."""
    return RequestTiming(
        queued_s=sequence.queued_s,
        scheduled_first_s=sequence.scheduled_first_s,
        prefill_done_s=sequence.prefill_done_s,
        finished_s=end_s,
        preemptions=sequence.preemptions,
        cached_tokens=sequence.cached_tokens,
        draft_tokens=sequence.draft_tokens,
        accepted_tokens=sequence.accepted_tokens,
        loaded=sequence.tier_hits,
    )


def _structure_field(sequence: Sequence) -> str:
    structure = sequence.params.structure
    return structure.field if structure is not None else "response_format"
