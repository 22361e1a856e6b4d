"""What every room talks about, as values: scopes, effect classes, declarations, guards, identity."""
