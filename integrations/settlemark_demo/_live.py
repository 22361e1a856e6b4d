"""A live chat model in the demo's graph: opened through `init_chat_model`, and sent nothing before it is needed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from pydantic import SecretStr

from settlemark_demo._graph import Ask
from settlemark_demo._limits import USUAL, Limits

_EXAMPLE = "--model openai:gpt-5-mini"
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_?KEY|KEY|TOKEN)\b")
_PACKAGE = re.compile(r"pip install (?:-U )?([\w.-]*\w)")
_UNKNOWN = re.compile(r"nsupported provider|infer model provider")
_UNAUTHORIZED = (401, 403)
_LENGTH = 300


class ModelFailed(Exception):
    """A live model cannot be used, or gave no answer; the sentence says why, and what to do."""


@dataclass(frozen=True)
class LiveModel:
    """A chat model at a provider.

    Args:
        name: `provider:name`.
        chat: the model; a subclass of LangChain's that can be given tools.
        limits: of its conversations.
    """

    name: str
    chat: BaseChatModel
    limits: Limits = USUAL

    @classmethod
    def open(cls, name: str, limits: Limits = USUAL) -> LiveModel:
        """Return the model of that name. Nothing is sent anywhere.

        Raises:
            ModelFailed: there is no such provider, its package or its key is missing, or the model takes no tools.
        """
        provider, colon, rest = name.partition(":")
        if not (provider and colon and rest):
            raise ModelFailed(f"{name!r} is no model: write provider:name, as in {_EXAMPLE}")
        try:
            from langchain.chat_models import init_chat_model
        except ImportError as error:
            raise ModelFailed(f'a live model needs langchain ({error}): pip install "settlemark[demo]"') from error
        try:
            chat = init_chat_model(name)
        except ImportError as error:
            raise ModelFailed(_package(name, provider, error)) from error
        except Exception as error:
            if _is_unknown(error):
                raise ModelFailed(
                    f"langchain knows no provider {provider!r}: write provider:name, as in {_EXAMPLE} ({_short(error)})"
                ) from error
            raise ModelFailed(_why(name, error, None)) from error
        if type(chat).bind_tools is BaseChatModel.bind_tools:
            raise ModelFailed(f"{name} cannot be given tools: name a model that calls tools")
        if _lacks_its_key(chat, provider):
            raise ModelFailed(_set(name, _variables_of(chat) or [f"{provider.upper()}_API_KEY"]))
        return cls(name, chat, limits)

    def with_tools(self, tools: Sequence[BaseTool]) -> Ask:
        """Return a function that asks the model, which may call these tools, for its next turn.

        Raises (from that function): ModelFailed: it gave no answer.
        """

        def ask(messages: Sequence[BaseMessage]) -> BaseMessage:
            try:
                return cast("BaseMessage", self.chat.bind_tools(tools).invoke(messages))
            except Exception as error:
                raise ModelFailed(_why(self.name, error, self.chat)) from error

        return ask


def _is_unknown(error: Exception) -> bool:
    return isinstance(error, ValueError) and _UNKNOWN.search(str(error)) is not None


def _package(name: str, provider: str, error: ImportError) -> str:
    named = _PACKAGE.search(str(error))
    package = named.group(1) if named else f"langchain-{provider.replace('_', '-')}"
    cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
    return f"{name} needs {package}: pip install {package}{cause}"


def _why(name: str, error: Exception, chat: BaseChatModel | None) -> str:
    """Return why a model could not be opened or asked, and what to do about it."""
    if not _is_about_a_key(error):
        return f"{name} could not be asked: {type(error).__name__}: {_short(error)}"
    variables = list(dict.fromkeys(_VARIABLE.findall(str(error))))
    variables = variables or ([] if chat is None else _variables_of(chat))
    variables = variables or [f"{name.partition(':')[0].upper()}_API_KEY"]
    given = [variable for variable in variables if os.environ.get(variable)]
    if given:
        return f"{name} does not take the key in {' or '.join(given)}: set a valid one"
    return _set(name, variables)


def _set(name: str, variables: Sequence[str]) -> str:
    return f"{name} has no key: set the environment variable {' or '.join(variables)}"


def _variables_of(chat: BaseChatModel) -> list[str]:
    return [variable for variable in chat.lc_secrets.values() if _VARIABLE.fullmatch(variable)]


def _lacks_its_key(chat: BaseChatModel, provider: str) -> bool:
    """Whether a model would be asked without a key: some accept an empty one until then."""
    secrets = [getattr(chat, name, None) for name in chat.lc_secrets]
    is_empty = any(isinstance(secret, SecretStr) and not secret.get_secret_value() for secret in secrets)
    prefix = f"{provider.upper()}_"
    return is_empty and not any(v.startswith(prefix) and _VARIABLE.fullmatch(v) for v in os.environ)


def _is_about_a_key(error: Exception) -> bool:
    if getattr(error, "status_code", None) in _UNAUTHORIZED or "Authentication" in type(error).__name__:
        return True
    told = str(error).lower()
    return any(words in told for words in ("api_key", "api key", "authentication", "credentials"))


def _short(error: Exception) -> str:
    told = " ".join(str(error).split())
    return told if len(told) <= _LENGTH else f"{told[:_LENGTH]}…"


__all__ = ["LiveModel", "ModelFailed"]
