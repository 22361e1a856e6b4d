"""What the record says of a job: what it had decided, asked, left open and left in doubt when it was begun before."""
