"""Kubernetes manifests of CronJobs, for tests that read them."""

from __future__ import annotations

import json
from typing import Any

CONTAINER = {"name": "a", "command": ["/app/run"]}


def manifest(spec: dict[str, Any], job: dict[str, Any], container: dict[str, Any]) -> str:
    """The manifest as JSON, which is also YAML."""
    pod = {"containers": [container]}
    whole = {"schedule": "30 2 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}, **job}}}
    form = {"kind": "CronJob", "metadata": {"name": "job"}, "spec": {**whole, **spec}}
    return json.dumps(form)
