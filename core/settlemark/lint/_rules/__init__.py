"""The rules: what each of them looks for in a tool, and the line that corrects it."""
