#!/bin/sh
# Adds a few schedules to the database of this folder, unless they already exist.
set -eu

add() {
    name=$1
    duebook show "$name" >/dev/null 2>&1 || duebook add "$@"
}

add hello --every 10s -- sh -c 'echo "hello: due at $DUEBOOK_DUE_AT, run $DUEBOOK_RUN_ID"'
add disk --cron "* * * * *" --description "How full the disk is" -- df -h .
add greeting --every 30s --payload '{"audience": "all of you"}' \
    --shell 'echo "good day, $DUEBOOK_PAYLOAD_AUDIENCE"'
add broken --every 45s --description "Fails on purpose: see duebook show broken" \
    --shell 'echo "this one fails" >&2; exit 3'
