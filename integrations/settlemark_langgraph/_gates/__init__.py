"""Questions to a person as LangGraph's interrupts, and their answers."""
