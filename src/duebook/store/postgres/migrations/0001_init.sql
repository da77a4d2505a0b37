-- The first schema. Ids are uuid7 texts that nobody orders by; JSON is text, so that it comes back
-- as it was written. Runs and ledger have no foreign key to their schedule: each row would lock a
-- row of it, and schedules are forgotten only after all of their history.

-- What all who open these books share, and nobody else knows; made with the database.
CREATE TABLE secrets (
    name text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO secrets (name, value) VALUES (
    'cursors', -- seals the cursors of lists
    replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')
);

CREATE TABLE schedules (
    id text COLLATE "C" PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version integer NOT NULL CHECK (version >= 1),
    labels text NOT NULL DEFAULT '{}' CHECK (labels::json IS NOT NULL),
    target text COLLATE "C" NOT NULL DEFAULT '', -- what it runs: task:NAME, flow:NAME, command, http
    title text NOT NULL DEFAULT '',
    calendar text COLLATE "C", -- the name of the one that its definition uses
    created_at timestamptz NOT NULL,
    created_by text NOT NULL DEFAULT '',
    owner text COLLATE "C" NOT NULL DEFAULT '', -- who declares it: a name, code:NAME, flows:NAME
    deleted_at timestamptz
) WITH (fillfactor = 90);
CREATE UNIQUE INDEX schedules_by_name ON schedules (namespace, name) WHERE deleted_at IS NULL;
CREATE INDEX schedules_deleted ON schedules (namespace, name, deleted_at)
    WHERE deleted_at IS NOT NULL;
CREATE INDEX schedules_by_age ON schedules (namespace, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX schedules_of_flow ON schedules (namespace, target)
    WHERE deleted_at IS NULL AND substr(target, 1, 5) = 'flow:';
CREATE INDEX schedules_of_calendar ON schedules (namespace, calendar)
    WHERE deleted_at IS NULL AND calendar IS NOT NULL;

CREATE INDEX schedules_by_owner ON schedules (namespace, owner)
    WHERE deleted_at IS NULL AND owner <> '';

-- The labels of schedules that are not deleted, so that those with one are found by name.
CREATE TABLE schedule_labels (
    schedule_id text COLLATE "C" NOT NULL REFERENCES schedules (id),
    label text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (schedule_id, label)
);
CREATE UNIQUE INDEX schedule_labels_by_value ON schedule_labels (namespace, label, value, name);

CREATE TABLE schedule_revisions (
    schedule_id text COLLATE "C" NOT NULL REFERENCES schedules (id),
    version integer NOT NULL CHECK (version >= 1),
    spec text NOT NULL CHECK (spec::json IS NOT NULL),
    valid_from timestamptz NOT NULL,
    by text NOT NULL DEFAULT '',
    fires_per_minute double precision, -- in the mean, known where a quota asked for it
    handover_at timestamptz, -- up to where the revision before it counted
    last_due_at timestamptz, -- the last due time up to there, by the triggers
    PRIMARY KEY (schedule_id, version)
);

-- Narrow and hot: everything a tick writes. A deleted schedule has no row here.
CREATE TABLE schedule_state (
    schedule_id text COLLATE "C" PRIMARY KEY REFERENCES schedules (id),
    version integer NOT NULL,
    status text NOT NULL CHECK (status IN ('active', 'paused', 'completed')),
    watermark timestamptz NOT NULL,
    next_due_at timestamptz,
    wake_at timestamptz,
    fired integer NOT NULL DEFAULT 0 CHECK (fired >= 0),
    emitted integer NOT NULL DEFAULT 0 CHECK (emitted >= 0), -- the version of its latest event
    seen text CHECK (seen IS NULL OR seen::json IS NOT NULL),
    considered_at timestamptz,
    delay text CHECK (delay IS NULL OR delay::json IS NOT NULL), -- by manual and backfill work
    paused_at timestamptz,
    paused_until timestamptz,
    pause_reason text,
    problem text,
    CHECK (wake_at IS NULL OR status = 'active' OR paused_until IS NOT NULL),
    CHECK ((status = 'paused') = (paused_at IS NOT NULL)),
    CHECK (paused_until IS NULL OR status = 'paused')
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX schedule_state_by_wake ON schedule_state (wake_at, schedule_id)
    WHERE wake_at IS NOT NULL;
CREATE INDEX schedule_state_paused ON schedule_state (schedule_id) WHERE status = 'paused';
CREATE INDEX schedule_state_problems ON schedule_state (schedule_id) WHERE problem IS NOT NULL;
-- Broken: no node would ever look at them again. The keeper wakes them.
CREATE INDEX schedule_state_asleep ON schedule_state (schedule_id)
    WHERE wake_at IS NULL AND (status = 'active' OR paused_until IS NOT NULL);

-- Up to where the stops and restarts of a schedule are decided, of those that have any.
CREATE TABLE schedule_controls (
    schedule_id text COLLATE "C" PRIMARY KEY REFERENCES schedules (id),
    decided_until timestamptz NOT NULL
);

CREATE TABLE schedule_exceptions (
    schedule_id text COLLATE "C" NOT NULL REFERENCES schedules (id),
    due_at timestamptz NOT NULL,
    kind text NOT NULL CHECK (kind IN ('skip', 'moved_away', 'moved_here', 'done')),
    moved_to timestamptz,
    moved_from timestamptz,
    PRIMARY KEY (schedule_id, due_at, kind),
    CHECK ((kind = 'moved_away') = (moved_to IS NOT NULL)),
    CHECK (moved_from IS NULL OR kind = 'moved_here')
);

-- Missed due times that wait for an operator: all that the definition of that version has from the
-- first to the last, but for excluded days; or one that was moved there.
CREATE TABLE held_catchup (
    schedule_id text COLLATE "C" NOT NULL REFERENCES schedules (id),
    due_from timestamptz NOT NULL,
    due_to timestamptz NOT NULL,
    count bigint NOT NULL CHECK (count >= 1),
    exact boolean NOT NULL,
    version integer NOT NULL,
    held_at timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, due_from),
    CHECK (due_from <= due_to)
);

-- Whom the success of a schedule wakes; by name, for it may be deleted and made again.
CREATE TABLE schedule_deps (
    namespace text COLLATE "C" NOT NULL,
    upstream text COLLATE "C" NOT NULL,
    schedule_id text COLLATE "C" NOT NULL REFERENCES schedules (id),
    PRIMARY KEY (namespace, upstream, schedule_id)
);
CREATE INDEX schedule_deps_of_schedule ON schedule_deps (schedule_id);

-- Every version of every calendar, with the days that it stood for when it was saved.
CREATE TABLE calendars (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version integer NOT NULL CHECK (version >= 1),
    definition text NOT NULL CHECK (definition::json IS NOT NULL),
    days text NOT NULL,
    created_at timestamptz NOT NULL,
    created_by text NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, name, version)
);

-- Maintenance windows: what their labels select is paused from start_at until end_at.
CREATE TABLE maintenance_windows (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    labels text NOT NULL CHECK (labels::json IS NOT NULL),
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    created_by text NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, name),
    CHECK (start_at <= end_at)
);
CREATE INDEX maintenance_windows_by_end ON maintenance_windows (end_at);

-- Shadow mode: from when it is on or off for which schedules. Of those that select one, the latest
-- before a due time counts.
CREATE TABLE shadow_switches (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    shadow boolean NOT NULL,
    schedule text COLLATE "C" NOT NULL DEFAULT '',
    labels text NOT NULL CHECK (labels::json IS NOT NULL),
    created_at timestamptz NOT NULL,
    created_by text NOT NULL DEFAULT ''
);
CREATE INDEX shadow_switches_of_namespace ON shadow_switches (namespace, at, id);

-- Who may read the due times of a namespace as an iCal file. Of a secret only its digest is kept.
CREATE TABLE feeds (
    id text COLLATE "C" PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    labels text NOT NULL CHECK (labels::json IS NOT NULL),
    digest text NOT NULL,
    created_at timestamptz NOT NULL,
    created_by text NOT NULL DEFAULT '',
    UNIQUE (namespace, name)
);

-- Named defaults that a schedule starts from; it copies them.
CREATE TABLE schedule_templates (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    defaults text NOT NULL CHECK (defaults::json IS NOT NULL),
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- Namespaces with a quota; one without has no row. * is the default for all.
CREATE TABLE quotas (
    namespace text COLLATE "C" PRIMARY KEY,
    schedules integer CHECK (schedules >= 0),
    fires_per_minute double precision CHECK (fires_per_minute >= 0),
    payload_bytes integer CHECK (payload_bytes >= 0),
    definition_bytes bigint CHECK (definition_bytes >= 0), -- of all schedules
    max_priority integer -- of its runs
);

-- How long namespaces keep their runs, and up to which due time runs and entries of the ledger may
-- have been deleted. * is every namespace without a keep of its own; one without both has no row.
CREATE TABLE namespace_history (
    namespace text COLLATE "C" PRIMARY KEY,
    keep_seconds bigint CHECK (keep_seconds >= 1),
    forgotten_until timestamptz,
    ledger_until timestamptz -- only of *
);

-- The same of schedules that say it, or once did.
CREATE TABLE schedule_history (
    schedule_id text COLLATE "C" PRIMARY KEY REFERENCES schedules (id),
    keep_seconds bigint CHECK (keep_seconds >= 1),
    keep_last integer CHECK (keep_last >= 1), -- how many of its runs
    forgotten_until timestamptz
);
CREATE INDEX schedule_history_by_keep ON schedule_history (keep_seconds)
    WHERE keep_seconds IS NOT NULL;

-- How much a namespace holds: the sum of its rows. Each transaction adds to one of them, so that
-- those who write at once seldom wait for each other.
CREATE TABLE namespace_use (
    namespace text COLLATE "C" NOT NULL,
    slot integer NOT NULL,
    schedules bigint NOT NULL, -- those that are not deleted
    bytes bigint NOT NULL, -- of their definitions
    PRIMARY KEY (namespace, slot)
);

-- Who may use the books from outside. Of a secret only its digest is kept.
CREATE TABLE tokens (
    id text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    role text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    namespaces text NOT NULL CHECK (namespaces::json IS NOT NULL),
    digest text NOT NULL,
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_at IS NULL;

-- Sessions of browsers that logged out before their time; forgotten after it.
CREATE TABLE ended_logins (
    digest text COLLATE "C" PRIMARY KEY,
    token_id text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX ended_logins_by_time ON ended_logins (expires_at);

-- Requests that may be repeated without harm, and what was answered to the first.
CREATE TABLE idempotency_keys (
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint text NOT NULL, -- of the request
    answer text, -- JSON, always there once the transaction of the request is over
    at timestamptz NOT NULL,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 70);
CREATE INDEX idempotency_keys_by_time ON idempotency_keys (at);

-- Who changed what; its entries have their namespace, or none for what all share.
CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    by text NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    action text NOT NULL,
    kind text NOT NULL,
    subject text COLLATE "C" NOT NULL,
    subject_id text COLLATE "C" NOT NULL,
    before text CHECK (before IS NULL OR before::json IS NOT NULL),
    after text CHECK (after IS NULL OR after::json IS NOT NULL)
);
CREATE INDEX audit_by_time ON audit (at, id);
CREATE INDEX audit_of_namespace ON audit (namespace, at, id);
CREATE INDEX audit_of_subject ON audit (namespace, subject, at, id);

-- Nobody changes an entry, nor empties the table: not even its owner, by mistake.
CREATE FUNCTION keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'entries of the audit cannot be changed' USING ERRCODE = '42501';
END $$;
CREATE TRIGGER audit_stays BEFORE UPDATE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION keep_audit();

-- Retention for nodes that may not delete from the audit: what is older than 90 days, and no more.
-- The owner of the table says himself what is old.
CREATE FUNCTION forget_audit(horizon timestamptz, most integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = duebook, pg_temp AS $$
    WITH old AS (
        SELECT a.id FROM audit AS a
        WHERE a.at < CASE
            WHEN pg_has_role(session_user, current_user, 'MEMBER') THEN horizon
            ELSE least(horizon, now() - interval '90 days') END
        ORDER BY a.at LIMIT most
    ), gone AS (DELETE FROM audit AS a USING old WHERE a.id = old.id RETURNING 1)
    SELECT count(*)::integer FROM gone
$$;
REVOKE EXECUTE ON FUNCTION forget_audit(timestamptz, integer) FROM PUBLIC;

CREATE TABLE node_sessions (
    id text COLLATE "C" PRIMARY KEY,
    node text NOT NULL,
    pid integer NOT NULL,
    roles text NOT NULL,
    version text NOT NULL,
    tzdata text NOT NULL,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL, -- its last sign of life
    ended_at timestamptz,
    tasks text NOT NULL DEFAULT '[]' CHECK (tasks::json IS NOT NULL), -- those that it knows
    queues text NOT NULL DEFAULT '[]' CHECK (queues::json IS NOT NULL), -- those that it serves
    namespaces text NOT NULL DEFAULT '["*"]'
        CHECK (namespaces::json IS NOT NULL), -- those whose runs it may claim, * for all
    labels text NOT NULL DEFAULT '{}' CHECK (labels::json IS NOT NULL), -- those that it has
    clock_ahead double precision NOT NULL DEFAULT 0, -- seconds, of its machine when it was last seen
    machine text NOT NULL DEFAULT '', -- in which its pid means something, or empty
    process_started bigint NOT NULL DEFAULT 0, -- ticks of that machine
    draining_at timestamptz, -- since then it starts no more runs
    stops_when_idle boolean NOT NULL DEFAULT false,
    secrets text NOT NULL DEFAULT '{}' CHECK (secrets::json IS NOT NULL), -- the names of those that it offers
    unserved text NOT NULL DEFAULT '{}'
        CHECK (unserved::json IS NOT NULL) -- the sinks and channels that it cannot serve, and why
) WITH (fillfactor = 70);
CREATE INDEX node_sessions_alive ON node_sessions (expires_at) WHERE ended_at IS NULL;

-- The database's clock stepped back: db check needs this to compare times on either side.
CREATE TABLE clock_steps (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    before timestamptz NOT NULL, -- what the clock would have shown when it was noticed
    earliest timestamptz NOT NULL, -- the earliest it can have shown right after the step
    noticed timestamptz NOT NULL, -- what it showed when it was noticed
    place bigint NOT NULL, -- the newest run at that time
    active text CHECK (active::json IS NOT NULL) -- the runs that had not ended, null for too many
);

-- Who leads, in leader mode: one row, whose term grows with every change of hands.
CREATE TABLE leases (
    name text COLLATE "C" PRIMARY KEY,
    term integer NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL
);
INSERT INTO leases (name, term, session_id, expires_at) VALUES ('scheduler', 0, '', '1970-01-01Z');

-- Queues with limits, and when runs began under their rate; a queue without any has no row.
CREATE TABLE queues (
    name text COLLATE "C" PRIMARY KEY,
    concurrency integer CHECK (concurrency >= 0),
    rate_count integer CHECK (rate_count >= 1),
    rate_seconds integer CHECK (rate_seconds >= 1),
    begun text NOT NULL DEFAULT '[]', -- instants and numbers of runs, JSON
    CHECK ((rate_count IS NULL) = (rate_seconds IS NULL))
);

-- A run is in one of two tables of the same columns: here until it has ended, then in ended_runs.
-- The rows that change are few, and the many that stay never change.
CREATE SEQUENCE run_places;
CREATE TABLE active_runs (
    id text COLLATE "C" PRIMARY KEY,
    place bigint NOT NULL DEFAULT nextval('run_places'), -- the order of creation
    namespace text COLLATE "C" NOT NULL,
    schedule_id text COLLATE "C",
    version integer,
    due_at timestamptz,
    origin text NOT NULL
        CHECK (origin IN ('schedule', 'catchup', 'backfill', 'manual', 'enqueue', 'flow')),
    trigger text NOT NULL,
    parent_run_id text COLLATE "C", -- no reference: a step would lock the row of its flow's run
    step text COLLATE "C", -- of a flow, none any more once a retry of the flow began it again
    flow text COLLATE "C", -- the flow that it is a run of, or of which it is a step
    needs text CHECK (needs IS NULL OR needs::json IS NOT NULL), -- the labels that its worker must have
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    task text COLLATE "C",
    exclusive boolean NOT NULL,
    lane smallint NOT NULL DEFAULT 0 CHECK (lane IN (0, 1, 2, 3)), -- the lower ones of a schedule go first
    max_concurrent integer CHECK (max_concurrent >= 1),
    wakes boolean NOT NULL,
    max_takeovers integer NOT NULL,
    payload text CHECK (payload IS NULL OR payload::json IS NOT NULL),
    status text NOT NULL,
    attempt integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    failures integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    losses integer NOT NULL DEFAULT 0 CHECK (losses >= 0),
    early_losses integer NOT NULL DEFAULT 0 CHECK (early_losses >= 0), -- of nodes that had not begun it
    session_id text COLLATE "C", -- no reference: sessions are forgotten after their runs
    created_at timestamptz NOT NULL,
    ready_at timestamptz NOT NULL,
    claimed_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    expires_at timestamptz,
    cancel_requested_at timestamptz,
    reason text,
    error text,
    exit_code integer,
    output text,
    output_ref text,
    output_size integer, -- bytes of an output in run_outputs
    output_secrets text, -- JSON: what is hidden in the output where people see it
    progress double precision, -- of the attempt under way, as far as it tells
    progress_text text,
    beat_at timestamptz,
    key text COLLATE "C", -- of what was enqueued at most once
    options text CHECK (options IS NULL OR options::json IS NOT NULL), -- the policies of a run without a schedule
    interval_start timestamptz, -- the due time before its own, by the triggers
    interval_end timestamptz, -- its own by the triggers, where that is not due_at
    requested_by text, -- who asked for it, where that is not a due time
    planned_by text, -- the node that planned its due time
    backfill_limit integer CHECK (backfill_limit >= 1), -- how many like it may run at once
    CHECK (status IN ('queued', 'running')),
    CHECK (finished_at IS NULL),
    CHECK (status <> 'running' OR (session_id IS NOT NULL AND claimed_at IS NOT NULL)),
    CHECK (status <> 'queued' OR session_id IS NULL),
    CHECK ((schedule_id IS NULL) = (version IS NULL)),
    CHECK ((due_at IS NOT NULL) = (origin IN ('schedule', 'catchup', 'backfill')))
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX runs_queued ON active_runs (queue, namespace, (-priority), ready_at, place)
    WHERE status = 'queued';
CREATE INDEX runs_delayed ON active_runs (ready_at) WHERE status = 'queued' AND ready_at > created_at;
CREATE INDEX runs_active ON active_runs (schedule_id, status, lane, created_at);
CREATE INDEX runs_running ON active_runs (session_id) WHERE status = 'running';
CREATE INDEX runs_expiring ON active_runs (expires_at)
    WHERE status = 'queued' AND attempt = 0 AND expires_at IS NOT NULL;
CREATE INDEX runs_of_flow_active ON active_runs (namespace, flow, status, created_at)
    WHERE queue = '@flow';
CREATE INDEX active_runs_by_place ON active_runs (namespace, place);
CREATE INDEX active_runs_of_task ON active_runs (namespace, task, place) WHERE origin = 'enqueue';
CREATE UNIQUE INDEX active_runs_of_parent ON active_runs (parent_run_id, step)
    WHERE parent_run_id IS NOT NULL;

CREATE TABLE ended_runs (
    LIKE active_runs INCLUDING DEFAULTS,
    PRIMARY KEY (id),
    CHECK (status IN ('succeeded', 'partial', 'failed', 'cancelled')),
    CHECK (status <> 'partial' OR queue = '@flow'),
    CHECK (finished_at IS NOT NULL),
    CHECK ((due_at IS NOT NULL) = (origin IN ('schedule', 'catchup', 'backfill')))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX runs_due ON ended_runs (schedule_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_by_place ON ended_runs (namespace, place);
CREATE UNIQUE INDEX runs_of_parent ON ended_runs (parent_run_id, step)
    WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_of_flow ON ended_runs (namespace, flow, place)
    WHERE flow IS NOT NULL AND parent_run_id IS NULL;
CREATE INDEX runs_finished ON ended_runs (finished_at);
CREATE INDEX runs_ended ON ended_runs (schedule_id, finished_at) WHERE schedule_id IS NOT NULL;
-- For lists, and what was done by hand. Neither costs a due time anything that succeeds.
CREATE INDEX runs_undue ON ended_runs (schedule_id, created_at, place)
    WHERE due_at IS NULL AND schedule_id IS NOT NULL;
CREATE INDEX runs_of_task ON ended_runs (namespace, task, place) WHERE origin = 'enqueue';
CREATE INDEX runs_failed ON ended_runs (namespace, status, place)
    WHERE status IN ('partial', 'failed', 'cancelled');

-- The runs, wherever they are; it is read, never written.
CREATE VIEW runs AS SELECT * FROM active_runs UNION ALL SELECT * FROM ended_runs;

-- A due time has one run, whatever became of it: the key is taken before the run is created.
CREATE TABLE due_keys (
    schedule_id text COLLATE "C" NOT NULL,
    due_at timestamptz NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (schedule_id, due_at)
);

-- The run that has a key, or had it last; until when, is decided when somebody asks for the key.
CREATE TABLE run_keys (
    namespace text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    until text NOT NULL DEFAULT 'forever' CHECK (until IN ('pending', 'active', 'forever', 'time')),
    free_at timestamptz,
    PRIMARY KEY (namespace, task, key),
    CHECK ((until = 'time') = (free_at IS NOT NULL))
);

CREATE TABLE run_attempts (
    run_id text COLLATE "C" NOT NULL,
    attempt integer NOT NULL CHECK (attempt >= 1),
    session_id text COLLATE "C" NOT NULL,
    claimed_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    outcome text NOT NULL
        CHECK (outcome IN
            ('succeeded', 'partial', 'failed', 'cancelled', 'lost', 'handed_back')),
    error text,
    exit_code integer,
    went_on_until timestamptz, -- its task did, after the attempt had ended here
    PRIMARY KEY (run_id, attempt)
);

-- Outputs that are too large for the row of their run.
CREATE TABLE run_outputs (
    run_id text COLLATE "C" PRIMARY KEY,
    output text NOT NULL
);

-- A run as people see it, with the names of its schedule and node.
CREATE VIEW run_details AS
SELECT r.id, r.namespace, r.schedule_id, s.name AS schedule, r.version, r.due_at, r.origin,
    r.trigger, r.queue, r.priority, r.status, r.attempt, r.failures, r.losses, r.payload,
    r.created_at, r.ready_at, r.claimed_at, r.started_at, r.finished_at, r.expires_at, n.node,
    r.cancel_requested_at, r.reason, r.error, r.exit_code, r.task, r.output, r.output_ref,
    r.progress, r.progress_text, r.beat_at, r.parent_run_id, r.step, r.flow,
    r.output_size, r.output_secrets, r.requested_by, r.planned_by, r.interval_start, r.interval_end,
    r.place
FROM runs AS r
LEFT JOIN schedules AS s ON s.id = r.schedule_id
LEFT JOIN node_sessions AS n ON n.id = r.session_id;

-- Flows by the newest good revision of each.
CREATE TABLE flows (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL, -- the directory's name and the path in it
    digest text COLLATE "C" NOT NULL, -- of the whole file
    updated_at timestamptz NOT NULL,
    control_at timestamptz, -- when to go on with a restart
    restarting boolean NOT NULL DEFAULT false,
    PRIMARY KEY (namespace, name)
);
CREATE INDEX flows_by_control ON flows (control_at) WHERE control_at IS NOT NULL;

-- Who attends a directory of flows, for a while; the term grows whenever nobody did in between.
CREATE TABLE flow_directories (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    term integer NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    scanned_term integer NOT NULL DEFAULT 0, -- its files were read since that term began
    scanned_at timestamptz, -- when they were read last
    returned text NOT NULL DEFAULT '[]' CHECK (returned::json IS NOT NULL), -- flows with an earlier revision
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 70);

-- The files of flows as they once were; a run keeps the one that it began with.
CREATE TABLE flow_revisions (
    namespace text COLLATE "C" NOT NULL,
    flow text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    source text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (namespace, flow, digest)
);

-- What is wrong with the files of directories.
CREATE TABLE flow_problems (
    namespace text COLLATE "C" NOT NULL,
    root text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL, -- of the file as it is
    source text NOT NULL, -- its text, as far as people may see it
    problems text NOT NULL CHECK (problems::json IS NOT NULL),
    at timestamptz NOT NULL,
    PRIMARY KEY (namespace, root, place)
);

-- Stops and restarts that were decided and that an advancer has yet to carry out.
CREATE TABLE flow_commands (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    flow text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('stop', 'restart')),
    due_at timestamptz NOT NULL
);

-- Runs of flows: no worker claims them, an advancer looks at them when it is time.
CREATE TABLE flow_runs (
    run_id text COLLATE "C" PRIMARY KEY,
    digest text COLLATE "C", -- none: there was no such flow
    params text NOT NULL CHECK (params::json IS NOT NULL),
    depth integer NOT NULL DEFAULT 0 CHECK (depth >= 0), -- how many flows called it
    wake_at timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX flow_runs_by_wake ON flow_runs (wake_at, run_id) WHERE wake_at IS NOT NULL;

-- Steps that ended put the run of their flow here, and nobody has to lock that for it.
CREATE TABLE flow_wakes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX flow_wakes_by_run ON flow_wakes (run_id);

CREATE TABLE run_logs (
    run_id text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    seq integer NOT NULL,
    at timestamptz NOT NULL,
    stream text NOT NULL CHECK (stream IN ('stdout', 'stderr', 'duebook')),
    text text NOT NULL,
    PRIMARY KEY (run_id, attempt, seq)
);

CREATE TABLE ledger (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    due_from timestamptz NOT NULL,
    due_to timestamptz NOT NULL,
    count bigint NOT NULL CHECK (count >= 1),
    exact boolean NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('skipped', 'done')),
    kind text NOT NULL DEFAULT 'start' CHECK (kind IN ('start', 'stop', 'restart')),
    reason text NOT NULL,
    facts text NOT NULL CHECK (facts::json IS NOT NULL),
    session_id text COLLATE "C",
    at timestamptz NOT NULL,
    CHECK (due_from <= due_to)
) WITH (fillfactor = 90);
CREATE INDEX ledger_of_schedule ON ledger (schedule_id, due_to, id);
CREATE INDEX ledger_by_time ON ledger (at);

-- The log of events. Positions are stamped later, in the order in which rows become visible.
CREATE TABLE events (
    id text COLLATE "C" PRIMARY KEY,
    place bigint GENERATED ALWAYS AS IDENTITY, -- the order of writing
    namespace text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    type text NOT NULL,
    key text COLLATE "C" NOT NULL,
    slot integer NOT NULL CHECK (slot >= 0), -- of the key: partitions share them
    aggregate text COLLATE "C",
    version integer CHECK (version >= 1),
    data text NOT NULL CHECK (data::json IS NOT NULL),
    meta text NOT NULL CHECK (meta::json IS NOT NULL),
    at timestamptz NOT NULL,
    position bigint CHECK (position >= 1),
    CHECK ((aggregate IS NULL) = (version IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX events_by_position ON events (position) WHERE position IS NOT NULL;
CREATE INDEX events_waiting ON events (place) WHERE position IS NULL;
CREATE UNIQUE INDEX events_of_aggregate ON events (aggregate, version)
    WHERE aggregate IS NOT NULL;
CREATE INDEX events_by_time ON events (at);

-- Who reads the log: groups of programs, and sinks.
CREATE TABLE consumers (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (
        kind IN ('group', 'kafka', 'ping', 'webhook', 'alert_rules', 'alert_channel')),
    topics text NOT NULL CHECK (topics::json IS NOT NULL), -- null: all but those about life cycles
    types text NOT NULL DEFAULT 'null' CHECK (types::json IS NOT NULL), -- null: all
    labels text NOT NULL DEFAULT '{}' CHECK (labels::json IS NOT NULL), -- of an event's schedule
    partitions integer NOT NULL CHECK (partitions >= 1),
    attempts integer NOT NULL CHECK (attempts >= 1),
    options text NOT NULL CHECK (options::json IS NOT NULL),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE TABLE members (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    member text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, name, member),
    FOREIGN KEY (namespace, name) REFERENCES consumers ON DELETE CASCADE
);

-- How far a consumer has come in a partition of the keys, and whose it is; the term grows with
-- every change of hands.
CREATE TABLE cursors (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    part integer NOT NULL,
    position bigint NOT NULL,
    owner text COLLATE "C",
    term integer NOT NULL DEFAULT 0,
    retry_at timestamptz, -- when a receiver that took nothing is tried again
    error text,
    replay_until bigint NOT NULL DEFAULT 0, -- up to there it gets what it had before
    look_at timestamptz, -- null: alert rules that follow from time are looked at now, else then
    PRIMARY KEY (namespace, name, part),
    FOREIGN KEY (namespace, name) REFERENCES consumers ON DELETE CASCADE
) WITH (fillfactor = 70);

-- Keys that are behind their cursor: one of their events was not delivered, later ones wait for it.
CREATE TABLE held_keys (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    part integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    position bigint NOT NULL, -- of the first event that was not delivered
    failures integer NOT NULL, -- how often that event was refused
    tries integer NOT NULL, -- how often it was not delivered, for whatever reason
    retry_at timestamptz NOT NULL,
    error text,
    PRIMARY KEY (namespace, name, key),
    FOREIGN KEY (namespace, name, part) REFERENCES cursors ON DELETE CASCADE
);

-- Events that a consumer could not be given, as they were.
CREATE TABLE dead_letters (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    slot integer NOT NULL,
    event text NOT NULL CHECK (event::json IS NOT NULL),
    error text NOT NULL,
    attempts integer NOT NULL,
    at timestamptz NOT NULL,
    again boolean NOT NULL DEFAULT false, -- whether it is to be delivered once more
    PRIMARY KEY (namespace, name, event_id),
    FOREIGN KEY (namespace, name) REFERENCES consumers ON DELETE CASCADE
);
CREATE INDEX dead_letters_again ON dead_letters (namespace, name, at, event_id) WHERE again;
CREATE INDEX dead_letters_by_time ON dead_letters (namespace, at, event_id, name);

-- Whom to tell of which problems. Its channels are consumers, by their names.
CREATE TABLE alert_rules (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    spec text NOT NULL CHECK (spec::json IS NOT NULL),
    schedule text COLLATE "C", -- the name of the only one that it concerns
    schedule_id text COLLATE "C", -- the schedule that it is deleted with
    silenced_until timestamptz,
    sent text NOT NULL DEFAULT '[]' CHECK (sent::json IS NOT NULL), -- when it told of problems lately
    created_at timestamptz NOT NULL,
    created_by text NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, name)
);
CREATE INDEX alert_rules_of_schedule ON alert_rules (schedule_id) WHERE schedule_id IS NOT NULL;

-- Problems, from when they were found until they are over.
CREATE TABLE alerts (
    id text COLLATE "C" PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    rule text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    subject text COLLATE "C" NOT NULL,
    title text NOT NULL,
    text text NOT NULL,
    schedule text COLLATE "C",
    run_id text COLLATE "C",
    due_at timestamptz,
    opened_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    count integer NOT NULL CHECK (count >= 1),
    state text NOT NULL CHECK (state IN ('silenced', 'waiting', 'sent')),
    message text COLLATE "C", -- the first of those that one message told of
    told_at timestamptz,
    resolved_at timestamptz,
    event_id text COLLATE "C", -- the last message about it
    CHECK ((state = 'sent') = (message IS NOT NULL))
);
CREATE UNIQUE INDEX alerts_open ON alerts (namespace, rule, kind, subject)
    WHERE resolved_at IS NULL;
CREATE INDEX alerts_waiting ON alerts (namespace) WHERE state = 'waiting';
CREATE INDEX alerts_of_message ON alerts (message) WHERE message IS NOT NULL;
CREATE INDEX alerts_by_time ON alerts (namespace, opened_at, id);

-- How often something failed in a row, while a rule counts that.
CREATE TABLE alert_streaks (
    namespace text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    failures integer NOT NULL CHECK (failures >= 1),
    PRIMARY KEY (namespace, subject)
);

-- Which books were copied here: proof for a copy that broke off just then.
CREATE TABLE arrivals (
    id text COLLATE "C" PRIMARY KEY,
    place text NOT NULL,
    at timestamptz NOT NULL
);
