"""Question answering: a question, tools, and an end by an answer in text or by submitting a result by its number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from toolorchestra.environments.calls import carry_out
from toolorchestra.errors import UserError
from toolorchestra.judges import Judge
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.tasks import Task
from toolorchestra.tools.base import CallContext, Tool
from toolorchestra.trajectory import Action, CallRecord, Observation, Outcome, ToolResult, Trajectory

SUBMIT = "submit_answer"
"""Name of the tool that ends an episode in submit mode."""

SYSTEM_PROMPT = "Answer the question. Use the tools."
NO_ANSWER = "no answer"


class QuestionEnvironment:
    """One episode of one question.

    Every result is shown with its call's number: ``[1] …``. An episode ends with a message without tool calls, whose
    content is the answer; in submit mode also with a call of ``submit_answer``, which is on offer as soon as there is
    a result that is no error. The answer is then that result's ``data["answer"]`` if it has one, else its content. A
    turn that submits ends the episode: other calls of that turn are not carried out.

    Args:
        task: What is asked.
        tools: What is on offer.
        judge: Says whether the answer is right.
        system_prompt: The first message; none if empty.
        submit: Whether results can be submitted by number.
        sample: The rollout's number.
        read_answer: Takes the bare answer out of the words of a result or of the last message.

    Attributes:
        time_left_s: Set by the loop before every step: seconds left for it, ``None`` for no limit.

    Raises:
        UserError: Two tools have one name, or one is called ``submit_answer`` in submit mode.
    """

    def __init__(
        self,
        task: Task,
        tools: Sequence[Tool],
        judge: Judge,
        *,
        system_prompt: str = SYSTEM_PROMPT,
        submit: bool = False,
        sample: int = 0,
        read_answer: Callable[[str], str] = str.strip,
    ) -> None:
        self.time_left_s: float | None = None
        self._task = task
        self._tools = {tool.spec.name: tool for tool in tools}
        self._specs = tuple(tool.spec for tool in tools)
        self._judge = judge
        self._system_prompt = system_prompt
        self._submit = submit
        self._sample = sample
        self._read_answer = read_answer
        self._history: list[Message] = []
        self._results: list[ToolResult] = []
        self._answer: str | None = None
        if len(self._tools) < len(tools):
            raise UserError(f"task {task.id!r}: two tools have the same name; give every tool its own")
        if submit and SUBMIT in self._tools:
            raise UserError(
                f"task {task.id!r}: a tool is called {SUBMIT!r}, as the one that ends an episode; rename it"
            )

    async def reset(self) -> Observation:
        """The system prompt, and the question with the user's wish."""
        words = "\n".join(part for part in (self._task.question, self._task.preference.text) if part)
        system = (Message("system", self._system_prompt),) if self._system_prompt else ()
        messages = (*system, Message("user", words))
        self._history = list(messages)
        self._results = []
        self._answer = None
        return Observation(messages, self._offer())

    async def step(self, action: Action) -> Observation:
        """Carry the calls out, or end with the answer."""
        self._history.append(action.message)
        calls = tuple(self._checked(call) for call in action.message.tool_calls)
        if not calls:
            self._answer = self._read_answer(action.message.content)
            return Observation(done=True)
        submitted = next((call for call in calls if self._submits(call)), None)
        if submitted is not None:
            self._answer = self._answer_of(self._results[int(submitted.arguments["result"]) - 1])
            return Observation(done=True)
        context = CallContext(self._task.question, tuple(self._history), self._sample, self.time_left_s)
        carried = await carry_out(calls, self._tools, context, time_left_s=self.time_left_s)
        messages = tuple(
            self._numbered(record, message) for record, message in zip(carried.calls, carried.messages, strict=True)
        )
        self._history.extend(messages)
        return Observation(messages, self._offer(), carried.calls, carried.latency_s)

    async def score(self, trajectory: Trajectory) -> Outcome:
        """Judge the answer against the task's answer and aliases. No answer is a wrong one."""
        if not self._answer:
            return Outcome(solved=False, reason=NO_ANSWER)
        gold = (self._task.answer, *self._task.aliases)
        verdict = await self._judge.judge(self._task.question, self._answer, gold)
        return Outcome(verdict.correct, self._answer, self._judge.name, verdict.reason, verdict.charges)

    def _submits(self, call: ToolCall) -> bool:
        return self._submit and call.name == SUBMIT and call.error is None

    def _checked(self, call: ToolCall) -> ToolCall:
        """A submission of a number that no usable result has is malformed: it is answered, not carried out."""
        if not self._submits(call) or str(call.arguments.get("result")) in self._usable():
            return call
        usable = ", ".join(self._usable())
        words = f"result must be one of {usable}" if usable else "there is no result to submit yet"
        return replace(call, error=words)

    def _usable(self) -> list[str]:
        return [str(number) for number, result in enumerate(self._results, start=1) if result.error is None]

    def _offer(self) -> tuple[ToolSpec, ...]:
        usable = self._usable()
        return (*self._specs, submit_spec(usable)) if self._submit and usable else self._specs

    def _numbered(self, record: CallRecord, message: Message) -> Message:
        self._results.append(record.result)
        return replace(message, content=f"[{len(self._results)}] {message.content}")

    def _answer_of(self, result: ToolResult) -> str:
        answer = result.data.get("answer")
        return self._read_answer(result.content if answer is None else str(answer))


def submit_spec(usable: Sequence[str]) -> ToolSpec:
    """The tool that ends an episode with one of the results so far, told by their numbers."""
    parameters = {
        "type": "object",
        "properties": {"result": {"type": "string", "enum": list(usable)}},
        "required": ["result"],
        "additionalProperties": False,
    }
    return ToolSpec(SUBMIT, "gives a result as the final answer", parameters)
