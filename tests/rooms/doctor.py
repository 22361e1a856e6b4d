"""What `settlemark doctor` examines, and where it looks."""

from __future__ import annotations

from settlemark._cli import doctor
from settlemark._cli.doctor import examine, files, server, work
from settlemark._cli.doctor.files import mounted, surroundings
from settlemark._cli.doctor.server import judge

__all__ = ["doctor", "examine", "files", "judge", "mounted", "server", "surroundings", "work"]
