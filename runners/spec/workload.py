"""What the clients send: its kind, lengths, arrivals, classes, and how much of it.

Each of those has a module of its own beside this one; here is what they are together, and that it stays bounded.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.arrival import LONGEST_S, ArrivalSpec, ClosedArrival, OpenArrival, RecordedArrival, StagedArrival
from runners.spec.base import Document
from runners.spec.lengths import FixedLen, LengthSpec
from runners.spec.quality import TaskName
from runners.spec.sessions import AgentSpec, ConversationSpec
from runners.spec.trace import TraceSpec
from runners.spec.traffic import MAX_CLASSES, SHARES_TOLERANCE, SharedPrefixSpec, ThinkingSpec, TrafficClass

MAX_OUTPUT_TOKENS = 131_072
MAX_REQUESTS = 1_000_000
SESSION_KINDS = ("conversation", "agent")
LEFT_OUT = "leave it out"
SAID_BY_TRACE = {
    "num_requests": "trace.num_requests, to take so many of its rows",
    "duration_s": "trace.seconds, to take the rows of so much of its time",
    "input_len": LEFT_OUT,
    "output_len": LEFT_OUT,
    "shared_prefix": LEFT_OUT,
    "classes": LEFT_OUT,
    "thinking": LEFT_OUT,
}
"""What a trace's rows say themselves, or its cut does: what to give in place of each."""


TASK_PROMPT_TOKENS, TASK_ANSWER_TOKENS = 512, 96
"""What no question with a checked answer, in any chat template that ships with a model, takes more of."""


class WarmupSpec(Document):
    num_requests: int = Field(default=4, ge=0, le=10_000)


class SamplingSpec(Document):
    temperature: float = Field(default=0.0, ge=0, le=2)
    top_k: int = Field(default=0, ge=0, le=1_000_000)
    top_p: float = Field(default=1.0, gt=0, le=1)
    ignore_eos: bool = True


class WorkloadSpec(Document):
    """`synthetic` prompts are random token ids, `text` prompts are cut from the text that the project ships. In a
    `conversation` and an `agent`'s tasks requests follow each other, in sessions that `arrival` begins; their texts are
    cut from the shipped one, for a model without words random ids. `input_len` is what a turn adds, `output_len` an
    answer without its thinking. What a kind does not use may be there all the same, so that `kind` can be an axis. A
    `trace` brings its own lengths and its own end, so that whatever else would say those is refused beside it. `tasks`
    asks questions with checked answers, greedily, on measured nodes alone; lengths are the questions' own.

    Any other load ends by `num_requests` (sessions begin until those begun have as many, and go on to their ends), by
    `duration_s`, or with its stages. With `stop_when_saturated` an open loop also ends once its backlog keeps growing
    (runners.load.saturation), and says so.
    """

    kind: Literal["synthetic", "text", "conversation", "agent", "trace", "tasks"]
    input_len: LengthSpec = FixedLen(dist="fixed", tokens=128)
    output_len: LengthSpec = FixedLen(dist="fixed", tokens=32)
    conversation: ConversationSpec = ConversationSpec()
    agent: AgentSpec = AgentSpec()
    tasks: Annotated[tuple[TaskName, ...], Field(min_length=1, max_length=3)] = get_args(TaskName)
    trace: TraceSpec | None = None
    arrival: ArrivalSpec
    num_requests: int | None = Field(default=None, ge=1, le=MAX_REQUESTS)
    duration_s: float | None = Field(default=None, gt=0, le=86_400)
    stop_when_saturated: bool = False
    warmup: WarmupSpec = WarmupSpec()
    sampling: SamplingSpec = SamplingSpec()
    thinking: ThinkingSpec | None = None
    classes: Annotated[tuple[TrafficClass, ...], Field(max_length=MAX_CLASSES)] = ()
    shared_prefix: SharedPrefixSpec | None = None

    @model_validator(mode="after")
    def trace_says_it_all(self) -> Self:
        fields = type(self).model_fields
        if self.kind != "trace":
            if isinstance(self.arrival, RecordedArrival):
                raise PydanticCustomError(
                    "nothing_recorded", "only a trace has recorded arrivals",
                    {"field": "arrival.kind", "allowed": ["closed", "open", "stages"]},
                )  # fmt: skip
            return self
        if self.trace is None:
            raise PydanticCustomError(
                "no_trace", "a workload of kind trace names one",
                {"field": "trace", "allowed": "a mapping with the name of a registered trace"},
            )  # fmt: skip
        if isinstance(self.arrival, StagedArrival):
            raise PydanticCustomError(
                "ends_by_itself", "a trace is not played in stages",
                {"field": "arrival.kind", "allowed": ["recorded", "closed", "open"]},
            )  # fmt: skip
        for name, allowed in SAID_BY_TRACE.items():
            if getattr(self, name) != fields[name].default:
                raise PydanticCustomError(
                    "said_by_trace", "the trace itself says this", {"field": name, "allowed": allowed}
                )
        return self

    @model_validator(mode="after")
    def one_end(self) -> Self:
        if self.kind == "trace":
            return self
        ends = [name for name in ("num_requests", "duration_s") if getattr(self, name) is not None]
        if isinstance(self.arrival, StagedArrival):
            if ends:
                raise PydanticCustomError(
                    "ends_by_itself", "the stages say how long the load lasts",
                    {"field": ends[0], "allowed": "null, or leave it out"},
                )  # fmt: skip
        elif len(ends) != 1:
            raise PydanticCustomError(
                "one_of", "give num_requests or duration_s, exactly one of them",
                {"field": "num_requests", "allowed": ["num_requests", "duration_s"]},
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def classes_are_all_of_it(self) -> Self:
        names = [one.name for one in self.classes]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise PydanticCustomError(
                    "repeated_name", "two classes are called {name}",
                    {"field": f"classes.{place}.name", "name": name, "allowed": "a name of its own"},
                )  # fmt: skip
        total = sum(one.share for one in self.classes)
        if names and abs(total - 1) > SHARES_TOLERANCE:
            raise PydanticCustomError(
                "shares", "the shares of the classes add up to {total}",
                {"field": "classes", "total": f"{total:g}", "allowed": f"1, to within {SHARES_TOLERANCE:g}"},
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def outputs_can_be_kept(self) -> Self:
        longest = self.longest_output
        if longest > MAX_OUTPUT_TOKENS:
            raise PydanticCustomError(
                "too_long", "an output of {longest} tokens has more token times than a record keeps",
                {"field": "thinking.factor" if self.thinking else "output_len", "longest": longest,
                 "allowed": f"at most {MAX_OUTPUT_TOKENS} tokens, thinking and answer together"},
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def side_by_side_in_time(self) -> Self:
        if self.kind == "agent" and self.agent.fan_out > 1 and self.agent.calls.most < 3:
            raise PydanticCustomError(
                "never_fans_out", "calls fan out between the first and the last: {calls} calls leave none",
                {"field": "agent.calls", "calls": self.agent.calls.most, "allowed": "at least 3, or fan_out 1"},
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def arrivals_come_to_an_end(self) -> Self:
        if not self.is_open:
            return self
        assert not isinstance(self.arrival, ClosedArrival)
        if isinstance(self.arrival, RecordedArrival):
            return self
        if isinstance(self.arrival, StagedArrival):
            field, expected = "arrival.stages", self.arrival.expected_requests
        else:
            field, expected = "arrival.request_rate", self.arrival.request_rate * (self.duration_s or 0.0)
        expected *= self.most_requests
        if expected > MAX_REQUESTS:
            raise PydanticCustomError(
                "too_many", "about {requests} requests would be sent in {lasts_s} s",
                {"field": field, "requests": round(expected), "lasts_s": self.lasts_s,
                 "allowed": f"at most {MAX_REQUESTS} requests: a lower rate, or a shorter time"},
            )  # fmt: skip
        if isinstance(self.arrival, OpenArrival):
            self._check_rate(self.arrival.request_rate)
        return self

    def _check_rate(self, rate: float) -> None:
        requests = max(self.num_requests or 0, self.warmup.num_requests)
        if requests > rate * LONGEST_S:
            raise PydanticCustomError(
                "too_long", "{requests} requests at {rate} per second arrive over more than a week",
                {"field": "arrival.request_rate", "requests": requests, "rate": rate,
                 "allowed": f"at least {requests / LONGEST_S:.3g}, or fewer requests"},
            )  # fmt: skip

    @property
    def is_open(self) -> bool:
        """Whether requests (or sessions) come on schedule, whatever the server does."""
        arrival = self.arrival
        if isinstance(arrival, StagedArrival):
            return arrival.is_open
        return isinstance(arrival, OpenArrival | RecordedArrival)

    @property
    def has_sessions(self) -> bool:
        return self.kind in SESSION_KINDS

    @property
    def lasts_s(self) -> float | None:
        """How long the measured phase sends; None where its requests end it."""
        return self.arrival.lasts_s if isinstance(self.arrival, StagedArrival) else self.duration_s

    @property
    def most_users(self) -> int:
        """Of a closed loop, at any time; 0 for an open one."""
        if isinstance(self.arrival, ClosedArrival):
            return self.arrival.max_concurrency
        return int(self.arrival.highest) if isinstance(self.arrival, StagedArrival) and not self.is_open else 0

    @property
    def most_rounds(self) -> int:
        """Of a session: how many prompts stand one upon another."""
        if self.kind == "conversation":
            return self.conversation.turns.most
        return self.agent.calls.most if self.kind == "agent" else 1

    @property
    def most_requests(self) -> int:
        """Of a session."""
        return self.agent.requests(self.most_rounds) if self.kind == "agent" else self.most_rounds

    @property
    def longest_output(self) -> int:
        """Tokens of an answer and its thinking."""
        return max(self._output_of(output) for _, output in self._lengths())

    @property
    def longest_prompt(self) -> int:
        """Tokens, the shared prefix and a session's history among them."""
        return max(self._prompt_of(own, output) for own, output in self._lengths())

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt and its output together."""
        return max(self._prompt_of(own, output) + self._output_of(output) for own, output in self._lengths())

    def _lengths(self) -> list[tuple[int, int]]:
        """The longest new tokens and the longest answer of each class. Of a trace the document does not know them:
        RunSpec.longest does."""
        if self.kind == "trace":
            return [(1, 1)]
        if self.kind == "tasks":
            return [(TASK_PROMPT_TOKENS, TASK_ANSWER_TOKENS)]
        lengths = [(one.input_len or self.input_len, one.output_len or self.output_len) for one in self.classes]
        return [(own.longest, output.longest) for own, output in lengths or [(self.input_len, self.output_len)]]

    def _output_of(self, answer_tokens: int) -> int:
        return self.thinking.longest(answer_tokens) if self.thinking else answer_tokens

    def _prompt_of(self, own_tokens: int, answer_tokens: int) -> int:
        prefix = self.shared_prefix.prefix_tokens if self.shared_prefix else 0
        kept = self._output_of(answer_tokens) if self.thinking and self.thinking.in_history else answer_tokens
        if self.kind == "agent":
            calls, result = self.agent.calls.most, self.agent.tool_result_tokens.longest
            before = sum(self.agent.width(turn, calls) for turn in range(2, calls)) * (result + kept)
            return prefix + own_tokens + (kept + before + result if calls > 1 else 0)
        return prefix + own_tokens + (self.most_rounds - 1) * (own_tokens + kept)
