"""Who carries out what a program asks for: threads, event loops, and what runs in the background."""
