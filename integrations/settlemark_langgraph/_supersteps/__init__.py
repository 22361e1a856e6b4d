"""What LangGraph tells of a superstep, and the transactions that end with one, or with a run."""
