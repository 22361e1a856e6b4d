"""Readers of other formats: traces of LangGraph and OpenTelemetry, and chats, as histories."""
