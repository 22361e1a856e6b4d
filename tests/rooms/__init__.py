"""The faces that rooms have for tests: each private name that tests take is imported here, and nowhere else.

A test takes public names first (`settlemark`, `settlemark.hosting` and the other doors). What no door has stands here,
a file for each room, so that a private file is moved or renamed by editing one line. A test about one module imports
that module itself, and has its name: `test_index.py` is about `_protocol/index.py`. `tests/test_doors.py` holds this.
"""
