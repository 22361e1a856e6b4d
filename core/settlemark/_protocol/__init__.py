"""Who may touch, who waits, who commits, who aborts: values in, decisions out; no I/O, no clock."""
