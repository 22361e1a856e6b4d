"""What transactions owe: promises that later effects keep."""
