"""Free argument values under their JSON schema, by llguidance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolorchestra.errors import UserError
from toolorchestra.policies.tokens.grammar import Matcher
from toolorchestra.trajectory import AllowedTokens


class GuidanceMatchers:
    """Makes matchers of JSON schemas with llguidance for one tokenizer.

    Args:
        tokenizer: A fast tokenizer of transformers.
        vocabulary: Rows of the model's output layer. Many have more than their tokenizer has tokens; those are never
            allowed.
    """

    def __init__(self, tokenizer: Any, *, vocabulary: int | None = None) -> None:
        import llguidance.hf

        self._tokens = llguidance.hf.from_tokenizer(tokenizer, n_vocab=max(vocabulary or 0, len(tokenizer)))
        self._eos = int(self._tokens.eos_token)

    def __call__(self, schema: str) -> Matcher:
        """A fresh matcher.

        Raises:
            UserError: The schema uses what the grammar engine cannot follow.
        """
        import llguidance

        # The separators of json.dumps, which are those of the call around the value.
        spacing: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(schema, overrides=spacing)
            matcher = llguidance.LLMatcher(self._tokens, grammar)
            problem = matcher.get_error() if matcher.is_error() else ""
        except ValueError as error:
            problem = str(error)
        if problem:
            raise UserError(f"the argument schema {schema} cannot be decoded under a grammar: {problem}")
        return _GuidanceMatcher(matcher, self._eos)


@dataclass(slots=True)
class _GuidanceMatcher:
    matcher: Any
    eos: int
    _allowed: AllowedTokens | None = None

    def allowed(self) -> AllowedTokens:
        import numpy as np

        if self._allowed is None:
            bits = np.unpackbits(np.frombuffer(self.matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
            if self.eos < len(bits):
                bits[self.eos] = 0  # the end of a value is what follows it, not the end of the sequence
            only = int(bits.sum()) * 2 <= len(bits)
            self._allowed = AllowedTokens(only=only, ids=tuple(np.flatnonzero(bits == (1 if only else 0)).tolist()))
        return self._allowed

    def allows(self, token: int) -> bool:
        allowed = self.allowed()
        return (token in allowed.ids) == allowed.only

    def forced(self) -> tuple[int, ...]:
        forced = tuple(self.matcher.compute_ff_tokens())
        if forced:
            return forced
        allowed = self.allowed()
        return allowed.ids if allowed.only and len(allowed.ids) == 1 else ()

    def commit(self, token: int) -> None:
        self._allowed = None
        if not self.matcher.consume_token(token):
            raise UserError(f"the grammar refused the token {token}: {self.matcher.get_error()}")

    @property
    def complete(self) -> bool:
        return bool(self.matcher.is_accepting())

    @property
    def over(self) -> bool:
        if self.matcher.is_stopped():
            return True
        allowed = self.allowed()
        return self.complete and allowed.only and not allowed.ids
