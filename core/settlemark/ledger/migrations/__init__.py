"""How the tables of one release become those of the next: run by `settlemark migrate`, and by nothing else."""
