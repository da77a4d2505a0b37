#!/bin/sh
# Adds the schedules in samples.json to the database in this folder, unless it already has some.
set -eu

if [ "$(duebook ls --json 2>/dev/null || echo '[]')" = "[]" ]; then
    duebook add --file "$(dirname "$0")/samples.json"
fi
