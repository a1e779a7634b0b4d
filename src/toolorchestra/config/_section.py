"""What all sections of the settings share: strictness, helpful errors, paths, and no secrets."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StringConstraints,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic import ValidationInfo as Info
from pydantic_core import PydanticCustomError

from toolorchestra.errors import UserError

_SECRET_KEY = re.compile(r"(?i)^(.*_)?(api_?key|secret|password|access_token|auth_token|bearer)$")
_SECRET_PARAMETER = re.compile(r"(?i)key|token|secret|password|signature|^sig$")
# Real keys mix digits and capitals; a folder such as sk-learn-notes-and-examples does not.
_SECRET_VALUE = re.compile(
    r"\b(sk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{20,}|sk-[0-9a-f]{32}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}"
    r"|hf_[A-Za-z0-9]{30,}|tvly-(?=[\w-]*\d)[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{30,}|AIza[\w-]{30,}|AKIA[0-9A-Z]{16})"
)


def looks_secret(text: str) -> bool:
    """Whether a text looks like a key of a known provider."""
    return _SECRET_VALUE.search(text) is not None


def fault(message: str, *, at: Iterable[str | int] = ()) -> PydanticCustomError:
    """An error for the user, in our own words, at a path below the value that is being validated."""
    # The message travels in the context: a template would trip over braces in what the user wrote.
    return PydanticCustomError("setting", "{text}", {"text": message, "at": list(at)})


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the nearest known word, else the list of what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(names)}" if names else "none is defined"


class Section(BaseModel):
    """A part of the settings: immutable, and strict about its keys."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for key in value:
            if key in cls.model_fields:
                continue
            if _SECRET_KEY.match(str(key)):
                raise fault(
                    "a secret must not stand in the file; put it into an environment variable and name that: "
                    "api_key_env: NAME_OF_THE_VARIABLE",
                    at=[key],
                )
            raise fault(f"unknown key; {did_you_mean(str(key), cls.model_fields)}", at=[key])
        return value


def _env_name(value: str) -> str:
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value) or looks_secret(value):
        # The value is not repeated: it may be the key itself.
        raise fault("must be the NAME of an environment variable in capitals, such as OPENAI_API_KEY, never a key")
    return value


EnvName = Annotated[str, AfterValidator(_env_name)]
"""The name of an environment variable that holds a secret. Its value is read at the moment of use only."""


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        port_is_number = parts.port is None or parts.port > 0
    except ValueError:
        raise fault("must be an address such as http://localhost:8000/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_number or re.search(r"\s", value):
        raise fault("must be an address such as http://localhost:8000/v1")
    if "@" in parts.netloc or any(_SECRET_PARAMETER.search(name) for name, _ in parse_qsl(parts.query)):
        # The value is not repeated: it may hold the secret. A plain query stays: some servers have their version there.
        raise fault("holds a user name or a key; take it out and name the key's variable with api_key_env")
    return value.rstrip("/")


Url = Annotated[str, AfterValidator(_url)]
"""An HTTP address, without a trailing slash."""

Name = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
"""A text that is not empty."""


def resolve(value: Path, info: Info) -> Path:
    """A path as the file means it: ``~`` expanded, relative to the settings file's folder."""
    folder = (info.context or {}).get("folder")
    expanded = value.expanduser()
    return expanded if folder is None else Path(os.path.normpath(Path(folder) / expanded))


def must_exist(info: Info) -> bool:
    """Whether files are to be looked for now (they are when a file is loaded, not when a record is read back)."""
    return bool((info.context or {}).get("check_files"))


def input_file(how: str) -> WrapValidator:
    """Marks a path whose file must be there; ``how`` tells how to create it."""
    return _existing("file", Path.is_file, how)


def input_folder(how: str) -> WrapValidator:
    """Marks a path whose folder must be there; ``how`` tells how to create it."""
    return _existing("folder", Path.is_dir, how)


def _existing(kind: str, exists: Callable[[Path], bool], how: str) -> WrapValidator:
    def check(value: Any, handler: ValidatorFunctionWrapHandler, info: Info) -> Path:
        if value == "":
            raise fault("the path is empty; give a path, or leave the key out")
        path = resolve(handler(value), info)
        if must_exist(info) and not exists(path):
            raise fault(f"no such {kind}: {path}; {how}")
        return path

    return WrapValidator(check)


def read_secret(env_name: str) -> str:
    """The value of an environment variable that the settings name. Use it at once; never keep, log or print it.

    Raises:
        UserError: It is not set, or empty.
    """
    value = os.environ.get(env_name, "").strip()
    if not value:
        raise UserError(f"the environment variable {env_name} is not set; set it: export {env_name}=<your key>")
    return value
