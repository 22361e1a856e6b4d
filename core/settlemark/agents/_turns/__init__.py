"""The turns as a framework runs them: which of their calls have come, and what each is told."""
