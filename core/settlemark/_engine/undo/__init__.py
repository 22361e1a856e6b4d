"""What is taken back: by an abort, or by a mend."""
