-- The statements that need a different form for SQLite; the others are in ../sql/queries.sql.

-- part: run_columns
-- The columns of a planned run.
id, schedule_id, version, due_at, origin, lane, wakes, payload, created_at, ready_at,
    expires_at, namespace, trigger, queue, priority, task, exclusive, max_concurrent,
    max_takeovers, interval_start, interval_end, requested_by, planned_by, backfill_limit

-- part: run_values
-- The same, as they are bound.
:id, :schedule_id, :version, :due_at, :origin, :lane, :wakes, :payload, :created_at, :ready_at,
    :expires_at, :namespace, :trigger, :queue, :priority, :task, :exclusive, :max_concurrent,
    :max_takeovers, :interval_start, :interval_end, :requested_by, :planned_by, :backfill_limit

-- name: read_high_water
-- The latest time recorded in this file.
SELECT value FROM meta WHERE key = 'high_water_at'

-- name: write_high_water
-- Record the time, so that it never runs backwards in this file.
INSERT INTO meta (key, value) VALUES ('high_water_at', :now)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: mark_problem
-- Have a schedule that this node cannot plan looked at again later.
UPDATE schedule_state SET problem = :problem, wake_at = :wake_at WHERE schedule_id = :id

-- name: insert_clock_step
-- Record that the database's clock stepped back, unless another node has done so.
INSERT INTO clock_steps (before, earliest, noticed, place, active)
SELECT :before, :earliest, :noticed, coalesce((SELECT max(rowid) FROM runs), 0), :active
WHERE NOT EXISTS (
    SELECT 1 FROM clock_steps AS c
    WHERE c.earliest <= :noticed AND c.noticed >= :earliest)

-- name: list_definitions
-- The definitions of the given ids, each with the version at the same place.
SELECT wanted.value, latest.value, s.namespace, s.name, r.spec, s.created_by, r.handover_at,
    r.last_due_at
FROM json_each(:ids) AS wanted
JOIN json_each(:versions) AS latest ON latest.key = wanted.key
JOIN schedules AS s ON s.id = wanted.value
LEFT JOIN schedule_revisions AS r ON r.schedule_id = wanted.value AND r.version = latest.value

-- name: list_active
-- For each of the given schedules a running run, else the first that waits, at constant cost.
SELECT r.schedule_id, r.id, r.due_at, coalesce(r.started_at, r.created_at), r.origin, r.status,
    r.lane
FROM json_each(:ids) AS wanted
JOIN runs AS r ON r.rowid = coalesce((
    SELECT busy.rowid FROM runs AS busy INDEXED BY runs_busy
    WHERE busy.schedule_id = wanted.value AND busy.status = 'running' AND busy.lane < 3
    ORDER BY busy.lane, busy.created_at LIMIT 1), (
    SELECT oldest.rowid FROM runs AS oldest INDEXED BY runs_active
    WHERE oldest.schedule_id = wanted.value AND oldest.status IN ('queued', 'running')
        AND oldest.lane < 3
    ORDER BY oldest.lane, oldest.created_at LIMIT 1))

-- name: list_all_active
-- All active runs of the given schedules except unstarted backfills, for policies that cancel them.
SELECT r.schedule_id, r.id, r.due_at, coalesce(r.started_at, r.created_at), r.origin, r.status,
    r.lane
FROM json_each(:ids) AS wanted
JOIN runs AS r INDEXED BY runs_active
    ON r.schedule_id = wanted.value AND r.lane < 2 AND r.status IN ('queued', 'running')
ORDER BY r.created_at

-- name: list_by_hand
-- Among each schedule's newest successful runs without a due time, the one that started last.
SELECT r.schedule_id, r.id, r.due_at, r.started_at, r.origin, r.status, r.lane
FROM json_each(:ids) AS wanted
JOIN runs AS r ON r.rowid = (
    SELECT place FROM (
        SELECT rowid AS place, started_at FROM runs INDEXED BY runs_undue
        WHERE schedule_id = wanted.value AND due_at IS NULL
            AND status IN ('succeeded', 'partial') AND origin IN ('manual', 'enqueue')
        ORDER BY created_at DESC, rowid DESC LIMIT 100)
    ORDER BY started_at DESC LIMIT 1)

-- name: list_upstreams
-- The schedules that the given ones depend on, and when each last succeeded.
SELECT d.schedule_id, d.upstream, s.id IS NOT NULL, (
    SELECT finished_at FROM runs
    WHERE schedule_id = s.id AND (status = 'succeeded' OR status = 'partial')
    ORDER BY finished_at DESC LIMIT 1)
FROM json_each(:ids) AS wanted
JOIN schedule_deps AS d ON d.schedule_id = wanted.value
LEFT JOIN schedules AS s
    ON s.namespace = d.namespace AND s.name = d.upstream AND s.deleted_at IS NULL

-- name: move_state
-- The new state of a schedule that stays active; only for the version that was planned.
UPDATE schedule_state
SET watermark = :watermark, next_due_at = :next_due_at, wake_at = :wake_at, problem = NULL,
    fired = :fired, seen = :seen, considered_at = :considered_at, delay = :delay
WHERE schedule_id = :schedule_id AND version = :version AND status = 'active'

-- name: commit_state
-- A schedule's state after its plan; only for the version that was planned.
UPDATE schedule_state
SET status = :status, watermark = :watermark, next_due_at = :next_due_at, wake_at = :wake_at,
    fired = :fired, seen = :seen, considered_at = :considered_at, delay = :delay,
    paused_at = :paused_at, paused_until = :paused_until, pause_reason = :pause_reason,
    problem = NULL
WHERE schedule_id = :schedule_id AND version = :version

-- name: list_ceilings
-- The highest allowed priority of each namespace that has one.
SELECT namespace, max_priority FROM quotas WHERE max_priority IS NOT NULL

-- name: insert_run
-- A due time that fires becomes a run, once.
INSERT INTO runs ({run_columns}, status)
VALUES ({run_values}, 'queued')
ON CONFLICT (schedule_id, due_at) DO NOTHING

-- name: count_events
-- Count new events of schedules; returns the version of the last of each.
UPDATE schedule_state SET emitted = emitted + added.value
FROM json_each(:ids) AS wanted JOIN json_each(:counts) AS added ON added.key = wanted.key
WHERE schedule_id = wanted.value
RETURNING schedule_id, emitted

-- name: take_cursor
-- A partition without an owner.
UPDATE cursors SET owner = :member, term = term + 1
WHERE namespace = :namespace AND name = :name AND part = :part AND owner IS :former
RETURNING part

-- name: list_missing_runs
-- Which of the given new runs were not inserted, because their due time already had one.
SELECT value FROM json_each(:ids) WHERE value NOT IN (SELECT id FROM runs)

-- name: lock_use
-- Nothing to lock: there are no other writers.
SELECT 1

-- name: rate_revision
-- How often a definition is due.
UPDATE schedule_revisions SET fires_per_minute = :rate
WHERE schedule_id = :schedule_id AND version = :version

-- name: extend_ledger
-- Extend the latest entry if the next due time was skipped for the same reason.
UPDATE ledger
SET due_to = :due_to, count = count + :count, exact = exact AND :exact, at = :now,
    session_id = :session_id
WHERE id = (
        SELECT id FROM ledger WHERE schedule_id = :schedule_id AND kind = :kind
        ORDER BY due_to DESC, id DESC LIMIT 1)
    AND due_to = :follows AND version = :version AND reason = :reason AND facts = :facts

-- name: delete_exception
-- Remove an exception whose due time is decided.
DELETE FROM schedule_exceptions
WHERE schedule_id = :schedule_id AND due_at = :due_at AND kind = :kind

-- name: take_lead
-- Take the vacant leadership.
UPDATE leases SET term = term + 1, session_id = :id, expires_at = :expires_at
WHERE name = 'scheduler' AND expires_at <= :now
RETURNING term

-- name: get_any_queued
-- Whether anything waits in the given queues, of the given namespaces or of any.
SELECT 1 FROM json_each(:queues) AS wanted
WHERE (:namespaces IS NULL AND EXISTS (
        SELECT 1 FROM runs WHERE status = 'queued' AND queue = wanted.value))
    OR EXISTS (
        SELECT 1 FROM json_each(:namespaces) AS served
        WHERE EXISTS (
            SELECT 1 FROM runs
            WHERE status = 'queued' AND queue = wanted.value AND namespace = served.value))
LIMIT 1

-- name: get_session_alive
-- A live node with the namespaces that it serves, and whether the queue has limits.
SELECT node, namespaces, EXISTS (SELECT 1 FROM queues WHERE name = :queue)
FROM node_sessions WHERE id = :id AND ended_at IS NULL AND expires_at > :now AND draining_at IS NULL

-- name: list_claimable
-- Ready work by priority, within its limits; limit and active runs of its schedule; whether to buffer it.
SELECT rowid, schedule_id, CASE WHEN exclusive = 1 THEN 1 ELSE max_concurrent END,
    CASE WHEN exclusive = 1 OR max_concurrent IS NULL THEN 0 ELSE (
        SELECT count(*) FROM runs AS other INDEXED BY runs_busy
        WHERE other.schedule_id = r.schedule_id AND other.status = 'running') END,
    backfill_limit, CASE WHEN backfill_limit IS NULL THEN 0 ELSE (
        SELECT count(*) FROM runs AS other INDEXED BY runs_busy
        WHERE other.schedule_id = r.schedule_id AND other.status = 'running' AND other.lane = 3) END,
    exclusive = 0 AND max_concurrent IS NULL AND backfill_limit IS NULL AND max_takeovers > 0
        AND early_losses = 0
FROM runs AS r
WHERE status = 'queued' AND queue = :queue AND namespace = :namespace AND ready_at <= :now
    AND (expires_at IS NULL OR expires_at > :now OR attempt > 0)
    AND (task IN (SELECT value FROM json_each(:tasks))
        OR task IS NULL AND '@known-only' NOT IN (SELECT value FROM json_each(:tasks)))
    AND (needs IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(needs) AS need WHERE NOT EXISTS (
            SELECT 1 FROM json_each(:labels) AS has
            WHERE has.key = need.key AND has.value = need.value)))
    AND (exclusive = 0 OR NOT EXISTS (
        SELECT 1 FROM runs AS other INDEXED BY runs_active
        WHERE other.schedule_id = r.schedule_id AND other.status IN ('queued', 'running')
            AND other.lane < 3 AND (other.status = 'running' OR other.lane < r.lane
                OR (other.lane = r.lane AND other.attempt > 0 AND r.attempt = 0)
                OR (other.lane = r.lane AND other.exclusive = 1 AND other.queue = r.queue
                    AND other.ready_at <= :now AND (other.attempt > 0 OR r.attempt = 0)
                    AND (other.priority > r.priority
                        OR (other.priority = r.priority
                            AND (other.ready_at, other.rowid) < (r.ready_at, r.rowid)))))))
    AND (lane < 2 OR exclusive = 1 OR NOT EXISTS (
        SELECT 1 FROM runs AS other INDEXED BY runs_active
        WHERE other.schedule_id = r.schedule_id AND other.status IN ('queued', 'running')
            AND other.lane < 2 AND other.status = 'queued' AND other.queue = r.queue
            AND other.ready_at <= :now))
    AND (lane < 2 OR exclusive = 0 OR NOT EXISTS (
        SELECT 1 FROM schedule_state AS st
        WHERE st.schedule_id = r.schedule_id AND st.status = 'active'
            AND (st.seen IS NOT NULL OR (st.next_due_at <= :now AND st.wake_at <= :now)
                OR EXISTS (SELECT 1 FROM schedule_exceptions AS e
                    WHERE e.schedule_id = st.schedule_id AND e.kind = 'moved_here'
                        AND e.due_at <= :now))))
    AND (exclusive = 1 OR max_concurrent IS NULL OR max_concurrent > (
        SELECT count(*) FROM runs AS other INDEXED BY runs_busy
        WHERE other.schedule_id = r.schedule_id AND other.status = 'running'))
    AND (backfill_limit IS NULL OR backfill_limit > (
        SELECT count(*) FROM runs AS other INDEXED BY runs_busy
        WHERE other.schedule_id = r.schedule_id AND other.status = 'running' AND other.lane = 3))
ORDER BY -priority, ready_at, rowid
LIMIT :limit

-- name: claim_runs
-- Give the runs to this session until they settle; in any order.
UPDATE runs
SET status = 'running', attempt = attempt + 1, lane = CASE WHEN lane = 2 THEN 1 ELSE lane END, session_id = :session_id,
    claimed_at = :now, started_at = :begun_at, progress = NULL, progress_text = NULL, beat_at = NULL
WHERE rowid IN (SELECT value FROM json_each(:places)) AND status || '' = 'queued'
RETURNING rowid, id, namespace, schedule_id, version, due_at, origin, trigger, queue, priority,
    attempt, failures, losses, payload, created_at, ready_at, expires_at,
    task, parent_run_id, step, flow, started_at, interval_start, interval_end, requested_by, planned_by

-- name: settle_run
-- End a run; only its current token can. Whatever waits for its end notices every commit anyway.
UPDATE runs
SET status = :status, finished_at = :now, reason = :reason, error = :error,
    exit_code = :exit_code, output = :output, output_ref = :output_ref,
    started_at = coalesce(:begun_at, started_at),
    failures = failures + CASE WHEN :status = 'failed' THEN 1 ELSE 0 END
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status = 'running'
RETURNING wakes, schedule_id, parent_run_id, 0

-- name: list_own_runs
-- Which of these runs are active, and under which token; what waits for their end.
SELECT r.rowid, r.id, r.attempt, r.session_id, r.wakes, r.schedule_id, r.parent_run_id
FROM json_each(:ids) AS wanted CROSS JOIN runs AS r ON r.id = wanted.value
WHERE r.status || '' = 'running'

-- name: settle_alike
-- End active runs in the same way; each place in `begun` has when it started, if it was buffered.
UPDATE runs
SET status = :status, finished_at = :now, reason = :reason, error = :error,
    exit_code = :exit_code, output = :output, output_ref = :output_ref,
    started_at = coalesce(own.value, started_at),
    failures = failures + CASE WHEN :status = 'failed' THEN 1 ELSE 0 END
FROM json_each(:begun) AS own
WHERE runs.rowid = CAST(own.key AS INTEGER)

-- name: settle_each
-- End an active run in its own way.
UPDATE runs
SET status = :status, finished_at = :now, reason = :reason, error = :error,
    exit_code = :exit_code, output = :output, output_ref = :output_ref,
    started_at = coalesce(:begun_at, started_at),
    failures = failures + CASE WHEN :status = 'failed' THEN 1 ELSE 0 END
WHERE rowid = :place

-- name: expire_runs
-- Cancel work that was not started in time.
UPDATE runs SET status = 'cancelled', finished_at = :now, reason = 'expired',
    error = CASE WHEN queue = '@human' THEN 'it was not approved or rejected in time' ELSE error END
WHERE status = 'queued' AND attempt = 0 AND id IN (SELECT value FROM json_each(:ids))
RETURNING id, wakes, schedule_id, parent_run_id

-- name: note_progress
-- The progress that an active attempt reports.
UPDATE runs
SET progress = coalesce(:progress, progress), progress_text = coalesce(:text, progress_text),
    beat_at = :now
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status = 'running'

-- name: mark_begun
-- Record that a buffered run has started.
UPDATE runs SET started_at = :begun_at
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status = 'running'
    AND started_at IS NULL

-- name: take_orphans
-- What to do with each of the given runs, if it is still running.
SELECT id, started_at IS NOT NULL, CASE WHEN started_at IS NULL THEN early_losses ELSE losses END,
    max_takeovers,
    CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE reason END, wakes, schedule_id, parent_run_id
FROM runs WHERE status = 'running' AND id IN (SELECT value FROM json_each(:ids))

-- name: list_options
-- The policies of runs without a schedule.
SELECT r.id, r.options FROM json_each(:ids) AS wanted JOIN runs AS r ON r.id = wanted.value

-- name: delete_runs
-- Retention: runs with logs, attempts and steps; of schedules with their own retention only for that reason.
DELETE FROM runs WHERE id IN (SELECT value FROM json_each(:ids)) AND finished_at IS NOT NULL
    AND (:kept OR (SELECT h.keep_seconds FROM schedule_history AS h
            WHERE h.schedule_id = runs.schedule_id) IS NULL)

-- name: insert_ended_run
-- Due times that only write an event become runs that have ended, once.
INSERT INTO runs ({run_columns}, status, reason, error, session_id, failures, claimed_at,
    started_at, finished_at, attempt)
VALUES ({run_values}, :status, :reason, :error, :session_id, :failures, :claimed_at,
    :started_at, :finished_at, 1)
ON CONFLICT (schedule_id, due_at) WHERE due_at IS NOT NULL DO NOTHING

-- name: enqueue_run
-- A run without a schedule, unless another has its key.
INSERT INTO runs (id, namespace, origin, trigger, queue, priority, task, exclusive, wakes,
    max_takeovers, payload, status, created_at, ready_at, expires_at, key, options, requested_by)
SELECT :id, :namespace, 'enqueue', 'enqueue', :queue, CASE
        WHEN :priority > (SELECT max_priority FROM quotas WHERE namespace = :namespace)
        THEN (SELECT max_priority FROM quotas WHERE namespace = :namespace)
        ELSE :priority END, :task, false, false,
    :max_takeovers, :payload, 'queued', :now, :ready_at, :expires_at, :key, :options, :requested_by
WHERE :key IS NULL OR EXISTS (
    SELECT 1 FROM run_keys
    WHERE namespace = :namespace AND task = :task AND key = :key AND run_id = :id)
RETURNING id

-- name: delete_skipped_steps
-- Steps that were skipped, and may run now.
DELETE FROM runs WHERE parent_run_id = :id AND step IN (SELECT value FROM json_each(:steps)) AND attempt = 0

-- name: delete_old_changes
-- Retention: a small batch of changes made long ago.
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < :before ORDER BY at LIMIT :limit)

-- name: list_schedules_by_id
-- The given schedules with their definitions and states.
SELECT s.id, s.namespace, s.name, s.version, r.spec, st.status, s.created_at,
    s.created_by, st.watermark, st.next_due_at, st.paused_at, st.paused_until, st.pause_reason,
    st.problem, r.valid_from, s.owner
FROM json_each(:ids) AS wanted
CROSS JOIN schedules AS s ON s.id = wanted.value
CROSS JOIN schedule_state AS st ON st.schedule_id = s.id
LEFT JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version

-- name: list_latest_runs
-- The newest run of each of the given schedules that has one, and when its last one was created.
SELECT r.schedule_id, r.id, r.status, coalesce(r.started_at, r.created_at), r.reason,
    max(r.created_at,
        coalesce((SELECT created_at FROM runs INDEXED BY runs_undue
            WHERE schedule_id = wanted.value AND due_at IS NULL
            ORDER BY created_at DESC, rowid DESC LIMIT 1), 0),
        coalesce((SELECT created_at FROM runs INDEXED BY runs_active
            WHERE schedule_id = wanted.value AND status IN ('queued', 'running')
            ORDER BY created_at DESC LIMIT 1), 0),
        coalesce((SELECT max(created_at) FROM (SELECT created_at FROM runs INDEXED BY runs_ended
            WHERE schedule_id = wanted.value AND finished_at IS NOT NULL
            ORDER BY finished_at DESC LIMIT 5)), 0))
FROM json_each(:ids) AS wanted
JOIN runs AS r ON r.rowid = (
    SELECT place FROM (
        SELECT place, at FROM (
            SELECT rowid AS place, due_at AS at FROM runs
            WHERE schedule_id = wanted.value AND due_at IS NOT NULL
            ORDER BY due_at DESC LIMIT 1)
        UNION ALL
        SELECT place, at FROM (
            SELECT rowid AS place, created_at AS at FROM runs INDEXED BY runs_undue
            WHERE schedule_id = wanted.value AND due_at IS NULL
            ORDER BY created_at DESC, rowid DESC LIMIT 1))
    ORDER BY at DESC, place DESC LIMIT 1)

-- name: list_runs_by_place
-- The runs of all namespaces, the newest first, as far as filters ask for them.
SELECT id, namespace, status, origin, queue, created_at, rowid FROM runs
WHERE rowid >= :first AND rowid < :before
ORDER BY rowid DESC
LIMIT :limit

-- name: list_runs_by_id
-- Several runs.
SELECT d.* FROM json_each(:ids) AS wanted JOIN run_details AS d ON d.id = wanted.value

-- name: list_running_runs
-- The runs of a namespace that run, the newest first, as far as filters ask for them.
SELECT id, namespace, status, origin, queue, created_at, rowid FROM runs INDEXED BY runs_running
WHERE namespace = :namespace AND status = 'running' AND rowid >= :first AND rowid < :before
ORDER BY rowid DESC
LIMIT :limit

-- name: list_queued_runs
-- The runs that wait, the newest first; if more than `few` do, all runs, among which they are found soon.
WITH backlog (is_long) AS MATERIALIZED (
    SELECT EXISTS (
        SELECT 1 FROM runs INDEXED BY runs_queued
        WHERE status = 'queued' LIMIT 1 OFFSET :few))
SELECT id, namespace, status, origin, queue, created_at, place FROM (
    SELECT id, namespace, status, origin, queue, created_at, rowid AS place
    FROM runs INDEXED BY runs_queued
    WHERE namespace = :namespace AND status = 'queued' AND rowid >= :first AND rowid < :before
    ORDER BY rowid DESC LIMIT (SELECT iif(is_long, 0, :limit) FROM backlog))
UNION ALL
SELECT id, namespace, status, origin, queue, created_at, place FROM (
    SELECT id, namespace, status, origin, queue, created_at, rowid AS place FROM runs
    WHERE rowid >= :first AND rowid < :before
    ORDER BY rowid DESC LIMIT (SELECT iif(is_long, :limit, 0) FROM backlog))

-- name: list_failed_runs
-- The runs of a namespace that ended in a status, the newest first, as far as filters ask for them.
SELECT id, namespace, status, origin, queue, created_at, rowid FROM runs INDEXED BY runs_failed
WHERE namespace = :namespace AND status = :status AND (status = 'partial' OR status = 'failed' OR status = 'cancelled')
    AND rowid >= :first AND rowid < :before
ORDER BY rowid DESC
LIMIT :limit

-- name: list_runs_of
-- The runs of a schedule by due or creation time, as far as filters ask for them.
SELECT id, namespace, status, origin, queue, at, place FROM (
    SELECT id, namespace, status, origin, queue, due_at AS at, rowid AS place FROM runs
    WHERE schedule_id = :schedule_id AND due_at IS NOT NULL AND due_at >= :since
        AND due_at <= :before AND (due_at, rowid) < (:before, :place)
    ORDER BY due_at DESC LIMIT :limit)
UNION ALL
SELECT id, namespace, status, origin, queue, at, place FROM (
    SELECT id, namespace, status, origin, queue, created_at AS at, rowid AS place
    FROM runs INDEXED BY runs_undue
    WHERE schedule_id = :schedule_id AND due_at IS NULL AND created_at >= :since
        AND created_at <= :before AND (created_at, rowid) < (:before, :place)
    ORDER BY created_at DESC, rowid DESC LIMIT :limit)
ORDER BY at DESC, place DESC
LIMIT :limit

-- name: get_place
-- The first run from a place on, and when it was created.
SELECT rowid, created_at FROM runs WHERE rowid >= :place ORDER BY rowid LIMIT 1

-- name: get_last_place
-- The place of the newest run.
SELECT max(rowid) FROM runs

-- name: list_taken
-- Which of the given names existing schedules have.
SELECT s.name, s.id FROM json_each(:names) AS wanted
CROSS JOIN schedules AS s
WHERE s.namespace = :namespace AND s.name = wanted.value AND s.deleted_at IS NULL

-- name: update_schedule
-- Point a schedule to its new definition.
UPDATE schedules SET version = :version, labels = :labels, target = :target, title = :title,
    calendar = :calendar
WHERE id = :id

-- name: update_state_version
-- Point the state to the new definition.
UPDATE schedule_state SET version = :version WHERE schedule_id = :id

-- name: limit_queued_runs
-- Apply the limits of the current definition to waiting runs; worded for the index runs_active.
UPDATE runs SET exclusive = :exclusive, max_concurrent = :max_concurrent
WHERE schedule_id = :id AND status IN ('queued', 'running') AND status = 'queued'
    AND lane < 3

-- name: take_states
-- The states of the given schedules, for operations of people on them.
SELECT st.schedule_id, st.version, st.status, st.watermark, st.seen, st.considered_at, st.fired,
    st.paused_until, st.delay
FROM json_each(:ids) AS wanted CROSS JOIN schedule_state AS st ON st.schedule_id = wanted.value

-- name: cancel_queued_runs
-- Cancel the queued runs of deleted schedules; worded for the index runs_active.
UPDATE runs SET status = 'cancelled', finished_at = :now, reason = :reason, cancel_requested_at = :now
WHERE schedule_id IN (SELECT value FROM json_each(:ids)) AND status IN ('queued', 'running')
    AND status = 'queued'
RETURNING id

-- name: get_drain
-- Until when nothing starts, because the database is about to be copied elsewhere.
SELECT until FROM moves WHERE state = 'draining' AND until > :now

-- name: get_move
-- The copy of this database that is in progress or completed.
SELECT id, state, place, at FROM moves WHERE state <> 'reopened'

-- name: forget_drain
-- Drop a copy that waited for runs to end, and is gone.
DELETE FROM moves WHERE state = 'draining' AND until <= :now

-- name: begin_drain
-- Keep runs from starting.
INSERT INTO moves (id, state, place, at, until) VALUES (:id, 'draining', :place, :now, :until)

-- name: prolong_drain
-- Record that the copy is still waiting.
UPDATE moves SET until = :until WHERE id = :id AND state = 'draining'

-- name: list_under_way
-- The runs of live nodes, the oldest first.
SELECT r.id, s.name, r.started_at
FROM runs AS r
JOIN node_sessions AS n ON n.id = r.session_id
LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.status = 'running' AND n.ended_at IS NULL AND n.expires_at > :now
ORDER BY r.started_at

-- name: close_books
-- Close the database for reading and writing.
UPDATE moves SET state = 'copying', at = :now, until = NULL WHERE id = :id

-- name: finish_move
-- Record that the database was moved elsewhere.
UPDATE moves SET state = 'moved' WHERE id = :id AND state = 'copying'

-- name: abandon_move
-- Remove all traces of a copy.
DELETE FROM moves WHERE id = :id AND state <> 'moved'

-- name: reopen_books
-- Use this database again.
UPDATE moves SET state = 'reopened', at = :now, until = NULL WHERE id = :id

-- name: list_objects
-- Every user-created object in the file, with its type.
SELECT name, type FROM sqlite_schema
WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'
ORDER BY type = 'table' DESC, type, name

-- name: list_tables
-- The tables and views of the file, and which of them are virtual or belong to a virtual one.
SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main'

-- name: get_table_sql
-- The SQL that created a table.
SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = :name

-- name: list_columns
-- The columns of each table of the file.
SELECT t.name, c.name FROM pragma_table_list AS t JOIN pragma_table_info(t.name) AS c
WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite_%'

-- name: list_due_runs
-- The runs of the given schedules' due times, for each after the instant at the same place.
SELECT r.schedule_id, r.due_at, r.id, r.origin
FROM json_each(:ids) AS wanted
CROSS JOIN json_each(:sinces) AS since ON since.key = wanted.key
CROSS JOIN runs AS r ON r.schedule_id = wanted.value AND r.due_at > since.value AND r.due_at <= :until

-- name: list_due_entries
-- The entries about the given schedules' due times, for each after the instant at the same place.
SELECT l.schedule_id, l.due_from, l.due_to, l.count, l.exact, l.reason, l.version, l.kind
FROM json_each(:ids) AS wanted
CROSS JOIN json_each(:sinces) AS since ON since.key = wanted.key
CROSS JOIN ledger AS l ON l.schedule_id = wanted.value AND l.due_to > since.value
WHERE l.due_from <= :until
ORDER BY l.due_from

-- name: end_expired_sessions
-- Declare nodes with an expired lease dead.
UPDATE node_sessions SET ended_at = :now
WHERE ended_at IS NULL AND expires_at <= :now AND expires_at - seen_at <= :longest
RETURNING id

-- name: end_gone_sessions
-- Declare nodes dead whose process has ended.
UPDATE node_sessions SET ended_at = :now
WHERE ended_at IS NULL AND id IN (SELECT value FROM json_each(:ids))
RETURNING id

-- name: list_marks
-- The newest runs of each of the given schedules, as far as charts show them.
SELECT r.schedule_id, r.id, r.status, r.origin, r.attempt, r.version,
    coalesce(r.due_at, r.created_at), r.due_at, r.started_at, r.finished_at
FROM json_each(:ids) AS wanted
CROSS JOIN runs AS r ON r.rowid IN (
    SELECT place FROM (
        SELECT rowid AS place FROM runs
        WHERE schedule_id = wanted.value AND due_at IS NOT NULL
        ORDER BY due_at DESC LIMIT :each)
    UNION ALL
    SELECT place FROM (
        SELECT rowid AS place FROM runs INDEXED BY runs_undue
        WHERE schedule_id = wanted.value AND due_at IS NULL
        ORDER BY created_at DESC, rowid DESC LIMIT :each))

-- name: get_oldest_end
-- When the first of the stored runs ended.
SELECT min(finished_at) FROM runs INDEXED BY runs_finished WHERE finished_at IS NOT NULL

-- name: get_creation
-- When the database was created.
SELECT min(applied_at) FROM migrations

-- name: list_last_lines
-- The last lines of the logs of each of the given runs.
SELECT l.run_id, l.attempt, l.seq, l.at, l.stream, l.text
FROM json_each(:ids) AS wanted
CROSS JOIN run_logs AS l ON l.rowid IN (
    SELECT rowid FROM run_logs WHERE run_id = wanted.value
    ORDER BY attempt DESC, seq DESC LIMIT :each)

-- name: list_last_successes
-- When the latest success of each of the given schedules ended.
SELECT wanted.value, max(r.finished_at)
FROM json_each(:ids) AS wanted
JOIN runs AS r INDEXED BY runs_succeeded ON r.schedule_id = wanted.value AND r.status = 'succeeded'
GROUP BY wanted.value

-- name: list_late
-- Late runs among the newest, by `lateness`, without retries, backfills and waits for manual runs.
SELECT id FROM (
    SELECT id, namespace, schedule_id, origin, attempt, created_at, ready_at, due_at, started_at,
        rowid AS place
    FROM runs
    WHERE rowid < :before
    ORDER BY rowid DESC LIMIT :looked) AS newest
WHERE namespace = :namespace AND started_at >= :since
    AND (started_at - due_at) / 1000000.0 > :seconds
    AND attempt = 1 AND ready_at <= created_at AND origin IN ('schedule', 'catchup')
    AND NOT EXISTS (
        SELECT 1 FROM runs AS other INDEXED BY runs_ended
        WHERE other.schedule_id = newest.schedule_id AND other.schedule_id IS NOT NULL
            AND other.finished_at IS NOT NULL AND other.finished_at > newest.due_at
            AND other.finished_at <= newest.started_at
            AND (other.attempt > 1 OR other.origin IN ('manual', 'backfill')))
ORDER BY place DESC
LIMIT :limit

-- name: list_late_hours
-- In which hours late runs ended, the newest first, how late they began, and what tells whether they count, as in `list_late`.
SELECT hour, schedule_id, version, seconds, NOT EXISTS (
    SELECT 1 FROM runs AS other INDEXED BY runs_ended
    WHERE other.schedule_id = late.schedule_id AND other.schedule_id IS NOT NULL
        AND other.finished_at IS NOT NULL AND other.finished_at > late.due_at
        AND other.finished_at <= late.started_at
        AND (other.attempt > 1 OR other.origin IN ('manual', 'backfill')))
FROM (
    SELECT finished_at / 3600000000 AS hour, schedule_id, version, due_at, started_at,
        (started_at - due_at) / 1000000.0 AS seconds
    FROM runs INDEXED BY runs_finished
    WHERE finished_at >= :since AND finished_at < :until AND namespace = :namespace
        AND (started_at - due_at) / 1000000.0 > :seconds
        AND attempt = 1 AND ready_at <= created_at AND origin IN ('schedule', 'catchup')
    ORDER BY finished_at DESC LIMIT :looked) AS late

-- name: count_failed
-- How many runs of a namespace failed from a place on, without steps; counted up to a limit.
SELECT count(*) FROM (
    SELECT 1 FROM runs
    WHERE namespace = :namespace AND status = 'failed' AND rowid >= :first
        AND parent_run_id IS NULL
    LIMIT :most)

-- name: count_hours
-- The runs of a namespace by the hour in which they ended.
SELECT finished_at / 3600000000, count(*), sum(status = 'failed'),
    sum(finished_at - started_at) / 1000000.0
FROM runs INDEXED BY runs_finished
WHERE finished_at >= :since AND finished_at < :until AND namespace = :namespace
GROUP BY 1

-- name: list_durations
-- The average duration of the newest runs of all namespaces, by schedule.
SELECT schedule_id, avg(finished_at - started_at) / 1000000.0 FROM (
    SELECT schedule_id, namespace, status, started_at, finished_at FROM runs
    WHERE rowid < :before
    ORDER BY rowid DESC LIMIT :looked)
WHERE namespace = :namespace AND status IN ('succeeded', 'partial') AND schedule_id IS NOT NULL
GROUP BY schedule_id

-- name: insert_flow_run
-- Give runs of existing flows the newest revision, and make them due for a look now.
INSERT INTO flow_runs (run_id, digest, params, wake_at)
SELECT r.id, (SELECT f.digest FROM flows AS f WHERE f.namespace = r.namespace AND f.name = :flow),
    :params, :wake_at
FROM runs AS r WHERE r.id = :id

-- name: name_flow
-- Record the flow of runs.
UPDATE runs SET flow = :flow WHERE id = :id

-- name: count_flows_under_way
-- How many runs of each of these flows are active, whatever started them.
SELECT n.value, f.value, (
    SELECT count(*) FROM runs AS r
    WHERE r.queue = '@flow' AND r.status IN ('queued', 'running') AND r.status = 'running'
        AND r.namespace = n.value AND r.flow = f.value)
FROM json_each(:namespaces) AS n JOIN json_each(:flows) AS f ON f.key = n.key

-- name: begin_flow_run
-- Start runs of flows; they have no owner.
UPDATE runs SET status = 'running', attempt = attempt + 1,
    lane = CASE WHEN lane = 2 THEN 1 ELSE lane END, session_id = '', claimed_at = :now, started_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'queued'

-- name: insert_step_run
-- Steps that start.
INSERT INTO runs (id, namespace, origin, trigger, parent_run_id, step, flow, queue, priority, task,
    needs, options, exclusive, wakes, max_takeovers, status, created_at, ready_at, requested_by)
VALUES (:id, :namespace, 'flow', :trigger, :parent_run_id, :step, :flow, :queue, min(:priority, coalesce(
        (SELECT max_priority FROM quotas WHERE namespace = :namespace), :priority)), :task,
    :needs, :options, 0, 1, 3, 'queued', :now, :now, :requested_by)
ON CONFLICT (parent_run_id, step) WHERE parent_run_id IS NOT NULL DO NOTHING

-- name: end_flow_run
-- End a run of a flow, and return what that wakes.
UPDATE runs
SET status = :status, finished_at = :now, error = :error, output = :output,
    reason = CASE WHEN :status = 'cancelled' AND cancel_requested_at IS NOT NULL
        THEN reason ELSE :reason END,
    failures = failures + CASE WHEN :status = 'failed' THEN 1 ELSE 0 END
WHERE id = :id AND session_id = '' AND status = 'running'
RETURNING id, wakes, schedule_id, parent_run_id, :status IN ('succeeded', 'partial'),
    exclusive OR max_concurrent IS NOT NULL OR backfill_limit IS NOT NULL

-- name: rest_flow
-- When runs of flows are due for the next look, if nothing happens before.
UPDATE flow_runs SET wake_at = :wake_at WHERE run_id = :run_id

-- name: list_flow_revisions
-- Earlier texts of flows: each with the digest at the same place.
SELECT r.flow, r.place, r.digest, r.source
FROM json_each(:flows) AS f
CROSS JOIN json_each(:digests) AS d ON d.key = f.key
CROSS JOIN flow_revisions AS r
    ON r.namespace = :namespace AND r.flow = f.value AND r.digest = d.value

-- name: list_flow_roots
-- The directories of the given flows.
SELECT f.namespace, f.name, substr(f.place, 1, instr(f.place, '/') - 1)
FROM json_each(:namespaces) AS v
CROSS JOIN json_each(:flows) AS w ON w.key = v.key
CROSS JOIN flows AS f ON f.namespace = v.value AND f.name = w.value

-- name: list_directories
-- Directories of flows: the node in charge of each, when it was last read, whether its flows are known.
SELECT d.namespace, d.name, n.node, d.scanned_at,
    d.scanned_term = d.term AND d.expires_at > :now
        AND (n.id IS NULL OR (n.ended_at IS NULL AND n.expires_at > :now)),
    d.returned
FROM json_each(:namespaces) AS v
CROSS JOIN json_each(:names) AS w ON w.key = v.key
CROSS JOIN flow_directories AS d ON d.namespace = v.value AND d.name = w.value
LEFT JOIN node_sessions AS n ON n.id = d.session_id

-- name: outline_calendars
-- The latest version of each calendar of a namespace, by name, without the texts of iCal files.
SELECT c.namespace, c.name, c.version,
    json_replace(c.definition, '$.ical', '', '$.without.ical', ''),
    c.days, c.created_at, c.created_by
FROM calendars AS c
WHERE c.namespace = :namespace AND c.version = (
    SELECT max(o.version) FROM calendars AS o WHERE o.namespace = c.namespace AND o.name = c.name)
ORDER BY c.name
