"""What a person is asked, who may answer and by when, and how a person is told."""
