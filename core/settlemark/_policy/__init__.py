"""What a policy says of a call: who may call what, on which scope, up to which amount, when asked first."""
