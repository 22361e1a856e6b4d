"""Questions to people as rows: an answer counted, a deadline kept, and who is told."""
