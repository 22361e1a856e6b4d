"""The parts of `settlemark_langgraph.reducers`."""
