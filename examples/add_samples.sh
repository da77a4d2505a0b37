#!/bin/sh
# Adds the schedules of samples.json to the database of this folder, unless there are any already.
set -eu

if [ "$(duebook ls --json 2>/dev/null || echo '[]')" = "[]" ]; then
    duebook add --file "$(dirname "$0")/samples.json"
fi
