"""TRL's side of ``step.py``: its own trainer, its own environment and tool loop, its own generation."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial, wraps
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
import trl.trainer.utils
from datasets import Dataset
from step_market import GROUP, SYSTEM, TASKS, TOOL_TURNS, Town, counts_as_right, script
from step_model import Clock, Job, StepFigures, digest, load, peak_gib, settings_of
from transformers import LogitsProcessor, LogitsProcessorList, PrinterCallback
from trl.chat_template_utils import qwen3_template
from trl.kernels import ChunkedLogProbFunction
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from toolorchestra.training.trl_adapter import grpo_config

# The same conversation as our compact format renders: one line a tool. SmolLM2's own template knows no tools.
TEMPLATE = """\
{%- for message in messages -%}
{%- if not loop.first %}{{ '\\n' }}{% endif -%}
{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- if message.role == 'system' and tools -%}
{%- for tool in tools -%}
{%- set function = tool.function -%}
{{ '\\n' + function.name + '(' }}
{%- for name, schema in function.parameters.properties.items() -%}
{{ name }}{% if schema.enum %}{{ ': ' + schema.enum | join('|') }}{% endif %}{% if not loop.last %}, {% endif %}
{%- endfor -%}
{{ '): ' + function.description }}
{%- endfor -%}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{{ '<tool_call>\\n' + (call.function or call) | tojson + '\\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '\\n<|im_start|>assistant\\n' }}{% endif -%}
"""


class Told(LogitsProcessor):
    """Leaves one token a row to draw: the script's. Logits and sampling over the vocabulary stay as they are."""

    def __init__(self, pad: int) -> None:
        self._pad = pad
        self._rows: list[list[int]] = []
        self._start = 0
        self.passes = 0

    def begin(self, rows: list[list[int]], start: int) -> None:
        """Take the rows of a turn and the padded length of their prompts."""
        self._rows, self._start, self.passes = rows, start, 0

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        at = input_ids.shape[1] - self._start
        tokens = [row[at] if at < len(row) else self._pad for row in self._rows]
        self.passes += 1
        scores.fill_(float("-inf"))
        scores[torch.arange(len(tokens)), torch.tensor(tokens)] = 0.0
        return scores


def spare_the_prompts() -> None:
    """Let TRL's output layer skip the prompts on a CPU, as it does on a GPU. It runs over every position otherwise."""
    vars(trl.trainer.utils)["_use_triton"] = lambda device: True  # in that module it decides nothing else


class HeadWatch:
    """Times TRL's output layer and its backward pass."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for name in ("forward", "backward"):
            setattr(ChunkedLogProbFunction, name, staticmethod(self._timed(getattr(ChunkedLogProbFunction, name))))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any) -> Any:
            started = time.perf_counter()
            result = function(*args)
            self.seconds += time.perf_counter() - started
            return result

        return timed


class MeasuredTrainer(GRPOTrainer):
    """TRL's trainer with a stop watch, and the script given to ``generate`` as a logits processor."""

    steps: list[StepFigures]

    def tell(self) -> None:
        """Put the script between the model and its sampling."""
        self.steps = []
        self._turn = 0
        self._told = Told(self._tokenizer.pad_token_id)
        model: Any = self.model
        model.generate = partial(model.generate, logits_processor=LogitsProcessorList([self._told]))

    def _generate(self, prompts: list[Any]) -> Any:
        figures = StepFigures()
        self.steps.append(figures)
        self._turn = 0
        started = time.perf_counter()
        trl_own: Any = super()
        generated = trl_own._generate(prompts)
        figures.rollout_s = time.perf_counter() - started
        prompt_ids, completion_ids, tool_mask = generated[:3]
        figures.prompt = [len(ids) for ids in prompt_ids]
        figures.length = [len(one) + len(two) for one, two in zip(prompt_ids, completion_ids, strict=True)]
        figures.trained_on = sum(figures.length)
        figures.chosen = sum(map(sum, tool_mask))
        figures.turns = [self._turn] * len(prompt_ids)
        figures.digest = digest([*one, *two] for one, two in zip(prompt_ids, completion_ids, strict=True))
        return generated

    def _generate_single_turn(self, prompt_ids: list[list[int]], *args: Any, **kwargs: Any) -> Any:
        if len(prompt_ids) != GROUP * len(TASKS) or self._turn > TOOL_TURNS:
            raise SystemExit(f"turn {self._turn + 1}: {len(prompt_ids)} rollouts; the script was not followed")
        rows = [self._script(row) for row in range(len(prompt_ids))]
        start = max(map(len, prompt_ids))
        self._told.begin(rows, start)
        trl_own: Any = super()
        generated = trl_own._generate_single_turn(prompt_ids, *args, **kwargs)
        figures = self.steps[-1]
        figures.passes += self._told.passes
        figures.generated_from += sum(map(len, prompt_ids)) + len(rows) * (self._told.passes - 1)
        self._turn += 1
        return generated

    def _script(self, row: int) -> list[int]:
        task, sample = TASKS[row // GROUP].id, row % GROUP
        text = script(self.state.global_step, task, sample).turns[self._turn]
        ids = self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        return [*ids, self._tokenizer.convert_tokens_to_ids("<|im_end|>")]


def every_other(prompts: list[Any], **_: Any) -> list[float | None]:
    """Rewards, as on our side."""
    return [float(counts_as_right(row % GROUP)) for row in range(len(prompts))]


def config_of(job: Job, folder: Path) -> GRPOConfig:
    """What our trainer gives TRL, but for what TRL's own generation needs."""
    settings = settings_of(job)
    return GRPOConfig(
        output_dir=str(folder),
        use_cpu=not torch.cuda.is_available(),
        bf16=True,
        # One group at a time through the backward pass, all groups at once through generation, one update.
        per_device_train_batch_size=GROUP,
        num_generations=GROUP,
        gradient_accumulation_steps=len(TASKS),
        activation_checkpointing=False,
        max_steps=settings.steps,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        optim="adamw_torch_fused",
        beta=settings.kl,
        epsilon=settings.clip_low,
        epsilon_high=settings.clip_high,
        loss_type="dapo",
        temperature=settings.temperature,
        max_completion_length=512,
        shuffle_dataset=False,
        seed=settings.seed,
        save_strategy="no",
        ignore_data_skip=True,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=False,
    )


def differences(config: GRPOConfig, job: Job, folder: Path) -> dict[str, list[str]]:
    """Settings of TRL that are not the same on our side, each with TRL's value and ours. Neither side saves."""
    theirs, ours = (vars(each) for each in (config, grpo_config(settings_of(job), folder)))
    names = [name for name in (each.name for each in fields(config)) if not name.startswith("save_")]
    return {name: [str(theirs[name]), str(ours[name])] for name in names if theirs[name] != ours[name]}


def run(job: Job) -> dict[str, Any]:
    """Train, and tell what each step took."""
    loaded = load(job)
    if not job.as_installed:
        spare_the_prompts()
    loaded.tokenizer.chat_template = TEMPLATE
    loaded.tokenizer.response_template = qwen3_template
    rows = [
        {"prompt": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.question}], "task": task.id}
        for task in TASKS
    ]
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(job, Path(folder))
        trainer = MeasuredTrainer(
            model=loaded.model,
            reward_funcs=every_other,
            args=config,
            train_dataset=Dataset.from_list(rows),
            processing_class=loaded.tokenizer,
            environment_factory=partial(Town, numbered=True),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.tell()
        clock = Clock(trainer.steps, HeadWatch())
        trainer.add_callback(clock)
        trainer.train()
        return {
            "steps": [asdict(step) for step in trainer.steps],
            "grad_norms": clock.grad_norms,
            "peak_gib": peak_gib(),
            "settings_that_differ": differences(config, job, Path(folder)),
        }
