"""What a run may say of itself: what its record tells when it is taken up again, and what it claims has happened."""
