-- The statements that only SQLite reads; the others are in ../sql/queries.sql.

-- name: read_high_water
-- The latest time that anybody has seen in this file.
SELECT value FROM meta WHERE key = 'high_water_at'

-- name: write_high_water
-- Time never runs backwards in this file.
INSERT INTO meta (key, value) VALUES ('high_water_at', :now)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: take_due
-- The schedules that want to be looked at, the most overdue first.
SELECT schedule_id, version, status, watermark, seen, considered_at, fired, paused_until, delay, wake_at
FROM schedule_state
WHERE wake_at <= :now AND (wake_at, schedule_id) > (:after, :after_id)
ORDER BY wake_at, schedule_id
LIMIT :limit

-- name: mark_problem
-- A schedule that this node cannot plan is looked at again later.
UPDATE schedule_state SET problem = :problem, wake_at = :wake_at WHERE schedule_id = :id

-- name: wake_asleep
-- Wake schedules that no node would ever look at again.
UPDATE schedule_state SET wake_at = coalesce(paused_until, :now)
WHERE schedule_id IN (
    SELECT schedule_id FROM schedule_state
    WHERE wake_at IS NULL AND (status = 'active' OR paused_until IS NOT NULL)
    ORDER BY schedule_id
    LIMIT :limit)
RETURNING schedule_id

-- name: insert_clock_step
-- The database's clock stepped back; when another node has noticed that already, nothing.
INSERT INTO clock_steps (before, earliest, noticed, place, active)
SELECT :before, :earliest, :noticed, coalesce((SELECT max(rowid) FROM runs), 0), :active
WHERE NOT EXISTS (
    SELECT 1 FROM clock_steps AS c
    WHERE c.earliest <= :noticed AND c.noticed >= :earliest)

-- name: rebase_sessions
-- Nodes that were seen before the clock stepped back count as seen now; so do their leases.
UPDATE node_sessions
SET expires_at = CASE WHEN ended_at IS NULL
        THEN :now + (expires_at - seen_at) ELSE expires_at END,
    seen_at = :now
WHERE seen_at > :now

-- name: rebase_runs
-- Runs from before the clock stepped back wait no longer than they would have.
UPDATE runs SET ready_at = ready_at - (:before - :now),
    expires_at = expires_at - (:before - :now)
WHERE id IN (
    SELECT id FROM runs
    WHERE status IN ('queued', 'running') AND ready_at > :now
        AND (created_at > :now OR claimed_at > :now)
    ORDER BY id)

-- name: rebase_leases
-- Leadership that was taken before the clock stepped back ends within a lease.
UPDATE leases SET expires_at = :until WHERE expires_at > :until

-- name: rebase_members
-- Members of groups that joined before the clock stepped back leave within a lease.
UPDATE members SET expires_at = :until WHERE expires_at > :until

-- name: list_repeated_spans
-- Attempts that exclude each other and touch the stretches that the clock showed twice.
SELECT r.schedule_id, CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id, r.rowid, r.created_at, r.started_at,
    r.finished_at
FROM runs AS r JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.exclusive AND r.started_at IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM run_attempts AS a WHERE a.run_id = r.id AND a.attempt = r.attempt)
    AND (r.finished_at >= :since OR r.status = 'running')
    AND ((r.started_at <= :before AND (r.finished_at IS NULL OR r.finished_at >= :earliest))
        OR r.finished_at BETWEEN :earliest AND :before)
UNION ALL
SELECT r.schedule_id, CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id, r.rowid, r.created_at, a.started_at,
    a.finished_at
FROM run_attempts AS a
JOIN runs AS r ON r.id = a.run_id JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.exclusive AND a.started_at IS NOT NULL AND a.finished_at >= :since
    AND ((a.started_at <= :before AND a.finished_at >= :earliest)
        OR a.finished_at BETWEEN :earliest AND :before)
LIMIT :limit

-- name: check_planned_early
-- Nothing is planned before it is due.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END,
    r.due_at, r.id, r.created_at, r.rowid, r.created_at
FROM runs AS r JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.created_at < r.due_at AND r.origin <> 'backfill' AND r.id IN (
    SELECT id FROM runs WHERE finished_at >= :since
    UNION ALL SELECT id FROM runs WHERE status IN ('queued', 'running'))
LIMIT :limit

-- name: check_early
-- Nothing starts before it is due.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END,
    r.due_at, r.id, r.started_at, r.rowid, r.created_at
FROM runs AS r JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.started_at < r.due_at AND r.id IN (
    SELECT id FROM runs WHERE finished_at >= :since
    UNION ALL SELECT id FROM runs WHERE status IN ('queued', 'running'))
LIMIT :limit

-- name: list_definitions
-- The definitions of the given ids, each with the version at the same place.
SELECT wanted.value, latest.value, s.namespace, s.name, r.spec, s.created_by
FROM json_each(:ids) AS wanted
JOIN json_each(:versions) AS latest ON latest.key = wanted.key
JOIN schedules AS s ON s.id = wanted.value
LEFT JOIN schedule_revisions AS r ON r.schedule_id = wanted.value AND r.version = latest.value

-- name: list_active
-- Of each of the given schedules a running run, else the first that waits, however many there are.
SELECT r.schedule_id, r.id, r.due_at, coalesce(r.started_at, r.created_at), r.origin, r.status,
    r.lane
FROM json_each(:ids) AS wanted
JOIN runs AS r ON r.rowid = coalesce((
    SELECT busy.rowid FROM runs AS busy INDEXED BY runs_busy
    WHERE busy.schedule_id = wanted.value AND busy.status = 'running'
    ORDER BY busy.lane, busy.created_at LIMIT 1), (
    SELECT oldest.rowid FROM runs AS oldest INDEXED BY runs_active
    WHERE oldest.schedule_id = wanted.value AND oldest.status IN ('queued', 'running')
    ORDER BY oldest.lane, oldest.created_at LIMIT 1))

-- name: list_all_active
-- All active runs of the given schedules but backfills to come, for policies that cancel them.
SELECT r.schedule_id, r.id, r.due_at, coalesce(r.started_at, r.created_at), r.origin, r.status,
    r.lane
FROM json_each(:ids) AS wanted
JOIN runs AS r INDEXED BY runs_active
    ON r.schedule_id = wanted.value AND r.lane < 2 AND r.status IN ('queued', 'running')
ORDER BY r.created_at

-- name: list_by_hand
-- Of each schedule's newest runs without a due time that succeeded, the one that began last.
SELECT r.schedule_id, r.id, r.due_at, r.started_at, r.origin, r.status, r.lane
FROM json_each(:ids) AS wanted
JOIN runs AS r ON r.rowid = (
    SELECT place FROM (
        SELECT rowid AS place, started_at FROM runs INDEXED BY runs_undue
        WHERE schedule_id = wanted.value AND due_at IS NULL
            AND status = 'succeeded' AND origin IN ('manual', 'enqueue')
        ORDER BY created_at DESC, rowid DESC LIMIT 100)
    ORDER BY started_at DESC LIMIT 1)

-- name: list_settled
-- When the latest run of each of the given schedules ended.
SELECT wanted.value, (
    SELECT max(finished_at) FROM runs
    WHERE schedule_id = wanted.value AND finished_at IS NOT NULL)
FROM json_each(:ids) AS wanted

-- name: list_upstreams
-- The schedules that the given ones depend on, and when each succeeded last.
SELECT d.schedule_id, d.upstream, s.id IS NOT NULL, (
    SELECT finished_at FROM runs
    WHERE schedule_id = s.id AND status = 'succeeded'
    ORDER BY finished_at DESC LIMIT 1)
FROM json_each(:ids) AS wanted
JOIN schedule_deps AS d ON d.schedule_id = wanted.value
LEFT JOIN schedules AS s
    ON s.namespace = d.namespace AND s.name = d.upstream AND s.deleted_at IS NULL

-- name: list_exceptions
-- What people said about single due times of the given schedules.
SELECT schedule_id, due_at, kind, moved_to
FROM schedule_exceptions
WHERE schedule_id IN (SELECT value FROM json_each(:ids))

-- name: list_versions
-- Which definition of each of the given schedules is in force.
SELECT schedule_id, version FROM schedule_state
WHERE schedule_id IN (SELECT value FROM json_each(:ids))

-- name: move_state
-- An active schedule that stays active moves on; only the version that was planned.
UPDATE schedule_state
SET watermark = :watermark, next_due_at = :next_due_at, wake_at = :wake_at, problem = NULL,
    fired = :fired, seen = :seen, considered_at = :considered_at, delay = :delay
WHERE schedule_id = :schedule_id AND version = :version AND status = 'active'

-- name: commit_state
-- A schedule's state after its plan; only the version that was planned.
UPDATE schedule_state
SET status = :status, watermark = :watermark, next_due_at = :next_due_at, wake_at = :wake_at,
    fired = :fired, seen = :seen, considered_at = :considered_at, delay = :delay,
    paused_at = :paused_at, paused_until = :paused_until, pause_reason = :pause_reason,
    problem = NULL
WHERE schedule_id = :schedule_id AND version = :version

-- name: list_ceilings
-- The highest priority that each namespace may have, of those that have one.
SELECT namespace, max_priority FROM quotas WHERE max_priority IS NOT NULL

-- name: insert_run
-- A due time that fires becomes a run, once.
INSERT INTO runs (id, schedule_id, version, due_at, origin, lane, wakes, payload, created_at, ready_at,
    expires_at, namespace, trigger, queue, priority, task, exclusive, max_concurrent,
    max_takeovers, status)
VALUES (:id, :schedule_id, :version, :due_at, :origin, :lane, :wakes, :payload, :created_at, :ready_at,
    :expires_at, :namespace, :trigger, :queue, :priority, :task, :exclusive, :max_concurrent,
    :max_takeovers, 'queued')
ON CONFLICT (schedule_id, due_at) DO NOTHING

-- name: insert_ended_run
-- A due time that only writes an event becomes a run that has ended, once.
INSERT INTO runs (id, schedule_id, version, due_at, origin, lane, wakes, payload, created_at, ready_at,
    expires_at, namespace, trigger, queue, priority, task, exclusive, max_concurrent,
    max_takeovers, status, reason, error, session_id, failures, claimed_at, started_at,
    finished_at, attempt)
VALUES (:id, :schedule_id, :version, :due_at, :origin, :lane, :wakes, :payload, :created_at, :ready_at,
    :expires_at, :namespace, :trigger, :queue, :priority, :task, :exclusive, :max_concurrent,
    :max_takeovers, :status, :reason, :error, :session_id, :failures, :claimed_at, :started_at,
    :finished_at, 1)
ON CONFLICT (schedule_id, due_at) DO NOTHING

-- name: count_events
-- Schedules that write so many events each; returns the version of the last of each.
UPDATE schedule_state SET emitted = emitted + added.value
FROM json_each(:ids) AS wanted JOIN json_each(:counts) AS added ON added.key = wanted.key
WHERE schedule_id = wanted.value
RETURNING schedule_id, emitted

-- name: insert_event
-- What happened.
INSERT INTO events (id, namespace, topic, type, key, slot, aggregate, version, data, meta, at)
VALUES (:id, :namespace, :topic, :type, :key, :slot, :aggregate, :version, :data, :meta, :at)

-- name: list_event_versions
-- The latest version of each of the given aggregates that has events.
SELECT aggregate, max(version) FROM events
WHERE aggregate IN (SELECT value FROM json_each(:aggregates))
GROUP BY aggregate

-- name: list_events
-- A stretch of the log, up to so many bytes: events of some topics and partitions.
SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version, bytes
FROM (
    SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version,
        length(CAST(data AS BLOB)) AS size, sum(length(CAST(data AS BLOB))) OVER (ORDER BY position) AS bytes
    FROM (
        SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version
        FROM events
        WHERE position > :after AND position <= :until AND namespace = :namespace
            AND slot % :partitions IN (SELECT value FROM json_each(:parts))
            AND ((:every AND substr(topic, 1, 8) <> 'duebook.')
                OR topic IN (SELECT value FROM json_each(:topics)))
            AND (:type IS NULL OR type = :type)
            AND (:any_key OR key IN (SELECT value FROM json_each(:keys)))
        ORDER BY position
        LIMIT :limit) AS page) AS sized
WHERE bytes - size < :most
ORDER BY position

-- name: list_events_back
-- As list_events, the newest first, of all partitions.
SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version, bytes
FROM (
    SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version,
        length(CAST(data AS BLOB)) AS size, sum(length(CAST(data AS BLOB))) OVER (ORDER BY position DESC) AS bytes
    FROM (
        SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version
        FROM events
        WHERE position > :after AND position <= :until AND namespace = :namespace
            AND ((:every AND substr(topic, 1, 8) <> 'duebook.')
                OR topic IN (SELECT value FROM json_each(:topics)))
            AND (:type IS NULL OR type = :type) AND (:key IS NULL OR key = :key)
        ORDER BY position DESC
        LIMIT :limit) AS page) AS sized
WHERE bytes - size < :most
ORDER BY position DESC

-- name: insert_cursor
-- Where a consumer begins.
INSERT INTO cursors (namespace, name, part, position)
VALUES (:namespace, :name, :part, :position)

-- name: lock_consumer
-- The partitions of a consumer are shared out by one at a time.
SELECT name FROM consumers WHERE namespace = :namespace AND name = :name

-- name: take_cursor
-- A partition that nobody owns any more.
UPDATE cursors SET owner = :member, term = term + 1
WHERE namespace = :namespace AND name = :name AND part = :part AND owner IS :former
RETURNING part

-- name: hold_cursors
-- What a member owns, kept from others until the transaction ends.
SELECT part, term, position FROM cursors
WHERE namespace = :namespace AND name = :name AND owner = :member AND part IN (SELECT value FROM json_each(:parts))
ORDER BY part

-- name: hold_key
-- A key waits by itself, before an event that was not delivered; it never goes back.
INSERT INTO held_keys (namespace, name, part, key, position, failures, tries, retry_at, error)
VALUES (:namespace, :name, :part, :key, :position, :failures, :tries, :retry_at, :error)
ON CONFLICT (namespace, name, key) DO UPDATE
SET position = excluded.position, failures = excluded.failures, tries = excluded.tries,
    retry_at = excluded.retry_at, error = excluded.error
WHERE held_keys.position <= excluded.position

-- name: free_keys
-- Keys that have caught up with their cursor.
DELETE FROM held_keys
WHERE namespace = :namespace AND name = :name AND key IN (SELECT value FROM json_each(:keys))

-- name: take_letters
-- Dead letters that shall be delivered once more, the oldest first, up to so many bytes.
SELECT event
FROM (
    SELECT event, at, event_id, length(CAST(event AS BLOB)) AS size,
        sum(length(CAST(event AS BLOB))) OVER (ORDER BY at, event_id) AS bytes
    FROM (
        SELECT event, at, event_id FROM dead_letters
        WHERE namespace = :namespace AND name = :name AND again
            AND slot % :partitions IN (SELECT value FROM json_each(:parts))
        ORDER BY at, event_id
        LIMIT :limit) AS page) AS sized
WHERE bytes - size < :most
ORDER BY at, event_id

-- name: keep_letter
-- A dead letter could not be delivered this time either.
UPDATE dead_letters SET again = 0, error = :error, at = :now, attempts = attempts + 1
WHERE namespace = :namespace AND name = :name AND event_id = :event_id

-- name: replay_letters
-- Somebody wants a dead letter to be delivered, or all of a consumer.
UPDATE dead_letters SET again = 1
WHERE namespace = :namespace AND name = :name AND (:event_id IS NULL OR event_id = :event_id)

-- name: drop_letters
-- Somebody gives a dead letter up, or all of a consumer.
DELETE FROM dead_letters
WHERE namespace = :namespace AND name = :name AND (:event_id IS NULL OR event_id = :event_id)

-- name: list_letters
-- The dead letters of a consumer, or of all, the newest first, up to so many bytes.
SELECT name, event, error, attempts, at, again, bytes
FROM (
    SELECT name, event_id, event, error, attempts, at, again, length(CAST(event AS BLOB)) AS size,
        sum(length(CAST(event AS BLOB))) OVER (ORDER BY at DESC, event_id DESC, name DESC) AS bytes
    FROM (
        SELECT name, event_id, event, error, attempts, at, again FROM dead_letters
        WHERE namespace = :namespace AND (:name IS NULL OR name = :name)
            AND (at, event_id, name) < (:before_at, :before_id, :before_name)
        ORDER BY at DESC, event_id DESC, name DESC
        LIMIT :limit) AS page) AS sized
WHERE bytes - size < :most
ORDER BY at DESC, event_id DESC, name DESC

-- name: list_told_runs
-- What is told of the given runs.
SELECT r.id, r.namespace, s.name, r.schedule_id, r.due_at, r.origin, r.status, r.attempt, r.reason,
    r.error, r.started_at, r.finished_at, r.task, s.created_by, r.flow, r.step, r.queue = '@flow'
FROM runs AS r LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.id IN (SELECT value FROM json_each(:ids))
ORDER BY r.id

-- name: list_told_schedules
-- What is told of the given schedules.
SELECT id, namespace, name, created_by, title FROM schedules
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: list_missing_runs
-- Which of the given new runs were not inserted, because their due time had one.
SELECT value FROM json_each(:ids) WHERE value NOT IN (SELECT id FROM runs)

-- name: sum_definitions
-- How large the definitions of some schedules are that are not deleted; definitions are ASCII.
SELECT s.namespace, count(*), sum(length(r.spec))
FROM schedules AS s
JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
WHERE s.id IN (SELECT value FROM json_each(:ids)) AND s.deleted_at IS NULL
GROUP BY s.namespace

-- name: lock_use
-- Nobody else writes anyway.
SELECT 1

-- name: lock_quota
-- The limits of a namespace that has any; nobody else writes meanwhile.
SELECT namespace, schedules, fires_per_minute, payload_bytes, definition_bytes, max_priority
FROM quotas
WHERE namespace = :namespace

-- name: rate_revision
-- How often a definition is due.
UPDATE schedule_revisions SET fires_per_minute = :rate
WHERE schedule_id = :schedule_id AND version = :version

-- name: insert_change
-- Who did what.
INSERT INTO audit (at, by, namespace, action, kind, subject, subject_id, before, after)
VALUES (:at, :by, :namespace, :action, :kind, :subject, :subject_id, :before, :after)

-- name: list_changes_by_id
-- Several changes.
SELECT id, at, by, namespace, action, kind, subject, subject_id, before, after FROM audit
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: insert_ledger
-- Due times that did not become runs, and why.
INSERT INTO ledger (schedule_id, version, due_from, due_to, count, exact, verdict, kind, reason,
    facts, session_id, at)
VALUES (:schedule_id, :version, :due_from, :due_to, :count, :exact, :verdict, :kind, :reason,
    :facts, :session_id, :now)

-- name: extend_ledger
-- The latest entry goes on, when the next due time met the same fate for the same reason.
UPDATE ledger
SET due_to = :due_to, count = count + :count, exact = exact AND :exact, at = :now,
    session_id = :session_id
WHERE id = (
        SELECT id FROM ledger WHERE schedule_id = :schedule_id AND kind = :kind
        ORDER BY due_to DESC, id DESC LIMIT 1)
    AND due_to = :follows AND version = :version AND reason = :reason AND facts = :facts

-- name: delete_exception
-- An exception is used up once its due time is decided.
DELETE FROM schedule_exceptions
WHERE schedule_id = :schedule_id AND due_at = :due_at AND kind = :kind

-- name: get_session_alive
-- Whether a node may still claim, and whether the queue has limits.
SELECT node, namespaces, EXISTS (SELECT 1 FROM queues WHERE name = :queue)
FROM node_sessions WHERE id = :id AND ended_at IS NULL AND expires_at > :now

-- name: take_lead
-- Nobody leads any more: this node does.
UPDATE leases SET term = term + 1, session_id = :id, expires_at = :expires_at
WHERE name = 'scheduler' AND expires_at <= :now
RETURNING term

-- name: get_term
-- Whether this node leads under its term.
SELECT 1 FROM leases WHERE name = 'scheduler' AND session_id = :id AND term = :term

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

-- name: get_gate
-- The limits of a queue.
SELECT name, concurrency, rate_count, rate_seconds, begun
FROM queues WHERE name = :queue

-- name: count_running
-- How many runs of a queue are under way.
SELECT count(*) FROM runs INDEXED BY runs_running WHERE status = 'running' AND queue = :queue

-- name: insert_lost_attempts
-- The attempts that ended with their node.
INSERT INTO run_attempts (run_id, attempt, session_id, claimed_at, started_at, finished_at,
    outcome, error)
SELECT id, attempt, session_id, claimed_at, started_at, :now, 'lost', :error
FROM runs WHERE id IN (SELECT value FROM json_each(:ids))
ON CONFLICT DO NOTHING

-- name: requeue_runs
-- Others take the runs over as new attempts; they keep their places in their queues.
UPDATE runs
SET status = 'queued', session_id = NULL, claimed_at = NULL, started_at = NULL,
    losses = losses + 1
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'running'

-- name: list_claimable
-- Ready work by priority, within its limits; how many of its schedule may run, and how many do.
SELECT id, schedule_id, CASE WHEN exclusive = 1 THEN 1 ELSE max_concurrent END,
    CASE WHEN exclusive = 1 OR max_concurrent IS NULL THEN 0 ELSE (
        SELECT count(*) FROM runs AS other INDEXED BY runs_busy
        WHERE other.schedule_id = r.schedule_id AND other.status = 'running') END
FROM runs AS r
WHERE status = 'queued' AND queue = :queue AND namespace = :namespace AND ready_at <= :now
    AND (expires_at IS NULL OR expires_at > :now OR attempt > 0)
    AND (task IS NULL OR task IN (SELECT value FROM json_each(:tasks)))
    AND (needs IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(needs) AS need WHERE NOT EXISTS (
            SELECT 1 FROM json_each(:labels) AS has
            WHERE has.key = need.key AND has.value = need.value)))
    AND (exclusive = 0 OR NOT EXISTS (
        SELECT 1 FROM runs AS other INDEXED BY runs_active
        WHERE other.schedule_id = r.schedule_id AND other.status IN ('queued', 'running')
            AND (other.status = 'running' OR other.lane < r.lane
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
ORDER BY priority DESC, ready_at, rowid
LIMIT :limit

-- name: claim_run
-- The run is this session's until it settles.
UPDATE runs
SET status = 'running', attempt = attempt + 1, lane = min(lane, 1), session_id = :session_id,
    claimed_at = :now, started_at = :now, progress = NULL, progress_text = NULL, beat_at = NULL
WHERE id = :id AND status = 'queued'

-- name: wake_dependents
-- Look again at schedules that wait for the success of the given ones.
UPDATE schedule_state SET wake_at = :now
WHERE status = 'active' AND wake_at > :now
    AND (seen IS NOT NULL OR EXISTS (
        SELECT 1 FROM schedule_exceptions AS e
        WHERE e.schedule_id = schedule_state.schedule_id AND e.kind = 'moved_here'))
    AND schedule_id IN (
    SELECT d.schedule_id FROM schedules AS s
    JOIN schedule_deps AS d ON d.namespace = s.namespace AND d.upstream = s.name
    WHERE s.id IN (SELECT value FROM json_each(:ids)))

-- name: settle_run
-- Only the current token ends a run; who waits for its end hears of every commit anyway.
UPDATE runs
SET status = :status, finished_at = :now, reason = :reason, error = :error,
    exit_code = :exit_code, output = :output, output_ref = :output_ref,
    failures = failures + CASE WHEN :status = 'failed' THEN 1 ELSE 0 END
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status = 'running'
RETURNING wakes, schedule_id, parent_run_id, 0

-- name: expire_runs
-- Work that nobody began in time is not begun any more.
UPDATE runs SET status = 'cancelled', finished_at = :now, reason = 'expired'
WHERE status = 'queued' AND attempt = 0 AND id IN (SELECT value FROM json_each(:ids))
RETURNING id, wakes, schedule_id, parent_run_id

-- name: get_own_run
-- The run under way under this token: why it shall end, and whether its schedule was deleted.
SELECT CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE reason END, EXISTS (
        SELECT 1 FROM schedules AS s WHERE s.id = runs.schedule_id AND s.deleted_at IS NOT NULL)
FROM runs
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status = 'running'

-- name: note_progress
-- How far an attempt under way has come, as it says itself.
UPDATE runs
SET progress = coalesce(:progress, progress), progress_text = coalesce(:text, progress_text),
    beat_at = :now
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status = 'running'

-- name: take_orphans
-- What to do with each of the given runs, of those that are still running.
SELECT id, losses, max_takeovers,
    CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE reason END, wakes, schedule_id, parent_run_id
FROM runs WHERE status = 'running' AND id IN (SELECT value FROM json_each(:ids))

-- name: list_options
-- The policies of runs without a schedule.
SELECT r.id, r.options FROM json_each(:ids) AS wanted JOIN runs AS r ON r.id = wanted.value

-- name: list_paused
-- As list_by_name, those that are paused.
SELECT s.id, s.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedule_state AS st INDEXED BY schedule_state_paused JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.status = 'paused' AND s.namespace = :namespace AND s.deleted_at IS NULL
    AND s.name > :after AND s.name < :before
ORDER BY s.name
LIMIT :limit

-- name: list_tokens_by_id
-- Several tokens, with the digests of their secrets.
SELECT t.id, t.name, t.role, t.namespaces, t.created_at, t.created_by, t.expires_at,
    t.last_used_at, t.revoked_at, t.digest
FROM json_each(:ids) AS wanted JOIN tokens AS t ON t.id = wanted.value

-- name: list_ended_logins
-- Which of these sessions were ended.
SELECT e.digest FROM json_each(:ids) AS wanted JOIN ended_logins AS e ON e.digest = wanted.value

-- name: delete_old_changes
-- Retention: a small batch of changes made long ago.
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < :before ORDER BY at LIMIT :limit)

-- name: list_runs_by_id
-- Several runs, in the order of the given ids.
SELECT d.* FROM json_each(:ids) AS wanted JOIN run_details AS d ON d.id = wanted.value

-- name: list_schedules_by_id
-- The given schedules with their definitions and states.
SELECT s.id, s.namespace, s.name, s.version, r.spec, st.status, s.created_at,
    s.created_by, st.watermark, st.next_due_at, st.paused_at, st.paused_until, st.pause_reason,
    st.problem, r.valid_from
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

-- name: list_failed_runs
-- The runs of a namespace that ended so, the newest first, as far as filters ask for them.
SELECT id, namespace, status, origin, queue, created_at, rowid FROM runs INDEXED BY runs_failed
WHERE namespace = :namespace AND status = :status AND (status = 'failed' OR status = 'cancelled')
    AND rowid >= :first AND rowid < :before
ORDER BY rowid DESC
LIMIT :limit

-- name: list_runs_of_flow
-- The runs of a flow, the newest first, as far as filters ask for them; not those that steps called.
SELECT id, namespace, status, origin, queue, created_at, rowid FROM runs INDEXED BY runs_of_flow
WHERE namespace = :namespace AND flow = :flow AND parent_run_id IS NULL
    AND rowid >= :first AND rowid < :before
ORDER BY rowid DESC
LIMIT :limit

-- name: list_runs_of_task
-- The runs that were enqueued for a task, the newest first, as far as filters ask for them.
SELECT id, namespace, status, origin, queue, created_at, rowid FROM runs INDEXED BY runs_of_task
WHERE namespace = :namespace AND task = :task AND origin = 'enqueue'
    AND rowid >= :first AND rowid < :before
ORDER BY rowid DESC
LIMIT :limit

-- name: list_runs_of
-- The runs of a schedule by when they were due or made, as far as filters ask for them.
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
-- The first run from a place on, and when it was made.
SELECT rowid, created_at FROM runs WHERE rowid >= :place ORDER BY rowid LIMIT 1

-- name: get_last_place
-- The place of the newest run.
SELECT max(rowid) FROM runs

-- name: insert_schedule
-- A new schedule, unless its name is taken.
INSERT INTO schedules (id, namespace, name, version, labels, target, title, created_at, created_by)
VALUES (:id, :namespace, :name, 1, :labels, :target, :title, :created_at, :created_by)
ON CONFLICT (namespace, name) WHERE deleted_at IS NULL DO NOTHING

-- name: insert_revision
-- A definition that comes into force.
INSERT INTO schedule_revisions (schedule_id, version, spec, valid_from, by)
VALUES (:schedule_id, :version, :spec, :valid_from, :by)

-- name: insert_state
-- The state that a schedule begins with.
INSERT INTO schedule_state (schedule_id, version, status, watermark, next_due_at, wake_at,
    paused_at)
VALUES (:schedule_id, 1, :status, :watermark, :next_due_at, :wake_at, :paused_at)

-- name: list_taken
-- Which of the given names live schedules have.
SELECT s.name, s.id FROM json_each(:names) AS wanted
CROSS JOIN schedules AS s
WHERE s.namespace = :namespace AND s.name = wanted.value AND s.deleted_at IS NULL

-- name: take_states
-- The states of the given schedules, for what people do to them.
SELECT st.schedule_id, st.version, st.status, st.watermark, st.seen, st.considered_at, st.fired,
    st.paused_until, st.delay
FROM json_each(:ids) AS wanted CROSS JOIN schedule_state AS st ON st.schedule_id = wanted.value

-- name: delete_dependencies
-- What schedules depended on before.
DELETE FROM schedule_deps WHERE schedule_id IN (SELECT value FROM json_each(:ids))

-- name: delete_labels
-- What schedules could be found by before.
DELETE FROM schedule_labels WHERE schedule_id IN (SELECT value FROM json_each(:ids))

-- name: delete_exceptions
-- What was said about due times that will not come.
DELETE FROM schedule_exceptions WHERE schedule_id IN (SELECT value FROM json_each(:ids))

-- name: delete_states
-- Deleted schedules are never looked at again.
DELETE FROM schedule_state WHERE schedule_id IN (SELECT value FROM json_each(:ids))

-- name: delete_schedules
-- Their names are free again; their history stays.
UPDATE schedules SET deleted_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND deleted_at IS NULL

-- name: cancel_queued_runs
-- The queued runs of schedules that are deleted; by the words of the index runs_active.
UPDATE runs SET status = 'cancelled', finished_at = :now, reason = :reason, cancel_requested_at = :now
WHERE schedule_id IN (SELECT value FROM json_each(:ids)) AND status IN ('queued', 'running')
    AND status = 'queued'
RETURNING id

-- name: insert_label
-- What a schedule is found by.
INSERT INTO schedule_labels (schedule_id, label, value, namespace, name)
VALUES (:schedule_id, :label, :value, :namespace, :name)

-- name: insert_log
-- What a run printed.
INSERT INTO run_logs (run_id, attempt, seq, at, stream, text)
VALUES (:run_id, :attempt, :seq, :at, :stream, :text)
ON CONFLICT DO NOTHING

-- name: get_drain
-- Until when nothing begins, because the books are about to be copied elsewhere.
SELECT until FROM moves WHERE state = 'draining' AND until > :now

-- name: get_move
-- The copy of these books that is under way or done.
SELECT id, state, place, at FROM moves WHERE state <> 'reopened'

-- name: forget_drain
-- A copy that waited for runs to end, and is gone.
DELETE FROM moves WHERE state = 'draining' AND until <= :now

-- name: begin_drain
-- From now on nothing begins.
INSERT INTO moves (id, state, place, at, until) VALUES (:id, 'draining', :place, :now, :until)

-- name: prolong_drain
-- The copy still waits.
UPDATE moves SET until = :until WHERE id = :id AND state = 'draining'

-- name: list_under_way
-- The runs of nodes that live, the oldest first.
SELECT r.id, s.name, r.started_at
FROM runs AS r
JOIN node_sessions AS n ON n.id = r.session_id
LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.status = 'running' AND n.ended_at IS NULL AND n.expires_at > :now
ORDER BY r.started_at

-- name: close_books
-- Nobody can read or write them any more.
UPDATE moves SET state = 'copying', at = :now, until = NULL WHERE id = :id

-- name: finish_move
-- The books are elsewhere.
UPDATE moves SET state = 'moved' WHERE id = :id AND state = 'copying'

-- name: abandon_move
-- There was no copy.
DELETE FROM moves WHERE id = :id AND state <> 'moved'

-- name: reopen_books
-- These are the books again.
UPDATE moves SET state = 'reopened', at = :now, until = NULL WHERE id = :id

-- name: list_objects
-- Everything in the file that somebody made, with what it is.
SELECT name, type FROM sqlite_schema
WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'
ORDER BY type = 'table' DESC, type, name

-- name: list_tables
-- The tables and views of the file, and which of them are virtual or belong to a virtual one.
SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main'

-- name: get_table_sql
-- How a table was made.
SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = :name

-- name: list_columns
-- What each table of the file has.
SELECT t.name, c.name FROM pragma_table_list AS t JOIN pragma_table_info(t.name) AS c
WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite_%'

-- name: list_due_runs
-- The runs of the given schedules' due times, of each after the instant at the same place.
SELECT r.schedule_id, r.due_at, r.id, r.origin
FROM json_each(:ids) AS wanted
CROSS JOIN json_each(:sinces) AS since ON since.key = wanted.key
CROSS JOIN runs AS r ON r.schedule_id = wanted.value AND r.due_at > since.value AND r.due_at <= :until

-- name: list_due_entries
-- The entries about the given schedules' due times, of each after the instant at the same place.
SELECT l.schedule_id, l.due_from, l.due_to, l.count, l.exact, l.reason, l.version, l.kind
FROM json_each(:ids) AS wanted
CROSS JOIN json_each(:sinces) AS since ON since.key = wanted.key
CROSS JOIN ledger AS l ON l.schedule_id = wanted.value AND l.due_to > since.value
WHERE l.due_from <= :until
ORDER BY l.due_from

-- name: end_expired_sessions
-- Nodes whose lease ran out are dead.
UPDATE node_sessions SET ended_at = :now WHERE ended_at IS NULL AND expires_at <= :now
RETURNING id

-- name: end_gone_sessions
-- Nodes whose process is gone are dead.
UPDATE node_sessions SET ended_at = :now
WHERE ended_at IS NULL AND id IN (SELECT value FROM json_each(:ids))
RETURNING id

-- name: list_marks
-- The newest runs of each of the given schedules, as far as charts show them.
SELECT r.schedule_id, r.id, r.status, r.origin, r.attempt, coalesce(r.due_at, r.created_at),
    r.due_at, r.started_at, r.finished_at
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

-- name: list_running
-- What a namespace has under way, the oldest first.
SELECT id FROM runs INDEXED BY runs_running
WHERE status = 'running' AND namespace = :namespace
ORDER BY claimed_at
LIMIT :limit

-- name: list_late
-- Of the newest runs of all namespaces those that began late, by the rule of `lateness`.
SELECT id FROM (
    SELECT id, namespace, origin, attempt, due_at, started_at, rowid AS place FROM runs
    WHERE rowid < :before
    ORDER BY rowid DESC LIMIT :looked)
WHERE namespace = :namespace AND started_at >= :since
    AND (started_at - due_at) / 1000000.0 > :seconds
    AND attempt = 1 AND origin IN ('schedule', 'catchup')
ORDER BY place DESC
LIMIT :limit

-- name: count_failed
-- How many runs of a namespace failed from a place on, but for steps; no more than asked for.
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
-- How long the newest runs of all namespaces took, in the mean, by schedule.
SELECT schedule_id, avg(finished_at - started_at) / 1000000.0 FROM (
    SELECT schedule_id, namespace, status, started_at, finished_at FROM runs
    WHERE rowid < :before
    ORDER BY rowid DESC LIMIT :looked)
WHERE namespace = :namespace AND status = 'succeeded' AND schedule_id IS NOT NULL
GROUP BY schedule_id

-- name: insert_flow_run
-- Runs of flows that exist get the newest revision, and want to be looked at now.
INSERT INTO flow_runs (run_id, digest, params, wake_at)
SELECT r.id, (SELECT f.digest FROM flows AS f WHERE f.namespace = r.namespace AND f.name = :flow),
    :params, :wake_at
FROM runs AS r WHERE r.id = :id

-- name: name_flow
-- Of which flow runs are.
UPDATE runs SET flow = :flow WHERE id = :id

-- name: wake_flow
-- Runs of flows want to be looked at; nothing is locked for it.
INSERT INTO flow_wakes (run_id) VALUES (:run_id)

-- name: take_flows
-- Runs of flows whose time has come, and that nobody else looks at.
SELECT run_id FROM flow_runs WHERE wake_at <= :now
ORDER BY wake_at, run_id
LIMIT :limit

-- name: take_woken
-- Runs of flows with steps that ended, and that nobody else looks at.
SELECT run_id FROM flow_runs
WHERE run_id IN (SELECT w.run_id FROM flow_wakes AS w ORDER BY w.id LIMIT :limit)
ORDER BY run_id

-- name: lock_flow_run
-- Nobody advances this run of a flow before the transaction ends.
SELECT run_id FROM flow_runs WHERE run_id = :id

-- name: use_wakes
-- What is looked at after this need not be woken any more.
DELETE FROM flow_wakes WHERE run_id IN (SELECT value FROM json_each(:ids))

-- name: list_parents
-- The given runs of flows.
SELECT r.id, r.namespace, r.flow, f.digest, f.params, f.depth, r.status,
    r.cancel_requested_at IS NOT NULL, r.started_at, r.priority, c.status, r.ready_at, r.failures,
    CASE WHEN r.parent_run_id IS NOT NULL THEN r.options END
FROM flow_runs AS f
JOIN runs AS r ON r.id = f.run_id
LEFT JOIN runs AS c ON c.id = r.parent_run_id
WHERE f.run_id IN (SELECT value FROM json_each(:ids))

-- name: list_steps
-- How far the steps of the given runs of flows have come.
SELECT parent_run_id, step, id, status, reason, exit_code,
    CASE WHEN reason = 'precondition' THEN error END
FROM runs
WHERE parent_run_id IN (SELECT value FROM json_each(:ids)) AND step IS NOT NULL

-- name: list_outputs
-- What the steps of the given runs of flows returned.
SELECT parent_run_id, step, status, reason, exit_code, id, output, output_size FROM runs
WHERE parent_run_id IN (SELECT value FROM json_each(:ids)) AND step IS NOT NULL AND finished_at IS NOT NULL

-- name: list_step_contexts
-- What the steps of the given runs may know of their flows' runs.
SELECT r.id, p.flow, f.digest, f.params, p.id, p.origin, p.trigger, p.due_at, p.created_at,
    p.schedule_id, s.name, coalesce(s.created_by, ''), r.options
FROM runs AS r
JOIN runs AS p ON p.id = r.parent_run_id
JOIN flow_runs AS f ON f.run_id = p.id
LEFT JOIN schedules AS s ON s.id = p.schedule_id
WHERE r.id IN (SELECT value FROM json_each(:ids))

-- name: lock_beginning
-- Runs of flows that wait to begin, with the limits of their schedules.
SELECT id, namespace, flow, schedule_id, lane, exclusive, max_concurrent, priority, ready_at,
    created_at
FROM runs
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'queued'
ORDER BY id

-- name: count_under_way
-- How many runs of the given schedules are under way.
SELECT schedule_id, count(*) FROM runs
WHERE schedule_id IN (SELECT value FROM json_each(:ids)) AND status = 'running' AND status IN ('queued', 'running')
GROUP BY schedule_id

-- name: count_flows_under_way
-- How many runs of each of these flows are under way, whoever started them.
SELECT n.value, f.value, (
    SELECT count(*) FROM runs AS r
    WHERE r.queue = '@flow' AND r.status IN ('queued', 'running') AND r.status = 'running'
        AND r.namespace = n.value AND r.flow = f.value)
FROM json_each(:namespaces) AS n JOIN json_each(:flows) AS f ON f.key = n.key

-- name: list_yielding
-- Of the given runs those that give way to others of their schedule, or to due times that wait.
SELECT r.id FROM runs AS r
WHERE r.id IN (SELECT value FROM json_each(:ids)) AND r.lane > 0 AND (
    EXISTS (
        SELECT 1 FROM runs AS other
        WHERE other.schedule_id = r.schedule_id AND other.status = 'queued'
            AND other.status IN ('queued', 'running') AND other.lane < r.lane
            AND (r.exclusive OR (r.lane = 2 AND other.ready_at <= :now)))
    OR (r.exclusive AND r.lane = 2 AND EXISTS (
        SELECT 1 FROM schedule_state AS st
        WHERE st.schedule_id = r.schedule_id AND st.status = 'active'
            AND (st.seen IS NOT NULL OR (st.next_due_at <= :now AND st.wake_at <= :now)
                OR EXISTS (SELECT 1 FROM schedule_exceptions AS e
                    WHERE e.schedule_id = st.schedule_id AND e.kind = 'moved_here'
                        AND e.due_at <= :now)))))

-- name: begin_flow_run
-- Runs of flows begin; they are nobody's.
UPDATE runs SET status = 'running', attempt = attempt + 1, lane = min(lane, 1), session_id = '',
    claimed_at = :now, started_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'queued'

-- name: insert_step_run
-- Steps that begin.
INSERT INTO runs (id, namespace, origin, trigger, parent_run_id, step, flow, queue, priority, task,
    needs, options, exclusive, wakes, max_takeovers, status, created_at, ready_at)
VALUES (:id, :namespace, 'flow', :trigger, :parent_run_id, :step, :flow, :queue, min(:priority, coalesce(
        (SELECT max_priority FROM quotas WHERE namespace = :namespace), :priority)), :task,
    :needs, :options, 0, 1, 3, 'queued', :now, :now)
ON CONFLICT (parent_run_id, step) WHERE parent_run_id IS NOT NULL DO NOTHING

-- name: insert_skipped_run
-- Steps that will not run.
INSERT INTO runs (id, namespace, origin, trigger, parent_run_id, step, flow, queue, priority,
    exclusive, wakes, max_takeovers, status, reason, created_at, ready_at, finished_at)
VALUES (:id, :namespace, 'flow', :trigger, :parent_run_id, :step, :flow, :queue, :priority, 0, 1,
    0, 'cancelled', :reason, :now, :now, :now)
ON CONFLICT (parent_run_id, step) WHERE parent_run_id IS NOT NULL DO NOTHING

-- name: end_flow_run
-- A run of a flow that is over, and whom that wakes.
UPDATE runs
SET status = :status, finished_at = :now, error = :error, output = :output,
    reason = CASE WHEN :status = 'cancelled' AND cancel_requested_at IS NOT NULL
        THEN reason ELSE :reason END,
    failures = failures + CASE WHEN :status = 'failed' THEN 1 ELSE 0 END
WHERE id = :id AND session_id = '' AND status = 'running'
RETURNING id, wakes, schedule_id, parent_run_id, :status = 'succeeded',
    exclusive OR max_concurrent IS NOT NULL

-- name: list_waiting_flows
-- Runs of flows that may begin once others of their schedules have ended.
SELECT id FROM runs INDEXED BY runs_active
WHERE schedule_id IN (SELECT value FROM json_each(:ids)) AND queue = '@flow'
    AND status = 'queued' AND status IN ('queued', 'running')

-- name: rest_flow
-- When runs of flows want to be looked at next, should nothing happen before.
UPDATE flow_runs SET wake_at = :wake_at WHERE run_id = :run_id

-- name: call_flow
-- A step that calls a flow becomes a run of it that waits to begin, by its token.
UPDATE runs SET status = 'queued', session_id = NULL, claimed_at = NULL, started_at = NULL,
    attempt = attempt - 1, queue = '@flow', flow = :flow, progress = NULL
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status = 'running'
RETURNING namespace, parent_run_id

-- name: delete_skipped_steps
-- Steps that were not to run, and may do so now.
DELETE FROM runs WHERE parent_run_id = :id AND step IN (SELECT value FROM json_each(:steps)) AND attempt = 0

-- name: forget_steps
-- Steps that begin again: what became of them before stays, and their names as what began them.
UPDATE runs SET step = NULL, trigger = trigger || ':' || step
WHERE parent_run_id = :id AND step IN (SELECT value FROM json_each(:steps))

-- name: list_callers
-- The flows by which runs of flows were called.
WITH RECURSIVE callers (id, flow, parent_run_id) AS (
    SELECT r.id, p.flow, p.parent_run_id FROM runs AS r JOIN runs AS p ON p.id = r.parent_run_id
    WHERE r.id IN (SELECT value FROM json_each(:ids))
    UNION ALL
    SELECT c.id, p.flow, p.parent_run_id FROM callers AS c JOIN runs AS p ON p.id = c.parent_run_id)
SELECT id, flow FROM callers

-- name: insert_command
-- A stop or restart that somebody has to carry out.
INSERT INTO flow_commands (schedule_id, namespace, flow, kind, due_at)
VALUES (:schedule_id, :namespace, :flow, :kind, :due_at)

-- name: take_commands
-- Stops and restarts to carry out, the oldest first.
SELECT c.id, c.schedule_id, c.namespace, c.flow, f.digest, c.kind, c.due_at
FROM flow_commands AS c LEFT JOIN flows AS f ON f.namespace = c.namespace AND f.name = c.flow
ORDER BY c.id
LIMIT :limit

-- name: delete_commands
-- Stops and restarts that were carried out.
DELETE FROM flow_commands WHERE id IN (SELECT value FROM json_each(:ids))

-- name: save_controls
-- Up to where stops and restarts are decided.
INSERT INTO schedule_controls (schedule_id, decided_until) VALUES (:schedule_id, :decided_until)
ON CONFLICT (schedule_id) DO UPDATE SET decided_until = excluded.decided_until

-- name: list_controls
-- Up to where stops and restarts of the given schedules are decided.
SELECT schedule_id, decided_until FROM schedule_controls
WHERE schedule_id IN (SELECT value FROM json_each(:ids))

-- name: delete_controls
-- Deleted schedules stop and restart nothing.
DELETE FROM schedule_controls WHERE schedule_id IN (SELECT value FROM json_each(:ids))

-- name: take_controls
-- Flows whose restart wants to be gone on with.
SELECT namespace, name, digest, restarting FROM flows
WHERE control_at <= :now
ORDER BY control_at
LIMIT :limit

-- name: save_flow
-- A flow, or another revision of it; a restart under way goes on.
INSERT INTO flows (namespace, name, place, digest, updated_at)
VALUES (:namespace, :name, :place, :digest, :now)
ON CONFLICT (namespace, name) DO UPDATE
SET place = excluded.place, digest = excluded.digest, updated_at = excluded.updated_at

-- name: save_flow_revision
-- The file of a flow as it is now.
INSERT INTO flow_revisions (namespace, flow, digest, place, source, at)
VALUES (:namespace, :flow, :digest, :place, :source, :now)
ON CONFLICT (namespace, flow, digest) DO UPDATE SET place = excluded.place

-- name: remove_flows
-- Nothing starts them any more; their revisions stay with their runs.
DELETE FROM flows WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:names))

-- name: list_flows_named
-- Flows as they are known now.
SELECT name, place, digest, updated_at FROM flows
WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:names))

-- name: list_flow_revisions
-- Flows as they once were: each with the digest at the same place.
SELECT r.flow, r.place, r.digest, r.source
FROM json_each(:flows) AS f
CROSS JOIN json_each(:digests) AS d ON d.key = f.key
CROSS JOIN flow_revisions AS r
    ON r.namespace = :namespace AND r.flow = f.value AND r.digest = d.value

-- name: list_directory_leases
-- Until when other nodes attend directories, unless they prolong it: no longer than they live.
SELECT d.name, CASE
    WHEN n.ended_at < d.expires_at THEN n.ended_at
    WHEN n.expires_at < d.expires_at THEN n.expires_at
    ELSE d.expires_at END
FROM flow_directories AS d LEFT JOIN node_sessions AS n ON n.id = d.session_id
WHERE d.namespace = :namespace AND d.name IN (SELECT value FROM json_each(:names)) AND d.session_id <> :id

-- name: list_flow_roots
-- In which directories the given flows are.
SELECT f.namespace, f.name, substr(f.place, 1, instr(f.place, '/') - 1)
FROM json_each(:namespaces) AS v
CROSS JOIN json_each(:flows) AS w ON w.key = v.key
CROSS JOIN flows AS f ON f.namespace = v.value AND f.name = w.value

-- name: list_directories
-- Directories of flows: the node that attends each, when it was read last, whether its flows are known.
SELECT d.namespace, d.name, n.node, d.scanned_at,
    d.scanned_term = d.term AND d.expires_at > :now
        AND (n.id IS NULL OR (n.ended_at IS NULL AND n.expires_at > :now)),
    d.returned
FROM json_each(:namespaces) AS v
CROSS JOIN json_each(:names) AS w ON w.key = v.key
CROSS JOIN flow_directories AS d ON d.namespace = v.value AND d.name = w.value
LEFT JOIN node_sessions AS n ON n.id = d.session_id

-- name: list_flow_schedules
-- Schedules that start flows of a directory, and want to be looked at within a while.
SELECT s.id
FROM flows AS f
JOIN schedules AS s
    ON s.namespace = f.namespace AND s.target = 'flow:' || f.name AND s.deleted_at IS NULL
JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE f.namespace = :namespace AND substr(f.place, 1, instr(f.place, '/') - 1) = :name
    AND st.status = 'active' AND st.wake_at > :now AND st.wake_at <= :until
ORDER BY s.id

-- name: count_waiting_flows
-- How many schedules have a due time that waits until a directory is read.
SELECT count(*)
FROM flows AS f
JOIN schedules AS s
    ON s.namespace = f.namespace AND s.target = 'flow:' || f.name AND s.deleted_at IS NULL
JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE f.namespace = :namespace AND substr(f.place, 1, instr(f.place, '/') - 1) = :name
    AND st.status = 'active' AND st.next_due_at <= :now

-- name: list_latest_flow_runs
-- The newest run of each of the given flows.
SELECT * FROM run_details WHERE id IN (
    SELECT (
        SELECT r.id FROM runs AS r
        WHERE r.namespace = :namespace AND r.flow = wanted.value AND r.parent_run_id IS NULL
        ORDER BY r.rowid DESC LIMIT 1)
    FROM json_each(:names) AS wanted)

-- name: wake_schedules
-- Look at these schedules again now.
UPDATE schedule_state SET wake_at = :now
WHERE schedule_id IN (SELECT value FROM json_each(:ids)) AND status = 'active'
    AND (wake_at IS NULL OR wake_at > :now)
