"""Files as Dagu's documentation shows them, one for each thing it documents, in our own words.

With each: the keys by whose names it is refused, none when it is built.
"""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "steps in order": (
        """
steps:
  - command: echo "one"
  - command: echo "two"
""",
        (),
    ),
    "steps as texts, and a list within the list": (
        """
steps:
  - echo "before"
  -
    - echo "left"
    - echo "right"
  - echo "after"
""",
        (),
    ),
    "an iterator": (
        """
steps:
  - name: each
    call: worker
    parallel:
      items: [A, B]
      maxConcurrent: 2
    params: "ITEM=${ITEM}"
---
name: worker
params:
  - ITEM: ""
steps:
  - name: one
    command: echo "at ${ITEM}"
""",
        (),
    ),
    "a diamond": (
        """
steps:
  - name: setup
    command: ./setup.sh
  - name: unit
    command: make unit
    depends: setup
  - name: browser
    command: make browser
    depends: setup
  - name: ship
    command: make ship
    depends:
      - unit
      - browser
""",
        (),
    ),
    "chain": (
        """
type: chain
steps:
  - name: a
    command: a
  - name: b
    command: b
""",
        (),
    ),
    "graph": (
        """
type: graph
steps:
  - id: a
    command: a
  - id: b
    command: b
    depends: a
""",
        (),
    ),
    "agent": (
        """
type: agent
steps:
  - command: a
""",
        ("type",),
    ),
    "a value as a condition": (
        """
steps:
  - name: deploy
    command: ./deploy.sh
    preconditions:
      - condition: "${STAGE}"
        expected: "production"
""",
        (),
    ),
    "commands and patterns as conditions": (
        """
steps:
  - name: load
    command: ./load.sh
    preconditions:
      - test -s /data/in.csv
      - condition: "`date '+%d'`"
        expected: "re:0[1-9]"
      - condition: "`df /data | awk 'NR==2 {print $5}'`"
        expected: "re:^[0-7][0-9]%$"
      - condition: "$(hostname)"
        expected: "blue"
        negate: true
""",
        (),
    ),
    "repetition": (
        """
steps:
  - command: nc -z db 5432
    repeatPolicy:
      repeat: until
      limit: 9
""",
        (),
    ),
    "continue after failures": (
        """
steps:
  - name: clean
    command: rm /tmp/cache/*
    continueOn:
      failure: true
      skipped: true
      exitCode: [0, 1, 2]
      output: ["WARNING", "re:^INFO:.*"]
      markSuccess: true
  - name: work
    command: ./work.sh
    continueOn: failed
""",
        (),
    ),
    "retries": (
        """
steps:
  - name: fetch
    command: curl -f https://example.com/data
    retryPolicy:
      limit: 5
      intervalSec: 2
      backoff: true
      maxIntervalSec: 60
      exitCode: [22, 28]
""",
        (),
    ),
    "handlers": (
        """
handlerOn:
  init:
    command: ./begin.sh
  success:
    command: ./tell.sh "${DAG_NAME} (${DAG_RUN_ID}) is done"
  failure:
    command: ./tell.sh "${DAG_NAME} failed"
  cancel:
    command: ./undo.sh
  exit:
    command: rm -rf "/tmp/${DAG_RUN_ID}"
steps:
  - command: ./work.sh
""",
        (),
    ),
    "the file of a log": (
        """
handler_on:
  failure:
    command: tail ${DAG_RUN_LOG_FILE}
steps:
  - command: a
""",
        ("command",),
    ),
    "variables": (
        """
env:
  - BASE: ${HOME}/batch
  - INPUT: ${BASE}/in
  - PATH: ${PATH}:/opt/bin
steps:
  - name: work
    dir: ${BASE}
    command: ./work.sh ${INPUT}
    env:
      - MODE=fast
      - INPUT: ${BASE}/other
""",
        (),
    ),
    "files of variables": (
        """
dotenv: .env
steps:
  - command: a
""",
        (),
    ),
    "secrets": (
        """
secrets:
  - name: A
    provider: env
    key: B
steps:
  - command: a
""",
        (),
    ),
    "params by place": (
        """
params: one two
steps:
  - command: ./work.sh $1 $2
""",
        (),
    ),
    "params by name": (
        """
params:
  - SIZE: 10
  - STAGE: dev
  - DEEP: {a: [1, 2]}
steps:
  - command: ./work.sh ${SIZE} --stage=${STAGE} ${DEEP.a[0]}
""",
        (),
    ),
    "params with their types": (
        """
params:
  - name: stage
    type: string
    enum: [staging, production]
    required: true
  - name: size
    type: integer
    default: 3
    description: how many
steps:
  - command: ./work.sh "$stage" "$size"
""",
        (),
    ),
    "params with a schema": (
        """
params:
  schema: params.json
  values: {a: 1}
steps:
  - command: a
""",
        ("params.schema",),
    ),
    "a command in a default": (
        """
params:
  - DAY: "`date +%F`"
steps:
  - command: a
""",
        (),
    ),
    "a command in a variable": (
        """
env:
  TODAY: "`date '+%F'`"
steps:
  - command: a
""",
        (),
    ),
    "an output": (
        """
steps:
  - name: version
    command: cat VERSION
    output: VERSION
  - name: build
    command: docker build -t app:${VERSION} .
    depends: version
""",
        (),
    ),
    "parts of an output": (
        """
steps:
  - name: config
    command: cat config.json
    output: CONFIG
  - name: use
    command: echo "Port is ${CONFIG.server.port}"
    depends: config
""",
        (),
    ),
    "the end of a step": (
        """
steps:
  - name: get the data
    id: extract
    command: ./extract.sh
    continue_on: failed
  - name: tell
    command: echo "${extract.exitCode}"
    depends: extract
""",
        (),
    ),
    "the files of a step": (
        """
steps:
  - id: extract
    command: ./extract.sh
  - id: tell
    command: cat ${extract.stdout}
    depends: extract
""",
        ("command",),
    ),
    "outputs with decoders": (
        """
steps:
  - id: inspect
    command: cat info.json
    output:
      version:
        from: stdout
        decode: json
        select: .version
""",
        ("output",),
    ),
    "an output with a key": (
        """
steps:
  - command: a
    output:
      name: A
      key: a
      omit: true
""",
        ("key", "omit"),
    ),
    "large outputs": (
        """
maxOutputSize: 5242880
steps:
  - command: a
    output: A
""",
        (),
    ),
    "output into files": (
        """
steps:
  - command: a
    stdout: /tmp/a
    stderr: /tmp/b
""",
        ("stdout", "stderr"),
    ),
    "scripts": (
        """
steps:
  - name: shell
    script: |
      cd /tmp
      ls
  - name: python
    command: python3 -u
    script: |
      import os
      print(os.getcwd())
  - name: bash
    script: |
      #!/usr/bin/env bash
      set -o pipefail
      ls | wc -l
  - name: piped
    command: echo hello | xargs echo
    shell: bash -e
""",
        (),
    ),
    "a program without a shell": (
        """
steps:
  - exec:
      command: /usr/bin/env
      args: [-u, A, 10]
""",
        (),
    ),
    "several commands as a list": (
        """
steps:
  - command:
      - go build ./...
      - go test ./...
""",
        (),
    ),
    "packages of a shell": (
        """
steps:
  - command: a
    shell: nix-shell
    shellPackages: [jq]
""",
        ("shell", "shellPackages"),
    ),
    "docker": (
        """
steps:
  - executor:
      type: docker
      config: {image: node}
    command: npm test
""",
        (),
    ),
    "a container for all": (
        """
container:
  image: python:3.11
steps:
  - command: pytest
""",
        (),
    ),
    "ssh": (
        """
ssh:
  host: web
steps:
  - executor:
      type: ssh
    command: uptime
""",
        ("ssh", "executor"),
    ),
    "a request": (
        """
steps:
  - name: hook
    executor:
      type: http
      config:
        url: https://example.com/hook
        method: POST
        headers:
          Content-Type: application/json
        body: '{"state": "begun"}'
        timeout: 10
  - name: health
    type: http
    with:
      url: https://example.com/health
  - name: short
    executor: http
    command: GET https://example.com/
""",
        (),
    ),
    "jq": (
        """
steps:
  - executor: jq
    command: .a
    script: '{}'
""",
        (),
    ),
    "mail": (
        """
mailOn:
  failure: true
smtp:
  host: mail
steps:
  - command: a
    mailOnError: true
""",
        ("mailOn", "mailOnError"),
    ),
    "a schedule": (
        """
schedule: "5 4 * * *"
steps:
  - command: a
""",
        (),
    ),
    "schedules": (
        """
schedule:
  - "30 7 * * *"
  - "CRON_TZ=Asia/Tokyo 0 20 * * *"
steps:
  - command: a
""",
        (),
    ),
    "start, stop and restart": (
        """
schedule:
  start:
    - "0 8 * * MON-FRI"
  stop: "0 18 * * MON-FRI"
  restart: "0 12 * * MON-FRI"
restartWaitSec: 60
steps:
  - command: ./serve.sh
    signalOnStop: SIGTERM
""",
        (),
    ),
    "catch-up": (
        """
schedule: "0 * * * *"
catchupWindow: 6h
overlapPolicy: all
skipIfSuccessful: true
steps:
  - command: a
""",
        (),
    ),
    "a name with spaces": (
        """
name: Daily Data
steps:
  - command: a
""",
        ("name",),
    ),
    "queues and limits": (
        """
queue: batch
maxActiveRuns: 2
maxActiveSteps: 5
delaySec: 10
timeoutSec: 7200
steps:
  - command: a
    timeoutSec: 60
""",
        (),
    ),
    "how long history is kept": (
        """
histRetentionDays: 90
logDir: /logs
steps:
  - command: a
""",
        (),
    ),
    "time to clean up": (
        """
maxCleanUpTimeSec: 600
steps:
  - command: a
    signalOnStop: SIGINT
""",
        (),
    ),
    "traces": (
        """
otel:
  enabled: true
steps:
  - command: a
""",
        (),
    ),
    "what may be edited": (
        """
runConfig:
  disableParamEdit: true
steps:
  - command: a
""",
        (),
    ),
    "tags and groups": (
        """
tags: daily,critical
group: Data
steps:
  - command: a
""",
        (),
    ),
    "labels": (
        """
labels:
  - team=data
  - critical
steps:
  - command: a
""",
        (),
    ),
    "other flows": (
        """
steps:
  - name: load
    call: etl.yaml
    params: "STAGE=prod DAY=today"
  - name: look
    call: analyze
    params:
      STAGE: prod
    depends: load
""",
        (),
    ),
    "a flow in a folder": (
        """
steps:
  - call: workflows/etl
""",
        (),
    ),
    "flows in one file": (
        """
name: main
steps:
  - name: work
    call: worker
    params: "KIND=daily"
---
name: worker
params:
  - KIND: "batch"
workerSelector:
  gpu: "true"
steps:
  - name: one
    command: echo "${KIND}"
""",
        (),
    ),
    "steps as a mapping": (
        """
steps:
  one:
    command: a
  two:
    command: b
    depends: one
""",
        (),
    ),
    "conditions of a flow": (
        """
preconditions:
  - condition: "`date +%u`"
    expected: "re:[1-5]"
steps:
  - a
""",
        (),
    ),
    "run as a command": (
        """
steps:
  - id: a
    run: go test ./...
  - id: b
    run: |
      set -eu
      ./build.sh
    depends: a
  - id: c
    run:
      - go vet ./...
      - go build ./...
    with: {shell: bash -e}
handler_on:
  exit:
    run: ./cleanup.sh
""",
        (),
    ),
    "the action that runs a flow": (
        """
steps:
  - id: load
    action: dag.run
    with:
      dag: etl
      params:
        DAY: today
""",
        (),
    ),
    "a call of Dagu 1 with params": (
        """
steps:
  - run: etl
    params: "DAY=today"
""",
        (),
    ),
    "actions": (
        """
steps:
  - id: a
    action: http.request
    with:
      url: https://example.com
""",
        (),
    ),
    "expressions": (
        """
params:
  - name: stage
    required: true
steps:
  - command: ./deploy.sh ${{ params.stage }}
""",
        ("command",),
    ),
    "approval": (
        """
steps:
  - command: a
    approval:
      prompt: yes?
""",
        ("approval",),
    ),
    "a service": (
        """
restart_policy: always
steps:
  - command: a
""",
        ("restart_policy",),
    ),
}
