-- The statements that need a different form for PostgreSQL; the others are in ../sql/queries.sql.
-- Statements for many rows take each of their values as an array.

-- part: run_columns
-- The columns of a planned run.
id, schedule_id, version, due_at, origin, lane, wakes, payload, created_at, ready_at,
    expires_at, namespace, trigger, queue, priority, task, exclusive, max_concurrent,
    max_takeovers, interval_start, interval_end, requested_by, planned_by, backfill_limit

-- part: run_arrays
-- The same as arrays, for many runs.
:id::text[], :schedule_id::text[], :version::integer[], :due_at::timestamptz[],
    :origin::text[], :lane::integer[], :wakes::boolean[], :payload::text[],
    :created_at::timestamptz[], :ready_at::timestamptz[], :expires_at::timestamptz[],
    :namespace::text[], :trigger::text[], :queue::text[], :priority::integer[], :task::text[],
    :exclusive::boolean[], :max_concurrent::integer[], :max_takeovers::integer[],
    :interval_start::timestamptz[], :interval_end::timestamptz[], :requested_by::text[],
    :planned_by::text[], :backfill_limit::integer[]

-- part: run_values
-- The same for one of them, `v`, with a priority of at most its namespace's.
v.id, v.schedule_id, v.version, v.due_at, v.origin, v.lane, v.wakes, v.payload, v.created_at,
    v.ready_at, v.expires_at, v.namespace, v.trigger, v.queue, least(v.priority, (
        SELECT q.max_priority FROM quotas AS q WHERE q.namespace = v.namespace)), v.task, v.exclusive,
    v.max_concurrent, v.max_takeovers, v.interval_start, v.interval_end, v.requested_by,
    v.planned_by, v.backfill_limit

-- part: new_keys
-- The due times of `new` that have no run.
keys AS (
    INSERT INTO due_keys (schedule_id, due_at, run_id)
    SELECT schedule_id, due_at, id FROM new WHERE due_at IS NOT NULL
    ON CONFLICT DO NOTHING
    RETURNING run_id)

-- name: lock_state
-- One schedule's state, for operations of people on it.
SELECT schedule_id, version, status, watermark, seen, considered_at, fired, paused_until, delay
FROM schedule_state WHERE schedule_id = :id
FOR UPDATE

-- name: lock_wakes
-- What the end of the given runs may wake: their schedules, and whether any others depend on those.
WITH owner AS MATERIALIZED (
    SELECT r.schedule_id AS id, bool_or(r.wakes) AS wakes FROM active_runs AS r
    WHERE r.id = ANY (:ids::text[]) GROUP BY r.schedule_id)
SELECT schedule_id, EXISTS (SELECT 1 FROM schedule_deps) FROM schedule_state
WHERE schedule_id IN (
    SELECT id FROM owner WHERE wakes
    UNION ALL
    SELECT d.schedule_id FROM owner
    JOIN schedules AS s ON s.id = owner.id
    JOIN schedule_deps AS d ON d.namespace = s.namespace AND d.upstream = s.name
    WHERE EXISTS (SELECT 1 FROM schedule_deps))
ORDER BY schedule_id
FOR UPDATE

-- name: mark_problem
-- Have schedules that this node cannot plan looked at again later.
UPDATE schedule_state AS st SET problem = v.problem, wake_at = v.wake_at
FROM unnest(:id::text[], :problem::text[], :wake_at::timestamptz[]) AS v (id, problem, wake_at)
WHERE st.schedule_id = v.id

-- name: insert_clock_step
-- Record that the database's clock stepped back, unless another node has done so.
INSERT INTO clock_steps (before, earliest, noticed, place, active)
SELECT :before::timestamptz, :earliest::timestamptz, :noticed::timestamptz, coalesce(pg_sequence_last_value('run_places'), 0), :active
WHERE NOT EXISTS (
    SELECT 1 FROM clock_steps AS c
    WHERE c.earliest <= :noticed::timestamptz AND c.noticed >= :earliest::timestamptz)

-- name: list_definitions
-- The definitions of the given ids, each with the version at the same place.
SELECT wanted.id, wanted.version, s.namespace, s.name, r.spec, s.created_by, r.handover_at,
    r.last_due_at
FROM unnest(:ids::text[], :versions::integer[]) AS wanted (id, version)
JOIN schedules AS s ON s.id = wanted.id
LEFT JOIN schedule_revisions AS r ON r.schedule_id = wanted.id AND r.version = wanted.version

-- name: list_active
-- For each of the given schedules a running run, else the first that waits, at constant cost.
SELECT r.schedule_id, r.id, r.due_at, coalesce(r.started_at, r.created_at), r.origin, r.status,
    r.lane
FROM unnest(:ids::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    (SELECT schedule_id, id, due_at, started_at, created_at, origin, status, lane FROM active_runs
        WHERE schedule_id = wanted.id AND status = 'running' AND lane < 3
        ORDER BY lane, created_at LIMIT 1)
    UNION ALL
    (SELECT schedule_id, id, due_at, started_at, created_at, origin, status, lane FROM active_runs
        WHERE schedule_id = wanted.id AND status = 'queued' AND lane < 3
        ORDER BY lane, created_at LIMIT 1)
    ORDER BY status DESC LIMIT 1) AS r

-- name: list_all_active
-- All active runs of the given schedules except unstarted backfills, for policies that cancel them.
SELECT schedule_id, id, due_at, coalesce(started_at, created_at), origin, status, lane
FROM active_runs
WHERE schedule_id = ANY (:ids::text[]) AND lane < 2
ORDER BY created_at, place

-- name: list_by_hand
-- Among each schedule's newest successful runs without a due time, the one that started last.
SELECT r.schedule_id, r.id, r.due_at, r.started_at, r.origin, r.status, r.lane
FROM unnest(:ids::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT schedule_id, id, due_at, started_at, origin, status, lane FROM (
        SELECT schedule_id, id, due_at, started_at, origin, status, lane FROM ended_runs
        WHERE schedule_id = wanted.id AND due_at IS NULL
            AND status IN ('succeeded', 'partial') AND origin IN ('manual', 'enqueue')
        ORDER BY created_at DESC, place DESC LIMIT 100) AS newest
    ORDER BY started_at DESC LIMIT 1) AS r

-- name: list_upstreams
-- The schedules that the given ones depend on, and when each last succeeded.
SELECT d.schedule_id, d.upstream, s.id IS NOT NULL, (
    SELECT finished_at FROM ended_runs
    WHERE schedule_id = s.id AND status IN ('succeeded', 'partial')
    ORDER BY finished_at DESC LIMIT 1)
FROM schedule_deps AS d
LEFT JOIN schedules AS s
    ON s.namespace = d.namespace AND s.name = d.upstream AND s.deleted_at IS NULL
WHERE d.schedule_id = ANY (:ids::text[])

-- name: look_for_due
-- When the next schedule is due for a look, and the time.
SELECT min(wake_at), now() FROM schedule_state WHERE wake_at >= :after

-- name: move_state
-- New states of schedules that stay active; only for the version that was planned.
UPDATE schedule_state AS st
SET watermark = v.watermark, next_due_at = v.next_due_at, wake_at = v.wake_at,
    problem = NULL, fired = v.fired, seen = v.seen, considered_at = v.considered_at, delay = v.delay
FROM unnest(:watermark::timestamptz[], :next_due_at::timestamptz[], :wake_at::timestamptz[],
    :fired::integer[], :seen::text[], :considered_at::timestamptz[], :delay::text[],
    :schedule_id::text[], :version::integer[])
    AS v (watermark, next_due_at, wake_at, fired, seen, considered_at, delay, schedule_id, version)
WHERE st.schedule_id = v.schedule_id AND st.version = v.version AND st.status = 'active'

-- name: move_and_count
-- Like move_state, for schedules that write events: returns the version of the last of each.
UPDATE schedule_state AS st
SET watermark = v.watermark, next_due_at = v.next_due_at, wake_at = v.wake_at,
    problem = NULL, fired = v.fired, seen = v.seen, considered_at = v.considered_at,
    delay = v.delay, emitted = st.emitted + v.emits
FROM unnest(:watermark::timestamptz[], :next_due_at::timestamptz[], :wake_at::timestamptz[],
    :fired::integer[], :seen::text[], :considered_at::timestamptz[], :delay::text[],
    :schedule_id::text[], :version::integer[], :emits::integer[])
    AS v (watermark, next_due_at, wake_at, fired, seen, considered_at, delay, schedule_id, version,
        emits)
WHERE st.schedule_id = v.schedule_id AND st.version = v.version AND st.status = 'active'
RETURNING st.schedule_id, st.emitted

-- name: commit_state
-- Schedules' states after their plans; only for the version that was planned.
UPDATE schedule_state AS st
SET status = v.status, watermark = v.watermark, next_due_at = v.next_due_at, wake_at = v.wake_at,
    fired = v.fired, seen = v.seen, considered_at = v.considered_at, delay = v.delay,
    paused_at = v.paused_at, paused_until = v.paused_until, pause_reason = v.pause_reason, problem = NULL
FROM unnest(:status::text[], :watermark::timestamptz[], :next_due_at::timestamptz[],
    :wake_at::timestamptz[], :fired::integer[], :seen::text[], :considered_at::timestamptz[],
    :delay::text[], :paused_at::timestamptz[], :paused_until::timestamptz[], :pause_reason::text[],
    :schedule_id::text[], :version::integer[])
    AS v (status, watermark, next_due_at, wake_at, fired, seen, considered_at, delay, paused_at,
        paused_until, pause_reason, schedule_id, version)
WHERE st.schedule_id = v.schedule_id AND st.version = v.version

-- name: insert_run
-- Due times that fire become runs, once.
WITH new AS MATERIALIZED (
    SELECT {run_columns} FROM unnest({run_arrays}) AS v ({run_columns})),
{new_keys}
INSERT INTO active_runs ({run_columns}, status)
SELECT {run_values}, 'queued'
FROM new AS v
WHERE v.due_at IS NULL OR v.id IN (SELECT run_id FROM keys)

-- name: insert_alike
-- Like insert_run, for many due times of few kinds: values common to a kind are sent once.
WITH kinds AS MATERIALIZED (
    SELECT k.number, k.origin, k.lane, k.wakes, k.payload, k.created_at, k.ready_at, k.expires_at,
        k.namespace, k.queue, least(k.priority, (
            SELECT q.max_priority FROM quotas AS q WHERE q.namespace = k.namespace)) AS priority,
        k.task, k.exclusive, k.max_concurrent, k.max_takeovers, k.interval_end, k.requested_by,
        k.planned_by, k.backfill_limit
    FROM unnest(:origin::text[], :lane::integer[], :wakes::boolean[], :payload::text[],
        :created_at::timestamptz[], :ready_at::timestamptz[], :expires_at::timestamptz[],
        :namespace::text[], :queue::text[], :priority::integer[], :task::text[],
        :exclusive::boolean[], :max_concurrent::integer[], :max_takeovers::integer[],
        :interval_end::timestamptz[], :requested_by::text[], :planned_by::text[],
        :backfill_limit::integer[]) WITH ORDINALITY
        AS k (origin, lane, wakes, payload, created_at, ready_at, expires_at, namespace, queue,
            priority, task, exclusive, max_concurrent, max_takeovers, interval_end, requested_by,
            planned_by, backfill_limit, number)),
new AS MATERIALIZED (
    SELECT v.id, v.schedule_id, v.version, v.due_at, v.trigger, v.interval_start, v.kind
    FROM unnest(:id::text[], :schedule_id::text[], :version::integer[], :due_at::timestamptz[],
        :trigger::text[], :interval_start::timestamptz[], :kind::integer[])
        AS v (id, schedule_id, version, due_at, trigger, interval_start, kind)),
{new_keys}
INSERT INTO active_runs ({run_columns}, status)
SELECT v.id, v.schedule_id, v.version, v.due_at, k.origin, k.lane, k.wakes, k.payload, k.created_at,
    k.ready_at, k.expires_at, k.namespace, v.trigger, k.queue, k.priority, k.task, k.exclusive,
    k.max_concurrent, k.max_takeovers, v.interval_start, k.interval_end, k.requested_by,
    k.planned_by, k.backfill_limit, 'queued'
FROM new AS v JOIN kinds AS k ON k.number = v.kind
WHERE v.due_at IS NULL OR v.id IN (SELECT run_id FROM keys)

-- name: insert_ended_run
-- Due times that only write an event become runs that have ended, once.
WITH new AS MATERIALIZED (
    SELECT {run_columns}, v.status, v.reason, v.error, v.session_id,
        v.failures, v.claimed_at, v.started_at, v.finished_at
    FROM unnest({run_arrays},
        :status::text[], :reason::text[], :error::text[], :session_id::text[], :failures::integer[],
        :claimed_at::timestamptz[], :started_at::timestamptz[], :finished_at::timestamptz[])
        AS v ({run_columns}, status, reason, error, session_id, failures, claimed_at, started_at,
            finished_at)),
{new_keys}
INSERT INTO ended_runs ({run_columns}, status, reason, error, session_id, failures, claimed_at,
    started_at, finished_at, attempt)
SELECT {run_columns}, status, reason, error, session_id, failures, claimed_at, started_at,
    finished_at, 1
FROM new
WHERE due_at IS NULL OR id IN (SELECT run_id FROM keys)

-- name: enqueue_run
-- A run without a schedule, unless another has its key.
INSERT INTO active_runs (id, namespace, origin, trigger, queue, priority, task, exclusive, wakes,
    max_takeovers, payload, status, created_at, ready_at, expires_at, key, options, requested_by)
SELECT :id, :namespace, 'enqueue', 'enqueue', :queue, least(:priority::integer, (
        SELECT max_priority FROM quotas WHERE namespace = :namespace)), :task, false, false,
    :max_takeovers, :payload, 'queued', :now, :ready_at, :expires_at, :key, :options, :requested_by
WHERE :key::text IS NULL OR EXISTS (
    SELECT 1 FROM run_keys
    WHERE namespace = :namespace AND task = :task AND key = :key AND run_id = :id)
RETURNING id

-- name: start_runs
-- Like insert_run; runs that its session may start, and no limit of its queue counts, start at once.
WITH me AS MATERIALIZED (
    SELECT node FROM node_sessions
    WHERE id = :session_id AND ended_at IS NULL AND expires_at > :now AND draining_at IS NULL
    FOR KEY SHARE SKIP LOCKED),
new AS MATERIALIZED (
    SELECT {run_columns}, v.begins
    FROM unnest({run_arrays}, :begins::boolean[]) AS v ({run_columns}, begins)),
{new_keys}
INSERT INTO active_runs ({run_columns}, status, attempt, session_id, claimed_at, started_at)
SELECT {run_values}, CASE WHEN begun.id IS NULL THEN 'queued' ELSE 'running' END,
    CASE WHEN begun.id IS NULL THEN 0 ELSE 1 END, begun.id, begun.at, begun.at
FROM new AS v
LEFT JOIN LATERAL (
    SELECT :session_id::text AS id, v.ready_at AS at FROM me
    WHERE v.begins AND NOT EXISTS (SELECT 1 FROM queues AS q WHERE q.name = v.queue)) AS begun ON true
WHERE v.due_at IS NULL OR v.id IN (SELECT run_id FROM keys)
RETURNING id, (SELECT me.node FROM me), priority, status = 'running'

-- name: count_events
-- Count new events of schedules; returns the version of the last of each.
UPDATE schedule_state AS st SET emitted = st.emitted + v.count
FROM unnest(:ids::text[], :counts::integer[]) AS v (id, count)
WHERE st.schedule_id = v.id
RETURNING st.schedule_id, st.emitted

-- name: hold_schema
-- Prevent migrations until the transaction ends.
SELECT pg_advisory_xact_lock_shared(:key)

-- name: lock_log
-- Lock the log for one sequencer at a time; others leave it the work.
SELECT pg_try_advisory_xact_lock(:key)

-- name: stamp_events
-- Assign visible events the next positions, in the order of their writing.
WITH last AS (
    SELECT coalesce(max(position), 0) AS position FROM events WHERE position IS NOT NULL),
fresh AS MATERIALIZED (
    SELECT id, row_number() OVER (ORDER BY place) AS step FROM (
        SELECT id, place FROM events WHERE position IS NULL ORDER BY place LIMIT :limit) AS seen)
UPDATE events AS e SET position = last.position + fresh.step
FROM fresh, last WHERE e.id = fresh.id

-- name: take_cursor
-- A partition without an owner, unless its former one is still moving it.
UPDATE cursors SET owner = :member, term = term + 1
WHERE (namespace, name, part) IN (
    SELECT k.namespace, k.name, k.part FROM cursors AS k
    WHERE k.namespace = :namespace AND k.name = :name AND k.part = :part
        AND k.owner IS NOT DISTINCT FROM :former
    FOR UPDATE SKIP LOCKED)
RETURNING part

-- name: list_missing_runs
-- Which of the given new runs were not inserted, because their due time already had one.
SELECT wanted.id FROM unnest(:ids::text[]) AS wanted (id)
WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.id = wanted.id)

-- name: lock_use
-- Wait until others that changed the usage of namespaces have committed, and block new ones.
LOCK TABLE namespace_use IN EXCLUSIVE MODE

-- name: rate_revision
-- How often definitions are due.
UPDATE schedule_revisions AS r SET fires_per_minute = v.rate
FROM unnest(:rate::float8[], :schedule_id::text[], :version::integer[])
    AS v (rate, schedule_id, version)
WHERE r.schedule_id = v.schedule_id AND r.version = v.version

-- name: extend_ledger
-- Extend the latest entries where the next due time was skipped for the same reason.
UPDATE ledger AS l
SET due_to = v.due_to, count = l.count + v.count, exact = l.exact AND v.exact, at = v.at,
    session_id = v.session_id
FROM unnest(:schedule_id::text[], :version::integer[], :due_to::timestamptz[], :count::bigint[],
    :exact::boolean[], :kind::text[], :reason::text[], :facts::text[], :follows::timestamptz[],
    :session_id::text[], :now::timestamptz[])
    AS v (schedule_id, version, due_to, count, exact, kind, reason, facts, follows, session_id, at)
WHERE l.id = (
        SELECT latest.id FROM ledger AS latest
        WHERE latest.schedule_id = v.schedule_id AND latest.kind = v.kind
        ORDER BY latest.due_to DESC, latest.id DESC LIMIT 1)
    AND l.due_to = v.follows AND l.version = v.version AND l.reason = v.reason
    AND l.facts = v.facts
RETURNING l.schedule_id

-- name: delete_exception
-- Remove exceptions whose due times are decided.
DELETE FROM schedule_exceptions AS e
USING unnest(:schedule_id::text[], :due_at::timestamptz[], :kind::text[])
    AS v (schedule_id, due_at, kind)
WHERE e.schedule_id = v.schedule_id AND e.due_at = v.due_at AND e.kind = v.kind

-- name: renew_all
-- Renew a node's lease, keep or take the leadership, and see what the node waits for.
WITH at AS (SELECT coalesce(:clock::timestamptz, now()) AS now),
me AS (
    UPDATE node_sessions SET expires_at = at.now + :lease, seen_at = at.now,
        clock_ahead = extract(epoch FROM coalesce(:clock::timestamptz, :here) - at.now)
    FROM at WHERE id = :id AND ended_at IS NULL
    RETURNING draining_at, stops_when_idle),
kept AS (
    UPDATE leases SET expires_at = at.now + :lease
    FROM at WHERE :leads AND name = 'scheduler' AND session_id = :id AND EXISTS (SELECT 1 FROM me)
    RETURNING term),
free AS (
    SELECT name FROM leases
    WHERE :leads AND name = 'scheduler' AND session_id <> :id
        AND expires_at <= (SELECT at.now FROM at)
    FOR UPDATE SKIP LOCKED),
taken AS (
    UPDATE leases SET term = leases.term + 1, session_id = :id, expires_at = at.now + :lease
    FROM at, free WHERE leases.name = free.name AND EXISTS (SELECT 1 FROM me)
    RETURNING term)
SELECT at.now, EXISTS (SELECT 1 FROM me),
    coalesce((SELECT term FROM kept), (SELECT term FROM taken)),
    (SELECT expires_at FROM leases WHERE name = 'scheduler'),
    (SELECT min(wake_at) FROM schedule_state WHERE wake_at >= :after),
    EXISTS (SELECT 1 FROM active_runs WHERE status = 'queued' AND queue = ANY (:queues::text[])
        AND (:namespaces::text[] IS NULL OR namespace = ANY (:namespaces::text[]))),
    (SELECT min(ready_at) FROM active_runs
        WHERE status = 'queued' AND ready_at > created_at AND ready_at > at.now),
    (SELECT min(expires_at) FROM active_runs
        WHERE status = 'queued' AND attempt = 0 AND expires_at IS NOT NULL),
    EXISTS (
        SELECT 1 FROM node_sessions
        WHERE ended_at IS NULL AND expires_at <= at.now AND id <> :id)
    OR EXISTS (
        SELECT 1 FROM active_runs AS r JOIN node_sessions AS n ON n.id = r.session_id
        WHERE r.status = 'running' AND n.ended_at IS NOT NULL),
    (SELECT json_agg(json_build_array(id, attempt,
            CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE reason END))
        FROM active_runs WHERE session_id = :id AND status = 'running'),
    EXISTS (SELECT 1 FROM events WHERE position IS NULL),
    (SELECT json_agg(
            json_build_array(namespace, name, kind, topics, partitions, attempts, options, types,
                labels)
            ORDER BY namespace, name)
        FROM consumers WHERE kind <> 'group'),
    CASE WHEN EXISTS (SELECT 1 FROM flow_wakes) OR EXISTS (SELECT 1 FROM flow_commands)
    THEN at.now ELSE least(
        (SELECT min(wake_at) FROM flow_runs WHERE wake_at IS NOT NULL),
        (SELECT min(control_at) FROM flows WHERE control_at IS NOT NULL)) END,
    (SELECT json_agg(json_build_array(n.id, n.pid, n.process_started) ORDER BY n.id)
        FROM node_sessions AS n
        WHERE n.ended_at IS NULL AND n.id <> :id AND n.machine <> ''
            AND n.machine = (SELECT mine.machine FROM node_sessions AS mine WHERE mine.id = :id)),
    (SELECT draining_at FROM me), (SELECT stops_when_idle FROM me),
    EXISTS (
        SELECT 1 FROM consumers AS c JOIN cursors AS k ON k.namespace = c.namespace AND k.name = c.name
        WHERE c.kind IN ('alert_rules', 'alert_channel')
            AND NOT EXISTS (
                SELECT 1 FROM members AS m
                WHERE m.namespace = c.namespace AND m.name = c.name AND m.member = k.owner
                    AND m.expires_at > at.now)
            AND (k.position < (SELECT max(e.position) FROM events AS e)
                OR (c.options = '{"timed": true}' AND (k.look_at IS NULL OR k.look_at <= at.now))
                OR (c.options = '{"timed": "runs"}' AND (k.look_at IS NULL OR k.look_at <= at.now
                    OR EXISTS (
                        SELECT 1 FROM active_runs AS r
                        WHERE r.namespace = c.namespace AND r.status = 'running')))
                OR k.retry_at <= at.now
                OR EXISTS (
                    SELECT 1 FROM held_keys AS h
                    WHERE h.namespace = c.namespace AND h.name = c.name AND h.retry_at <= at.now)
                OR EXISTS (
                    SELECT 1 FROM dead_letters AS d
                    WHERE d.namespace = c.namespace AND d.name = c.name AND d.again)
                OR (c.kind = 'alert_rules' AND EXISTS (
                    SELECT 1 FROM alerts AS a
                    WHERE a.namespace = c.namespace AND a.state = 'waiting'))))
FROM at

-- name: end_expired_sessions
-- Declare nodes with an expired lease dead, unless they are claiming; those are looked at again.
UPDATE node_sessions SET ended_at = :now
WHERE id IN (
    SELECT id FROM node_sessions
    WHERE ended_at IS NULL AND expires_at <= :now
        AND extract(epoch FROM expires_at - seen_at) <= :longest::bigint / 1000000.0
    FOR UPDATE SKIP LOCKED)
RETURNING id

-- name: end_gone_sessions
-- Declare nodes dead whose process has ended, after a claim of theirs that is being committed.
UPDATE node_sessions SET ended_at = :now
WHERE id IN (
    SELECT id FROM node_sessions WHERE id = ANY (:ids::text[]) AND ended_at IS NULL
    FOR UPDATE SKIP LOCKED)
RETURNING id

-- name: take_lead
-- Take the vacant leadership, unless a commit under the old term is in progress.
UPDATE leases SET term = term + 1, session_id = :id, expires_at = :expires_at
WHERE name IN (
    SELECT name FROM leases WHERE name = 'scheduler' AND expires_at <= :now
    FOR UPDATE SKIP LOCKED)
RETURNING term

-- name: get_any_queued
-- Whether anything waits in the given queues, of the given namespaces or of any.
SELECT 1 FROM active_runs WHERE status = 'queued' AND queue = ANY (:queues::text[])
    AND (:namespaces::text[] IS NULL OR namespace = ANY (:namespaces::text[]))
LIMIT 1

-- name: read_clock
-- The current time, rather than that of the transaction's start.
SELECT clock_timestamp()

-- name: list_claimable
-- Ready work in order, within its limits, and whether it may be buffered. IS NULL, for EXISTS may read a table.
SELECT r.id, r.schedule_id, r.lane, r.exclusive, r.max_concurrent IS NOT NULL
        OR r.backfill_limit IS NOT NULL AS limited,
    NOT r.exclusive AND r.max_concurrent IS NULL AND r.backfill_limit IS NULL
        AND r.max_takeovers > 0 AND r.early_losses = 0 AS bufferable,
    -r.priority AS rank, r.ready_at, r.place
FROM active_runs AS r
WHERE r.status = 'queued' AND r.queue = :queue AND r.namespace = :namespace AND r.ready_at <= :now
    AND (r.expires_at IS NULL OR r.expires_at > :now OR r.attempt > 0)
    AND (r.task = ANY (:tasks::text[]) OR r.task IS NULL AND '@known-only' <> ALL (:tasks::text[]))
    AND (r.needs IS NULL OR :labels::jsonb @> r.needs::jsonb)
    AND (NOT r.exclusive OR NOT EXISTS (
        SELECT 1 FROM active_runs AS other
        WHERE other.schedule_id = r.schedule_id AND other.lane < 3
            AND (other.status = 'running' OR other.lane < r.lane
                OR (other.lane = r.lane AND other.attempt > 0 AND r.attempt = 0)
                OR (other.lane = r.lane AND other.exclusive AND other.queue = r.queue
                    AND other.ready_at <= :now AND (other.attempt > 0 OR r.attempt = 0)
                    AND (other.priority > r.priority
                        OR (other.priority = r.priority
                            AND (other.ready_at, other.place) < (r.ready_at, r.place)))))))
    AND (r.lane < 2 OR r.exclusive OR (
        SELECT true FROM active_runs AS other
        WHERE other.schedule_id = r.schedule_id AND other.status = 'queued'
            AND other.lane < 2
            AND other.queue = r.queue AND other.ready_at <= :now LIMIT 1) IS NULL)
    AND (r.lane < 2 OR NOT r.exclusive OR (
        SELECT true FROM schedule_state AS st
        WHERE st.schedule_id = r.schedule_id AND st.status = 'active'
            AND (st.seen IS NOT NULL OR (st.next_due_at <= :now AND st.wake_at <= :now)
                OR EXISTS (SELECT 1 FROM schedule_exceptions AS e
                    WHERE e.schedule_id = st.schedule_id AND e.kind = 'moved_here'
                        AND e.due_at <= :now))) IS NULL)
    AND (r.exclusive OR r.max_concurrent IS NULL OR r.max_concurrent > (
        SELECT count(*) FROM active_runs AS other
        WHERE other.schedule_id = r.schedule_id AND other.status || '' = 'running'))
    AND (r.backfill_limit IS NULL OR r.backfill_limit > (
        SELECT count(*) FROM active_runs AS other
        WHERE other.schedule_id = r.schedule_id AND other.status || '' = 'running'
            AND other.lane = 3))
ORDER BY -r.priority, r.ready_at, r.place
LIMIT :limit

-- name: look_for_work
-- Where runs may start, the first of each place, when more will be ready, whether any queue has limits.
WITH RECURSIVE at AS (SELECT coalesce(:clock::timestamptz, now()) AS now),
part AS MATERIALIZED (
    SELECT queue, namespace, rank, since, last
    FROM unnest(:part_queues::text[], :part_namespaces::text[], :ranks::integer[],
        :sinces::timestamptz[], :lasts::integer[]) AS p (queue, namespace, rank, since, last)),
gap (queue, low, high) AS (
    SELECT queue, namespace,
        lead(namespace, 1, '{') OVER (PARTITION BY queue ORDER BY namespace COLLATE "C")
    FROM (
        SELECT q AS queue, '' AS namespace FROM unnest(:queues::text[]) AS q
        UNION SELECT queue, namespace FROM part) AS known
    WHERE :namespaces::text[] IS NULL),
hop (queue, namespace, high) AS (
    SELECT gap.queue, (
        SELECT min(r.namespace) FROM active_runs AS r
        WHERE r.status = 'queued' AND r.queue = gap.queue AND r.namespace > gap.low
            AND r.namespace < gap.high), gap.high
    FROM gap
    UNION ALL
    SELECT hop.queue, (
        SELECT min(r.namespace) FROM active_runs AS r
        WHERE r.status = 'queued' AND r.queue = hop.queue AND r.namespace > hop.namespace
            AND r.namespace < hop.high), hop.high
    FROM hop WHERE hop.namespace IS NOT NULL),
spot (queue, namespace) AS (
    SELECT queue, namespace FROM hop WHERE namespace IS NOT NULL
    UNION ALL
    SELECT queue, low FROM gap WHERE low <> ''
    UNION ALL
    SELECT q, n FROM unnest(:queues::text[]) AS q CROSS JOIN unnest(:namespaces::text[]) AS n)
SELECT at.now, EXISTS (SELECT 1 FROM queues), (
        SELECT min(ready_at) FROM active_runs
        WHERE status = 'queued' AND ready_at > created_at AND ready_at > at.now), (
        SELECT json_agg(json_build_array(spot.queue, spot.namespace, first.rank,
                (extract(epoch FROM first.ready_at) * 1000000)::bigint)
            ORDER BY array_position(:queues::text[], spot.queue), spot.namespace)
        FROM spot CROSS JOIN LATERAL (
            SELECT found.rank, found.ready_at FROM (
                SELECT rank, since, last FROM part
                WHERE part.queue = spot.queue AND part.namespace = spot.namespace
                UNION ALL
                SELECT -2147483648, '-infinity', 2147483647 WHERE NOT EXISTS (
                    SELECT 1 FROM part
                    WHERE part.queue = spot.queue AND part.namespace = spot.namespace)) AS stretch
            CROSS JOIN LATERAL (claimable) AS found
            LIMIT 1) AS first)
FROM at

-- name: lock_exclusive
-- Of schedules whose runs exclude each other, those that no other claim is looking at.
SELECT id FROM schedules WHERE id = ANY (:ids::text[])
ORDER BY id
FOR NO KEY UPDATE SKIP LOCKED

-- name: lock_decided
-- Of schedules with backfills to start, those that no tick is planning now, nor will until the commit.
WITH free AS (
    SELECT schedule_id FROM schedule_state WHERE schedule_id = ANY (:ids::text[])
    FOR SHARE SKIP LOCKED)
SELECT schedule_id FROM free
UNION ALL
SELECT wanted.id FROM unnest(:ids::text[]) AS wanted (id)
WHERE NOT EXISTS (SELECT 1 FROM schedule_state AS st WHERE st.schedule_id = wanted.id)

-- name: lock_limited
-- Schedules with a limit whose runs no other claim is counting, locked.
SELECT id FROM schedules WHERE id = ANY (:ids::text[])
ORDER BY id
FOR NO KEY UPDATE

-- name: claim_ready
-- Give ready runs to this session, beyond `straight` as buffered; those that a limit counts are only locked.
WITH me AS MATERIALIZED (
    SELECT node, EXISTS (SELECT 1 FROM queues WHERE name = :queue) AS limited
    FROM node_sessions
    WHERE id = :session_id AND ended_at IS NULL AND expires_at > :now AND draining_at IS NULL
        AND (namespaces::jsonb @> to_jsonb(:everywhere::text)
            OR namespaces::jsonb @> to_jsonb(:namespace::text))
    FOR KEY SHARE),
taken AS MATERIALIZED (
    SELECT found.id, found.schedule_id, found.lane, found.exclusive, found.limited,
        found.bufferable, found.rank, found.ready_at, found.place, row_number() OVER () AS turn
    FROM (
        SELECT part.rank, part.since, part.last FROM me
        CROSS JOIN unnest(:ranks::integer[], :sinces::timestamptz[], :lasts::integer[])
            AS part (rank, since, last)
        WHERE :admitted OR NOT me.limited) AS stretch
    CROSS JOIN LATERAL (claimable
        FOR UPDATE OF r SKIP LOCKED) AS found
    LIMIT :limit),
ending AS MATERIALIZED (
    SELECT min(turn) AS turn FROM taken WHERE turn > :straight AND NOT bufferable),
straight AS MATERIALIZED (
    SELECT rank, ready_at, place FROM taken WHERE turn = :straight),
given AS (
    UPDATE active_runs AS r
    SET status = 'running', attempt = r.attempt + 1, lane = CASE WHEN r.lane = 2 THEN 1 ELSE r.lane END,
        session_id = :session_id, claimed_at = :at, progress = NULL, progress_text = NULL,
        beat_at = NULL, started_at = CASE
            WHEN :straight = 0 OR (-r.priority, r.ready_at, r.place) > (
                SELECT rank, ready_at, place FROM straight)
            THEN NULL ELSE :at END
    WHERE r.id = ANY (ARRAY(
        SELECT taken.id FROM taken CROSS JOIN ending
        WHERE NOT taken.exclusive AND NOT taken.limited
            AND (ending.turn IS NULL OR taken.turn < ending.turn)))
    RETURNING r.id, r.namespace, r.schedule_id, r.version, r.due_at, r.origin, r.trigger, r.queue,
        r.priority, r.attempt, r.failures, r.losses, r.payload, r.created_at, r.ready_at,
        r.expires_at, r.task, r.parent_run_id, r.step, r.flow, r.started_at, r.interval_start,
        r.interval_end, r.requested_by, r.planned_by, r.place)
SELECT given.id, given.namespace, given.schedule_id, given.version, given.due_at, given.origin,
    given.trigger, given.queue, given.priority, given.attempt, given.failures, given.losses,
    given.payload, given.created_at, given.ready_at, given.expires_at, given.task,
    given.parent_run_id, given.step, given.flow, given.started_at, given.interval_start,
    given.interval_end, given.requested_by, given.planned_by, given.place,
    me.node, me.limited, ending.turn IS NOT NULL, (
        SELECT json_agg(json_build_array(id, schedule_id, lane, exclusive)) FROM taken
        WHERE (exclusive OR limited) AND turn <= :straight)
FROM me CROSS JOIN ending LEFT JOIN given ON true

-- name: claim_limited
-- Give the given runs to this session, as far as the limits of their schedules allow now.
WITH counted AS MATERIALIZED (
    SELECT owner.schedule_id, n.every, n.own, n.filling
    FROM (SELECT DISTINCT schedule_id FROM active_runs WHERE id = ANY (:ids::text[])) AS owner
    CROSS JOIN LATERAL (
        SELECT count(*) AS every, count(*) FILTER (WHERE other.lane < 3) AS own,
            count(*) FILTER (WHERE other.lane = 3) AS filling
        FROM active_runs AS other
        WHERE other.schedule_id = owner.schedule_id AND other.status || '' = 'running') AS n)
UPDATE active_runs AS r
SET status = 'running', attempt = r.attempt + 1,
    lane = CASE WHEN r.lane = 2 THEN 1 ELSE r.lane END, session_id = :session_id,
    claimed_at = :at, started_at = :at, progress = NULL, progress_text = NULL, beat_at = NULL
FROM (
    SELECT c.id, CASE WHEN c.exclusive THEN 1 ELSE c.max_concurrent END AS most,
        row_number() OVER (
            PARTITION BY c.schedule_id
            ORDER BY c.lane, c.attempt > 0 DESC, c.priority DESC, c.ready_at, c.place) AS rank,
        coalesce(CASE WHEN c.exclusive THEN n.own ELSE n.every END, 0) AS running,
        c.backfill_limit, row_number() OVER (
            PARTITION BY c.schedule_id, c.lane ORDER BY c.priority DESC, c.ready_at, c.place) AS turn,
        coalesce(n.filling, 0) AS filling
    FROM active_runs AS c LEFT JOIN counted AS n ON n.schedule_id = c.schedule_id
    WHERE c.id = ANY (:ids::text[])) AS ranked
WHERE r.id = ranked.id AND r.status || '' = 'queued'
    AND (ranked.most IS NULL OR ranked.running + ranked.rank <= ranked.most)
    AND (ranked.backfill_limit IS NULL OR ranked.filling + ranked.turn <= ranked.backfill_limit)
    AND (r.lane = 0 OR NOT r.exclusive OR NOT EXISTS (
        SELECT 1 FROM active_runs AS other
        WHERE other.schedule_id = r.schedule_id AND other.status = 'queued'
            AND other.lane < r.lane))
    AND (r.lane < 2 OR NOT r.exclusive OR (
        SELECT true FROM schedule_state AS st
        WHERE st.schedule_id = r.schedule_id AND st.status = 'active'
            AND (st.seen IS NOT NULL OR (st.next_due_at <= :now AND st.wake_at <= :now)
                OR EXISTS (SELECT 1 FROM schedule_exceptions AS e
                    WHERE e.schedule_id = st.schedule_id AND e.kind = 'moved_here'
                        AND e.due_at <= :now))) IS NULL)
RETURNING r.id, r.namespace, r.schedule_id, r.version, r.due_at, r.origin, r.trigger, r.queue,
    r.priority, r.attempt, r.failures, r.losses, r.payload, r.created_at, r.ready_at,
    r.expires_at, r.task, r.parent_run_id, r.step, r.flow, r.started_at, r.interval_start,
    r.interval_end, r.requested_by, r.planned_by, r.place

-- name: settle_run
-- End a run; only its current token can. Returns also whether others waited for that.
MOVE active_runs AS r TO ended_runs
SET status = :status, finished_at = :now, reason = :reason, error = :error,
    exit_code = :exit_code, output = :output, output_ref = :output_ref,
    started_at = coalesce(:begun_at, r.started_at),
    failures = r.failures + CASE WHEN :status = 'failed' THEN 1 ELSE 0 END
WHERE r.id = :run_id AND r.attempt = :attempt AND r.session_id = :session_id
    AND r.status || '' = 'running'
RETURNING r.wakes, r.schedule_id, r.parent_run_id,
    EXISTS (SELECT 1 FROM queues AS q WHERE q.name = r.queue AND q.concurrency IS NOT NULL)
    OR (r.exclusive OR r.max_concurrent IS NOT NULL OR r.backfill_limit IS NOT NULL) AND EXISTS (
        SELECT 1 FROM active_runs AS other
        WHERE other.schedule_id = r.schedule_id AND other.status = 'queued')

-- name: settle_runs
-- Like settle_run, for many. Without ids it may read all runs; without CASE, compare each with all.
MOVE active_runs AS r TO ended_runs
SET status = v.status, finished_at = :now, reason = v.reason, error = v.error,
    exit_code = v.exit_code, output = v.output, output_ref = v.output_ref,
    started_at = CASE WHEN v.begun_at > :now THEN :now ELSE coalesce(v.begun_at, r.started_at) END,
    failures = r.failures + CASE WHEN v.status = 'failed' THEN 1 ELSE 0 END
FROM unnest(:run_id::text[], :attempt::integer[], :session_id::text[], :status::text[],
    :reason::text[], :error::text[], :exit_code::integer[], :output::text[], :output_ref::text[],
    :begun_at::timestamptz[])
    AS v (run_id, attempt, session_id, status, reason, error, exit_code, output, output_ref,
        begun_at)
WHERE r.id = ANY (:run_id::text[])
    AND r.id = v.run_id AND r.attempt = v.attempt AND r.session_id = v.session_id
    AND CASE WHEN r.status = 'running' THEN true ELSE false END
RETURNING r.id, r.attempt, r.wakes, r.schedule_id, r.parent_run_id, r.status = 'succeeded',
    r.queue IN (SELECT q.name FROM queues AS q WHERE q.concurrency IS NOT NULL)
    OR (r.exclusive OR r.max_concurrent IS NOT NULL OR r.backfill_limit IS NOT NULL) AND EXISTS (
        SELECT 1 FROM active_runs AS other
        WHERE other.schedule_id = r.schedule_id AND other.status = 'queued')

-- name: expire_runs
-- Cancel work that was not started in time.
MOVE active_runs TO ended_runs
SET status = 'cancelled', finished_at = :now, reason = 'expired',
    error = CASE WHEN queue = '@human' THEN 'it was not approved or rejected in time' ELSE error END
WHERE id IN (
    SELECT id FROM active_runs
    WHERE id = ANY (:ids::text[]) AND status || '' = 'queued' AND attempt = 0
    ORDER BY id
    FOR UPDATE SKIP LOCKED)
RETURNING id, wakes, schedule_id, parent_run_id

-- name: note_progress
-- The progress that active attempts report.
UPDATE active_runs AS r
SET progress = coalesce(v.progress, r.progress),
    progress_text = coalesce(v.text, r.progress_text), beat_at = v.now
FROM unnest(:run_id::text[], :attempt::integer[], :session_id::text[],
    :progress::float8[], :text::text[], :now::timestamptz[])
    AS v (run_id, attempt, session_id, progress, text, now)
WHERE r.id = ANY (:run_id::text[])
    AND r.id = v.run_id AND r.attempt = v.attempt AND r.session_id = v.session_id
    AND CASE WHEN r.status = 'running' THEN true ELSE false END

-- name: mark_begun
-- Record that buffered runs have started.
UPDATE active_runs AS r SET started_at = v.begun_at
FROM unnest(:run_id::text[], :attempt::integer[], :session_id::text[], :begun_at::timestamptz[])
    AS v (run_id, attempt, session_id, begun_at)
WHERE r.id = ANY (:run_id::text[])
    AND r.id = v.run_id AND r.attempt = v.attempt AND r.session_id = v.session_id
    AND CASE WHEN r.status = 'running' THEN r.started_at IS NULL ELSE false END

-- name: take_orphans
-- What to do with each of the given runs, unless it has been taken over meanwhile.
SELECT id, started_at IS NOT NULL, CASE WHEN started_at IS NULL THEN early_losses ELSE losses END,
    max_takeovers,
    CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE reason END, wakes, schedule_id, parent_run_id
FROM active_runs
WHERE id = ANY (:ids::text[]) AND status || '' = 'running'
    AND session_id IN (SELECT n.id FROM node_sessions AS n WHERE n.ended_at IS NOT NULL)
ORDER BY id
FOR UPDATE SKIP LOCKED

-- name: list_options
-- The policies of runs without a schedule.
SELECT id, options FROM runs WHERE id = ANY (:ids::text[])

-- name: list_schedules_by_id
-- The given schedules with their definitions and states.
SELECT s.id, s.namespace, s.name, s.version, r.spec, st.status, s.created_at,
    s.created_by, st.watermark, st.next_due_at, st.paused_at, st.paused_until, st.pause_reason,
    st.problem, r.valid_from, s.owner
FROM unnest(:ids::text[]) AS wanted (id)
JOIN schedules AS s ON s.id = wanted.id
LEFT JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
JOIN schedule_state AS st ON st.schedule_id = s.id

-- name: list_latest_runs
-- The newest run of each given schedule and when its last was created. Each mention of runs costs planning.
SELECT wanted.id, r.id, r.status, coalesce(r.started_at, r.created_at), r.reason,
    greatest(r.newest,
        (SELECT created_at FROM active_runs WHERE schedule_id = wanted.id
            ORDER BY created_at DESC LIMIT 1),
        (SELECT max(created_at) FROM (SELECT created_at FROM ended_runs
            WHERE schedule_id = wanted.id
            ORDER BY finished_at DESC LIMIT 5) AS ended))
FROM unnest(:ids::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT id, status, started_at, created_at, reason, max(created_at) OVER () AS newest
    FROM (
        (SELECT id, status, started_at, created_at, reason, due_at AS at, place FROM runs
            WHERE schedule_id = wanted.id AND due_at IS NOT NULL
            ORDER BY due_at DESC LIMIT 1)
        UNION ALL
        (SELECT id, status, started_at, created_at, reason, created_at AS at, place FROM runs
            WHERE schedule_id = wanted.id AND due_at IS NULL
            ORDER BY created_at DESC, place DESC LIMIT 1)) AS newest_two
    ORDER BY at DESC, place DESC LIMIT 1) AS r

-- name: delete_runs
-- Retention: runs with all their data and steps; of schedules with their own retention only for that reason.
WITH RECURSIVE old AS MATERIALIZED (
    SELECT r.id, r.queue FROM ended_runs AS r
    WHERE r.id = ANY (:ids::text[])
        AND (:kept OR (SELECT h.keep_seconds FROM schedule_history AS h
            WHERE h.schedule_id = r.schedule_id) IS NULL)
    FOR UPDATE OF r SKIP LOCKED),
tree AS (
    SELECT old.id, old.queue FROM old
    UNION ALL
    SELECT c.id, c.queue FROM tree JOIN ended_runs AS c ON c.parent_run_id = tree.id
    WHERE tree.queue = '@flow'),
ids AS MATERIALIZED (SELECT array_agg(id) AS all_of_them FROM tree),
gone AS (
    DELETE FROM ended_runs WHERE id = ANY ((SELECT all_of_them FROM ids)::text[])
    RETURNING id, schedule_id, due_at, namespace, task, key),
logs AS (DELETE FROM run_logs WHERE run_id = ANY ((SELECT all_of_them FROM ids)::text[])),
attempts AS (DELETE FROM run_attempts WHERE run_id = ANY ((SELECT all_of_them FROM ids)::text[])),
outputs AS (DELETE FROM run_outputs WHERE run_id = ANY ((SELECT all_of_them FROM ids)::text[])),
flows AS (DELETE FROM flow_runs WHERE run_id = ANY ((SELECT all_of_them FROM ids)::text[])),
keys AS (
    DELETE FROM run_keys AS k USING gone
    WHERE k.namespace = gone.namespace AND k.task = gone.task AND k.key = gone.key
        AND k.run_id = gone.id),
due AS (
    DELETE FROM due_keys AS k USING gone
    WHERE k.schedule_id = gone.schedule_id AND k.due_at = gone.due_at AND k.run_id = gone.id)
SELECT id FROM old

-- name: delete_old_changes
-- Retention: a small batch of changes made long ago, a row for each; nodes may not delete others.
SELECT generate_series(1, forget_audit(:before, :limit))

-- name: list_runs_by_place
-- The runs of a namespace, the newest first, as far as filters ask for them.
SELECT id, namespace, status, origin, queue, created_at, place FROM runs
WHERE namespace = :namespace AND place >= :first AND place < :before
ORDER BY place DESC
LIMIT :limit

-- name: list_runs_by_id
-- Several runs, each by its id: a plain join would read all schedules, and soon all runs.
SELECT d.* FROM unnest(:ids::text[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM run_details AS r WHERE r.id = wanted.id OFFSET 0) AS d

-- name: list_running_runs
-- The runs of a namespace that run, the newest first, never among those that wait.
SELECT id, namespace, status, origin, queue, created_at, place FROM (
    SELECT id, namespace, status, origin, queue, created_at, place FROM active_runs
    WHERE status = 'running' OFFSET 0) AS running
WHERE namespace = :namespace AND place >= :first AND place < :before
ORDER BY place DESC
LIMIT :limit

-- name: list_queued_runs
-- The runs of a namespace that wait, and the few that run among them, the newest first.
SELECT id, namespace, status, origin, queue, created_at, place FROM active_runs
WHERE namespace = :namespace AND place >= :first AND place < :before
ORDER BY place DESC
LIMIT :limit

-- name: list_failed_runs
-- The runs of a namespace that ended in a status, the newest first, as far as filters ask for them.
SELECT id, namespace, status, origin, queue, created_at, place FROM runs
WHERE namespace = :namespace AND status = :status AND status IN ('partial', 'failed', 'cancelled')
    AND place >= :first AND place < :before
ORDER BY place DESC
LIMIT :limit

-- name: list_runs_of
-- The runs of a schedule by due or creation time, as far as filters ask for them.
(SELECT id, namespace, status, origin, queue, due_at AS at, place FROM runs
    WHERE schedule_id = :schedule_id AND due_at IS NOT NULL AND due_at >= :since
        AND (due_at, place) < (:before, :place)
    ORDER BY due_at DESC LIMIT :limit)
UNION ALL
(SELECT id, namespace, status, origin, queue, created_at, place FROM runs
    WHERE schedule_id = :schedule_id AND due_at IS NULL AND created_at >= :since
        AND (created_at, place) < (:before, :place)
    ORDER BY created_at DESC, place DESC LIMIT :limit)
ORDER BY at DESC, place DESC
LIMIT :limit

-- name: get_place
-- The first run of a namespace from a place on, and when it was created.
SELECT place, created_at FROM runs WHERE namespace = :namespace AND place >= :place
ORDER BY place
LIMIT 1

-- name: get_last_place
-- The place of the newest run of a namespace.
SELECT max(place) FROM runs WHERE namespace = :namespace

-- name: list_taken
-- Which of the given names existing schedules have.
SELECT name, id FROM schedules
WHERE namespace = :namespace AND name = ANY (:names::text[]) AND deleted_at IS NULL

-- name: update_schedule
-- Point schedules to their new definitions.
UPDATE schedules AS s
SET version = v.version, labels = v.labels, target = v.target, title = v.title,
    calendar = v.calendar
FROM unnest(:version::integer[], :labels::text[], :target::text[], :title::text[],
    :calendar::text[], :id::text[]) AS v (version, labels, target, title, calendar, id)
WHERE s.id = v.id

-- name: update_state_version
-- Point states to the new definitions.
UPDATE schedule_state AS st SET version = v.version
FROM unnest(:version::integer[], :id::text[]) AS v (version, id)
WHERE st.schedule_id = v.id

-- name: limit_queued_runs
-- Apply the limits of current definitions to waiting runs.
UPDATE active_runs AS r SET exclusive = v.exclusive, max_concurrent = v.max_concurrent
FROM unnest(:exclusive::boolean[], :max_concurrent::integer[], :id::text[])
    AS v (exclusive, max_concurrent, id)
WHERE r.schedule_id = v.id AND r.status IN ('queued', 'running') AND r.status = 'queued'
    AND r.lane < 3

-- name: list_states
-- Like take_states, for reading only.
SELECT schedule_id, version, status, watermark, seen, considered_at, fired, paused_until, delay
FROM schedule_state WHERE schedule_id = ANY (:ids::text[])
ORDER BY schedule_id

-- name: take_states
-- The states of the given schedules, for operations of people on them.
SELECT schedule_id, version, status, watermark, seen, considered_at, fired, paused_until, delay
FROM schedule_state WHERE schedule_id = ANY (:ids::text[])
ORDER BY schedule_id
FOR UPDATE

-- name: cancel_queued_runs
-- Cancel the queued runs of deleted schedules.
MOVE active_runs TO ended_runs
SET status = 'cancelled', finished_at = :now, reason = :reason, cancel_requested_at = :now
WHERE schedule_id = ANY (:ids::text[]) AND status = 'queued'
RETURNING id

-- name: lock_schedules
-- Prevent others from creating schedules before this transaction ends.
LOCK TABLE schedules IN SHARE ROW EXCLUSIVE MODE

-- name: list_columns
-- The columns of each table of Duebook.
SELECT c.table_name, c.column_name, c.data_type, c.is_identity
FROM information_schema.columns AS c
JOIN information_schema.tables AS t USING (table_schema, table_name)
WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
ORDER BY c.table_name, c.ordinal_position

-- name: list_references
-- Which tables refer to which others.
SELECT c.conrelid::regclass::text, c.confrelid::regclass::text FROM pg_constraint AS c
WHERE c.contype = 'f' AND c.connamespace = current_schema()::regnamespace

-- name: get_arrival
-- Whether a copy was committed.
SELECT 1 FROM arrivals WHERE id = :id

-- name: insert_arrival
-- The proof that the copy was committed.
INSERT INTO arrivals (id, place, at) VALUES (:id, :place, :now)

-- name: list_due_runs
-- The runs of the given schedules' due times, for each after the instant at the same place.
SELECT r.schedule_id, r.due_at, r.id, r.origin
FROM unnest(:ids::text[], :sinces::timestamptz[]) AS wanted (id, since)
JOIN runs AS r ON r.schedule_id = wanted.id AND r.due_at > wanted.since AND r.due_at <= :until

-- name: list_due_entries
-- The entries about the given schedules' due times, for each after the instant at the same place.
SELECT l.schedule_id, l.due_from, l.due_to, l.count, l.exact, l.reason, l.version, l.kind
FROM unnest(:ids::text[], :sinces::timestamptz[]) AS wanted (id, since)
JOIN ledger AS l ON l.schedule_id = wanted.id AND l.due_to > wanted.since
WHERE l.due_from <= :until
ORDER BY l.due_from

-- name: list_settings
-- The server's settings for keeping what it acknowledged.
SELECT name, setting FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'
ORDER BY name

-- name: allow_time
-- Raise the timeouts: this transaction reads much, and pauses in between.
SELECT set_config('statement_timeout', :longest, true),
    set_config('idle_in_transaction_session_timeout', '60s', true)

-- name: list_marks
-- The newest runs of each of the given schedules, as far as charts show them.
SELECT r.schedule_id, r.id, r.status, r.origin, r.attempt, r.version,
    coalesce(r.due_at, r.created_at), r.due_at, r.started_at, r.finished_at
FROM unnest(:ids::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    (SELECT schedule_id, id, status, origin, attempt, version, due_at, created_at, started_at,
            finished_at
        FROM runs
        WHERE schedule_id = wanted.id AND due_at IS NOT NULL
        ORDER BY due_at DESC LIMIT :each)
    UNION ALL
    (SELECT schedule_id, id, status, origin, attempt, version, due_at, created_at, started_at,
            finished_at
        FROM runs
        WHERE schedule_id = wanted.id AND due_at IS NULL
        ORDER BY created_at DESC, place DESC LIMIT :each)) AS r

-- name: get_oldest_end
-- When the first of the stored runs ended.
SELECT min(finished_at) FROM ended_runs

-- name: get_server
-- The size of the database, and the usage of the server.
SELECT pg_database_size(current_database()), current_setting('autovacuum') = 'on',
    (SELECT sum(numbackends) FROM pg_stat_database),
    current_setting('max_connections')::integer
        - current_setting('superuser_reserved_connections')::integer,
    (SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND query = '<insufficient privilege>')

-- name: list_hot_tables
-- Tables with frequent changes, with the rows that a vacuum has to remove.
SELECT t.relname, t.n_live_tup, t.n_dead_tup, pg_total_relation_size(t.relid),
    NOT coalesce('autovacuum_enabled=false' = ANY (c.reloptions), false),
    extract(epoch FROM clock_timestamp() - greatest(t.last_vacuum, t.last_autovacuum))
FROM pg_stat_user_tables AS t JOIN pg_class AS c ON c.oid = t.relid
WHERE t.schemaname = current_schema() AND t.relname = ANY (:names::text[])
ORDER BY t.relname

-- name: get_oldest_transaction
-- The oldest open transaction that this user may see: its owner, and its age in seconds.
SELECT title, seconds FROM (
    SELECT 'process ' || pid || ' of user ' || coalesce(usename, 'unknown')
            || CASE WHEN application_name <> '' THEN ' (' || application_name || ')' ELSE '' END
            || ', ' || coalesce(state, 'unknown') AS title,
        extract(epoch FROM clock_timestamp() - xact_start) AS seconds
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
        AND backend_type = 'client backend'
    UNION ALL
    SELECT 'prepared transaction ' || gid, extract(epoch FROM clock_timestamp() - prepared)
    FROM pg_prepared_xacts WHERE database = current_database()) AS open_ones
ORDER BY seconds DESC
LIMIT 1

-- name: list_last_lines
-- The last lines of the logs of each of the given runs.
SELECT l.run_id, l.attempt, l.seq, l.at, l.stream, l.text
FROM unnest(:ids::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT run_id, attempt, seq, at, stream, text FROM run_logs WHERE run_id = wanted.id
    ORDER BY attempt DESC, seq DESC LIMIT :each) AS l

-- name: list_last_successes
-- When the latest success of each of the given schedules ended, among its newest runs.
SELECT wanted.id, found.finished_at
FROM unnest(:ids::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT finished_at FROM (
        SELECT status, finished_at FROM ended_runs WHERE schedule_id = wanted.id
        ORDER BY finished_at DESC LIMIT :looked) AS newest
    WHERE status = 'succeeded'
    ORDER BY finished_at DESC LIMIT 1) AS found

-- name: list_late
-- Late runs among a namespace's newest, by `lateness`, without retries, backfills and waits for manual runs.
SELECT id FROM (
    SELECT id, schedule_id, origin, attempt, created_at, ready_at, due_at, started_at, place
    FROM runs
    WHERE namespace = :namespace AND place < :before
    ORDER BY place DESC LIMIT :looked) AS newest
WHERE started_at >= :since AND extract(epoch FROM started_at - due_at) > :seconds
    AND attempt = 1 AND ready_at <= created_at AND origin IN ('schedule', 'catchup')
    AND NOT EXISTS (
        SELECT 1 FROM ended_runs AS other
        WHERE other.schedule_id = newest.schedule_id AND other.finished_at > newest.due_at
            AND other.finished_at <= newest.started_at
            AND (other.attempt > 1 OR other.origin IN ('manual', 'backfill')))
ORDER BY place DESC
LIMIT :limit

-- name: list_late_hours
-- In which hours late runs ended, the newest first, how late they began, and what tells whether they count, as in `list_late`.
SELECT hour, schedule_id, version, seconds, NOT EXISTS (
    SELECT 1 FROM ended_runs AS other
    WHERE other.schedule_id = late.schedule_id AND other.finished_at > late.due_at
        AND other.finished_at <= late.started_at
        AND (other.attempt > 1 OR other.origin IN ('manual', 'backfill')))
FROM (
    SELECT floor(extract(epoch FROM finished_at) / 3600)::bigint AS hour, schedule_id, version,
        due_at, started_at, extract(epoch FROM started_at - due_at) AS seconds
    FROM ended_runs
    WHERE finished_at >= :since AND finished_at < :until AND namespace = :namespace
        AND extract(epoch FROM started_at - due_at) > :seconds
        AND attempt = 1 AND ready_at <= created_at AND origin IN ('schedule', 'catchup')
    ORDER BY finished_at DESC LIMIT :looked) AS late

-- name: count_failed
-- How many runs of a namespace failed from a place on, without steps; counted up to a limit.
SELECT count(*) FROM (
    SELECT 1 FROM runs
    WHERE namespace = :namespace AND status = 'failed' AND status IN ('partial', 'failed', 'cancelled')
        AND place >= :first AND parent_run_id IS NULL
    LIMIT :most) AS failed

-- name: count_hours
-- The runs of a namespace by the hour in which they ended.
SELECT floor(extract(epoch FROM finished_at) / 3600)::bigint, count(*),
    count(*) FILTER (WHERE status = 'failed'),
    sum(extract(epoch FROM finished_at - started_at))
FROM runs
WHERE finished_at >= :since AND finished_at < :until AND namespace = :namespace
GROUP BY 1

-- name: list_durations
-- The average duration of the newest runs of a namespace, by schedule.
SELECT schedule_id, avg(extract(epoch FROM finished_at - started_at)) FROM (
    SELECT schedule_id, status, started_at, finished_at FROM runs
    WHERE namespace = :namespace AND place < :before
    ORDER BY place DESC LIMIT :looked) AS newest
WHERE status IN ('succeeded', 'partial') AND schedule_id IS NOT NULL
GROUP BY schedule_id

-- name: insert_flow_run
-- Give runs of existing flows the newest revision, and make them due for a look now.
INSERT INTO flow_runs (run_id, digest, params, wake_at)
SELECT r.id, (SELECT f.digest FROM flows AS f WHERE f.namespace = r.namespace AND f.name = v.flow),
    v.params, v.wake_at
FROM unnest(:id::text[], :flow::text[], :params::text[], :wake_at::timestamptz[])
    AS v (id, flow, params, wake_at)
JOIN runs AS r ON r.id = v.id

-- name: name_flow
-- Record the flow of runs.
UPDATE active_runs AS r SET flow = v.flow FROM unnest(:flow::text[], :id::text[]) AS v (flow, id)
WHERE r.id = v.id

-- name: lock_flow_names
-- Of flows with limits, those whose runs no other transaction is counting.
SELECT v.namespace, v.flow FROM unnest(:namespaces::text[], :flows::text[]) AS v (namespace, flow)
WHERE pg_try_advisory_xact_lock(
    hashtextextended((v.namespace || '/' || v.flow) COLLATE "C", :salt))

-- name: count_flows_under_way
-- How many runs of each of these flows are active, whatever started them.
SELECT v.namespace, v.flow, (
    SELECT count(*) FROM active_runs AS r
    WHERE r.queue = '@flow' AND r.status = 'running'
        AND r.namespace = v.namespace AND r.flow = v.flow)
FROM unnest(:namespaces::text[], :flows::text[]) AS v (namespace, flow)

-- name: begin_flow_run
-- Start runs of flows; they have no owner.
UPDATE active_runs SET status = 'running', attempt = attempt + 1, lane = CASE WHEN lane = 2 THEN 1 ELSE lane END,
    session_id = '',
    claimed_at = :now, started_at = :now
WHERE id = ANY (:ids::text[]) AND status || '' = 'queued'

-- name: insert_step_run
-- Steps that start; the caller has locked the run of their flow.
INSERT INTO active_runs (id, namespace, origin, trigger, parent_run_id, step, flow, queue, priority,
    task, needs, options, exclusive, wakes, max_takeovers, status, created_at, ready_at, requested_by)
SELECT v.id, v.namespace, 'flow', v.trigger, v.parent_run_id, v.step, v.flow, v.queue, least(v.priority, (
        SELECT q.max_priority FROM quotas AS q WHERE q.namespace = v.namespace)),
    v.task, v.needs, v.options, false, true, 3, 'queued', v.now, v.now, v.requested_by
FROM unnest(:id::text[], :namespace::text[], :trigger::text[], :parent_run_id::text[],
    :step::text[], :flow::text[], :queue::text[], :priority::integer[], :task::text[],
    :needs::text[], :options::text[], :now::timestamptz[], :requested_by::text[])
    AS v (id, namespace, trigger, parent_run_id, step, flow, queue, priority, task, needs, options,
        now, requested_by)
WHERE NOT EXISTS (
    SELECT 1 FROM ended_runs AS e WHERE e.parent_run_id = v.parent_run_id AND e.step = v.step)
ON CONFLICT (parent_run_id, step) WHERE parent_run_id IS NOT NULL DO NOTHING

-- name: delete_skipped_steps
-- Steps that were skipped, and may run now; also called flows that had not started.
WITH gone AS (
    DELETE FROM ended_runs
    WHERE parent_run_id = :id AND step = ANY (:steps::text[]) AND attempt = 0
    RETURNING id)
DELETE FROM flow_runs WHERE run_id IN (SELECT id FROM gone)

-- name: end_flow_runs
-- End runs of flows, and return what that wakes.
MOVE active_runs AS r TO ended_runs
SET status = v.status, finished_at = :now, error = v.error, output = v.output,
    reason = CASE WHEN v.status = 'cancelled' AND r.cancel_requested_at IS NOT NULL
        THEN r.reason ELSE v.reason END,
    failures = r.failures + CASE WHEN v.status = 'failed' THEN 1 ELSE 0 END
FROM unnest(:id::text[], :status::text[], :reason::text[], :error::text[], :output::text[])
    AS v (id, status, reason, error, output)
WHERE r.id = ANY (:id::text[]) AND r.id = v.id AND r.session_id = '' AND r.status || '' = 'running'
RETURNING r.id, r.wakes, r.schedule_id, r.parent_run_id, r.status IN ('succeeded', 'partial'),
    r.exclusive OR r.max_concurrent IS NOT NULL OR r.backfill_limit IS NOT NULL

-- name: rest_flow
-- When runs of flows are due for the next look, if nothing happens before.
UPDATE flow_runs AS f SET wake_at = v.wake_at
FROM unnest(:wake_at::timestamptz[], :run_id::text[]) AS v (wake_at, run_id)
WHERE f.run_id = v.run_id

-- name: list_flow_revisions
-- Earlier texts of flows: each with the digest at the same place.
SELECT r.flow, r.place, r.digest, r.source
FROM unnest(:flows::text[], :digests::text[]) AS wanted (flow, digest)
JOIN flow_revisions AS r
    ON r.namespace = :namespace AND r.flow = wanted.flow AND r.digest = wanted.digest

-- name: list_flow_roots
-- The directories of the given flows.
SELECT f.namespace, f.name, split_part(f.place, '/', 1)
FROM unnest(:namespaces::text[], :flows::text[]) AS v (namespace, name)
JOIN flows AS f ON f.namespace = v.namespace AND f.name = v.name

-- name: list_directories
-- Directories of flows: the node in charge of each, when it was last read, whether its flows are known.
SELECT d.namespace, d.name, n.node, d.scanned_at,
    d.scanned_term = d.term AND d.expires_at > :now
        AND (n.id IS NULL OR (n.ended_at IS NULL AND n.expires_at > :now)),
    d.returned
FROM unnest(:namespaces::text[], :names::text[]) AS v (namespace, name)
JOIN flow_directories AS d ON d.namespace = v.namespace AND d.name = v.name
LEFT JOIN node_sessions AS n ON n.id = d.session_id

-- name: outline_calendars
-- The latest version of each calendar of a namespace, by name, without the texts of iCal files.
SELECT c.namespace, c.name, c.version,
    jsonb_set(jsonb_set(c.definition::jsonb, '{ical}', '""', false),
        '{without,ical}', '""', false)::text,
    c.days, c.created_at, c.created_by
FROM calendars AS c
WHERE c.namespace = :namespace AND c.version = (
    SELECT max(o.version) FROM calendars AS o WHERE o.namespace = c.namespace AND o.name = c.name)
ORDER BY c.name
