CREATE VIEW run_details AS
SELECT r.id, r.namespace, r.schedule_id, s.name AS schedule, r.version, r.due_at, r.origin,
    r.trigger, r.queue, r.priority, r.status, r.attempt, r.failures, r.losses, r.payload,
    r.created_at, r.ready_at, r.claimed_at, r.started_at, r.finished_at, r.expires_at, n.node,
    r.cancel_requested_at, r.reason, r.error, r.exit_code, r.task, r.output, r.output_ref,
    r.progress, r.progress_text, r.beat_at, r.parent_run_id, r.step, r.flow,
    r.output_size, r.output_secrets, r.requested_by, r.planned_by, r.interval_start, r.interval_end,
    r.rowid AS place
FROM runs AS r
LEFT JOIN schedules AS s ON s.id = r.schedule_id
LEFT JOIN node_sessions AS n ON n.id = r.session_id;

CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN
    SELECT RAISE(ABORT, 'entries of the audit cannot be changed');
END;

CREATE TABLE alert_rules (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    spec TEXT NOT NULL CHECK (json_valid(spec)),
    schedule TEXT, -- the name of the only one that it concerns
    schedule_id TEXT, -- the schedule that it is deleted with
    silenced_until INTEGER,
    sent TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(sent)), -- when it told of problems lately
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, name)
) STRICT;

CREATE TABLE alert_streaks (
    namespace TEXT NOT NULL,
    subject TEXT NOT NULL,
    failures INTEGER NOT NULL CHECK (failures >= 1),
    PRIMARY KEY (namespace, subject)
) STRICT;

CREATE TABLE alerts (
    id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    rule TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    schedule TEXT,
    run_id TEXT,
    due_at INTEGER,
    opened_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    count INTEGER NOT NULL CHECK (count >= 1),
    state TEXT NOT NULL CHECK (state IN ('silenced', 'waiting', 'sent')),
    message TEXT, -- the first of those that one message told of
    told_at INTEGER,
    resolved_at INTEGER,
    event_id TEXT, -- the last message about it
    CHECK ((state = 'sent') = (message IS NOT NULL))
) STRICT;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    by TEXT NOT NULL,
    namespace TEXT NOT NULL,
    action TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    before TEXT CHECK (before IS NULL OR json_valid(before)),
    after TEXT CHECK (after IS NULL OR json_valid(after))
) STRICT;

CREATE TABLE calendars (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    definition TEXT NOT NULL CHECK (json_valid(definition)),
    days TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, name, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE clock_steps (
    id INTEGER PRIMARY KEY,
    before INTEGER NOT NULL, -- what the clock would have shown when it was noticed
    earliest INTEGER NOT NULL, -- the earliest it can have shown right after the step
    noticed INTEGER NOT NULL, -- what it showed when it was noticed
    place INTEGER NOT NULL, -- the newest run at that time
    active TEXT CHECK (json_valid(active)) -- the runs that had not ended, null for too many
) STRICT;

CREATE TABLE consumers (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (
        kind IN ('group', 'kafka', 'ping', 'webhook', 'alert_rules', 'alert_channel')),
    topics TEXT NOT NULL CHECK (json_valid(topics)), -- null: all but those about life cycles
    types TEXT NOT NULL DEFAULT 'null' CHECK (json_valid(types)), -- null: all
    labels TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(labels)), -- of the schedule of an event
    partitions INTEGER NOT NULL CHECK (partitions >= 1),
    attempts INTEGER NOT NULL CHECK (attempts >= 1),
    options TEXT NOT NULL CHECK (json_valid(options)),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT;

CREATE TABLE cursors (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    part INTEGER NOT NULL,
    position INTEGER NOT NULL,
    owner TEXT,
    term INTEGER NOT NULL DEFAULT 0,
    retry_at INTEGER, -- when a receiver that took nothing is tried again
    error TEXT,
    replay_until INTEGER NOT NULL DEFAULT 0, -- up to there it gets what it had before
    look_at INTEGER, -- null: alert rules that follow from time are looked at now, else then
    PRIMARY KEY (namespace, name, part),
    FOREIGN KEY (namespace, name) REFERENCES consumers ON DELETE CASCADE
) STRICT;

CREATE TABLE dead_letters (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    event_id TEXT NOT NULL,
    slot INTEGER NOT NULL,
    event TEXT NOT NULL CHECK (json_valid(event)),
    error TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    at INTEGER NOT NULL,
    again INTEGER NOT NULL DEFAULT 0 CHECK (again IN (0, 1)), -- whether it is to be delivered once more
    PRIMARY KEY (namespace, name, event_id),
    FOREIGN KEY (namespace, name) REFERENCES consumers ON DELETE CASCADE
) STRICT;

CREATE TABLE ended_logins (
    digest TEXT PRIMARY KEY,
    token_id TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    namespace TEXT NOT NULL,
    topic TEXT NOT NULL,
    type TEXT NOT NULL,
    key TEXT NOT NULL,
    slot INTEGER NOT NULL CHECK (slot >= 0), -- of the key: partitions share them
    aggregate TEXT,
    version INTEGER CHECK (version >= 1),
    data TEXT NOT NULL CHECK (json_valid(data)),
    meta TEXT NOT NULL CHECK (json_valid(meta)),
    at INTEGER NOT NULL,
    UNIQUE (aggregate, version),
    CHECK ((aggregate IS NULL) = (version IS NULL))
) STRICT;

CREATE TABLE feeds (
    id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    labels TEXT NOT NULL CHECK (json_valid(labels)),
    digest TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL DEFAULT '',
    UNIQUE (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE flow_commands (
    id INTEGER PRIMARY KEY,
    schedule_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    flow TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('stop', 'restart')),
    due_at INTEGER NOT NULL
) STRICT;

CREATE TABLE flow_directories (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    term INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    scanned_term INTEGER NOT NULL DEFAULT 0, -- its files were read since that term began
    scanned_at INTEGER, -- when they were read last
    returned TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(returned)), -- flows with an earlier revision
    PRIMARY KEY (namespace, name)
) STRICT;

CREATE TABLE flow_problems (
    namespace TEXT NOT NULL,
    root TEXT NOT NULL,
    place TEXT NOT NULL,
    digest TEXT NOT NULL, -- of the file as it is
    source TEXT NOT NULL, -- its text, as far as people may see it
    problems TEXT NOT NULL CHECK (json_valid(problems)),
    at INTEGER NOT NULL,
    PRIMARY KEY (namespace, root, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE flow_revisions (
    namespace TEXT NOT NULL,
    flow TEXT NOT NULL,
    digest TEXT NOT NULL,
    place TEXT NOT NULL,
    source TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (namespace, flow, digest)
) STRICT;

CREATE TABLE flow_runs (
    run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    digest TEXT, -- none: there was no such flow
    params TEXT NOT NULL CHECK (json_valid(params)),
    depth INTEGER NOT NULL DEFAULT 0 CHECK (depth >= 0), -- how many flows called it
    wake_at INTEGER
) STRICT;

CREATE TABLE flow_wakes (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL
) STRICT;

CREATE TABLE flows (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    place TEXT NOT NULL, -- the directory's name and the path in it
    digest TEXT NOT NULL, -- of the whole file
    updated_at INTEGER NOT NULL,
    control_at INTEGER, -- when to go on with a restart
    restarting INTEGER NOT NULL DEFAULT 0 CHECK (restarting IN (0, 1)),
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE held_catchup (
    schedule_id TEXT NOT NULL REFERENCES schedules (id),
    due_from INTEGER NOT NULL,
    due_to INTEGER NOT NULL,
    count INTEGER NOT NULL CHECK (count >= 1),
    exact INTEGER NOT NULL CHECK (exact IN (0, 1)),
    version INTEGER NOT NULL,
    held_at INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, due_from),
    CHECK (due_from <= due_to)
) STRICT, WITHOUT ROWID;

CREATE TABLE held_keys (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    part INTEGER NOT NULL,
    key TEXT NOT NULL,
    position INTEGER NOT NULL, -- of the first event that was not delivered
    failures INTEGER NOT NULL, -- how often that event was refused
    tries INTEGER NOT NULL, -- how often it was not delivered, for whatever reason
    retry_at INTEGER NOT NULL,
    error TEXT,
    PRIMARY KEY (namespace, name, key),
    FOREIGN KEY (namespace, name, part) REFERENCES cursors ON DELETE CASCADE
) STRICT;

CREATE TABLE idempotency_keys (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL, -- of the request
    answer TEXT, -- JSON, always there once the transaction of the request is over
    at INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    term INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE ledger (
    id INTEGER PRIMARY KEY,
    schedule_id TEXT NOT NULL REFERENCES schedules (id),
    version INTEGER NOT NULL,
    due_from INTEGER NOT NULL,
    due_to INTEGER NOT NULL,
    count INTEGER NOT NULL CHECK (count >= 1),
    exact INTEGER NOT NULL CHECK (exact IN (0, 1)),
    verdict TEXT NOT NULL CHECK (verdict IN ('skipped', 'done')),
    kind TEXT NOT NULL DEFAULT 'start' CHECK (kind IN ('start', 'stop', 'restart')),
    reason TEXT NOT NULL,
    facts TEXT NOT NULL CHECK (json_valid(facts)),
    session_id TEXT,
    at INTEGER NOT NULL,
    CHECK (due_from <= due_to)
) STRICT;

CREATE TABLE maintenance_windows (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    labels TEXT NOT NULL CHECK (json_valid(labels)),
    start_at INTEGER NOT NULL,
    end_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, name),
    CHECK (start_at <= end_at)
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    member TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name, member),
    FOREIGN KEY (namespace, name) REFERENCES consumers ON DELETE CASCADE
) STRICT;

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;

CREATE TABLE migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT
;

CREATE TABLE moves (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('draining', 'copying', 'moved', 'reopened')),
    place TEXT NOT NULL, -- without the password
    at INTEGER NOT NULL,
    until INTEGER, -- draining ends by itself, should its copy be gone
    CHECK ((state = 'draining') = (until IS NOT NULL))
) STRICT;

CREATE TABLE namespace_history (
    namespace TEXT PRIMARY KEY,
    keep_seconds INTEGER CHECK (keep_seconds >= 1),
    forgotten_until INTEGER,
    ledger_until INTEGER -- only of *
) STRICT, WITHOUT ROWID;

CREATE TABLE namespace_use (
    namespace TEXT NOT NULL,
    slot INTEGER NOT NULL,
    schedules INTEGER NOT NULL, -- those that are not deleted
    bytes INTEGER NOT NULL, -- of their definitions
    PRIMARY KEY (namespace, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE node_sessions (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    pid INTEGER NOT NULL,
    roles TEXT NOT NULL,
    version TEXT NOT NULL,
    tzdata TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL, -- its last sign of life
    ended_at INTEGER,
    tasks TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tasks)), -- those that it knows
    queues TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(queues)), -- those that it serves
    namespaces TEXT NOT NULL DEFAULT '["*"]'
        CHECK (json_valid(namespaces)), -- those whose runs it may claim, * for all
    labels TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(labels)), -- those that it has
    clock_ahead REAL NOT NULL DEFAULT 0, -- seconds, of its machine when it was last seen
    machine TEXT NOT NULL DEFAULT '', -- in which its pid means something, or empty
    process_started INTEGER NOT NULL DEFAULT 0, -- ticks of that machine
    draining_at INTEGER, -- since then it starts no more runs
    stops_when_idle INTEGER NOT NULL DEFAULT 0 CHECK (stops_when_idle IN (0, 1)),
    secrets TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(secrets)), -- the names of those that it offers
    unserved TEXT NOT NULL DEFAULT '{}'
        CHECK (json_valid(unserved)) -- the sinks and channels that it cannot serve, and why
) STRICT;

CREATE TABLE queues (
    name TEXT PRIMARY KEY,
    concurrency INTEGER CHECK (concurrency >= 0),
    rate_count INTEGER CHECK (rate_count >= 1),
    rate_seconds INTEGER CHECK (rate_seconds >= 1),
    begun TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(begun)), -- instants and numbers of runs
    CHECK ((rate_count IS NULL) = (rate_seconds IS NULL))
) STRICT;

CREATE TABLE quotas (
    namespace TEXT PRIMARY KEY,
    schedules INTEGER CHECK (schedules >= 0),
    fires_per_minute REAL CHECK (fires_per_minute >= 0),
    payload_bytes INTEGER CHECK (payload_bytes >= 0),
    definition_bytes INTEGER CHECK (definition_bytes >= 0), -- of all schedules
    max_priority INTEGER -- of its runs
) STRICT;

CREATE TABLE run_attempts (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    session_id TEXT NOT NULL,
    claimed_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN
        ('succeeded', 'partial', 'failed', 'cancelled', 'lost', 'handed_back')),
    error TEXT,
    exit_code INTEGER,
    went_on_until INTEGER, -- its task did, after the attempt had ended here
    PRIMARY KEY (run_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_keys (
    namespace TEXT NOT NULL,
    task TEXT NOT NULL,
    key TEXT NOT NULL,
    run_id TEXT NOT NULL -- the key is taken before the run is created
        REFERENCES runs (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    until TEXT NOT NULL DEFAULT 'forever' CHECK (until IN ('pending', 'active', 'forever', 'time')),
    free_at INTEGER,
    PRIMARY KEY (namespace, task, key),
    CHECK ((until = 'time') = (free_at IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE run_logs (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    stream TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr', 'duebook')),
    text TEXT NOT NULL,
    UNIQUE (run_id, attempt, seq)
) STRICT;

CREATE TABLE run_outputs (
    run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    output TEXT NOT NULL
) STRICT;

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    schedule_id TEXT REFERENCES schedules (id),
    version INTEGER,
    due_at INTEGER,
    origin TEXT NOT NULL
        CHECK (origin = 'schedule' OR origin = 'catchup' OR origin = 'backfill'
            OR origin = 'manual' OR origin = 'enqueue' OR origin = 'flow'),
    trigger TEXT NOT NULL,
    parent_run_id TEXT REFERENCES runs (id) ON DELETE CASCADE,
    step TEXT, -- of a flow, none any more once a retry of the flow began it again
    flow TEXT, -- the flow that it is a run of, or of which it is a step
    needs TEXT CHECK (needs IS NULL OR json_valid(needs)), -- the labels that its worker must have
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    task TEXT,
    exclusive INTEGER NOT NULL CHECK (exclusive IN (0, 1)),
    lane INTEGER NOT NULL DEFAULT 0 CHECK (lane IN (0, 1, 2, 3)), -- the lower ones of a schedule go first
    max_concurrent INTEGER CHECK (max_concurrent >= 1),
    wakes INTEGER NOT NULL CHECK (wakes IN (0, 1)),
    max_takeovers INTEGER NOT NULL,
    payload TEXT CHECK (payload IS NULL OR json_valid(payload)),
    status TEXT NOT NULL
        CHECK (status = 'queued' OR status = 'running' OR status = 'succeeded'
            OR status = 'partial' OR status = 'failed' OR status = 'cancelled'),
    attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    losses INTEGER NOT NULL DEFAULT 0 CHECK (losses >= 0),
    early_losses INTEGER NOT NULL DEFAULT 0 CHECK (early_losses >= 0), -- of nodes that had not begun it
    session_id TEXT, -- no reference: sessions are forgotten after their runs, without a search
    created_at INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    claimed_at INTEGER,
    started_at INTEGER,
    finished_at INTEGER,
    expires_at INTEGER,
    cancel_requested_at INTEGER,
    reason TEXT,
    error TEXT,
    exit_code INTEGER,
    output TEXT,
    output_ref TEXT,
    output_size INTEGER, -- bytes of an output in run_outputs
    output_secrets TEXT, -- JSON: what is hidden in the output where people see it
    progress REAL, -- of the attempt under way, as far as it tells
    progress_text TEXT,
    beat_at INTEGER,
    key TEXT, -- of what was enqueued at most once
    options TEXT CHECK (options IS NULL OR json_valid(options)), -- the policies of a run without a schedule
    interval_start INTEGER, -- the due time before its own, by the triggers
    interval_end INTEGER, -- its own by the triggers, where that is not due_at
    requested_by TEXT, -- who asked for it, where that is not a due time
    planned_by TEXT, -- the node that planned its due time
    backfill_limit INTEGER CHECK (backfill_limit >= 1), -- how many like it may run at once
    UNIQUE (schedule_id, due_at),
    CHECK (status <> 'running' OR (session_id IS NOT NULL AND claimed_at IS NOT NULL)),
    CHECK (status <> 'queued' OR session_id IS NULL),
    CHECK (status <> 'partial' OR queue = '@flow'),
    CHECK ((status = 'queued' OR status = 'running') = (finished_at IS NULL)),
    CHECK ((schedule_id IS NULL) = (version IS NULL)),
    CHECK ((due_at IS NOT NULL)
        = (origin = 'schedule' OR origin = 'catchup' OR origin = 'backfill'))
) STRICT;

CREATE TABLE schedule_controls (
    schedule_id TEXT PRIMARY KEY REFERENCES schedules (id),
    decided_until INTEGER NOT NULL
) STRICT;

CREATE TABLE schedule_deps (
    namespace TEXT NOT NULL,
    upstream TEXT NOT NULL,
    schedule_id TEXT NOT NULL REFERENCES schedules (id),
    PRIMARY KEY (namespace, upstream, schedule_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule_exceptions (
    schedule_id TEXT NOT NULL REFERENCES schedules (id),
    due_at INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('skip', 'moved_away', 'moved_here', 'done')),
    moved_to INTEGER,
    moved_from INTEGER,
    PRIMARY KEY (schedule_id, due_at, kind),
    CHECK ((kind = 'moved_away') = (moved_to IS NOT NULL)),
    CHECK (moved_from IS NULL OR kind = 'moved_here')
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule_history (
    schedule_id TEXT PRIMARY KEY REFERENCES schedules (id),
    keep_seconds INTEGER CHECK (keep_seconds >= 1),
    keep_last INTEGER CHECK (keep_last >= 1), -- how many of its runs
    forgotten_until INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule_labels (
    schedule_id TEXT NOT NULL REFERENCES schedules (id),
    label TEXT NOT NULL,
    value TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (schedule_id, label)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule_revisions (
    schedule_id TEXT NOT NULL REFERENCES schedules (id),
    version INTEGER NOT NULL CHECK (version >= 1),
    spec TEXT NOT NULL CHECK (json_valid(spec)),
    valid_from INTEGER NOT NULL,
    by TEXT NOT NULL DEFAULT '',
    fires_per_minute REAL, -- in the mean, known where a quota asked for it
    handover_at INTEGER, -- up to where the revision before it counted
    last_due_at INTEGER, -- the last due time up to there, by the triggers
    PRIMARY KEY (schedule_id, version)
) STRICT;

CREATE TABLE schedule_state (
    schedule_id TEXT PRIMARY KEY REFERENCES schedules (id),
    version INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'paused', 'completed')),
    watermark INTEGER NOT NULL,
    next_due_at INTEGER,
    wake_at INTEGER,
    fired INTEGER NOT NULL DEFAULT 0 CHECK (fired >= 0),
    emitted INTEGER NOT NULL DEFAULT 0 CHECK (emitted >= 0), -- the version of its latest event
    seen TEXT CHECK (seen IS NULL OR json_valid(seen)),
    considered_at INTEGER,
    delay TEXT CHECK (delay IS NULL OR json_valid(delay)), -- by manual and backfill work
    paused_at INTEGER,
    paused_until INTEGER,
    pause_reason TEXT,
    problem TEXT,
    CHECK (wake_at IS NULL OR status = 'active' OR paused_until IS NOT NULL),
    CHECK ((status = 'paused') = (paused_at IS NOT NULL)),
    CHECK (paused_until IS NULL OR status = 'paused')
) STRICT;

CREATE TABLE schedule_templates (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    defaults TEXT NOT NULL CHECK (json_valid(defaults)),
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
    id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    labels TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(labels)),
    target TEXT NOT NULL DEFAULT '', -- what it runs: task:NAME, flow:NAME, command, http
    title TEXT NOT NULL DEFAULT '',
    calendar TEXT, -- the name of the one that its definition uses
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL DEFAULT '',
    owner TEXT NOT NULL DEFAULT '', -- who declares it: a name, code:NAME, flows:NAME
    deleted_at INTEGER
) STRICT;

CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE shadow_switches (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    at INTEGER NOT NULL,
    shadow INTEGER NOT NULL CHECK (shadow IN (0, 1)),
    schedule TEXT NOT NULL DEFAULT '',
    labels TEXT NOT NULL CHECK (json_valid(labels)),
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE sqlite_sequence(name,seq);

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    namespaces TEXT NOT NULL CHECK (json_valid(namespaces)),
    digest TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE INDEX alert_rules_of_schedule ON alert_rules (schedule_id) WHERE schedule_id IS NOT NULL;

CREATE INDEX alerts_by_time ON alerts (namespace, opened_at, id);

CREATE INDEX alerts_of_message ON alerts (message) WHERE message IS NOT NULL;

CREATE UNIQUE INDEX alerts_open ON alerts (namespace, rule, kind, subject)
    WHERE resolved_at IS NULL;

CREATE INDEX alerts_waiting ON alerts (namespace) WHERE state = 'waiting';

CREATE INDEX audit_by_time ON audit (at);

CREATE INDEX audit_of_namespace ON audit (namespace, at);

CREATE INDEX audit_of_subject ON audit (namespace, subject, at);

CREATE INDEX dead_letters_again ON dead_letters (namespace, name, at, event_id) WHERE again;

CREATE INDEX dead_letters_by_time ON dead_letters (namespace, at, event_id, name);

CREATE INDEX ended_logins_by_time ON ended_logins (expires_at);

CREATE INDEX events_by_time ON events (at);

CREATE INDEX flow_runs_by_wake ON flow_runs (wake_at, run_id) WHERE wake_at IS NOT NULL;

CREATE INDEX flow_wakes_by_run ON flow_wakes (run_id);

CREATE INDEX flows_by_control ON flows (control_at) WHERE control_at IS NOT NULL;

CREATE INDEX idempotency_keys_by_time ON idempotency_keys (at);

CREATE INDEX ledger_by_time ON ledger (at);

CREATE INDEX ledger_of_schedule ON ledger (schedule_id, due_to);

CREATE INDEX maintenance_windows_by_end ON maintenance_windows (end_at);

CREATE INDEX node_sessions_alive ON node_sessions (expires_at) WHERE ended_at IS NULL;

CREATE INDEX run_keys_of_run ON run_keys (run_id);

CREATE INDEX runs_active ON runs (schedule_id, lane, created_at) WHERE status IN ('queued', 'running');

CREATE INDEX runs_busy ON runs (schedule_id, lane, created_at) WHERE status = 'running';

CREATE INDEX runs_delayed ON runs (ready_at) WHERE status = 'queued' AND ready_at > created_at;

CREATE INDEX runs_ended ON runs (schedule_id, finished_at)
    WHERE schedule_id IS NOT NULL AND finished_at IS NOT NULL;

CREATE INDEX runs_expiring ON runs (expires_at)
    WHERE status = 'queued' AND attempt = 0 AND expires_at IS NOT NULL;

CREATE INDEX runs_failed ON runs (namespace, status)
    WHERE status = 'partial' OR status = 'failed' OR status = 'cancelled';

CREATE INDEX runs_finished ON runs (finished_at) WHERE finished_at IS NOT NULL;

CREATE INDEX runs_of_flow ON runs (namespace, flow)
    WHERE flow IS NOT NULL AND parent_run_id IS NULL;

CREATE INDEX runs_of_flow_active ON runs (namespace, flow, status, created_at)
    WHERE queue = '@flow' AND status IN ('queued', 'running');

CREATE UNIQUE INDEX runs_of_parent ON runs (parent_run_id, step) WHERE parent_run_id IS NOT NULL;

CREATE INDEX runs_of_task ON runs (namespace, task) WHERE origin = 'enqueue';

CREATE INDEX runs_queued ON runs (queue, namespace, -priority, ready_at) WHERE status = 'queued';

CREATE INDEX runs_running ON runs (session_id) WHERE status = 'running';

CREATE INDEX runs_succeeded ON runs (schedule_id, finished_at)
    WHERE status = 'succeeded' OR status = 'partial';

CREATE INDEX runs_undue ON runs (schedule_id, created_at)
    WHERE due_at IS NULL AND schedule_id IS NOT NULL;

CREATE INDEX schedule_deps_of_schedule ON schedule_deps (schedule_id);

CREATE INDEX schedule_history_by_keep ON schedule_history (keep_seconds)
    WHERE keep_seconds IS NOT NULL;

CREATE UNIQUE INDEX schedule_labels_by_value ON schedule_labels (namespace, label, value, name);

CREATE INDEX schedule_state_asleep ON schedule_state (schedule_id)
    WHERE wake_at IS NULL AND (status = 'active' OR paused_until IS NOT NULL);

CREATE INDEX schedule_state_by_wake ON schedule_state (wake_at, schedule_id)
    WHERE wake_at IS NOT NULL;

CREATE INDEX schedule_state_paused ON schedule_state (schedule_id) WHERE status = 'paused';

CREATE INDEX schedule_state_problems ON schedule_state (schedule_id) WHERE problem IS NOT NULL;

CREATE INDEX schedules_by_age ON schedules (namespace, created_at, id) WHERE deleted_at IS NULL;

CREATE UNIQUE INDEX schedules_by_name ON schedules (namespace, name) WHERE deleted_at IS NULL;

CREATE INDEX schedules_by_owner ON schedules (namespace, owner)
    WHERE deleted_at IS NULL AND owner <> '';

CREATE INDEX schedules_deleted ON schedules (namespace, name, deleted_at)
    WHERE deleted_at IS NOT NULL;

CREATE INDEX schedules_of_calendar ON schedules (namespace, calendar)
    WHERE deleted_at IS NULL AND calendar IS NOT NULL;

CREATE INDEX schedules_of_flow ON schedules (namespace, target)
    WHERE deleted_at IS NULL AND substr(target, 1, 5) = 'flow:';

CREATE INDEX shadow_switches_of_namespace ON shadow_switches (namespace, at, id);

CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_at IS NULL;

