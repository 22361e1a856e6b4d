"""What a model is still streaming: `run_stream` runs the calls beside a final text before it has their response.

Where a text (or the call of an output tool) ends the run and other calls stand beside it, the framework runs these, and
adds the response to the run's messages only when they are over. It is heard where the model gives it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from settlemark_pydantic_ai._responses import ids_of, issuer_of


class Streamed:
    """Hears what the model of a run streams."""

    def __init__(self) -> None:
        self._last: StreamedResponse | None = None

    def heard(self, model: Model) -> Model:
        """Return a model that streams as this one does, and is heard."""
        return _Heard(model, self._hear)

    def _hear(self, streamed: StreamedResponse) -> None:
        self._last = streamed

    def issuer_of(self, messages: Sequence[ModelMessage], call_id: str | None) -> tuple[int, ModelResponse | None]:
        """Return the response that has issued a call, and its index: that of the messages' end while it is streamed."""
        index, response = issuer_of(messages, call_id)
        if response is None and self._last is not None:
            streamed = self._last.get()
            if call_id in ids_of(streamed):
                return len(messages), streamed
        return index, response


class _Heard(WrapperModel):
    """A model whose streamed responses are heard."""

    def __init__(self, wrapped: Model, hear: Callable[[StreamedResponse], None]) -> None:
        super().__init__(wrapped)
        self._hear = hear

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream a response, and have it heard."""
        given = (messages, model_settings, model_request_parameters, run_context)
        async with super().request_stream(*given) as streamed:
            self._hear(streamed)
            yield streamed


__all__ = ["Streamed"]
