"""CronJobs of Kubernetes as manifests, for tests that read them."""

from __future__ import annotations

import json
from typing import Any

CONTAINER = {"name": "a", "command": ["/app/run"]}


def manifest(spec: dict[str, Any], job: dict[str, Any], container: dict[str, Any]) -> str:
    """JSON is YAML too."""
    pod = {"containers": [container]}
    whole = {"schedule": "30 2 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}, **job}}}
    form = {"kind": "CronJob", "metadata": {"name": "job"}, "spec": {**whole, **spec}}
    return json.dumps(form)
