"""What an agent is about to say, held against the record: claims of what has come about, and promises."""
