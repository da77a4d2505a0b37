"""What all tests share: a machine under load makes no test fail by its clock."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("duebook", deadline=None)
settings.load_profile("duebook")
