"""`settlemark demo`: stock LangGraph beside settled LangGraph, on the same model turns and faults.

Everything it prints is read from the logs of the counterparties, which run in other processes on this machine. By
default the model is scripted, and the network is not used. `settlemark demo --model openai:gpt-5-mini` plays it with a
live chat model, through LangChain's `init_chat_model`: the same prompts, tools and faults on both sides, in the same
graph, about 20 requests, and never more than `--turns` of them a conversation.
"""

from __future__ import annotations

from importlib.util import find_spec

for _module in ("langgraph", "langchain_core", "aiosmtpd", "matplotlib"):
    # Looked for, not imported: `settlemark demo --help` answers at once.
    if find_spec(_module) is None:
        raise ImportError(f'the demo needs {_module}: pip install "settlemark[demo]"', name=_module)
