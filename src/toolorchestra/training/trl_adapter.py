"""TRL's GRPO on our rollouts: two seams of ``trl.GRPOTrainer`` are replaced, the loss and the optimiser are its own.

- ``_generate_and_score_completions`` gives TRL the sequences of one step with their advantages, instead of letting it
  generate. What is not trained on is left out of the batch.
- ``_get_per_token_logps_and_entropies`` scores them on their token trees and under the grammars they were sampled
  with.

Both are private to TRL, which is why the version is pinned and tests/training/test_trl_adapter.py holds the contract.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from toolorchestra.config import TrainingSettings
from toolorchestra.rewards import masked_mean
from toolorchestra.training.log import StepLog
from toolorchestra.training.logprobs import TOKENS_PER_PASS, score_choices
from toolorchestra.training.sequences import TrainingSequence

_WHOLE = "whole"

Collect = Callable[[int], Sequence[TrainingSequence]]
"""Gives the sequences of a step, whose number counts finished optimiser updates."""


def grpo_config(settings: TrainingSettings, folder: Path) -> GRPOConfig:
    """TRL's settings for ours. Token-mean loss (``dapo``); rewards arrive as advantages, so TRL scales nothing."""
    on_cpu = not torch.cuda.is_available()
    return GRPOConfig(
        output_dir=str(folder),
        use_cpu=on_cpu,
        bf16=True,
        per_device_train_batch_size=settings.group_size,
        num_generations=settings.group_size,
        steps_per_generation=1,
        gradient_accumulation_steps=1,
        activation_checkpointing=False,
        max_steps=settings.steps,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.schedule,
        warmup_steps=settings.warmup_steps,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        optim="adamw_torch_fused",
        beta=settings.kl,
        epsilon=settings.clip_low,
        epsilon_high=settings.clip_high,
        loss_type="dapo",
        temperature=settings.temperature,
        entropy_coef=settings.entropy_bonus,
        use_adaptive_entropy=settings.entropy_target is not None,
        entropy_target=settings.entropy_target or 0.0,
        seed=settings.seed,
        save_strategy="steps",
        save_steps=settings.save_every,
        ignore_data_skip=True,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=False,
    )


class OrchestraTrainer(GRPOTrainer):
    """GRPO on sequences that our loop collected.

    Args:
        model: The policy being trained, on this process's device.
        tokenizer: Its tokenizer (TRL reads the padding token).
        settings: Of the training.
        collect: Gives the sequences of a step.
        folder: For what TRL writes.
        tokens_per_pass: Bound on the tokens computed at once.
        log: Gets the figures of every step.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        settings: TrainingSettings,
        collect: Collect,
        folder: Path,
        *,
        tokens_per_pass: int = TOKENS_PER_PASS,
        log: StepLog | None = None,
    ) -> None:
        # TRL walks a data set and scores with functions of its own; both are only placeholders here.
        rows = Dataset.from_dict({"prompt": [""] * settings.group_size})
        super().__init__(
            model=model,
            reward_funcs=_unused_reward,
            args=grpo_config(settings, folder),
            train_dataset=rows,
            processing_class=tokenizer,
            callbacks=[_Watcher(log)],
        )
        self.remove_callback(PrinterCallback)
        self._collect = collect
        self._tokens_per_pass = tokens_per_pass
        self._over_sampled = settings.mean_over == "sampled"
        self._sequences: list[TrainingSequence] = []

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, torch.Tensor]:
        return self._generate_and_score_completions(generation_batch)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, torch.Tensor]:
        collected = self._collect(self.state.global_step)
        self._sequences = [sequence for sequence in collected if sequence.trained]
        batch = pad_sequences(self._sequences, self._tokenizer.pad_token_id, self.accelerator.device)
        if self._over_sampled:
            batch["num_items_in_batch"] = torch.tensor(sum(sum(sequence.loss_mask) for sequence in collected))
        with torch.no_grad():
            if self.beta != 0.0:
                reference = self._scored(self.ref_model, batch["completion_ids"].shape)
                batch["ref_per_token_logps"] = reference[0]
        return batch

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: Any, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        logps, entropies = self._scored(self.accelerator.unwrap_model(model), (input_ids.shape[0], logits_to_keep))
        self._log_drift(logps)
        return logps, entropies, None

    def _scored(self, model: Any, shape: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies at the chosen tokens, 0 elsewhere, laid out as TRL wants them."""
        with self.accelerator.autocast():
            scores = score_choices(model, self._sequences, tokens_per_pass=self._tokens_per_pass)
        starts = torch.tensor([sequence.prompt_length for sequence in self._sequences], dtype=torch.long)
        columns = scores.position - starts.to(scores.position.device)[scores.sequence]
        empty = torch.zeros(tuple(shape), device=scores.logps.device)
        index = (scores.sequence, columns)
        logps, entropies = empty.index_put(index, scores.logps), empty.index_put(index, scores.entropies)
        if not self._sequences and torch.is_grad_enabled():
            # Nothing to learn in this step: a loss of 0 whose gradient reaches no weight. With a gradient of 0 instead
            # of none, AdamW's momentum and weight decay would still move them.
            logps = logps.requires_grad_()
        return logps, entropies

    def _log_drift(self, logps: torch.Tensor) -> None:
        """How far the trainer's log-probabilities are from the sampler's, over the trained tokens only."""
        batch = pad_sequences(self._sequences, 0, logps.device)
        sampled, mask = batch["sampling_per_token_logps"], batch["tool_mask"]
        drift = masked_mean((logps.detach() - sampled).abs().cpu().numpy(), mask.cpu().numpy().astype(bool))
        if drift is not None:
            self._metrics["train"]["logprob_drift"].append(drift)


class _Watcher(TrainerCallback):
    """Passes figures on, and marks the checkpoints that were written whole."""

    def __init__(self, log: StepLog | None) -> None:
        self._log = log

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """A step's figures; the summary at the end of training is no step."""
        if self._log is not None and logs is not None and "entropy" in logs:
            self._log.trained(int(state.global_step), logs)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Mark the new checkpoint, then drop older ones, their marks first: a kill leaves one that is whole."""
        newest = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        (newest / _WHOLE).touch()
        for old in Path(args.output_dir).glob("checkpoint-*"):
            if old != newest:
                (old / _WHOLE).unlink(missing_ok=True)
                shutil.rmtree(old, ignore_errors=True)


def newest_checkpoint(folder: Path) -> str | None:
    """The last checkpoint that was written whole; torn ones are removed."""
    whole: list[tuple[int, Path]] = []
    for path in folder.glob("checkpoint-*"):
        if (path / _WHOLE).exists():
            whole.append((int(path.name.rpartition("-")[2]), path))
        else:
            shutil.rmtree(path)
    return str(max(whole)[1]) if whole else None


def pad_sequences(sequences: Sequence[TrainingSequence], pad: int, device: torch.device) -> dict[str, torch.Tensor]:
    """A batch as TRL holds it: prompts padded on the left, completions on the right.

    Masks come from lengths and from what was recorded, never from token values, so a padding token that is also the
    end token does no harm. An empty list gives one row that is masked everywhere.
    """
    rows = max(1, len(sequences))
    width = max((sequence.prompt_length for sequence in sequences), default=1)
    length = max((len(sequence.ids) - sequence.prompt_length for sequence in sequences), default=1)
    prompt_ids = torch.full((rows, width), pad)
    prompt_mask = torch.zeros((rows, width), dtype=torch.long)
    ids = torch.full((rows, length), pad)
    mask = torch.zeros((rows, length), dtype=torch.long)
    chosen = torch.zeros((rows, length), dtype=torch.long)
    sampled = torch.zeros((rows, length))
    advantages = torch.zeros(rows)
    for row, sequence in enumerate(sequences):
        cut, size = sequence.prompt_length, len(sequence.ids) - sequence.prompt_length
        prompt_ids[row, width - cut :] = torch.tensor(sequence.ids[:cut])
        prompt_mask[row, width - cut :] = 1
        ids[row, :size] = torch.tensor(sequence.ids[cut:])
        mask[row, :size] = 1
        chosen[row, :size] = torch.tensor(sequence.loss_mask[cut:], dtype=torch.long)
        sampled[row, :size] = torch.tensor(sequence.logprobs[cut:])
        advantages[row] = sequence.advantage
    batch = {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": ids,
        "completion_mask": mask,
        "tool_mask": chosen,
        "sampling_per_token_logps": sampled,
        "advantages": advantages,
        "num_items_in_batch": chosen.sum(),
    }
    return {name: tensor.to(device) for name, tensor in batch.items()}


def _unused_reward(completions: Sequence[Any], **_: Any) -> list[float | None]:
    return [0.0] * len(completions)
