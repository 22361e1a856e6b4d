"""Where core meets what is not its own: text, exceptions and signals of the user's code, files; and errors."""
