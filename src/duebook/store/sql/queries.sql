-- The statements common to all databases: PostgreSQL's SQL and a few idioms that dialects.py converts
-- for each database. Statements for many rows take each of their values as an array. Runs given by id
-- are found by id: `status || ''` keeps planners from indexes that they believe to be small.

-- name: take_due
-- Schedules that are due for a look, the most overdue first, without dead entries of those already taken.
SELECT schedule_id, version, status, watermark, seen, considered_at, fired, paused_until, delay, wake_at
FROM schedule_state
WHERE wake_at <= :now AND (wake_at, schedule_id) > (:after, :after_id)
ORDER BY wake_at, schedule_id
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: get_earliest_wake
-- When the next schedule is due for a look.
SELECT min(wake_at) FROM schedule_state WHERE wake_at >= :after

-- name: count_due
-- How many schedules are due for a look.
SELECT count(*) FROM schedule_state WHERE wake_at <= :now

-- name: begin_part
-- Start a part that can be undone alone.
SAVEPOINT part

-- name: undo_part
-- Undo everything since the start of the part.
ROLLBACK TO SAVEPOINT part

-- name: end_part
-- Make the part belong to the whole.
RELEASE SAVEPOINT part

-- name: get_state
-- One schedule's state, for operations of people on it.
SELECT schedule_id, version, status, watermark, seen, considered_at, fired, paused_until, delay
FROM schedule_state WHERE schedule_id = :id

-- name: get_any_exception
-- Whether there is any exception, and whether there is a window, or shadow mode was ever on.
SELECT EXISTS (SELECT 1 FROM schedule_exceptions),
    EXISTS (SELECT 1 FROM maintenance_windows) OR EXISTS (SELECT 1 FROM shadow_switches)

-- name: list_settled
-- When the latest run of each of the given schedules ended.
SELECT wanted.value, (
    SELECT max(finished_at) FROM runs
    WHERE schedule_id = wanted.value AND finished_at IS NOT NULL)
FROM unnest(:ids::text[]) AS wanted (value)

-- name: list_controls
-- Up to where stops and restarts of the given schedules are decided.
SELECT schedule_id, decided_until FROM schedule_controls WHERE schedule_id = ANY (:ids::text[])

-- name: list_exceptions
-- Exceptions for single due times of the given schedules.
SELECT schedule_id, due_at, kind, moved_to, moved_from
FROM schedule_exceptions
WHERE schedule_id = ANY (:ids::text[])

-- name: save_controls
-- Up to where stops and restarts are decided.
INSERT INTO schedule_controls (schedule_id, decided_until)
VALUES (:schedule_id::text[], :decided_until::timestamptz[])
ON CONFLICT (schedule_id) DO UPDATE SET decided_until = excluded.decided_until

-- name: insert_command
-- Stops and restarts to be carried out.
INSERT INTO flow_commands (schedule_id, namespace, flow, kind, due_at)
VALUES (:schedule_id::text[], :namespace::text[], :flow::text[], :kind::text[],
    :due_at::timestamptz[])

-- name: insert_schedule
-- New schedules, unless their names are taken.
INSERT INTO schedules (id, namespace, name, version, labels, target, title, owner, calendar,
    created_at, created_by)
VALUES (:id::text[], :namespace::text[], :name::text[], 1, :labels::text[], :target::text[],
    :title::text[], :owner::text[], :calendar::text[], :created_at::timestamptz[],
    :created_by::text[])
ON CONFLICT (namespace, name) WHERE deleted_at IS NULL DO NOTHING

-- name: insert_revision
-- New current definitions.
INSERT INTO schedule_revisions (schedule_id, version, spec, valid_from, by, handover_at, last_due_at)
VALUES (:schedule_id::text[], :version::integer[], :spec::text[], :valid_from::timestamptz[],
    :by::text[], :handover_at::timestamptz[], :last_due_at::timestamptz[])

-- name: insert_state
-- The first states of schedules.
INSERT INTO schedule_state (schedule_id, version, status, watermark, next_due_at, wake_at,
    paused_at)
VALUES (:schedule_id::text[], 1, :status::text[], :watermark::timestamptz[],
    :next_due_at::timestamptz[], :wake_at::timestamptz[], :paused_at::timestamptz[])

-- name: insert_label
-- Labels by which a schedule is found.
INSERT INTO schedule_labels (schedule_id, label, value, namespace, name)
VALUES (:schedule_id::text[], :label::text[], :value::text[], :namespace::text[], :name::text[])

-- name: insert_exception
-- An exception for one due time; replaces an existing one.
INSERT INTO schedule_exceptions (schedule_id, due_at, kind, moved_to, moved_from)
VALUES (:schedule_id, :due_at, :kind, :moved_to, :moved_from)
ON CONFLICT (schedule_id, due_at, kind) DO UPDATE
SET moved_to = excluded.moved_to, moved_from = excluded.moved_from

-- name: wake_schedule
-- Look at this schedule again now.
UPDATE schedule_state SET wake_at = :now
WHERE schedule_id = :schedule_id AND status = 'active' AND (wake_at IS NULL OR wake_at > :now)

-- name: get_any_dependency
-- Whether any schedule depends on another.
SELECT 1 FROM schedule_deps LIMIT 1

-- name: list_dependents
-- The schedules that depend on one, by name.
SELECT s.name FROM schedule_deps AS d JOIN schedules AS s ON s.id = d.schedule_id
WHERE d.namespace = :namespace AND d.upstream = :name
ORDER BY s.name LIMIT :limit

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
    WHERE s.id = ANY (:ids::text[]))

-- name: insert_ledger
-- Due times that did not become runs, and why.
INSERT INTO ledger (schedule_id, version, due_from, due_to, count, exact, verdict, kind, reason,
    facts, session_id, at)
VALUES (:schedule_id::text[], :version::integer[], :due_from::timestamptz[], :due_to::timestamptz[],
    :count::bigint[], :exact::boolean[], :verdict::text[], :kind::text[], :reason::text[],
    :facts::text[], :session_id::text[], :now::timestamptz[])

-- name: insert_held
-- Missed due times that are set aside until an operator decides.
INSERT INTO held_catchup (schedule_id, due_from, due_to, count, exact, version, held_at)
VALUES (:schedule_id::text[], :due_from::timestamptz[], :due_to::timestamptz[], :count::bigint[],
    :exact::boolean[], :version::integer[], :held_at::timestamptz[])

-- name: list_held_of
-- The held ranges of the given schedules, the first one first.
SELECT s.name, h.schedule_id, h.due_from, h.due_to, h.count, h.exact, h.version, h.held_at
FROM held_catchup AS h JOIN schedules AS s ON s.id = h.schedule_id
WHERE h.schedule_id = ANY (:ids::text[])
ORDER BY h.due_from

-- name: list_held_in
-- The held ranges of a namespace, by schedule and due time, after a place.
SELECT s.name, h.schedule_id, h.due_from, h.due_to, h.count, h.exact, h.version, h.held_at
FROM held_catchup AS h JOIN schedules AS s ON s.id = h.schedule_id
WHERE s.namespace = :namespace AND (s.name, h.due_from) > (:name, :due_from)
    AND (h.schedule_id = :only OR :only = '')
ORDER BY s.name, h.due_from
LIMIT :limit

-- name: count_held
-- Which schedules have due times that wait for an operator, how many, and since when.
SELECT s.namespace, s.name, CAST(sum(h.count) AS bigint), min(h.held_at)
FROM held_catchup AS h JOIN schedules AS s ON s.id = h.schedule_id
GROUP BY s.namespace, s.name
ORDER BY min(h.held_at), s.namespace, s.name
LIMIT :limit

-- name: end_held
-- Held ranges of deleted schedules get an entry like all that was pending.
INSERT INTO ledger (schedule_id, version, due_from, due_to, count, exact, verdict, kind, reason,
    facts, at)
SELECT schedule_id, version, due_from, due_to, count, exact, 'skipped', 'start', :reason::text, '{}',
    :now::timestamptz
FROM held_catchup WHERE schedule_id = ANY (:ids::text[])

-- name: delete_held
-- Remove the held ranges of the given schedules, finally or before the rest is inserted again.
DELETE FROM held_catchup WHERE schedule_id = ANY (:ids::text[])

-- name: add_fired
-- Count more due times of a schedule that became runs.
UPDATE schedule_state SET fired = fired + :number WHERE schedule_id = :id

-- name: check_held
-- A due time that waits for an operator has no run.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id
FROM held_catchup AS h
JOIN runs AS r ON r.schedule_id = h.schedule_id AND (r.due_at = h.due_from OR r.due_at = h.due_to)
JOIN schedules AS s ON s.id = h.schedule_id
LIMIT :limit

-- name: insert_dependency
-- Have a schedule woken by the success of another.
INSERT INTO schedule_deps (namespace, upstream, schedule_id)
VALUES (:namespace::text[], :upstream::text[], :schedule_id::text[])
ON CONFLICT DO NOTHING

-- name: list_revisions
-- The definitions of a schedule, the first one first.
SELECT version, spec, valid_from, by FROM schedule_revisions WHERE schedule_id = :id
ORDER BY version

-- name: delete_dependencies
-- The former dependencies of schedules.
DELETE FROM schedule_deps WHERE schedule_id = ANY (:ids::text[])

-- name: delete_labels
-- The former labels of schedules.
DELETE FROM schedule_labels WHERE schedule_id = ANY (:ids::text[])

-- name: find_schedule
-- The schedule of that name in the namespace that is not deleted.
SELECT id FROM schedules WHERE namespace = :namespace AND name = :name AND deleted_at IS NULL

-- name: find_deleted
-- The last deleted schedule of that name.
SELECT id FROM schedules WHERE namespace = :namespace AND name = :name AND deleted_at IS NOT NULL
ORDER BY deleted_at DESC, id DESC LIMIT 1

-- name: get_schedule
-- One schedule with its definition and state.
SELECT s.id, s.namespace, s.name, s.version, r.spec, coalesce(st.status, 'deleted'), s.created_at,
    s.created_by, st.watermark, st.next_due_at, st.paused_at, st.paused_until, st.pause_reason,
    st.problem, r.valid_from, s.owner
FROM schedules AS s
LEFT JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
LEFT JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.id = :id

-- name: get_schedule_named
-- Like get_schedule, for the schedule of that name that is not deleted.
SELECT s.id, s.namespace, s.name, s.version, r.spec, coalesce(st.status, 'deleted'), s.created_at,
    s.created_by, st.watermark, st.next_due_at, st.paused_at, st.paused_until, st.pause_reason,
    st.problem, r.valid_from, s.owner
FROM schedules AS s
LEFT JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
LEFT JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.namespace = :namespace AND s.name = :name AND s.deleted_at IS NULL

-- name: list_by_name
-- The schedules of a namespace in a range of names, as far as filters ask for them.
SELECT s.id, s.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedules AS s JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND s.name > :after AND s.name < :before
ORDER BY s.name
LIMIT :limit

-- name: list_paused
-- Like list_by_name, for paused ones.
SELECT s.id, s.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedule_state AS st INDEXED BY schedule_state_paused JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.status = 'paused' AND s.namespace = :namespace AND s.deleted_at IS NULL
    AND s.name > :after AND s.name < :before
ORDER BY s.name
LIMIT :limit

-- name: list_by_name_back
-- Like list_by_name, from the last one on.
SELECT s.id, s.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedules AS s JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND s.name > :after AND s.name < :before
ORDER BY s.name DESC
LIMIT :limit

-- name: search_by_name
-- Like list_by_name, with a text in their name or title; the text must be in lower case.
SELECT s.id, s.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedules AS s JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND s.name > :after AND s.name < :before
    AND (replace(s.name, :text, '') <> s.name OR replace(lower(s.title), :text, '') <> lower(s.title))
ORDER BY s.name
LIMIT :limit

-- name: search_by_name_back
-- Like search_by_name, from the last one on.
SELECT s.id, s.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedules AS s JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND s.name > :after AND s.name < :before
    AND (replace(s.name, :text, '') <> s.name OR replace(lower(s.title), :text, '') <> lower(s.title))
ORDER BY s.name DESC
LIMIT :limit

-- name: list_by_label
-- The schedules with a label in a range of names, as far as filters ask for them.
SELECT s.id, l.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedule_labels AS l
JOIN schedules AS s ON s.id = l.schedule_id
JOIN schedule_state AS st ON st.schedule_id = l.schedule_id
WHERE l.namespace = :namespace AND l.label = :label AND l.value = :value AND l.name > :after
    AND l.name < :before
ORDER BY l.name
LIMIT :limit

-- name: list_by_label_back
-- Like list_by_label, from the last one on.
SELECT s.id, l.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedule_labels AS l
JOIN schedules AS s ON s.id = l.schedule_id
JOIN schedule_state AS st ON st.schedule_id = l.schedule_id
WHERE l.namespace = :namespace AND l.label = :label AND l.value = :value AND l.name > :after
    AND l.name < :before
ORDER BY l.name DESC
LIMIT :limit

-- name: list_by_age
-- The schedules of a namespace from the oldest on, as far as filters ask for them.
SELECT s.id, s.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedules AS s JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND (s.created_at, s.id) > (:at, :id)
ORDER BY s.created_at, s.id
LIMIT :limit

-- name: list_by_age_back
-- Like list_by_age, from the newest on.
SELECT s.id, s.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedules AS s JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND (s.created_at, s.id) < (:at, :id)
ORDER BY s.created_at DESC, s.id DESC
LIMIT :limit

-- name: list_by_wake
-- The schedules of all namespaces in the order of their wake times.
SELECT s.id, s.name, s.created_at, s.labels, s.target, st.status, st.next_due_at, st.wake_at,
    st.problem, s.namespace, s.title
FROM schedule_state AS st JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.wake_at IS NOT NULL AND (st.wake_at, st.schedule_id) > (:at, :id)
ORDER BY st.wake_at, st.schedule_id
LIMIT :limit

-- name: list_runs_of_flow
-- The runs of a flow, the newest first, as far as filters ask for them; without those called by steps.
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

-- name: list_owned
-- The schedules that an owner declares; worded for the index schedules_by_owner.
SELECT name, id FROM schedules
WHERE namespace = :namespace AND owner = :owner AND deleted_at IS NULL AND owner <> ''
ORDER BY name

-- name: list_bases
-- The versions and owners on which changes of the given schedules are based.
SELECT id, version, owner FROM schedules WHERE id = ANY (:ids::text[]) AND deleted_at IS NULL

-- name: change_owner
-- Assign schedules to another owner.
UPDATE schedules SET owner = :owner WHERE id = ANY (:ids::text[])

-- name: delete_exceptions
-- Exceptions for due times that will not come.
DELETE FROM schedule_exceptions WHERE schedule_id = ANY (:ids::text[])

-- name: delete_controls
-- Deleted schedules stop and restart nothing.
DELETE FROM schedule_controls WHERE schedule_id = ANY (:ids::text[])

-- name: delete_states
-- Deleted schedules are never looked at again.
DELETE FROM schedule_state WHERE schedule_id = ANY (:ids::text[])

-- name: delete_schedules
-- Free their names; their history stays.
UPDATE schedules SET deleted_at = :now
WHERE id = ANY (:ids::text[]) AND deleted_at IS NULL

-- name: get_last_seen
-- The latest time that any node has read from the database's clock.
SELECT max(seen_at) FROM node_sessions

-- name: list_clock_steps
-- When the database's clock stepped back, the first time first.
SELECT before, earliest, noticed, place, active FROM clock_steps ORDER BY id

-- name: delete_old_clock_steps
-- Forget steps of the clock that affect no remaining run.
DELETE FROM clock_steps WHERE id IN (
    SELECT id FROM clock_steps WHERE before < :before ORDER BY id LIMIT :limit)

-- name: list_unended
-- Runs that have not ended, up to a limit.
SELECT id FROM runs WHERE status IN ('queued', 'running') LIMIT :limit

-- name: rebase_runs
-- Runs from before the clock stepped back wait no longer than they would have.
UPDATE active_runs SET ready_at = ready_at - (:before::timestamptz - :now::timestamptz),
    expires_at = expires_at - (:before::timestamptz - :now::timestamptz)
WHERE id IN (
    SELECT id FROM active_runs
    WHERE status IN ('queued', 'running') AND ready_at > :now::timestamptz
        AND (created_at > :now::timestamptz OR claimed_at > :now::timestamptz)
    ORDER BY id
    FOR UPDATE SKIP LOCKED)

-- name: rebase_sessions
-- Count nodes seen before the clock stepped back as seen now; the same for their leases.
UPDATE node_sessions
SET expires_at = CASE WHEN ended_at IS NULL
        THEN :now::timestamptz + (expires_at - seen_at) ELSE expires_at END,
    seen_at = :now::timestamptz
WHERE seen_at > :now::timestamptz

-- name: rebase_leases
-- End leadership taken before the clock stepped back within a lease.
UPDATE leases SET expires_at = :until::timestamptz WHERE expires_at > :until::timestamptz

-- name: rebase_members
-- Let members of groups that joined before the clock stepped back expire within a lease.
UPDATE members SET expires_at = :until::timestamptz WHERE expires_at > :until::timestamptz

-- name: insert_session
-- The session of a node that starts.
INSERT INTO node_sessions (id, node, pid, roles, version, tzdata, started_at, expires_at, seen_at,
    tasks, queues, namespaces, labels, secrets, clock_ahead, machine, process_started)
VALUES (:id, :node, :pid, :roles, :version, :tzdata, :now, :expires_at, :now, :tasks, :queues,
    :namespaces, :labels, :secrets, :clock_ahead, :machine, :process_started)

-- name: get_node_name
-- The node of a session.
SELECT node FROM node_sessions WHERE id = :id

-- name: list_neighbours
-- The other sessions of a node's machine that have not ended.
SELECT n.id, n.pid, n.process_started FROM node_sessions AS n
WHERE n.ended_at IS NULL AND n.id <> :id AND n.machine <> ''
    AND n.machine = (SELECT mine.machine FROM node_sessions AS mine WHERE mine.id = :id)
ORDER BY n.id

-- name: tell_tasks
-- Set the tasks that a node knows.
UPDATE node_sessions SET tasks = :tasks WHERE id = :id

-- name: tell_unserved
-- Set the sinks that a node cannot serve.
UPDATE node_sessions SET unserved = :unserved WHERE id = :id

-- name: list_abilities
-- The namespaces and tasks of live nodes, and whether they are workers; without draining ones.
SELECT DISTINCT namespaces, tasks, roles LIKE '%worker%' FROM node_sessions
WHERE ended_at IS NULL AND expires_at > :now AND draining_at IS NULL

-- name: list_waiting_tasks
-- The namespaces and tasks of queued runs.
SELECT DISTINCT namespace, task FROM runs WHERE status = 'queued' AND task IS NOT NULL
ORDER BY namespace, task

-- name: renew_session
-- Renew a node's session; no row when it was declared dead.
UPDATE node_sessions SET expires_at = :expires_at, seen_at = :now, clock_ahead = :clock_ahead
WHERE id = :id AND ended_at IS NULL

-- name: list_open_sessions
-- The sessions of nodes that have neither left nor been declared dead.
SELECT id FROM node_sessions WHERE ended_at IS NULL

-- name: serve_queues
-- Set the queues that a node serves.
UPDATE node_sessions SET queues = :queues WHERE id = :id AND ended_at IS NULL

-- name: drain_session
-- Ask a node to start no more runs, or allow it again.
UPDATE node_sessions SET draining_at = :draining_at, stops_when_idle = :stops
WHERE id = :id AND ended_at IS NULL

-- name: get_session_drain
-- Since when a node was asked to start no more runs, and whether it then stops.
SELECT draining_at, stops_when_idle FROM node_sessions WHERE id = :id

-- name: end_session
-- A node leaves.
UPDATE node_sessions SET ended_at = :now, seen_at = :now WHERE id = :id AND ended_at IS NULL

-- name: list_sessions
-- The nodes that were alive at some time of a period, the first one first.
SELECT id, node, roles, started_at, seen_at, expires_at, ended_at FROM node_sessions
WHERE started_at <= :until AND (ended_at IS NULL OR ended_at >= :since)
ORDER BY started_at

-- name: release_lead
-- Let others lead at once when a node leaves.
UPDATE leases SET expires_at = :now WHERE session_id = :id AND expires_at > :now

-- name: keep_lead
-- Renew the leadership, unless another node took over.
UPDATE leases SET expires_at = :expires_at
WHERE name = 'scheduler' AND session_id = :id
RETURNING term

-- name: get_term
-- Whether this node leads under its term; until the commit it can renew, but not be replaced.
SELECT 1 FROM leases WHERE name = 'scheduler' AND session_id = :id AND term = :term
FOR KEY SHARE

-- name: get_lead
-- When the leader's lease ends.
SELECT expires_at FROM leases WHERE name = 'scheduler'

-- name: list_namespaces
-- The namespaces with queued runs in a queue, by skipping through the index.
WITH RECURSIVE hop (namespace) AS (
    SELECT min(namespace) FROM runs WHERE status = 'queued' AND queue = :queue
    UNION ALL
    SELECT (
        SELECT min(r.namespace) FROM runs AS r
        WHERE r.status = 'queued' AND r.queue = :queue AND r.namespace > hop.namespace)
    FROM hop WHERE hop.namespace IS NOT NULL)
SELECT namespace FROM hop WHERE namespace IS NOT NULL

-- name: list_limiters
-- The queues with limits; there are few.
SELECT name, concurrency, rate_count, rate_seconds, begun FROM queues ORDER BY name

-- name: count_running
-- How many runs of a queue are active.
SELECT count(*) FROM runs INDEXED BY runs_running WHERE status = 'running' AND queue = :queue

-- name: get_limiter
-- The limits of a queue, locked, so that claims pass one at a time.
SELECT name, concurrency, rate_count, rate_seconds, begun
FROM queues WHERE name = :queue
FOR UPDATE

-- name: note_begun
-- When runs of a queue with a rate recently started; its row is locked.
UPDATE queues SET begun = :begun WHERE name = :queue

-- name: list_step_contexts
-- What the steps of the given runs may know of their flows' runs.
SELECT r.id, p.flow, f.digest, f.params, p.id, p.origin, p.trigger, p.due_at, p.created_at,
    p.schedule_id, s.name, coalesce(s.created_by, ''), r.options, p.interval_start, p.interval_end
FROM runs AS r
JOIN runs AS p ON p.id = r.parent_run_id
JOIN flow_runs AS f ON f.run_id = p.id
LEFT JOIN schedules AS s ON s.id = p.schedule_id
WHERE r.id = ANY (:ids::text[])

-- name: limit_queue
-- Set the limits of a queue; starts under its former rate still count.
INSERT INTO queues (name, concurrency, rate_count, rate_seconds)
VALUES (:name, :concurrency, :rate_count, :rate_seconds)
ON CONFLICT (name) DO UPDATE
SET concurrency = excluded.concurrency, rate_count = excluded.rate_count,
    rate_seconds = excluded.rate_seconds

-- name: free_queue
-- A queue without limits has no row.
DELETE FROM queues WHERE name = :name

-- name: save_template
-- Save named defaults, replacing those of that name.
INSERT INTO schedule_templates (namespace, name, defaults, created_at, created_by, updated_at,
    updated_by)
VALUES (:namespace, :name, :defaults, :now, :by, :now, :by)
ON CONFLICT (namespace, name) DO UPDATE
SET defaults = excluded.defaults, updated_at = excluded.updated_at,
    updated_by = excluded.updated_by

-- name: get_template
-- The template of that name in the namespace.
SELECT namespace, name, defaults, created_at, created_by, updated_at, updated_by
FROM schedule_templates WHERE namespace = :namespace AND name = :name

-- name: list_templates
-- The templates of a namespace, by name.
SELECT namespace, name, defaults, created_at, created_by, updated_at, updated_by
FROM schedule_templates WHERE namespace = :namespace
ORDER BY name

-- name: remove_template
-- Delete a template; schedules created from it stay.
DELETE FROM schedule_templates WHERE namespace = :namespace AND name = :name

-- name: insert_calendar
-- A new version of a calendar, unless that version exists already.
INSERT INTO calendars (namespace, name, version, definition, days, created_at, created_by)
VALUES (:namespace, :name, :version, :definition, :days, :now, :by)
ON CONFLICT (namespace, name, version) DO NOTHING

-- name: delete_old_calendars
-- Unused versions of a calendar: revisions of schedules have their own copies of the days.
DELETE FROM calendars WHERE namespace = :namespace AND name = :name AND version <= :version

-- name: hold_calendars
-- Keep calendars from changing until those who start to use them have committed.
SELECT name FROM calendars WHERE namespace = :namespace AND name = ANY (:names::text[])
ORDER BY name, version
FOR KEY SHARE

-- name: lock_calendars
-- Make those who change calendars wait for those who start to use them.
SELECT name FROM calendars WHERE namespace = :namespace
ORDER BY name, version
FOR UPDATE

-- name: latest_calendar_versions
-- The latest version of each calendar of a namespace.
SELECT name, max(version) FROM calendars WHERE namespace = :namespace GROUP BY name

-- name: find_calendars
-- The latest version of each of these calendars of a namespace, by name.
SELECT c.namespace, c.name, c.version, c.definition, c.days, c.created_at, c.created_by
FROM calendars AS c
WHERE c.namespace = :namespace AND c.name = ANY (:names::text[]) AND c.version = (
    SELECT max(o.version) FROM calendars AS o WHERE o.namespace = c.namespace AND o.name = c.name)
ORDER BY c.name

-- name: remove_calendar
-- All versions of a calendar.
DELETE FROM calendars WHERE namespace = :namespace AND name = :name

-- name: list_calendar_users
-- The schedules that use any of these calendars, by id.
SELECT id FROM schedules
WHERE namespace = :namespace AND calendar = ANY (:names::text[]) AND deleted_at IS NULL
    AND calendar IS NOT NULL
ORDER BY id

-- name: count_calendar_users
-- How many schedules of a namespace use each calendar that is used.
SELECT calendar, count(*) FROM schedules
WHERE namespace = :namespace AND deleted_at IS NULL AND calendar IS NOT NULL
GROUP BY calendar

-- name: list_calendar_versions
-- The versions of a calendar, the newest first.
SELECT namespace, name, version, definition, days, created_at, created_by
FROM calendars WHERE namespace = :namespace AND name = :name
ORDER BY version DESC
LIMIT :limit

-- name: insert_window
-- A maintenance window, unless the name is taken.
INSERT INTO maintenance_windows (namespace, name, labels, start_at, end_at, created_at, created_by)
VALUES (:namespace, :name, :labels, :start_at, :end_at, :now, :by)
ON CONFLICT (namespace, name) DO NOTHING

-- name: get_window
-- A maintenance window by its name.
SELECT namespace, name, labels, start_at, end_at, created_at, created_by
FROM maintenance_windows WHERE namespace = :namespace AND name = :name

-- name: list_windows
-- The maintenance windows of a namespace, in order.
SELECT namespace, name, labels, start_at, end_at, created_at, created_by
FROM maintenance_windows WHERE namespace = :namespace
ORDER BY start_at, name

-- name: list_recent_windows
-- The maintenance windows of some namespaces that end after an instant, in order.
SELECT namespace, name, labels, start_at, end_at
FROM maintenance_windows
WHERE namespace = ANY (:namespaces::text[]) AND end_at > :since::timestamptz
ORDER BY start_at, name

-- name: list_open_windows
-- Some of the maintenance windows that are open, the first to end first.
SELECT namespace, name, labels, end_at
FROM maintenance_windows
WHERE start_at <= :now::timestamptz AND end_at > :now::timestamptz
ORDER BY end_at, namespace, name
LIMIT :limit

-- name: end_window
-- End a maintenance window now, earlier than planned.
UPDATE maintenance_windows SET end_at = :now::timestamptz
WHERE namespace = :namespace AND name = :name AND end_at > :now::timestamptz

-- name: remove_window
-- Delete a maintenance window that has not started, or is no longer needed.
DELETE FROM maintenance_windows WHERE namespace = :namespace AND name = :name

-- name: wake_labelled
-- Have active schedules of a namespace planned again; with a label, only those that have it.
UPDATE schedule_state SET wake_at = :now::timestamptz
WHERE schedule_id IN (
    SELECT schedule_id FROM schedule_state
    WHERE status = 'active' AND schedule_id IN (
        SELECT schedule_id FROM schedule_labels
        WHERE namespace = :namespace AND label = :label AND value = :value)
    ORDER BY schedule_id
    FOR UPDATE)

-- name: wake_namespace
-- Have all active schedules of a namespace planned again.
UPDATE schedule_state SET wake_at = :now::timestamptz
WHERE schedule_id IN (
    SELECT schedule_id FROM schedule_state
    WHERE status = 'active' AND schedule_id IN (
        SELECT id FROM schedules WHERE namespace = :namespace AND deleted_at IS NULL)
    ORDER BY schedule_id
    FOR UPDATE)

-- name: insert_switch
-- Turn shadow mode on or off for some schedules, from an instant on.
INSERT INTO shadow_switches (namespace, at, shadow, schedule, labels, created_at, created_by)
VALUES (:namespace, :at, :shadow, :schedule, :labels, :now, :by)

-- name: list_switches
-- The shadow mode switches of some namespaces, in the order in which they apply.
SELECT id, namespace, at, shadow, schedule, labels, created_at, created_by
FROM shadow_switches WHERE namespace = ANY (:namespaces::text[])
ORDER BY namespace, at, id

-- name: list_shadowed
-- The namespaces in which shadow mode was ever on.
SELECT DISTINCT namespace FROM shadow_switches WHERE shadow ORDER BY namespace LIMIT :limit

-- name: remove_switches
-- Switches that no longer affect any due time.
DELETE FROM shadow_switches WHERE id = ANY (:ids::bigint[])

-- name: list_shadow_runs
-- Due times of a namespace that shadow mode recorded, in order.
SELECT s.name, l.due_from, l.at, l.facts, l.due_to, l.count
FROM schedules AS s
JOIN ledger AS l ON l.schedule_id = s.id
WHERE s.namespace = :namespace AND l.reason = 'shadow' AND l.kind = 'start'
    AND l.due_to >= :since::timestamptz AND l.due_from <= :until::timestamptz
ORDER BY l.due_from, s.name
LIMIT :limit

-- name: insert_feed
-- A feed of due times as an iCal file, unless the name is taken.
INSERT INTO feeds (id, namespace, name, labels, digest, created_at, created_by)
VALUES (:id, :namespace, :name, :labels, :digest, :now, :by)
ON CONFLICT (namespace, name) DO NOTHING

-- name: get_feed
-- A feed with the digest of its secret.
SELECT id, namespace, name, labels, created_at, created_by, digest FROM feeds WHERE id = :id

-- name: list_feeds
-- The feeds of a namespace, by name.
SELECT id, namespace, name, labels, created_at, created_by
FROM feeds WHERE namespace = :namespace ORDER BY name

-- name: remove_feed
-- Delete a feed, so that its token stops working.
DELETE FROM feeds WHERE namespace = :namespace AND name = :name

-- name: save_alert_rule
-- Create or change a rule; keeps what it recently sent.
INSERT INTO alert_rules (namespace, name, spec, schedule, schedule_id, created_at, created_by)
VALUES (:namespace, :name, :spec, :schedule, :schedule_id, :now, :by)
ON CONFLICT (namespace, name) DO UPDATE
SET spec = excluded.spec, schedule = excluded.schedule, schedule_id = excluded.schedule_id

-- name: list_alert_rules
-- The rules of a namespace, by name.
SELECT name, spec, schedule_id, silenced_until, sent, created_at, created_by
FROM alert_rules WHERE namespace = :namespace ORDER BY name

-- name: list_rules_about
-- The rules of a namespace that may cover some schedules, by name.
SELECT name, spec, schedule_id, silenced_until, sent, created_at, created_by
FROM alert_rules
WHERE namespace = :namespace AND (schedule IS NULL OR schedule = ANY (:schedules::text[]))
ORDER BY name

-- name: get_alert_rule
-- One rule.
SELECT name, spec, schedule_id, silenced_until, sent, created_at, created_by
FROM alert_rules WHERE namespace = :namespace AND name = :name

-- name: delete_alert_rule
-- Delete a rule.
DELETE FROM alert_rules WHERE namespace = :namespace AND name = :name

-- name: list_rules_of_schedules
-- The rules that are deleted with their schedules.
SELECT name FROM alert_rules
WHERE namespace = :namespace AND schedule_id = ANY (:ids::text[])
ORDER BY name

-- name: silence_alert_rule
-- Stop a rule from sending for a while, or let it send again.
UPDATE alert_rules SET silenced_until = :until::timestamptz
WHERE namespace = :namespace AND name = :name

-- name: note_alerts_sent
-- When a rule recently sent messages.
UPDATE alert_rules SET sent = :sent WHERE namespace = :namespace AND name = :name

-- name: close_alerts_of_rule
-- Resolve the problems that a rule found.
UPDATE alerts SET resolved_at = :now::timestamptz,
    state = CASE WHEN state = 'waiting' THEN 'silenced' ELSE state END
WHERE namespace = :namespace AND rule = :rule AND (resolved_at IS NULL OR state = 'waiting')
    AND NOT kind = ANY (:kept::text[])

-- name: save_alert
-- Problems that are new or changed.
INSERT INTO alerts (id, namespace, rule, kind, subject, title, text, schedule, run_id, due_at,
    opened_at, seen_at, count, state, message, told_at, resolved_at, event_id)
VALUES (:id::text[], :namespace::text[], :rule::text[], :kind::text[], :subject::text[],
    :title::text[], :text::text[], :schedule::text[], :run_id::text[], :due_at::timestamptz[],
    :opened_at::timestamptz[], :seen_at::timestamptz[], :count::integer[], :state::text[],
    :message::text[], :told_at::timestamptz[], :resolved_at::timestamptz[], :event_id::text[])
ON CONFLICT (id) DO UPDATE
SET title = excluded.title, text = excluded.text, run_id = excluded.run_id,
    due_at = excluded.due_at, seen_at = excluded.seen_at, count = excluded.count,
    state = excluded.state, message = excluded.message, told_at = excluded.told_at,
    resolved_at = excluded.resolved_at, event_id = excluded.event_id

-- name: list_board_alerts
-- Alerts that may change: open ones of some subjects or kinds, others in their messages, and waiting ones.
WITH concerned AS (
    SELECT id, message FROM alerts
    WHERE namespace = :namespace AND resolved_at IS NULL
        AND (subject = ANY (:subjects::text[]) OR schedule = ANY (:subjects::text[])
            OR kind = ANY (:kinds::text[])
            OR (state = 'sent' AND told_at IS NULL))
    UNION SELECT id, message FROM alerts WHERE namespace = :namespace AND state = 'waiting')
SELECT id, namespace, rule, kind, subject, title, text, schedule, run_id, due_at,
    opened_at, seen_at, count, state, message, told_at, resolved_at, event_id
FROM alerts WHERE id IN (
    SELECT id FROM concerned
    UNION SELECT a.id FROM alerts AS a JOIN concerned AS c ON a.message = c.message)
ORDER BY opened_at, id

-- name: list_told_late
-- Problems of some schedules with late due times that were open since a time.
SELECT id, namespace, rule, kind, subject, title, text, schedule, run_id, due_at,
    opened_at, seen_at, count, state, message, told_at, resolved_at, event_id
FROM alerts
WHERE namespace = :namespace AND opened_at > :opened AND kind = 'late'
    AND subject = ANY (:subjects::text[]) AND (resolved_at IS NULL OR resolved_at > :since)

-- name: list_alerts
-- Problems, the newest first; for a rule, or only unresolved ones.
SELECT id, namespace, rule, kind, subject, title, text, schedule, run_id, due_at,
    opened_at, seen_at, count, state, message, told_at, resolved_at, event_id
FROM alerts
WHERE namespace = :namespace AND (opened_at, id) < (:before_at::timestamptz, :before_id)
    AND (:rule::text IS NULL OR rule = :rule::text)
    AND (:every OR resolved_at IS NULL)
ORDER BY opened_at DESC, id DESC
LIMIT :limit

-- name: count_open_alerts
-- How many problems are unresolved.
SELECT count(*) FROM alerts WHERE namespace = :namespace AND resolved_at IS NULL

-- name: list_alert_readers
-- How far evaluators and channels of alerts have read, and what waits for them.
SELECT c.namespace, c.name, k.position,
    EXISTS (
        SELECT 1 FROM members AS m
        WHERE m.namespace = c.namespace AND m.name = c.name AND m.member = k.owner
            AND m.expires_at > :now),
    coalesce(k.retry_at, (
        SELECT min(h.retry_at) FROM held_keys AS h
        WHERE h.namespace = c.namespace AND h.name = c.name)),
    EXISTS (
        SELECT 1 FROM dead_letters AS d
        WHERE d.namespace = c.namespace AND d.name = c.name AND d.again)
    OR (c.kind = 'alert_rules' AND EXISTS (
        SELECT 1 FROM alerts AS a WHERE a.namespace = c.namespace AND a.state = 'waiting'
        UNION ALL SELECT 1 FROM alerts AS a WHERE a.namespace = c.namespace
            AND a.resolved_at IS NULL AND a.state = 'sent' AND a.told_at IS NULL)),
    CASE WHEN c.options <> '{"timed": true}' AND c.options <> '{"timed": "runs"}' THEN NULL
        WHEN k.look_at IS NULL OR (c.options = '{"timed": "runs"}' AND EXISTS (
            SELECT 1 FROM active_runs AS r
            WHERE r.namespace = c.namespace AND r.status = 'running')) THEN :now
        ELSE k.look_at END
FROM consumers AS c JOIN cursors AS k ON k.namespace = c.namespace AND k.name = c.name
WHERE c.kind IN ('alert_rules', 'alert_channel')
ORDER BY c.namespace, c.name

-- name: list_alert_topics
-- The last event of each topic that alerts follow, by namespace, in a stretch of the log.
SELECT namespace, topic, max(position) FROM events
WHERE position > :after AND position <= :until AND topic = ANY (:topics::text[])
GROUP BY namespace, topic

-- name: advance_idle_cursors
-- Move cursors without an owner past events that are not for them; former owners lose them.
UPDATE cursors SET position = :until, owner = NULL, term = term + 1
WHERE namespace = :namespace AND name = ANY (:names::text[]) AND position = :position
    AND NOT EXISTS (
        SELECT 1 FROM members AS m
        WHERE m.namespace = cursors.namespace AND m.name = cursors.name
            AND m.member = cursors.owner AND m.expires_at > :now)

-- name: is_alert_due
-- Whether an evaluator or channel of alerts may have work, but no owner at present.
SELECT EXISTS (
    SELECT 1 FROM consumers AS c JOIN cursors AS k ON k.namespace = c.namespace AND k.name = c.name
    WHERE c.kind IN ('alert_rules', 'alert_channel')
        AND NOT EXISTS (
            SELECT 1 FROM members AS m
            WHERE m.namespace = c.namespace AND m.name = c.name AND m.member = k.owner
                AND m.expires_at > :now)
        AND (k.position < (SELECT max(e.position) FROM events AS e)
            OR (c.options = '{"timed": true}' AND (k.look_at IS NULL OR k.look_at <= :now))
            OR (c.options = '{"timed": "runs"}' AND (k.look_at IS NULL OR k.look_at <= :now
                OR EXISTS (
                    SELECT 1 FROM active_runs AS r
                    WHERE r.namespace = c.namespace AND r.status = 'running')))
            OR k.retry_at <= :now
            OR EXISTS (
                SELECT 1 FROM held_keys AS h
                WHERE h.namespace = c.namespace AND h.name = c.name AND h.retry_at <= :now)
            OR EXISTS (
                SELECT 1 FROM dead_letters AS d
                WHERE d.namespace = c.namespace AND d.name = c.name AND d.again)
            OR (c.kind = 'alert_rules' AND EXISTS (
                SELECT 1 FROM alerts AS a
                WHERE a.namespace = c.namespace AND a.state = 'waiting'
                UNION ALL SELECT 1 FROM alerts AS a
                WHERE a.namespace = c.namespace AND a.resolved_at IS NULL
                    AND a.state = 'sent' AND a.told_at IS NULL))))

-- name: note_look
-- When the time-based rules of a namespace are looked at next.
UPDATE cursors SET look_at = :at::timestamptz WHERE namespace = :namespace AND name = :name

-- name: look_everywhere
-- Have the time-based rules of all namespaces looked at now.
UPDATE cursors SET look_at = NULL WHERE look_at IS NOT NULL

-- name: list_deliveries
-- The state of messages with each of their channels; for those that left the log, which channels refused them.
SELECT e.id, c.name, k.position >= e.position, h.key IS NOT NULL, coalesce(h.error, k.error),
    d.error, d.again
FROM events AS e
JOIN consumers AS c ON c.namespace = e.namespace AND c.kind = 'alert_channel'
    AND e.data LIKE '%"' || c.name || '"%'
JOIN cursors AS k ON k.namespace = c.namespace AND k.name = c.name
LEFT JOIN held_keys AS h ON h.namespace = c.namespace AND h.name = c.name AND h.key = e.key
    AND h.position <= e.position
LEFT JOIN dead_letters AS d ON d.namespace = c.namespace AND d.name = c.name AND d.event_id = e.id
WHERE e.namespace = :namespace AND e.id = ANY (:ids::text[])
UNION ALL
SELECT d.event_id, d.name, NULL, NULL, NULL, d.error, d.again
FROM dead_letters AS d
WHERE d.namespace = :namespace AND d.event_id = ANY (:ids::text[])
    AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.id = d.event_id)
ORDER BY 1, 2

-- name: list_events_kept
-- Which of the given events are still in the log.
SELECT id FROM events WHERE namespace = :namespace AND id = ANY (:ids::text[])

-- name: get_last_success
-- When a run of a schedule last succeeded.
SELECT max(finished_at) FROM ended_runs WHERE schedule_id = :id AND status = 'succeeded'

-- name: delete_old_alerts
-- Retention: problems that were resolved long ago.
DELETE FROM alerts WHERE id IN (
    SELECT id FROM alerts WHERE resolved_at < :before AND state <> 'waiting' LIMIT :limit)

-- name: list_streaks
-- The consecutive failures of some subjects.
SELECT subject, failures FROM alert_streaks
WHERE namespace = :namespace AND subject = ANY (:subjects::text[])

-- name: save_streak
-- Count another failure.
INSERT INTO alert_streaks (namespace, subject, failures)
VALUES (:namespace::text[], :subject::text[], :failures::integer[])
ON CONFLICT (namespace, subject) DO UPDATE SET failures = excluded.failures

-- name: delete_streaks
-- End streaks after a success, or when the subject is gone.
DELETE FROM alert_streaks WHERE namespace = :namespace AND subject = ANY (:subjects::text[])

-- name: list_labels_named
-- The labels of schedules, by name.
SELECT name, labels FROM schedules
WHERE namespace = :namespace AND deleted_at IS NULL AND name = ANY (:names::text[])

-- name: list_late_runs
-- Runs that were due before a time and have not started.
SELECT s.name, s.labels, r.due_at, r.id
FROM active_runs AS r JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.namespace = :namespace AND r.status = 'queued' AND r.attempt = 0
    AND r.origin = 'schedule' AND r.due_at < :before
ORDER BY r.due_at LIMIT :limit

-- name: list_late_schedules
-- Active schedules whose next due time was before a time.
SELECT s.name, s.labels, st.next_due_at
FROM schedule_state AS st JOIN schedules AS s ON s.id = st.schedule_id
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND st.status = 'active'
    AND st.next_due_at < :before
ORDER BY st.next_due_at LIMIT :limit

-- name: list_long_runs
-- Runs that have been running since before a time, except steps.
SELECT s.name, s.labels, r.task, r.flow, r.started_at, r.id, r.due_at, r.schedule_id
FROM active_runs AS r LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.namespace = :namespace AND r.status = 'running' AND r.parent_run_id IS NULL
    AND r.started_at < :before
ORDER BY r.started_at LIMIT :limit

-- name: list_unsuccessful
-- Active schedules that existed at a time and have not succeeded since.
SELECT s.name, s.labels
FROM schedules AS s JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND st.status = 'active'
    AND s.created_at < :since
    AND (:schedule::text IS NULL OR s.name = :schedule::text)
    AND (:label::text IS NULL OR EXISTS (
        SELECT 1 FROM schedule_labels AS l
        WHERE l.schedule_id = s.id AND l.label = :label::text AND l.value = :value::text))
    AND NOT EXISTS (
        SELECT 1 FROM ended_runs AS r
        WHERE r.schedule_id = s.id AND r.status = 'succeeded' AND r.finished_at >= :since)
ORDER BY s.name LIMIT :limit

-- name: get_next_unsuccessful
-- When the next schedule last succeeded, among those that have since a time, or are new.
SELECT min(x.since) FROM (
    SELECT coalesce(
        (SELECT max(r.finished_at) FROM ended_runs AS r
            WHERE r.schedule_id = s.id AND r.status = 'succeeded' AND r.finished_at >= :since),
        s.created_at) AS since
    FROM schedules AS s JOIN schedule_state AS st ON st.schedule_id = s.id
    WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND st.status = 'active'
        AND (:schedule::text IS NULL OR s.name = :schedule::text)
        AND (:label::text IS NULL OR EXISTS (
            SELECT 1 FROM schedule_labels AS l
            WHERE l.schedule_id = s.id AND l.label = :label::text AND l.value = :value::text))
    ) AS x
WHERE x.since >= :since

-- name: list_lengths
-- The durations of the latest successful runs of a schedule.
SELECT started_at, finished_at FROM ended_runs
WHERE schedule_id = :schedule_id AND (status = 'succeeded' OR status = 'partial')
    AND finished_at IS NOT NULL
    AND started_at IS NOT NULL
ORDER BY finished_at DESC LIMIT :limit

-- name: list_last_seen
-- When nodes were last seen, of each kind, since a time.
SELECT roles, namespaces, max(seen_at) FROM node_sessions
WHERE seen_at > :since
GROUP BY roles, namespaces

-- name: get_secret
-- A secret known only to processes on this database.
SELECT value FROM secrets WHERE name = :name

-- name: get_quota
-- The limits of a namespace, if it has any.
SELECT namespace, schedules, fires_per_minute, payload_bytes, definition_bytes, max_priority
FROM quotas
WHERE namespace = :namespace

-- name: lock_quota
-- The limits of a namespace, if any; others who count wait until this transaction ends.
SELECT namespace, schedules, fires_per_minute, payload_bytes, definition_bytes, max_priority
FROM quotas
WHERE namespace = :namespace
FOR UPDATE

-- name: list_quotas
-- The limits of all namespaces that have any.
SELECT namespace, schedules, fires_per_minute, payload_bytes, definition_bytes, max_priority
FROM quotas ORDER BY namespace

-- name: save_quota
-- Set the limits of a namespace, replacing former ones.
INSERT INTO quotas (namespace, schedules, fires_per_minute, payload_bytes, definition_bytes,
    max_priority)
VALUES (:namespace, :schedules, :fires_per_minute, :payload_bytes, :definition_bytes,
    :max_priority)
ON CONFLICT (namespace) DO UPDATE
SET schedules = excluded.schedules, fires_per_minute = excluded.fires_per_minute,
    payload_bytes = excluded.payload_bytes, definition_bytes = excluded.definition_bytes,
    max_priority = excluded.max_priority

-- name: get_quota_standing
-- The limits of a namespace, the defaults of all namespaces, and its usage.
SELECT q.namespace, q.schedules, q.fires_per_minute, q.payload_bytes, q.definition_bytes,
    q.max_priority, d.schedules, d.payload_bytes, d.definition_bytes, u.schedules, u.bytes
FROM (
    SELECT coalesce(sum(schedules), 0) AS schedules, coalesce(sum(bytes), 0) AS bytes
    FROM namespace_use WHERE namespace = :namespace) AS u
LEFT JOIN quotas AS q ON q.namespace = :namespace
LEFT JOIN quotas AS d ON d.namespace = :everywhere

-- name: sum_definitions
-- The size of the definitions of some schedules that are not deleted; definitions are ASCII.
SELECT s.namespace, count(*), sum(length(r.spec))
FROM schedules AS s
JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
WHERE s.id = ANY (:ids::text[]) AND s.deleted_at IS NULL
GROUP BY s.namespace

-- name: note_use
-- Change the stored usage of a namespace.
INSERT INTO namespace_use (namespace, slot, schedules, bytes)
VALUES (:namespace, :slot, :schedules, :bytes)
ON CONFLICT (namespace, slot) DO UPDATE
SET schedules = namespace_use.schedules + excluded.schedules,
    bytes = namespace_use.bytes + excluded.bytes

-- name: count_use
-- The stored usage of each namespace.
SELECT namespace, sum(schedules), sum(bytes) FROM namespace_use GROUP BY namespace

-- name: measure_use
-- The real usage of a namespace, counted from its rows; definitions are ASCII.
SELECT count(*), coalesce(sum(length(r.spec)), 0)
FROM schedules AS s
JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
WHERE s.namespace = :namespace AND s.deleted_at IS NULL

-- name: forget_use
-- Drop the stored usage before it is counted again.
DELETE FROM namespace_use WHERE namespace = :namespace

-- name: sum_templates
-- The size of the templates of a namespace.
SELECT coalesce(sum(length(defaults)), 0) FROM schedule_templates WHERE namespace = :namespace

-- name: check_use
-- Namespaces whose stored usage differs from the real one.
SELECT NULL, NULL, NULL, namespace, sum(kept), sum(kept_bytes), sum(held), sum(held_bytes)
FROM (
    SELECT namespace, schedules AS kept, bytes AS kept_bytes, 0 AS held, 0 AS held_bytes
    FROM namespace_use
    UNION ALL
    SELECT s.namespace, 0, 0, 1, length(r.spec)
    FROM schedules AS s
    JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
    WHERE s.deleted_at IS NULL) AS both_sides
GROUP BY namespace
HAVING sum(kept) <> sum(held) OR sum(kept_bytes) <> sum(held_bytes)
LIMIT :limit

-- name: cap_queued_runs
-- Lower the priorities of waiting runs to the new maximum of their namespace.
UPDATE active_runs SET priority = :most
WHERE status = 'queued' AND namespace = :namespace AND priority > :most

-- name: remove_quota
-- A namespace without limits has no row.
DELETE FROM quotas WHERE namespace = :namespace

-- name: count_schedules_of
-- How many schedules a namespace has.
SELECT count(*) FROM schedules WHERE namespace = :namespace AND deleted_at IS NULL

-- name: count_by_namespace
-- How many schedules each namespace has.
SELECT namespace, count(*) FROM schedules WHERE deleted_at IS NULL GROUP BY namespace

-- name: sum_rates
-- How often the schedules of a namespace are due, where known.
SELECT coalesce(sum(r.fires_per_minute), 0) FROM schedules AS s
JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND st.status <> 'completed'

-- name: list_unrated
-- Schedules of a namespace without a known rate.
SELECT s.id, s.version, s.name, r.spec FROM schedules AS s
JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND r.fires_per_minute IS NULL
LIMIT :limit

-- name: insert_token
-- A new token, unless its name is taken.
INSERT INTO tokens (id, name, role, namespaces, digest, created_at, created_by, expires_at)
VALUES (:id, :name, :role, :namespaces, :digest, :now, :by, :expires_at)
ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING

-- name: get_token
-- One token, with the digest of its secret.
SELECT id, name, role, namespaces, created_at, created_by, expires_at, last_used_at, revoked_at,
    digest
FROM tokens WHERE id = :id

-- name: list_tokens_by_id
-- Several tokens, with the digests of their secrets.
SELECT t.id, t.name, t.role, t.namespaces, t.created_at, t.created_by, t.expires_at,
    t.last_used_at, t.revoked_at, t.digest
FROM unnest(:ids::text[]) AS wanted (value) JOIN tokens AS t ON t.id = wanted.value

-- name: find_token
-- The id of the unrevoked token of this name.
SELECT id FROM tokens WHERE name = :name AND revoked_at IS NULL

-- name: list_tokens
-- Every token by name, including revoked ones.
SELECT id, name, role, namespaces, created_at, created_by, expires_at, last_used_at, revoked_at
FROM tokens ORDER BY name, created_at, id

-- name: revoke_token
-- Make a token invalid.
UPDATE tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL

-- name: end_login
-- A browser has logged out.
INSERT INTO ended_logins (digest, token_id, expires_at)
VALUES (:digest, :token_id, :expires_at)
ON CONFLICT (digest) DO NOTHING

-- name: list_ended_logins
-- Which of these sessions were ended.
SELECT e.digest FROM unnest(:ids::text[]) AS wanted (value)
JOIN ended_logins AS e ON e.digest = wanted.value

-- name: delete_ended_logins
-- Retention: ended sessions that would no longer be valid anyway.
DELETE FROM ended_logins WHERE expires_at < :before

-- name: use_token
-- When it was last used, unless that was recorded a moment ago.
UPDATE tokens SET last_used_at = :now
WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :before)

-- name: list_active_of
-- Those of the given runs that have not ended.
SELECT id FROM active_runs WHERE id = ANY (:ids::text[]) AND status IN ('queued', 'running')

-- name: insert_run_key
-- A key that no run has had, for a run about to be created.
INSERT INTO run_keys (namespace, task, key, run_id, until, free_at)
VALUES (:namespace, :task, :key, :run_id, :until, :free_at)
ON CONFLICT (namespace, task, key) DO NOTHING
RETURNING run_id

-- name: find_run_key
-- The run that has a key, or had it last.
SELECT run_id, until, free_at FROM run_keys
WHERE namespace = :namespace AND task = :task AND key = :key

-- name: lock_run_key
-- Like find_run_key; the key cannot be taken before this transaction ends.
SELECT run_id, until, free_at FROM run_keys
WHERE namespace = :namespace AND task = :task AND key = :key
FOR UPDATE

-- name: take_run_key
-- Take a key that is free again, for a run about to be created.
UPDATE run_keys SET run_id = :run_id, until = :until, free_at = :free_at
WHERE namespace = :namespace AND task = :task AND key = :key

-- name: lock_active_run
-- Keep a run from being claimed or ended before this transaction ends.
SELECT status FROM active_runs WHERE id = :id
FOR UPDATE

-- name: replace_payload
-- Give an unstarted run a newer payload, and perhaps a later ready time.
UPDATE active_runs
SET payload = :payload, ready_at = :ready_at, expires_at = :expires_at, requested_by = :requested_by
WHERE id = :id AND status = 'queued' AND attempt = 0

-- name: keep_key
-- The first request with a key gets it; later ones wait here until it has finished.
INSERT INTO idempotency_keys (scope, key, fingerprint, at)
VALUES (:scope, :key, :fingerprint, :now)
ON CONFLICT (scope, key) DO UPDATE
SET fingerprint = excluded.fingerprint, answer = NULL, at = excluded.at
WHERE idempotency_keys.at <= :before OR idempotency_keys.answer IS NULL

-- name: get_answer
-- The request of a key, and the response to it.
SELECT fingerprint, answer FROM idempotency_keys WHERE scope = :scope AND key = :key

-- name: keep_answer
-- The response to the request of this key.
UPDATE idempotency_keys SET answer = :answer WHERE scope = :scope AND key = :key

-- name: insert_change
-- Who did what.
INSERT INTO audit (at, by, namespace, action, kind, subject, subject_id, before, after)
VALUES (:at::timestamptz[], :by::text[], :namespace::text[], :action::text[], :kind::text[],
    :subject::text[], :subject_id::text[], :before::text[], :after::text[])

-- name: list_changes
-- The changes of a namespace, the newest first, as far as filters ask for them.
SELECT id, at, kind, subject, by FROM audit
WHERE namespace = :namespace AND at >= :since AND (at, id) < (:at, :id)
ORDER BY at DESC, id DESC
LIMIT :limit

-- name: list_changes_of
-- The changes of one object, the newest first, as far as filters ask for them.
SELECT id, at, kind, subject, by FROM audit
WHERE namespace = :namespace AND subject = :subject AND at >= :since AND (at, id) < (:at, :id)
ORDER BY at DESC, id DESC
LIMIT :limit

-- name: list_changes_by_id
-- Several changes.
SELECT id, at, by, namespace, action, kind, subject, subject_id, before, after FROM audit
WHERE id = ANY (:ids::bigint[])

-- name: list_all_changes
-- The changes of all namespaces, the newest first, as far as filters ask for them.
SELECT id, at, kind, subject, by FROM audit
WHERE at >= :since AND (at, id) < (:at, :id)
ORDER BY at DESC, id DESC
LIMIT :limit

-- name: list_loads
-- How much of each namespace waits and runs in each queue.
SELECT queue, namespace, sum(CASE WHEN status = 'queued' THEN 1 ELSE 0 END),
    sum(CASE WHEN status = 'running' THEN 1 ELSE 0 END)
FROM runs WHERE status IN ('queued', 'running')
GROUP BY queue, namespace

-- name: insert_log
-- Lines printed by runs.
INSERT INTO run_logs (run_id, attempt, seq, at, stream, text)
VALUES (:run_id::text[], :attempt::integer[], :seq::integer[], :at::timestamptz[], :stream::text[],
    :text::text[])
ON CONFLICT DO NOTHING

-- name: get_any_death
-- Whether a lease has expired, or runs were left behind.
SELECT EXISTS (
        SELECT 1 FROM node_sessions
        WHERE ended_at IS NULL AND expires_at <= :now AND id <> :id)
    OR EXISTS (
        SELECT 1 FROM runs AS r JOIN node_sessions AS n ON n.id = r.session_id
        WHERE r.status = 'running' AND n.ended_at IS NOT NULL)

-- name: get_earliest_ready
-- When queued work that is not ready yet will be.
SELECT min(ready_at) FROM runs
WHERE status = 'queued' AND ready_at > created_at AND ready_at > :now

-- name: retry_run
-- Have an attempt, failed or not, followed by another after a while.
UPDATE active_runs
SET status = 'queued', session_id = NULL, claimed_at = NULL, started_at = NULL,
    failures = failures + :failed, ready_at = :ready_at, reason = :reason, error = :error,
    exit_code = :exit_code
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status || '' = 'running'

-- name: reopen_run
-- Queue an ended run again as another attempt, on request; due times may wait for it.
MOVE ended_runs TO active_runs
SET status = 'queued', lane = CASE WHEN :lane = 1 AND lane = 3 THEN 3 ELSE :lane END,
    wakes = wakes OR schedule_id IS NOT NULL,
    session_id = NULL, claimed_at = NULL, started_at = NULL, finished_at = NULL, failures = 0, losses = 0, early_losses = 0, ready_at = :now, reason = NULL, error = NULL,
    exit_code = NULL, output = NULL, output_ref = NULL, output_size = NULL,
    output_secrets = NULL, cancel_requested_at = NULL, expires_at = NULL
WHERE id = :id AND status IN ('succeeded', 'partial', 'failed', 'cancelled')

-- name: fill_again
-- How runs start that a backfill queued again.
UPDATE active_runs
SET lane = :lane, exclusive = :exclusive, max_concurrent = :max_concurrent, backfill_limit = :limit
WHERE id = ANY (:ids::text[]) AND status || '' = 'queued'

-- name: keep_output
-- An output that is too large for the row of its run.
INSERT INTO run_outputs (run_id, output) VALUES (:run_id, :output)
ON CONFLICT (run_id) DO UPDATE SET output = excluded.output

-- name: note_output_size
-- Note that the output of this run is in run_outputs.
UPDATE ended_runs SET output_size = :size WHERE id = :run_id

-- name: note_output_secrets
-- What to hide in the output of this run when it is shown.
UPDATE ended_runs SET output_secrets = :secrets WHERE id = :run_id

-- name: take_woken
-- Runs of flows with ended steps that no other transaction is looking at.
SELECT run_id FROM flow_runs
WHERE run_id IN (SELECT w.run_id FROM flow_wakes AS w ORDER BY w.id LIMIT :limit)
ORDER BY run_id
FOR UPDATE SKIP LOCKED

-- name: take_flows
-- Runs of flows that are due and that no other transaction is looking at.
SELECT run_id FROM flow_runs WHERE wake_at <= :now
ORDER BY wake_at, run_id
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: use_wakes
-- Remove wakes, as their runs are looked at after this statement.
DELETE FROM flow_wakes WHERE run_id = ANY (:ids::text[])

-- name: list_steps
-- The state of the steps of the given runs of flows.
SELECT parent_run_id, step, id, status, reason, exit_code,
    CASE WHEN reason = 'precondition' THEN error END
FROM runs
WHERE parent_run_id = ANY (:ids::text[]) AND step IS NOT NULL

-- name: list_parents
-- The given runs of flows.
SELECT r.id, r.namespace, r.flow, f.digest, f.params, f.depth, r.status,
    r.cancel_requested_at IS NOT NULL, r.started_at, r.priority, c.status, r.ready_at, r.failures,
    CASE WHEN r.parent_run_id IS NOT NULL THEN r.options END, r.requested_by
FROM flow_runs AS f
JOIN runs AS r ON r.id = f.run_id
LEFT JOIN runs AS c ON c.id = r.parent_run_id
WHERE f.run_id = ANY (:ids::text[])

-- name: lock_beginning
-- Runs of flows that wait to start, with the limits of their schedules.
SELECT id, namespace, flow, schedule_id, lane, exclusive, max_concurrent, priority, ready_at,
    created_at, backfill_limit
FROM active_runs
WHERE id = ANY (:ids::text[]) AND status || '' = 'queued'
ORDER BY id
FOR UPDATE

-- name: list_yielding
-- Those of the given runs that give way to others of their schedule, or to waiting due times.
SELECT r.id FROM runs AS r
WHERE r.id = ANY (:ids::text[]) AND r.lane > 0 AND (
    EXISTS (
        SELECT 1 FROM runs AS other
        WHERE other.schedule_id = r.schedule_id AND other.status = 'queued'
            AND other.status IN ('queued', 'running') AND other.lane < r.lane
            AND (r.exclusive OR (r.lane >= 2 AND other.lane < 2 AND other.ready_at <= :now)))
    OR (r.exclusive AND r.lane = 2 AND EXISTS (
        SELECT 1 FROM schedule_state AS st
        WHERE st.schedule_id = r.schedule_id AND st.status = 'active'
            AND (st.seen IS NOT NULL OR (st.next_due_at <= :now AND st.wake_at <= :now)
                OR EXISTS (SELECT 1 FROM schedule_exceptions AS e
                    WHERE e.schedule_id = st.schedule_id AND e.kind = 'moved_here'
                        AND e.due_at <= :now)))))

-- name: count_under_way
-- How many runs of the given schedules are active, and how many of them beside the others.
SELECT schedule_id, count(*), sum(CASE WHEN lane = 3 THEN 1 ELSE 0 END) FROM runs
WHERE schedule_id = ANY (:ids::text[]) AND status = 'running' AND status IN ('queued', 'running')
GROUP BY schedule_id

-- name: insert_skipped_run
-- Steps that will not run.
INSERT INTO ended_runs (id, namespace, origin, trigger, parent_run_id, step, flow, queue, priority,
    exclusive, wakes, max_takeovers, status, reason, created_at, ready_at, finished_at)
VALUES (:id::text[], :namespace::text[], 'flow', :trigger::text[], :parent_run_id::text[],
    :step::text[], :flow::text[], :queue::text[], :priority::integer[], false, true, 0, 'cancelled',
    :reason::text[], :now::timestamptz[], :now::timestamptz[], :now::timestamptz[])
ON CONFLICT (parent_run_id, step) WHERE parent_run_id IS NOT NULL DO NOTHING

-- name: list_output_secrets
-- What to hide in the outputs of a flow's steps.
SELECT output_secrets FROM runs
WHERE parent_run_id = :run_id AND step IS NOT NULL AND output_secrets IS NOT NULL

-- name: get_output
-- A large output.
SELECT output FROM run_outputs WHERE run_id = :run_id

-- name: call_flow
-- Turn a step that calls a flow into a run of it that waits to start, by its token.
UPDATE active_runs SET status = 'queued', session_id = NULL, claimed_at = NULL, started_at = NULL,
    attempt = attempt - 1, queue = '@flow', flow = :flow, progress = NULL
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status || '' = 'running'
RETURNING namespace, parent_run_id

-- name: ask_person
-- Have a step wait for a person, by its token; no worker serves its queue.
UPDATE active_runs SET status = 'queued', session_id = NULL, claimed_at = NULL, started_at = NULL,
    attempt = 0, queue = '@human', progress = NULL, progress_text = :prompt,
    ready_at = :now, expires_at = :expires_at
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status || '' = 'running'

-- name: answer_person
-- A person approved or rejected a step.
MOVE active_runs TO ended_runs
SET status = :status, attempt = attempt + 1, started_at = ready_at, finished_at = :now,
    reason = :reason, error = :error, output = :output
WHERE id = :id AND queue = '@human' AND status || '' = 'queued'
RETURNING wakes, schedule_id, parent_run_id

-- name: drop_output
-- Remove the output of a run that is queued again.
DELETE FROM run_outputs WHERE run_id = :run_id

-- name: list_expiring
-- Runs that were not started by their deadline, the oldest first.
SELECT id FROM runs
WHERE status = 'queued' AND attempt = 0 AND expires_at IS NOT NULL AND expires_at <= :now
ORDER BY expires_at
LIMIT :limit

-- name: get_earliest_expiry
-- When the next unstarted run expires.
SELECT min(expires_at) FROM runs
WHERE status = 'queued' AND attempt = 0 AND expires_at IS NOT NULL

-- name: get_token_state
-- Whether a token that settled nothing had settled before, the run or its attempt.
SELECT status FROM runs
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id
    AND status <> 'running' AND status <> 'queued'
UNION ALL
SELECT outcome FROM run_attempts
WHERE run_id = :run_id AND attempt = :attempt AND session_id = :session_id
    AND outcome <> 'lost' AND outcome <> 'handed_back'

-- name: hand_back_run
-- Return the work of a leaving node, to be started again as another attempt.
UPDATE active_runs
SET status = 'queued', session_id = NULL, claimed_at = NULL, started_at = NULL,
    ready_at = coalesce(:ready_at, ready_at)
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status || '' = 'running'

-- name: lock_own_runs
-- The active ones of the given runs, with their tokens and why they should end.
SELECT id, attempt, session_id, CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE reason END
FROM active_runs WHERE id = ANY (:ids::text[]) AND status || '' = 'running'
ORDER BY id
FOR UPDATE

-- name: insert_returned_attempts
-- The records of attempts that were handed back together.
INSERT INTO run_attempts (run_id, attempt, session_id, claimed_at, started_at, finished_at, outcome)
SELECT id, attempt, session_id, claimed_at, started_at, :now, 'handed_back'
FROM active_runs WHERE id = ANY (:ids::text[])
ON CONFLICT DO NOTHING

-- name: hand_back_runs
-- Return buffered runs to their places.
UPDATE active_runs
SET status = 'queued', session_id = NULL, claimed_at = NULL, started_at = NULL
WHERE id = ANY (:ids::text[]) AND status || '' = 'running'

-- name: list_orphans
-- Runs that a dead or ended session left running.
SELECT r.id
FROM node_sessions AS n
JOIN runs AS r ON r.session_id = n.id AND r.status = 'running'
WHERE n.ended_at IS NOT NULL
LIMIT :limit

-- name: insert_lost_attempts
-- The attempts that ended with their node.
INSERT INTO run_attempts (run_id, attempt, session_id, claimed_at, started_at, finished_at,
    outcome, error)
SELECT id, attempt, session_id, claimed_at, started_at, :now, 'lost', :error
FROM active_runs WHERE id = ANY (:ids::text[])
ON CONFLICT DO NOTHING

-- name: requeue_runs
-- Queue runs for takeover as new attempts; they keep their places in their queues.
UPDATE active_runs
SET status = 'queued', session_id = NULL, claimed_at = NULL, started_at = NULL,
    losses = losses + CASE WHEN started_at IS NULL THEN 0 ELSE 1 END,
    early_losses = early_losses + CASE WHEN started_at IS NULL THEN 1 ELSE 0 END
WHERE id = ANY (:ids::text[]) AND status || '' = 'running'

-- name: insert_attempt
-- The record of an ended attempt whose run continues; a run that never started has none.
INSERT INTO run_attempts (run_id, attempt, session_id, claimed_at, started_at, finished_at,
    outcome, error, exit_code)
SELECT id, attempt, coalesce(session_id, ''), coalesce(claimed_at, created_at), started_at,
    coalesce(finished_at, :now), :outcome, :error, CAST(:exit_code AS integer)
FROM runs WHERE id = :id AND attempt > 0
ON CONFLICT DO NOTHING

-- name: count_done_attempts
-- How many attempts of a run have finished.
SELECT count(*) FROM run_attempts
WHERE run_id = :run_id AND (outcome = 'succeeded' OR outcome = 'failed')

-- name: note_overlap
-- Record that a task continued after its attempt had ended in the database.
UPDATE run_attempts SET went_on_until = :until
WHERE run_id = :run_id AND attempt = :attempt AND session_id = :session_id
    AND finished_at < :until AND (went_on_until IS NULL OR went_on_until < :until)

-- name: get_own_run
-- The active run of this token: why it should end, and whether its schedule was deleted.
SELECT CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE reason END, EXISTS (
        SELECT 1 FROM schedules AS s WHERE s.id = active_runs.schedule_id AND s.deleted_at IS NOT NULL)
FROM active_runs
WHERE id = :run_id AND attempt = :attempt AND session_id = :session_id AND status || '' = 'running'
FOR UPDATE

-- name: fail_lost_run
-- Fail a run that has cost too many nodes, or was to be cancelled anyway.
MOVE active_runs TO ended_runs
SET status = :status, session_id = NULL, finished_at = :now,
    losses = losses + CASE WHEN started_at IS NULL THEN 0 ELSE 1 END,
    early_losses = early_losses + CASE WHEN started_at IS NULL THEN 1 ELSE 0 END,
    reason = :reason, error = :error, exit_code = NULL
WHERE id = :id AND status || '' = 'running'

-- name: list_session_runs
-- The runs that a node is working on, and which of them were asked to stop.
SELECT id, attempt, CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE reason END
FROM runs WHERE session_id = :id AND status = 'running'

-- name: cancel_queued_run
-- End an unstarted run at once.
MOVE active_runs TO ended_runs
SET status = 'cancelled', finished_at = :now, reason = :reason, cancel_requested_at = :now
WHERE id = :id AND status || '' = 'queued'
RETURNING wakes, schedule_id, parent_run_id

-- name: request_cancel
-- Ask the owner of a running run to end it, with the reason.
UPDATE active_runs SET cancel_requested_at = :now, reason = :reason
WHERE id = :id AND status || '' = 'running' AND cancel_requested_at IS NULL
RETURNING session_id = ''

-- name: list_versions
-- The current version of each of the given schedules.
SELECT schedule_id, version FROM schedule_state WHERE schedule_id = ANY (:ids::text[])

-- name: get_run
-- One run with the names of its schedule and node.
SELECT * FROM run_details WHERE id = :id

-- name: find_runs
-- The run of that id, or up to two whose id starts with it.
SELECT id FROM runs
WHERE id >= :prefix AND id < :prefix || 'g' AND namespace = :namespace
LIMIT 2

-- name: get_neighbours
-- The ids before and after that of a run.
SELECT (SELECT max(id) FROM runs WHERE id < :id), (SELECT min(id) FROM runs WHERE id > :id)

-- name: list_attempts
-- The attempts of a run that ended before its latest one.
SELECT a.attempt, n.node, a.claimed_at, a.finished_at, a.outcome, a.error, a.exit_code,
    a.went_on_until
FROM run_attempts AS a
LEFT JOIN node_sessions AS n ON n.id = a.session_id
WHERE a.run_id = :id
ORDER BY a.attempt

-- name: list_runs_due
-- The runs whose due time is in a period, both ends included.
SELECT * FROM run_details
WHERE schedule_id = :schedule_id AND due_at >= :since AND due_at <= :until
ORDER BY due_at
LIMIT :limit

-- name: count_backfill
-- The runs that a backfill created or queued again at an instant, by status.
SELECT status, count(*) FROM runs
WHERE schedule_id = :schedule_id AND due_at >= :since AND due_at <= :until
    AND ((origin = 'backfill' AND created_at = :at) OR (created_at < :at AND ready_at = :at))
GROUP BY status

-- name: list_ledger
-- The entries about a schedule's due times, the newest first.
SELECT due_from, due_to, count, exact, verdict, reason, facts, at, version, session_id, kind, id
FROM ledger
WHERE schedule_id = :schedule_id AND due_to >= :since AND (due_to, id) < (:before, :id)
ORDER BY due_to DESC, id DESC
LIMIT :limit

-- name: list_ledger_between
-- The entries that overlap a period, both ends included.
SELECT due_from, due_to, count, exact, verdict, reason, facts, at, version, session_id, kind
FROM ledger WHERE schedule_id = :id AND due_to >= :since AND due_from <= :until
ORDER BY due_from, id
LIMIT :limit

-- name: trim_log
-- Drop the middle of a long log, between its head and its tail.
DELETE FROM run_logs
WHERE run_id = :run_id AND attempt = :attempt AND seq > :head_seq AND seq < :tail_seq

-- name: list_log
-- A run's log from a place on, attempt by attempt.
SELECT attempt, seq, at, stream, text FROM run_logs
WHERE run_id = :run_id AND (attempt, seq) > (:attempt, :seq)
ORDER BY attempt, seq
LIMIT :limit

-- name: list_log_end
-- The last lines of a run's log, the newest first.
SELECT attempt, seq, at, stream, text FROM run_logs
WHERE run_id = :run_id
ORDER BY attempt DESC, seq DESC
LIMIT :limit

-- name: measure_log
-- For each attempt of a run, how many lines are kept, and the number of the last one.
SELECT attempt, count(*), max(seq) FROM run_logs WHERE run_id = :run_id
GROUP BY attempt
ORDER BY attempt

-- name: list_keeps
-- How long namespaces keep their runs, and up to where they may have been deleted.
SELECT namespace, keep_seconds, forgotten_until, ledger_until FROM namespace_history
ORDER BY namespace

-- name: get_longest_keep
-- The longest retention set by a schedule.
SELECT max(keep_seconds) FROM schedule_history WHERE keep_seconds IS NOT NULL

-- name: hold_keep
-- Prevent deletion by the retention of a namespace, and changes to it, until the commit.
INSERT INTO namespace_history (namespace) VALUES (:namespace)
ON CONFLICT (namespace) DO UPDATE SET namespace = excluded.namespace

-- name: save_keep
-- Set how long a namespace keeps its runs; what was deleted before stays forgotten.
UPDATE namespace_history SET keep_seconds = :keep,
    forgotten_until = CASE
        WHEN forgotten_until IS NULL OR forgotten_until < :forgotten_until
        THEN :forgotten_until ELSE forgotten_until END
WHERE namespace = :namespace

-- name: save_schedule_keep
-- Set how long, or how many runs, a schedule keeps; what was deleted before stays forgotten.
INSERT INTO schedule_history (schedule_id, keep_seconds, keep_last, forgotten_until)
SELECT :id, :keep::bigint, :keep_last::integer, max(n.forgotten_until)
FROM namespace_history AS n
WHERE n.namespace = :namespace OR (n.namespace = :everywhere AND NOT EXISTS (
    SELECT 1 FROM namespace_history AS own
    WHERE own.namespace = :namespace AND own.keep_seconds IS NOT NULL))
ON CONFLICT (schedule_id) DO UPDATE
SET keep_seconds = excluded.keep_seconds, keep_last = excluded.keep_last,
    forgotten_until = CASE
        WHEN schedule_history.keep_seconds IS NOT NULL THEN schedule_history.forgotten_until
        WHEN schedule_history.forgotten_until IS NULL
            OR schedule_history.forgotten_until < excluded.forgotten_until
        THEN excluded.forgotten_until ELSE schedule_history.forgotten_until END

-- name: clear_schedule_keeps
-- Let schedules use their namespace's retention; what was deleted before stays forgotten.
UPDATE schedule_history SET keep_seconds = NULL, keep_last = NULL
WHERE schedule_id = ANY (:ids::text[])

-- name: list_histories
-- How long schedules keep their runs, and up to where they may have been deleted.
SELECT s.id, s.namespace, h.keep_seconds, h.keep_last, h.forgotten_until
FROM schedules AS s LEFT JOIN schedule_history AS h ON h.schedule_id = s.id
WHERE s.id = ANY (:ids::text[])

-- name: list_kept_schedules
-- Schedules that set how long, or how many runs, they keep, by id.
SELECT schedule_id, keep_seconds, keep_last FROM schedule_history
WHERE schedule_id > :after AND (keep_seconds IS NOT NULL OR keep_last IS NOT NULL)
ORDER BY schedule_id
LIMIT :limit

-- name: mark_namespace
-- Runs of a namespace that were due up to then may be deleted in this transaction.
INSERT INTO namespace_history (namespace, forgotten_until) VALUES (:namespace, :until)
ON CONFLICT (namespace) DO UPDATE SET forgotten_until = CASE
    WHEN namespace_history.forgotten_until IS NULL
        OR namespace_history.forgotten_until < excluded.forgotten_until
    THEN excluded.forgotten_until ELSE namespace_history.forgotten_until END

-- name: mark_ledger
-- Entries of the ledger about due times up to then were deleted in this transaction.
INSERT INTO namespace_history (namespace, ledger_until) VALUES (:everywhere, :until)
ON CONFLICT (namespace) DO UPDATE SET ledger_until = CASE
    WHEN namespace_history.ledger_until IS NULL
        OR namespace_history.ledger_until < excluded.ledger_until
    THEN excluded.ledger_until ELSE namespace_history.ledger_until END

-- name: mark_schedule
-- Runs of a schedule that were due up to then are deleted in this transaction.
UPDATE schedule_history SET forgotten_until = :until
WHERE schedule_id = :id AND (forgotten_until IS NULL OR forgotten_until < :until)

-- name: forget_history
-- Retention: nothing remains of the schedule.
DELETE FROM schedule_history WHERE schedule_id = :id

-- name: look_at_old_runs
-- Retention: ended runs by end, and whether to delete each; steps go with their flow's run.
SELECT r.id, r.finished_at, r.rowid, (r.namespace = ANY (:namespaces::text[])) = :among::boolean
    AND r.parent_run_id IS NULL AND (r.due_at IS NULL OR r.due_at < :before)
    AND (SELECT h.keep_seconds FROM schedule_history AS h
        WHERE h.schedule_id = r.schedule_id) IS NULL
    AND (r.finished_at < :remembered OR r.schedule_id IS NULL OR r.status NOT IN ('succeeded', 'partial')
        OR (r.due_at IS NOT NULL AND EXISTS (
            SELECT 1 FROM ended_runs AS n
            WHERE n.schedule_id = r.schedule_id AND n.finished_at > r.finished_at
                AND (n.status = 'succeeded' OR n.status = 'partial')))
        OR (r.due_at IS NULL AND EXISTS (
            SELECT 1 FROM ended_runs AS n
            WHERE n.schedule_id = r.schedule_id AND n.due_at IS NULL
                AND n.created_at > r.created_at AND (n.status = 'succeeded' OR n.status = 'partial'))))
    AND (r.queue <> '@flow' OR NOT EXISTS (
        SELECT 1 FROM active_runs AS c
        WHERE c.parent_run_id = r.id AND c.status IN ('queued', 'running')))
FROM ended_runs AS r
WHERE r.finished_at < :before AND (r.finished_at, r.rowid) > (:at, :place)
ORDER BY r.finished_at, r.rowid
LIMIT :limit

-- name: look_at_outdated_runs
-- Retention: runs of a schedule that ended before its own limit, if they may be deleted.
SELECT o.schedule_id, o.id, o.due_at FROM (
    SELECT schedule_id, id, due_at, status, queue, created_at, finished_at FROM ended_runs
    WHERE schedule_id = :id AND finished_at < :before
    ORDER BY finished_at
    LIMIT :limit) AS o
WHERE (o.due_at IS NULL OR o.due_at < :before)
    AND (o.finished_at < :remembered OR o.status NOT IN ('succeeded', 'partial')
        OR (o.due_at IS NOT NULL AND EXISTS (
            SELECT 1 FROM ended_runs AS n
            WHERE n.schedule_id = o.schedule_id AND n.finished_at > o.finished_at
                AND (n.status = 'succeeded' OR n.status = 'partial')))
        OR (o.due_at IS NULL AND EXISTS (
            SELECT 1 FROM ended_runs AS n
            WHERE n.schedule_id = o.schedule_id AND n.due_at IS NULL
                AND n.created_at > o.created_at AND (n.status = 'succeeded' OR n.status = 'partial'))))
    AND (o.queue <> '@flow' OR NOT EXISTS (
        SELECT 1 FROM active_runs AS c
        WHERE c.parent_run_id = o.id AND c.status IN ('queued', 'running')))

-- name: look_at_surplus_runs
-- Retention: runs of a schedule beyond the newest that it keeps, if they may be deleted.
SELECT o.schedule_id, o.id, o.due_at FROM (
    SELECT schedule_id, id, due_at, status, queue, created_at, finished_at FROM ended_runs
    WHERE schedule_id = :id AND finished_at IS NOT NULL
    ORDER BY finished_at DESC
    LIMIT :limit OFFSET :last) AS o
WHERE (o.finished_at < :remembered OR o.status NOT IN ('succeeded', 'partial')
        OR (o.due_at IS NOT NULL AND EXISTS (
            SELECT 1 FROM ended_runs AS n
            WHERE n.schedule_id = o.schedule_id AND n.finished_at > o.finished_at
                AND (n.status = 'succeeded' OR n.status = 'partial')))
        OR (o.due_at IS NULL AND EXISTS (
            SELECT 1 FROM ended_runs AS n
            WHERE n.schedule_id = o.schedule_id AND n.due_at IS NULL
                AND n.created_at > o.created_at AND (n.status = 'succeeded' OR n.status = 'partial'))))
    AND (o.queue <> '@flow' OR NOT EXISTS (
        SELECT 1 FROM active_runs AS c
        WHERE c.parent_run_id = o.id AND c.status IN ('queued', 'running')))

-- name: delete_old_ledger
-- Retention: a small batch of entries written long ago.
DELETE FROM ledger WHERE id IN (SELECT id FROM ledger WHERE at < :before ORDER BY at LIMIT :limit)

-- name: delete_old_keys
-- Retention: idempotency keys of requests that will not be repeated.
DELETE FROM idempotency_keys WHERE (scope, key) IN (
    SELECT scope, key FROM idempotency_keys WHERE at <= :before ORDER BY at LIMIT :limit)

-- name: delete_old_tokens
-- Retention: tokens that became invalid long ago.
DELETE FROM tokens WHERE id IN (
    SELECT id FROM tokens WHERE coalesce(revoked_at, expires_at) < :before LIMIT :limit)

-- name: delete_old_sessions
-- Retention: nodes that left long ago, once the runs that they ended are deleted.
DELETE FROM node_sessions WHERE id IN (
    SELECT n.id FROM node_sessions AS n
    WHERE n.ended_at < :before
        AND NOT EXISTS (
            SELECT 1 FROM runs AS r WHERE r.session_id = n.id AND r.status = 'running')
    LIMIT :limit)

-- name: list_old_schedules
-- Retention: schedules deleted long ago, without any remaining history.
SELECT s.id FROM schedules AS s
WHERE s.deleted_at < :before
    AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.schedule_id = s.id)
    AND NOT EXISTS (SELECT 1 FROM ledger AS l WHERE l.schedule_id = s.id)
LIMIT :limit

-- name: delete_revisions
-- Retention: the definitions of a schedule that is being forgotten.
DELETE FROM schedule_revisions WHERE schedule_id = :id

-- name: forget_schedule
-- Retention: remove its last row.
DELETE FROM schedules WHERE id = :id

-- name: wake_asleep
-- Wake schedules that no node would ever look at again.
UPDATE schedule_state SET wake_at = coalesce(paused_until, :now)
WHERE schedule_id IN (
    SELECT schedule_id FROM schedule_state
    WHERE wake_at IS NULL AND (status = 'active' OR paused_until IS NOT NULL)
    ORDER BY schedule_id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED)
RETURNING schedule_id

-- name: check_overlaps
-- Runs that exclude each other are never active together (status: for the index).
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, NULL, NULL, count(*) FROM runs AS r
JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.status = 'running' AND r.status IN ('queued', 'running') AND r.exclusive
GROUP BY s.namespace, s.name, s.id HAVING count(*) > 1
LIMIT :limit

-- name: check_overlapped
-- Attempts that exclude each other were never active together.
WITH spans AS (
    SELECT r.schedule_id, r.due_at, r.id, r.started_at AS began, r.finished_at AS ended
    FROM runs AS r
    WHERE r.exclusive AND r.schedule_id IS NOT NULL AND r.started_at IS NOT NULL
        AND r.finished_at >= :since
        AND NOT EXISTS (
            SELECT 1 FROM run_attempts AS a WHERE a.run_id = r.id AND a.attempt = r.attempt)
    UNION ALL
    SELECT r.schedule_id, r.due_at, r.id, r.started_at, NULL FROM runs AS r
    WHERE r.status = 'running' AND r.exclusive AND r.schedule_id IS NOT NULL
    UNION ALL
    SELECT r.schedule_id, r.due_at, r.id, a.started_at, a.finished_at
    FROM run_attempts AS a JOIN runs AS r ON r.id = a.run_id
    WHERE r.exclusive AND r.schedule_id IS NOT NULL AND a.started_at IS NOT NULL
        AND a.finished_at >= :since),
followed AS (
    SELECT schedule_id, due_at, id, began, max(ended) OVER (
        PARTITION BY schedule_id ORDER BY began, ended
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM spans)
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, f.due_at, f.id, f.began, f.schedule_id, f.before
FROM followed AS f JOIN schedules AS s ON s.id = f.schedule_id
WHERE f.before > f.began
LIMIT :limit

-- name: list_repeated_spans
-- Attempts that exclude each other and overlap the periods that the clock showed twice.
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

-- name: check_abandoned
-- No dead session owns a run: the session, when it died, and its last lease.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id, n.node, coalesce(n.ended_at, n.expires_at),
    n.seen_at, n.expires_at
FROM runs AS r
JOIN node_sessions AS n ON n.id = r.session_id
LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.status = 'running' AND (n.ended_at IS NOT NULL OR n.expires_at <= :now)
LIMIT :limit

-- name: check_unknown_owners
-- An active run has an owner whose death would be noticed.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id, r.session_id FROM runs AS r
LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.status = 'running' AND r.session_id <> ''
    AND NOT EXISTS (SELECT 1 FROM node_sessions AS n WHERE n.id = r.session_id)
LIMIT :limit

-- name: check_doubled
-- A due time has a run or a reason, not both (already_started refers to an existing run).
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id, l.reason FROM ledger AS l
JOIN runs AS r ON r.schedule_id = l.schedule_id AND r.due_at = l.due_from AND l.kind = 'start'
JOIN schedules AS s ON s.id = l.schedule_id
WHERE l.count = 1 AND l.at >= :since AND l.reason <> 'already_started' AND r.origin <> 'backfill'
LIMIT :limit

-- name: check_doubled_runs
-- A due time has one run.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, NULL, count(*) FROM runs AS r
JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.due_at IS NOT NULL
GROUP BY s.namespace, s.name, s.id, r.due_at HAVING count(*) > 1
LIMIT :limit

-- name: check_order
-- What is next lies after everything decided.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, st.next_due_at, NULL, st.watermark FROM schedule_state AS st
JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.next_due_at <= st.watermark AND NOT EXISTS (
    SELECT 1 FROM schedule_exceptions AS e
    WHERE e.schedule_id = st.schedule_id AND e.due_at = st.next_due_at AND e.kind = 'moved_here')
LIMIT :limit

-- name: check_future
-- What is decided lies in the past.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, st.watermark, NULL FROM schedule_state AS st
JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.watermark > :now
LIMIT :limit

-- name: check_asleep
-- Every schedule that is active, or paused for a while, will be looked at again.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, st.next_due_at, NULL FROM schedule_state AS st
JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.wake_at IS NULL AND (st.status = 'active' OR st.paused_until IS NOT NULL)
LIMIT :limit

-- name: check_overdue
-- Schedules that were due for a look for more than a minute, the most overdue first.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, st.next_due_at, NULL, st.wake_at FROM schedule_state AS st
JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.wake_at < :before
ORDER BY st.wake_at
LIMIT :limit

-- name: check_problems
-- Schedules that cannot be planned.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, NULL, NULL, st.problem FROM schedule_state AS st
JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.problem IS NOT NULL
LIMIT :limit

-- name: check_states
-- A schedule has a state until it is deleted.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, NULL, NULL FROM schedules AS s
WHERE s.deleted_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM schedule_state AS st WHERE st.schedule_id = s.id)
LIMIT :limit

-- name: check_deleted_states
-- A deleted schedule is never looked at again.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, NULL, NULL FROM schedules AS s
JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.deleted_at IS NOT NULL
LIMIT :limit

-- name: check_state_versions
-- The latest definition is the one that is planned.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, NULL, NULL, s.version, st.version FROM schedules AS s
JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.version <> st.version
LIMIT :limit

-- name: check_definitions
-- A schedule has its definition.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, NULL, NULL, s.version FROM schedules AS s
WHERE NOT EXISTS (
    SELECT 1 FROM schedule_revisions AS v WHERE v.schedule_id = s.id AND v.version = s.version)
LIMIT :limit

-- name: check_run_definitions
-- A run has the definition that it was created from.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id, r.version FROM runs AS r
LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.schedule_id IS NOT NULL AND r.id IN (
    SELECT id FROM runs WHERE finished_at >= :since
    UNION ALL SELECT id FROM runs WHERE status IN ('queued', 'running'))
    AND NOT EXISTS (
        SELECT 1 FROM schedule_revisions AS v
        WHERE v.schedule_id = r.schedule_id AND v.version = r.version)
LIMIT :limit

-- name: check_attempts
-- Every attempt except the active one is recorded; the last one of an ended run may be.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id, r.status, r.attempt, n.recorded
FROM runs AS r
JOIN (
    SELECT w.id, count(a.attempt) AS recorded, max(a.attempt) AS latest
    FROM runs AS w LEFT JOIN run_attempts AS a ON a.run_id = w.id AND a.attempt > 0
    WHERE w.id IN (
        SELECT id FROM runs WHERE finished_at >= :since
        UNION ALL SELECT id FROM runs WHERE status IN ('queued', 'running'))
    GROUP BY w.id) AS n ON n.id = r.id
LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE n.latest > r.attempt
    OR (r.status = 'queued' AND n.recorded <> r.attempt)
    OR (r.status = 'running' AND n.recorded <> r.attempt - 1)
    OR (r.finished_at IS NOT NULL AND n.recorded <> r.attempt AND n.recorded <> r.attempt - 1)
LIMIT :limit

-- name: check_losses
-- Every counted loss has a lost attempt.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id, r.losses + r.early_losses, n.lost
FROM runs AS r
JOIN (
    SELECT w.id, count(a.attempt) AS lost
    FROM runs AS w LEFT JOIN run_attempts AS a ON a.run_id = w.id AND a.outcome = 'lost'
    WHERE w.losses + w.early_losses > 0 AND w.id IN (
        SELECT id FROM runs WHERE finished_at >= :since
        UNION ALL SELECT id FROM runs WHERE status IN ('queued', 'running'))
    GROUP BY w.id) AS n ON n.id = r.id
LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.losses + r.early_losses > n.lost
LIMIT :limit

-- name: check_late_logs
-- There are no logs of attempts that have not started.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id, max(g.attempt), r.attempt
FROM run_logs AS g JOIN runs AS r ON r.id = g.run_id
LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE g.attempt > r.attempt
GROUP BY s.namespace, s.name, r.due_at, r.id, r.attempt
LIMIT :limit

-- name: check_times
-- An attempt ends after it started.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, r.due_at, r.id FROM runs AS r
LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.finished_at < r.started_at AND r.finished_at >= :since
LIMIT :limit

-- name: check_crowds
-- A schedule with a limit has no more active runs than it allows.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END, NULL, NULL, count(*), min(r.max_concurrent) FROM runs AS r
JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.status = 'running' AND r.status IN ('queued', 'running')
GROUP BY s.namespace, s.name, s.id HAVING count(*) > min(r.max_concurrent)
LIMIT :limit

-- name: check_queue_crowds
-- A queue with a limit has no more active runs than it allows.
SELECT NULL, NULL, NULL, q.name, count(*), q.concurrency FROM queues AS q
JOIN runs AS r ON r.queue = q.name
WHERE r.status = 'running'
GROUP BY q.name, q.concurrency HAVING count(*) > q.concurrency
LIMIT :limit

-- name: check_event_order
-- Events of one aggregate are delivered in order.
SELECT NULL, NULL, NULL, e.id, e.aggregate FROM events AS e
JOIN events AS other ON other.aggregate = e.aggregate
    AND other.version = e.version + 1 AND other.position < e.position
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

-- name: check_planned_early
-- Nothing is planned before it is due.
SELECT CASE WHEN s.namespace = 'default' THEN s.name ELSE s.namespace || '/' || s.name END,
    r.due_at, r.id, r.created_at, r.rowid, r.created_at
FROM runs AS r JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.created_at < r.due_at AND r.origin <> 'backfill' AND r.id IN (
    SELECT id FROM runs WHERE finished_at >= :since
    UNION ALL SELECT id FROM runs WHERE status IN ('queued', 'running'))
LIMIT :limit

-- name: check_event_gaps
-- No event of an aggregate is missing.
SELECT NULL, NULL, NULL, aggregate, max(version) - min(version) + 1 - count(*),
    max(version) - min(version) + 1
FROM events WHERE aggregate IS NOT NULL
GROUP BY aggregate HAVING max(version) - min(version) + 1 <> count(*)
LIMIT :limit

-- name: insert_event
-- An event of the log.
INSERT INTO events (id, namespace, topic, type, key, slot, aggregate, version, data, meta, at)
VALUES (:id::text[], :namespace::text[], :topic::text[], :type::text[], :key::text[],
    :slot::integer[], :aggregate::text[], :version::integer[], :data::text[], :meta::text[],
    :at::timestamptz[])

-- name: get_last_position
-- The last position of the log.
SELECT max(position) FROM events WHERE position IS NOT NULL

-- name: get_own_position
-- The position of the last event of a namespace in a stretch of the log.
SELECT position FROM events
WHERE position > :after AND position <= :until AND namespace = :namespace
ORDER BY position DESC LIMIT 1

-- name: get_first_position
-- The first position of the log, as older events have been deleted.
SELECT min(position) FROM events WHERE position IS NOT NULL

-- name: list_topics
-- The topics of the recent end of the log.
SELECT topic, count(*), max(position), max(at) FROM events
WHERE namespace = :namespace AND position > :after
GROUP BY topic
ORDER BY topic

-- name: get_position_at
-- Where events written since a time begin; transactions that started later may have committed earlier.
WITH early AS MATERIALIZED (
    SELECT position FROM events WHERE at >= :at AND position IS NOT NULL ORDER BY at LIMIT 100),
edge AS MATERIALIZED (SELECT min(position) AS position FROM early)
SELECT min(e.position) FROM edge JOIN events AS e
    ON e.position > edge.position - 10000 AND e.position <= edge.position
WHERE e.at >= :at

-- name: list_events
-- A stretch of the log, limited in bytes: events of some topics and partitions.
SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version, bytes
FROM (
    SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version,
        octet_length(data) AS size, sum(octet_length(data)) OVER (ORDER BY position) AS bytes
    FROM (
        SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version
        FROM events
        WHERE position > :after AND position <= :until AND namespace = :namespace
            AND slot % :partitions = ANY (:parts::integer[])
            AND ((:every AND substr(topic, 1, 8) <> 'duebook.')
                OR topic = ANY (:topics::text[]))
            AND (:any_type OR type = ANY (:types::text[]))
            AND (:any_key OR key = ANY (:keys::text[]))
        ORDER BY position
        LIMIT :limit) AS page) AS sized
WHERE bytes - size < :most
ORDER BY position

-- name: list_events_back
-- Like list_events, the newest first, of all partitions.
SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version, bytes
FROM (
    SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version,
        octet_length(data) AS size, sum(octet_length(data)) OVER (ORDER BY position DESC) AS bytes
    FROM (
        SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version
        FROM events
        WHERE position > :after AND position <= :until AND namespace = :namespace
            AND ((:every AND substr(topic, 1, 8) <> 'duebook.')
                OR topic = ANY (:topics::text[]))
            AND (:type::text IS NULL OR type = :type::text) AND (:key::text IS NULL OR key = :key::text)
        ORDER BY position DESC
        LIMIT :limit) AS page) AS sized
WHERE bytes - size < :most
ORDER BY position DESC

-- name: list_labels_of
-- The labels of the given schedules, including deleted ones.
SELECT id, labels FROM schedules WHERE id = ANY (:ids::text[])

-- name: get_event
-- One event by its id.
SELECT id, namespace, topic, type, key, data, meta, at, position, aggregate, version
FROM events WHERE id = :id AND namespace = :namespace

-- name: delete_old_events
-- Retention: a small batch of old events that all consumers have read; the last one stays, for the count.
DELETE FROM events WHERE at < :before AND id IN (
    SELECT id FROM events
    WHERE position < (SELECT max(position) FROM events WHERE position IS NOT NULL)
        AND position <= (SELECT coalesce(min(k.position), 9223372036854775807) FROM cursors AS k)
        AND position < (SELECT coalesce(min(h.position), 9223372036854775807) FROM held_keys AS h)
    ORDER BY position LIMIT :limit)

-- name: get_consumer
-- One consumer of the log.
SELECT namespace, name, kind, topics, partitions, attempts, options, types, labels
FROM consumers WHERE namespace = :namespace AND name = :name

-- name: list_consumers
-- All consumers of the log.
SELECT namespace, name, kind, topics, partitions, attempts, options, types, labels
FROM consumers ORDER BY namespace, name

-- name: list_sinks
-- Consumers that publish the log elsewhere.
SELECT namespace, name, kind, topics, partitions, attempts, options, types, labels
FROM consumers WHERE kind <> 'group' ORDER BY namespace, name

-- name: list_followed
-- The life-cycle topics that consumers read; usually there are none.
SELECT namespace, topics FROM consumers WHERE topics LIKE :begin

-- name: list_told_runs
-- The data of life-cycle events of the given runs.
SELECT r.id, r.namespace, s.name, r.schedule_id, r.due_at, r.origin, r.status, r.attempt, r.reason,
    r.error, r.started_at, r.finished_at, r.task, s.created_by, r.flow, r.step, r.queue = '@flow'
FROM runs AS r LEFT JOIN schedules AS s ON s.id = r.schedule_id
WHERE r.id = ANY (:ids::text[])
ORDER BY r.id

-- name: list_event_versions
-- The latest version of each of the given aggregates that has events.
SELECT aggregate, max(version) FROM events
WHERE aggregate = ANY (:aggregates::text[])
GROUP BY aggregate

-- name: list_told_schedules
-- The data of life-cycle events of the given schedules.
SELECT id, namespace, name, created_by, title FROM schedules WHERE id = ANY (:ids::text[])

-- name: insert_consumer
-- A new consumer of the log.
INSERT INTO consumers (
    namespace, name, kind, topics, partitions, attempts, options, types, labels, created_at)
VALUES (
    :namespace, :name, :kind, :topics, :partitions, :attempts, :options, :types, :labels, :now)
ON CONFLICT DO NOTHING

-- name: insert_cursor
-- The starting position of a consumer.
INSERT INTO cursors (namespace, name, part, position)
VALUES (:namespace::text[], :name::text[], :part::integer[], :position::bigint[])

-- name: update_consumer
-- Change the topics or settings of a consumer.
UPDATE consumers SET topics = :topics, attempts = :attempts, options = :options, types = :types,
    labels = :labels
WHERE namespace = :namespace AND name = :name

-- name: delete_consumer
-- Remove a consumer with its cursors and dead letters.
DELETE FROM consumers WHERE namespace = :namespace AND name = :name

-- name: lock_consumer
-- Lock a consumer, so that its partitions are shared out by one transaction at a time.
SELECT name FROM consumers WHERE namespace = :namespace AND name = :name
FOR UPDATE

-- name: forget_members
-- Members without a recent heartbeat.
DELETE FROM members WHERE namespace = :namespace AND name = :name AND expires_at <= :now

-- name: save_member
-- Add or renew a member.
INSERT INTO members (namespace, name, member, expires_at)
VALUES (:namespace, :name, :member, :expires_at)
ON CONFLICT (namespace, name, member) DO UPDATE SET expires_at = excluded.expires_at

-- name: renew_member
-- Renew a member, unless it was removed.
UPDATE members SET expires_at = :expires_at
WHERE namespace = :namespace AND name = :name AND member = :member

-- name: delete_member
-- A member leaves.
DELETE FROM members WHERE namespace = :namespace AND name = :name AND member = :member

-- name: hold_cursors
-- A member's cursors, locked until the transaction ends.
SELECT part, term, position FROM cursors
WHERE namespace = :namespace AND name = :name AND owner = :member AND part = ANY (:parts::integer[])
ORDER BY part
FOR UPDATE

-- name: list_members
-- The members of a group.
SELECT member FROM members WHERE namespace = :namespace AND name = :name

-- name: list_owners
-- The owners of the partitions.
SELECT part, owner FROM cursors WHERE namespace = :namespace AND name = :name ORDER BY part

-- name: release_cursor
-- Release a partition of a member that has more than its share.
UPDATE cursors SET owner = NULL, term = term + 1
WHERE namespace = :namespace AND name = :name AND part = :part AND owner = :member

-- name: release_cursors
-- Release all partitions of a leaving member.
UPDATE cursors SET owner = NULL, term = term + 1
WHERE namespace = :namespace AND name = :name AND owner = :member

-- name: list_cursors
-- A member's cursors.
SELECT part, position, term, retry_at, replay_until FROM cursors
WHERE namespace = :namespace AND name = :name AND owner = :member
ORDER BY part

-- name: list_channels
-- Channels of alerts: how many alerts they refused, and what is retried; the failing ones first.
SELECT c.namespace, c.name, c.options, (
        SELECT count(*) FROM dead_letters AS d
        WHERE d.namespace = c.namespace AND d.name = c.name) AS dead,
    coalesce(k.error, (
        SELECT max(h.error) FROM held_keys AS h
        WHERE h.namespace = c.namespace AND h.name = c.name)) AS error
FROM consumers AS c JOIN cursors AS k ON k.namespace = c.namespace AND k.name = c.name
WHERE c.kind = 'alert_channel'
ORDER BY (k.retry_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM held_keys AS h WHERE h.namespace = c.namespace AND h.name = c.name)
    OR EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.namespace = c.namespace AND d.name = c.name))
    DESC, c.namespace, c.name
LIMIT :limit

-- name: list_partitions
-- How far a consumer has read each partition, the owner, and what went wrong there.
SELECT k.part, k.position,
    CASE WHEN min(h.position) <= k.position THEN min(h.position) - 1 ELSE k.position END,
    k.owner, count(h.key), coalesce(max(h.failures), 0), coalesce(k.retry_at, min(h.retry_at)),
    coalesce(k.error, (
        SELECT e.error FROM held_keys AS e
        WHERE e.namespace = k.namespace AND e.name = k.name AND e.part = k.part
            AND e.error IS NOT NULL
        ORDER BY e.position LIMIT 1)),
    k.replay_until
FROM cursors AS k LEFT JOIN held_keys AS h
    ON h.namespace = k.namespace AND h.name = k.name AND h.part = k.part
WHERE k.namespace = :namespace AND k.name = :name
GROUP BY k.namespace, k.name, k.part
ORDER BY k.part

-- name: count_letters
-- How many dead letters a consumer has, or whether this is one of them.
SELECT count(*) FROM dead_letters
WHERE namespace = :namespace AND name = :name AND event_id = coalesce(:event_id, event_id)

-- name: take_letters
-- Dead letters to be delivered again, the oldest first, limited in bytes.
SELECT event
FROM (
    SELECT event, at, event_id, octet_length(event) AS size,
        sum(octet_length(event)) OVER (ORDER BY at, event_id) AS bytes
    FROM (
        SELECT event, at, event_id FROM dead_letters
        WHERE namespace = :namespace AND name = :name AND again
            AND slot % :partitions = ANY (:parts::integer[])
        ORDER BY at, event_id
        LIMIT :limit) AS page) AS sized
WHERE bytes - size < :most
ORDER BY at, event_id

-- name: list_held
-- The keys that wait by themselves in the partitions of a member.
SELECT h.part, h.key, h.position, h.failures, h.tries, h.retry_at, h.error
FROM held_keys AS h JOIN cursors AS k
    ON k.namespace = h.namespace AND k.name = h.name AND k.part = h.part
WHERE h.namespace = :namespace AND h.name = :name AND k.owner = :member
ORDER BY h.position

-- name: get_key_position
-- How far a consumer has read a key of a partition.
SELECT coalesce((
        SELECT h.position - 1 FROM held_keys AS h
        WHERE h.namespace = k.namespace AND h.name = k.name AND h.key = :key),
    k.position)
FROM cursors AS k
WHERE k.namespace = :namespace AND k.name = :name AND k.part = :part

-- name: free_replayed_keys
-- Keys whose events will be reached again by their cursors.
DELETE FROM held_keys
WHERE namespace = :namespace AND name = :name AND position > :position

-- name: move_cursor
-- Move a cursor forward; only its owner can, under its term.
UPDATE cursors
SET position = :position, retry_at = :retry_at, error = :error
WHERE namespace = :namespace AND name = :name AND part = :part AND owner = :member AND term = :term AND position <= :position

-- name: free_keys
-- Keys that have caught up with their cursor.
DELETE FROM held_keys
WHERE namespace = :namespace AND name = :name AND key = ANY (:keys::text[])

-- name: hold_key
-- Let a key wait by itself, before an undelivered event; its position never goes back.
INSERT INTO held_keys (namespace, name, part, key, position, failures, tries, retry_at, error)
VALUES (:namespace::text[], :name::text[], :part::integer[], :key::text[], :position::bigint[],
    :failures::integer[], :tries::integer[], :retry_at::timestamptz[], :error::text[])
ON CONFLICT (namespace, name, key) DO UPDATE
SET position = excluded.position, failures = excluded.failures, tries = excluded.tries,
    retry_at = excluded.retry_at, error = excluded.error
WHERE held_keys.position <= excluded.position

-- name: replay_cursors
-- Move cursors back to a position for a replay; current readers lose their term.
UPDATE cursors
SET replay_until = CASE WHEN replay_until > position THEN replay_until ELSE position END,
    position = :position, retry_at = NULL, error = NULL, term = term + 1
WHERE namespace = :namespace AND name = :name AND position > :position

-- name: insert_letter
-- An event that could not be delivered.
INSERT INTO dead_letters (namespace, name, event_id, slot, event, error, attempts, at)
VALUES (:namespace, :name, :event_id, :slot, :event, :error, :attempts, :now)
ON CONFLICT (namespace, name, event_id) DO UPDATE
SET error = excluded.error, at = excluded.at, attempts = excluded.attempts

-- name: list_letters
-- The dead letters of a consumer, or of all, the newest first, limited in bytes.
SELECT name, event, error, attempts, at, again, bytes
FROM (
    SELECT name, event_id, event, error, attempts, at, again, octet_length(event) AS size,
        sum(octet_length(event)) OVER (ORDER BY at DESC, event_id DESC, name DESC) AS bytes
    FROM (
        SELECT name, event_id, event, error, attempts, at, again FROM dead_letters
        WHERE namespace = :namespace AND (:name::text IS NULL OR name = :name::text)
            AND (at, event_id, name) < (:before_at, :before_id, :before_name)
        ORDER BY at DESC, event_id DESC, name DESC
        LIMIT :limit) AS page) AS sized
WHERE bytes - size < :most
ORDER BY at DESC, event_id DESC, name DESC

-- name: delete_letter
-- Remove a dead letter that was delivered after all.
DELETE FROM dead_letters WHERE namespace = :namespace AND name = :name AND event_id = :event_id

-- name: keep_letter
-- Keep a dead letter whose redelivery failed.
UPDATE dead_letters SET again = false, error = :error, at = :now, attempts = attempts + 1
WHERE namespace = :namespace AND name = :name AND event_id = :event_id

-- name: replay_letters
-- Request redelivery of one dead letter, or all of a consumer.
UPDATE dead_letters SET again = true
WHERE namespace = :namespace AND name = :name AND (:event_id::text IS NULL OR event_id = :event_id::text)

-- name: drop_letters
-- Discard one dead letter, or all of a consumer.
DELETE FROM dead_letters
WHERE namespace = :namespace AND name = :name AND (:event_id::text IS NULL OR event_id = :event_id::text)

-- name: list_lags
-- The progress of each consumer, its dead letters, and partitions that wait for a retry.
SELECT c.namespace, c.name, c.kind,
    min(CASE WHEN h.position <= k.position THEN h.position - 1 ELSE k.position END), (
        SELECT count(*) FROM dead_letters AS d
        WHERE d.namespace = c.namespace AND d.name = c.name),
    sum(CASE WHEN k.retry_at IS NOT NULL OR h.position IS NOT NULL THEN 1 ELSE 0 END)
FROM consumers AS c
JOIN cursors AS k ON k.namespace = c.namespace AND k.name = c.name
LEFT JOIN (
    SELECT namespace, name, part, min(position) AS position
    FROM held_keys GROUP BY namespace, name, part) AS h
    ON h.namespace = k.namespace AND h.name = k.name AND h.part = k.part
GROUP BY c.namespace, c.name, c.kind
ORDER BY c.namespace, c.name

-- name: list_alive
-- The live nodes.
SELECT node, roles, started_at, version FROM node_sessions
WHERE ended_at IS NULL AND expires_at > :now
ORDER BY node, started_at

-- name: list_nodes
-- The live nodes, with what they do and whether they lead.
SELECT n.id, n.node, n.pid, n.roles, n.version, n.tzdata, n.tasks, n.queues, n.namespaces, n.labels,
    n.secrets, n.started_at, n.seen_at, n.expires_at, n.clock_ahead,
    (SELECT count(*) FROM runs AS r WHERE r.session_id = n.id AND r.status = 'running'),
    EXISTS (
        SELECT 1 FROM leases AS l
        WHERE l.name = 'scheduler' AND l.session_id = n.id AND l.expires_at > :now),
    n.draining_at, n.stops_when_idle, n.unserved
FROM node_sessions AS n
WHERE n.ended_at IS NULL AND n.expires_at > :now
ORDER BY n.node, n.started_at, n.id

-- name: list_running_by_node
-- How many runs of each namespace each node has.
SELECT session_id, namespace, count(*) FROM runs WHERE status = 'running'
GROUP BY session_id, namespace

-- name: list_accounts
-- Schedules by id, including deleted ones, with the state of their planning.
SELECT s.id, s.namespace, s.name, s.created_at, s.deleted_at, st.version, st.status, st.watermark,
    st.next_due_at, st.wake_at, st.fired, st.seen, st.problem, c.decided_until
FROM schedules AS s LEFT JOIN schedule_state AS st ON st.schedule_id = s.id
LEFT JOIN schedule_controls AS c ON c.schedule_id = s.id
WHERE s.id > :after
ORDER BY s.id
LIMIT :limit

-- name: list_active_accounts
-- Schedules in one or two states by id, with the state of their planning and current definition.
SELECT s.id, s.namespace, s.name, s.created_at, s.deleted_at, st.version, st.status, st.watermark,
    st.next_due_at, st.wake_at, st.fired, st.seen, st.problem, c.decided_until, r.spec, r.valid_from
FROM schedule_state AS st JOIN schedules AS s ON s.id = st.schedule_id
LEFT JOIN schedule_revisions AS r ON r.schedule_id = st.schedule_id AND r.version = st.version
LEFT JOIN schedule_controls AS c ON c.schedule_id = st.schedule_id
WHERE st.schedule_id > :after AND st.status IN ('active', :also)
ORDER BY st.schedule_id
LIMIT :limit

-- name: list_expired_sessions
-- Nodes whose lease has expired but that were not declared dead; with the runs that they hold.
SELECT n.node, n.pid, n.expires_at,
    (SELECT count(*) FROM runs AS r WHERE r.session_id = n.id AND r.status = 'running')
FROM node_sessions AS n
WHERE n.ended_at IS NULL AND n.expires_at <= :now
ORDER BY n.expires_at
LIMIT :limit

-- name: list_asleep
-- Schedules that no node would ever look at again.
SELECT s.id, s.namespace, s.name
FROM schedule_state AS st JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.wake_at IS NULL AND (st.status = 'active' OR st.paused_until IS NOT NULL)
ORDER BY st.schedule_id
LIMIT :limit

-- name: list_secret_flows
-- The files of current flows that may refer to a secret.
SELECT f.namespace, f.name, r.source
FROM flows AS f
JOIN flow_revisions AS r ON r.namespace = f.namespace AND r.flow = f.name AND r.digest = f.digest
WHERE r.source LIKE '%secret.%'
ORDER BY f.namespace, f.name
LIMIT :limit

-- name: get_last_backup
-- When the database was last backed up, according to the audit log.
SELECT at FROM audit
WHERE namespace = '' AND subject = 'database' AND action = 'backup'
ORDER BY at DESC
LIMIT 1

-- name: list_revisions_between
-- The definitions of the schedules from one id to another.
SELECT schedule_id, version, spec, valid_from, by FROM schedule_revisions
WHERE schedule_id >= :first AND schedule_id <= :last
ORDER BY schedule_id, version

-- name: count_schedules
-- How many schedules are in each state.
SELECT status, count(*) FROM schedule_state GROUP BY status ORDER BY status

-- name: count_active_runs
-- How many runs are waiting and active.
SELECT status, count(*) FROM runs WHERE status IN ('queued', 'running')
GROUP BY status ORDER BY status

-- name: count_rows
-- How much history there is: runs, entries of the ledger, lines of logs.
SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM ledger), (SELECT count(*) FROM run_logs)

-- name: get_waiting
-- Since when the oldest run has waited, or since the end of its last attempt; the first schedule to look at.
SELECT (
        SELECT min(coalesce((
            SELECT max(a.finished_at) FROM run_attempts AS a
            WHERE r.attempt > 0 AND a.run_id = r.id AND a.finished_at > r.ready_at), r.ready_at))
        FROM runs AS r WHERE r.status = 'queued' AND r.ready_at <= :now),
    (SELECT min(wake_at) FROM schedule_state WHERE wake_at IS NOT NULL)

-- name: list_waiting_queues
-- The queues with queued runs for workers, by skipping through the index.
WITH RECURSIVE hop (queue) AS (
    SELECT min(queue) FROM runs WHERE status = 'queued'
    UNION ALL
    SELECT (
        SELECT min(r.queue) FROM runs AS r
        WHERE r.status = 'queued' AND r.queue > hop.queue)
    FROM hop WHERE hop.queue IS NOT NULL)
SELECT queue FROM hop WHERE queue IS NOT NULL AND queue <> '@flow' AND queue <> '@human' LIMIT :limit

-- name: count_queued
-- How many runs wait in a queue, counted up to a limit.
SELECT count(*) FROM (
    SELECT 1 FROM runs WHERE status = 'queued' AND queue = :queue LIMIT :limit) AS counted

-- name: count_running_by_queue
-- How many runs are active in each queue; never more than there are slots.
SELECT queue, count(*) FROM runs WHERE status = 'running' GROUP BY queue

-- name: list_first_tasks
-- The tasks of the first runs in a queue and namespace: unclaimable runs stay in front.
SELECT DISTINCT task FROM (
    SELECT task FROM runs
    WHERE status = 'queued' AND queue = :queue AND namespace = :namespace
    ORDER BY -priority, ready_at
    LIMIT :limit) AS first
WHERE task IS NOT NULL

-- name: get_most_overdue
-- The most overdue schedule, if it has been due for a look since before a time.
SELECT s.namespace, s.name, st.wake_at
FROM schedule_state AS st JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.wake_at < :before
ORDER BY st.wake_at, st.schedule_id
LIMIT 1

-- name: get_most_overdue_in
-- The most overdue schedule of a namespace, if it has been due for a look since before a time.
SELECT s.namespace, s.name, st.wake_at
FROM schedule_state AS st JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.wake_at < :before AND s.namespace = :namespace
ORDER BY st.wake_at, st.schedule_id
LIMIT 1

-- name: list_problems
-- Schedules that cannot be planned.
SELECT st.schedule_id, st.version, s.namespace, s.name, st.problem
FROM schedule_state AS st JOIN schedules AS s ON s.id = st.schedule_id
WHERE st.problem IS NOT NULL
ORDER BY st.schedule_id
LIMIT :limit

-- name: count_troubles
-- How many schedules cannot be planned; and how many due times are held, by namespace.
SELECT '' AS namespace, count(*) AS number FROM (
    SELECT schedule_id FROM schedule_state WHERE problem IS NOT NULL LIMIT :limit) AS broken
UNION ALL
SELECT namespace, CAST(sum(count) AS bigint) FROM (
    SELECT s.namespace, h.count FROM held_catchup AS h JOIN schedules AS s ON s.id = h.schedule_id
    LIMIT :limit) AS held
GROUP BY namespace

-- name: count_statuses
-- How many schedules are in each state, of those after an id, and the last one counted.
SELECT status, count(*), max(schedule_id) FROM (
    SELECT schedule_id, status FROM schedule_state WHERE schedule_id > :after
    ORDER BY schedule_id
    LIMIT :limit) AS counted
GROUP BY status

-- name: get_schema
-- The newest migration, and the oldest Duebook that may use the schema, if specified.
SELECT (SELECT max(number) FROM migrations),
    (SELECT value FROM meta WHERE key = 'min_compatible')

-- name: list_running
-- The active runs of a namespace, the oldest first.
SELECT id FROM runs INDEXED BY runs_running
WHERE status = 'running' AND namespace = :namespace
ORDER BY claimed_at
LIMIT :limit

-- name: list_step_marks
-- The steps of the given runs of flows, as far as a table of many runs shows them.
SELECT parent_run_id, step, id, status, reason, started_at, finished_at FROM runs
WHERE parent_run_id = ANY (:ids::text[]) AND step IS NOT NULL

-- name: list_attempts_of
-- The attempts of the given runs that ended before their latest one, as far as a chart shows them.
SELECT run_id, attempt, claimed_at, finished_at, outcome FROM run_attempts
WHERE run_id = ANY (:ids::text[])
ORDER BY run_id, attempt

-- name: list_last_errors
-- The last line that each of the given runs printed to stderr, among the last lines of its log.
SELECT wanted.value, (
    SELECT newest.text FROM (
        SELECT attempt, seq, stream, text FROM run_logs WHERE run_id = wanted.value
        ORDER BY attempt DESC, seq DESC LIMIT :looked) AS newest
    WHERE newest.stream = 'stderr' AND trim(newest.text) <> ''
    ORDER BY newest.attempt DESC, newest.seq DESC LIMIT 1)
FROM unnest(:ids::text[]) AS wanted (value)

-- name: list_labelled
-- Schedules with a label, in all namespaces: by skipping through the index of labels.
WITH RECURSIVE hop (namespace) AS (
    SELECT min(namespace) FROM schedule_labels
    UNION ALL
    SELECT (SELECT min(l.namespace) FROM schedule_labels AS l WHERE l.namespace > hop.namespace)
    FROM hop WHERE hop.namespace IS NOT NULL)
SELECT l.schedule_id, l.namespace, l.name FROM hop
JOIN schedule_labels AS l
    ON l.namespace = hop.namespace AND l.label = :label AND l.value = :value
ORDER BY l.namespace, l.name
LIMIT :limit

-- name: get_newest_definition
-- The name of a schedule, even of a deleted one, and its newest definition.
SELECT s.name, r.spec FROM schedules AS s
JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
WHERE s.id = :id

-- name: list_planned
-- The active schedules of a namespace with their definitions, by name.
SELECT s.id, s.name, r.spec FROM schedules AS s
JOIN schedule_state AS st ON st.schedule_id = s.id
JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND s.name > :after
    AND st.status = 'active'
ORDER BY s.name
LIMIT :limit

-- name: list_states_by_name
-- The states of a namespace's schedules in the order of their names, for simulations.
SELECT st.schedule_id, st.version, st.status, st.watermark, st.seen, st.considered_at, st.fired,
    st.paused_until, st.delay, s.name
FROM schedules AS s JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE s.namespace = :namespace AND s.deleted_at IS NULL AND s.name > :after
ORDER BY s.name
LIMIT :limit

-- name: list_inhabited
-- The namespaces that have schedules, by skipping through the index.
WITH RECURSIVE hop (namespace) AS (
    SELECT min(namespace) FROM schedules WHERE deleted_at IS NULL
    UNION ALL
    SELECT (
        SELECT min(s.namespace) FROM schedules AS s
        WHERE s.deleted_at IS NULL AND s.namespace > hop.namespace)
    FROM hop WHERE hop.namespace IS NOT NULL)
SELECT namespace FROM hop WHERE namespace IS NOT NULL LIMIT :limit

-- name: get_any_active
-- Whether any of the first schedules of a namespace is active and needs a worker.
SELECT 1 FROM (
    SELECT id, target FROM schedules WHERE namespace = :namespace AND deleted_at IS NULL
    ORDER BY name LIMIT :limit) AS first
JOIN schedule_state AS st ON st.schedule_id = first.id
WHERE st.status = 'active' AND first.target <> 'event'
LIMIT 1

-- name: get_signal
-- A value that changes with whatever a page shows: ends, starts, reports, decisions, actions.
SELECT (SELECT max(finished_at) FROM runs WHERE finished_at IS NOT NULL),
    (SELECT max(id) FROM audit),
    (SELECT max(at) FROM ledger),
    (SELECT count(*) FROM runs WHERE status = 'running'),
    (SELECT max(claimed_at) FROM runs WHERE status = 'running'),
    (SELECT max(beat_at) FROM runs WHERE status = 'running'),
    (SELECT max(attempt) FROM runs WHERE status = 'queued'),
    (SELECT count(*) FROM node_sessions WHERE ended_at IS NULL AND expires_at > :now)

-- name: get_flow_wake
-- When the next run of a flow is due for a look, and whether an ended step makes one due now.
SELECT (SELECT min(wake_at) FROM flow_runs WHERE wake_at IS NOT NULL),
    EXISTS (SELECT 1 FROM flow_wakes),
    EXISTS (SELECT 1 FROM flow_commands),
    (SELECT min(control_at) FROM flows WHERE control_at IS NOT NULL)

-- name: list_outputs
-- The outputs of the steps of the given runs of flows.
SELECT parent_run_id, step, status, reason, exit_code, id, output, output_size FROM runs
WHERE parent_run_id = ANY (:ids::text[]) AND step IS NOT NULL AND finished_at IS NOT NULL

-- name: get_flow
-- The current state of a flow.
SELECT name, place, digest, updated_at FROM flows WHERE namespace = :namespace AND name = :name

-- name: list_flows
-- The flows of a namespace by name, each with the creator of the schedule of that name.
SELECT f.name, f.place, f.digest, f.updated_at, s.created_by
FROM flows AS f LEFT JOIN schedules AS s
    ON s.namespace = f.namespace AND s.name = f.name AND s.deleted_at IS NULL
WHERE f.namespace = :namespace ORDER BY f.name

-- name: list_flows_named
-- The current state of several flows.
SELECT name, place, digest, updated_at FROM flows
WHERE namespace = :namespace AND name = ANY (:names::text[])

-- name: list_flows_after
-- A page of the flows of a namespace, by name.
SELECT name, place, digest, updated_at FROM flows WHERE namespace = :namespace AND name > :after
ORDER BY name LIMIT :limit

-- name: save_flow_revision
-- The current texts of flow files.
INSERT INTO flow_revisions (namespace, flow, digest, place, source, at)
VALUES (:namespace::text[], :flow::text[], :digest::text[], :place::text[], :source::text[],
    :now::timestamptz[])
ON CONFLICT (namespace, flow, digest) DO UPDATE SET place = excluded.place

-- name: save_flow
-- New flows, or new revisions of them; a restart in progress continues.
INSERT INTO flows (namespace, name, place, digest, updated_at)
VALUES (:namespace::text[], :name::text[], :place::text[], :digest::text[], :now::timestamptz[])
ON CONFLICT (namespace, name) DO UPDATE
SET place = excluded.place, digest = excluded.digest, updated_at = excluded.updated_at

-- name: move_flow
-- Record that the file of a flow has a new name.
UPDATE flows SET place = :place WHERE namespace = :namespace AND name = :name

-- name: remove_flows
-- Remove flows, so that nothing starts them; their revisions stay with their runs.
DELETE FROM flows WHERE namespace = :namespace AND name = ANY (:names::text[])

-- name: delete_flow_problems
-- The former problems of the files of a directory.
DELETE FROM flow_problems WHERE namespace = :namespace AND root = :root

-- name: insert_flow_problems
-- The problems of a file.
INSERT INTO flow_problems (namespace, root, place, digest, source, problems, at)
VALUES (:namespace, :root, :place, :digest, :source, :problems, :now)

-- name: list_flow_problems
-- The problems of files, by their place.
SELECT place, digest, problems FROM flow_problems WHERE namespace = :namespace ORDER BY place

-- name: list_broken_files
-- The places of files with problems.
SELECT place FROM flow_problems WHERE namespace = :namespace ORDER BY root, place LIMIT :limit

-- name: list_wrong_files
-- Files with problems, of all namespaces or some, and whether their flows are in use.
SELECT p.namespace, p.place, p.problems, EXISTS (
    SELECT 1 FROM flows AS f WHERE f.namespace = p.namespace AND f.place = p.place)
FROM flow_problems AS p
WHERE :every::boolean OR p.namespace = ANY (:namespaces::text[])
ORDER BY p.namespace, p.place
LIMIT :limit

-- name: get_broken_source
-- The text of a file with problems.
SELECT source FROM flow_problems
WHERE namespace = :namespace AND root = :root AND place = :place

-- name: control_flow
-- When to continue the restart of a flow, if one is in progress.
UPDATE flows SET control_at = :control_at, restarting = :restarting
WHERE namespace = :namespace AND name = :name

-- name: note_command
-- The results of a stop or restart.
UPDATE ledger SET facts = :facts
WHERE schedule_id = :schedule_id AND due_to = :due_at AND kind = :kind AND verdict = 'done'

-- name: forget_restart
-- Cancel the pending start of a flow; no row if there was none.
UPDATE flows SET restarting = :restarting
WHERE namespace = :namespace AND name = :name AND restarting <> :restarting
RETURNING name

-- name: list_active_flow_runs
-- The runs of a flow that have not ended, the oldest first.
SELECT id, status FROM runs
WHERE queue = '@flow' AND status IN ('queued', 'running')
    AND namespace = :namespace AND flow = :flow AND parent_run_id IS NULL
ORDER BY created_at, id

-- name: list_waiting_for_flow
-- The first of the runs of a flow that wait to start.
SELECT id FROM runs
WHERE queue = '@flow' AND status IN ('queued', 'running') AND status = 'queued'
    AND namespace = :namespace AND flow = :flow
ORDER BY priority DESC, ready_at, created_at, id
LIMIT :limit

-- name: get_last_flow_end
-- When the latest of a flow's ended runs ended.
SELECT finished_at FROM run_details
WHERE namespace = :namespace AND flow = :flow AND parent_run_id IS NULL AND finished_at IS NOT NULL
ORDER BY place DESC LIMIT 1

-- name: list_waiting_steps
-- The steps of a run that wait for a worker with a task or labels.
SELECT step, task, needs FROM runs
WHERE parent_run_id = :id AND step IS NOT NULL AND status || '' = 'queued'
    AND (task IS NOT NULL OR needs IS NOT NULL)
ORDER BY step

-- name: list_steps_of
-- The runs of a flow's steps, in the order of creation.
SELECT * FROM run_details WHERE parent_run_id = :id ORDER BY place

-- name: list_flow_runs_of
-- The newest runs of a flow.
SELECT * FROM run_details
WHERE namespace = :namespace AND flow = :flow AND parent_run_id IS NULL
ORDER BY place DESC LIMIT :limit

-- name: list_latest_flow_runs
-- The newest run of each of the given flows.
SELECT * FROM run_details WHERE id IN (
    SELECT (
        SELECT r.id FROM runs AS r
        WHERE r.namespace = :namespace AND r.flow = wanted.value AND r.parent_run_id IS NULL
        ORDER BY r.rowid DESC LIMIT 1)
    FROM unnest(:names::text[]) AS wanted (value))

-- name: lock_flow_run
-- Keep this run of a flow from being advanced before the transaction ends.
SELECT run_id FROM flow_runs WHERE run_id = :id
FOR UPDATE

-- name: forget_steps
-- Detach steps that start again: their former results stay, with the names as their trigger.
UPDATE ended_runs SET step = NULL, trigger = trigger || ':' || step
WHERE parent_run_id = :id AND step = ANY (:steps::text[])

-- name: get_flow_run
-- What a run of a flow started with.
SELECT digest, params FROM flow_runs WHERE run_id = :id

-- name: insert_flow_start
-- A run of a flow that is started on request.
INSERT INTO active_runs (id, namespace, schedule_id, version, origin, trigger, flow, queue, priority,
    exclusive, max_concurrent, wakes, lane, max_takeovers, status, created_at, ready_at,
    requested_by)
VALUES (:id, :namespace, :schedule_id, :version, 'manual', :trigger, :flow, '@flow', CASE
        WHEN :priority > (SELECT max_priority FROM quotas WHERE namespace = :namespace)
        THEN (SELECT max_priority FROM quotas WHERE namespace = :namespace)
        ELSE :priority END,
    :exclusive, :max_concurrent, :wakes, 1, 0, 'queued', :now, :now, :requested_by)

-- name: save_made_up_flow
-- A flow that exists only for a call, beside the flows of the caller's file.
INSERT INTO flow_revisions (namespace, flow, digest, place, source, at)
SELECT :namespace, :flow, v.digest, v.place, :source, :now
FROM flow_runs AS p
JOIN runs AS r ON r.id = p.run_id
JOIN flow_revisions AS v ON v.namespace = r.namespace AND v.flow = r.flow AND v.digest = p.digest
WHERE p.run_id = :parent_run_id
ON CONFLICT (namespace, flow, digest) DO NOTHING

-- name: insert_called
-- The flow that a step called: from the caller's file, or the newest one.
INSERT INTO flow_runs (run_id, digest, params, depth, wake_at)
SELECT :id, coalesce(
        (SELECT v.digest FROM flow_revisions AS v
            WHERE v.namespace = :namespace AND v.flow = :flow AND v.digest = p.digest),
        (SELECT f.digest FROM flows AS f WHERE f.namespace = :namespace AND f.name = :flow)),
    :params, p.depth + 1, :now
FROM flow_runs AS p WHERE p.run_id = :parent_run_id
ON CONFLICT (run_id) DO UPDATE
SET digest = excluded.digest, params = excluded.params, wake_at = excluded.wake_at

-- name: list_callers
-- The flows that called runs of flows.
WITH RECURSIVE callers (id, flow, parent_run_id) AS (
    SELECT r.id, p.flow, p.parent_run_id FROM runs AS r JOIN runs AS p ON p.id = r.parent_run_id
    WHERE r.id = ANY (:ids::text[])
    UNION ALL
    SELECT c.id, p.flow, p.parent_run_id FROM callers AS c JOIN runs AS p ON p.id = c.parent_run_id)
SELECT id, flow FROM callers

-- name: take_controls
-- Flows with a restart to continue.
SELECT namespace, name, digest, restarting FROM flows
WHERE control_at <= :now
ORDER BY control_at
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: take_commands
-- The oldest unclaimed stops and restarts, in the lock order of their flows.
SELECT c.id, c.schedule_id, c.namespace, c.flow, f.digest, c.kind, c.due_at
FROM (
    SELECT id, schedule_id, namespace, flow, kind, due_at FROM flow_commands
    ORDER BY id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED) AS c
LEFT JOIN flows AS f ON f.namespace = c.namespace AND f.name = c.flow
ORDER BY c.namespace, c.flow, c.id

-- name: delete_commands
-- Stops and restarts that were carried out.
DELETE FROM flow_commands WHERE id = ANY (:ids::bigint[])

-- name: retry_flow
-- Have a called flow that failed run again after a while.
UPDATE active_runs
SET status = 'queued', session_id = NULL, claimed_at = NULL, started_at = NULL,
    failures = failures + 1, ready_at = :ready_at, reason = :reason, error = :error
WHERE id = :id AND session_id = '' AND status || '' = 'running'

-- name: forget_all_steps
-- Detach all steps of a flow that is run again.
UPDATE ended_runs SET step = NULL, trigger = trigger || ':' || step
WHERE parent_run_id = :id AND step IS NOT NULL

-- name: wake_schedules
-- Look at these schedules again now.
UPDATE schedule_state SET wake_at = :now
WHERE schedule_id = ANY (:ids::text[]) AND status = 'active'
    AND (wake_at IS NULL OR wake_at > :now)

-- name: list_waiting_flows
-- Runs of flows that may start once others of their schedules have ended.
SELECT id FROM runs INDEXED BY runs_active
WHERE schedule_id = ANY (:ids::text[]) AND queue = '@flow' AND status = 'queued'
    AND status IN ('queued', 'running')

-- name: take_directory
-- Take charge of a directory for a while, under a new term unless held throughout; no row if another node is.
INSERT INTO flow_directories (namespace, name, term, session_id, expires_at)
VALUES (:namespace, :name, 1, :session_id, :expires_at)
ON CONFLICT (namespace, name) DO UPDATE
SET session_id = excluded.session_id, expires_at = excluded.expires_at,
    term = flow_directories.term + CASE
        WHEN flow_directories.session_id = excluded.session_id AND flow_directories.expires_at > :now
        THEN 0 ELSE 1 END
WHERE flow_directories.session_id = excluded.session_id OR flow_directories.expires_at <= :now
    OR EXISTS (
        SELECT 1 FROM node_sessions AS n
        WHERE n.id = flow_directories.session_id
            AND (n.ended_at IS NOT NULL OR n.expires_at <= :now))
RETURNING term

-- name: keep_directory
-- Extend the lease of a directory; no row if it has expired, or another node took it over.
UPDATE flow_directories SET expires_at = :expires_at
WHERE namespace = :namespace AND name = :name AND session_id = :session_id AND term = :term
    AND expires_at > :now
RETURNING term

-- name: mark_scanned
-- Record that the files of a directory were read under a term; no row if that is over.
UPDATE flow_directories SET scanned_term = term, scanned_at = :now
WHERE namespace = :namespace AND name = :name AND session_id = :session_id AND term = :term
    AND expires_at > :now
RETURNING term

-- name: list_flow_schedules
-- Schedules that start flows of a directory, and are due for a look within a while.
SELECT s.id
FROM flows AS f
JOIN schedules AS s ON s.namespace = f.namespace AND s.target = 'flow:' || f.name
    AND substr(s.target, 1, 5) = 'flow:' AND s.deleted_at IS NULL
JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE f.namespace = :namespace AND substr(f.place, 1, length(:name::text) + 1) = :name::text || '/'
    AND st.status = 'active' AND st.wake_at > :now AND st.wake_at <= :until
ORDER BY s.id

-- name: count_waiting_flows
-- How many schedules have a due time that waits until a directory is read.
SELECT count(*)
FROM flows AS f
JOIN schedules AS s ON s.namespace = f.namespace AND s.target = 'flow:' || f.name
    AND substr(s.target, 1, 5) = 'flow:' AND s.deleted_at IS NULL
JOIN schedule_state AS st ON st.schedule_id = s.id
WHERE f.namespace = :namespace AND substr(f.place, 1, length(:name::text) + 1) = :name::text || '/'
    AND st.status = 'active' AND st.next_due_at <= :now

-- name: save_returned
-- The flows of a directory for which a takeover restored an earlier revision.
UPDATE flow_directories SET returned = :returned WHERE namespace = :namespace AND name = :name

-- name: get_returned
-- The flows of a directory for which a takeover restored an earlier revision.
SELECT returned FROM flow_directories WHERE namespace = :namespace AND name = :name

-- name: list_directory_leases
-- Until when other nodes hold directories, unless they renew: no longer than they live.
SELECT d.name, CASE
    WHEN n.ended_at < d.expires_at THEN n.ended_at
    WHEN n.expires_at < d.expires_at THEN n.expires_at
    ELSE d.expires_at END
FROM flow_directories AS d LEFT JOIN node_sessions AS n ON n.id = d.session_id
WHERE d.namespace = :namespace AND d.name = ANY (:names::text[]) AND d.session_id <> :id

-- name: list_directory_names
-- All directories of flows.
SELECT namespace, name FROM flow_directories ORDER BY namespace, name

-- name: delete_directory
-- A directory that no node is configured with any more.
DELETE FROM flow_directories WHERE namespace = :namespace AND name = :name

-- name: release_directories
-- Release the directories of a leaving node.
UPDATE flow_directories SET expires_at = :now WHERE session_id = :id AND expires_at > :now

-- name: delete_lost_wakes
-- Retention: wakes of deleted runs.
DELETE FROM flow_wakes
WHERE NOT EXISTS (SELECT 1 FROM flow_runs AS f WHERE f.run_id = flow_wakes.run_id)

-- name: delete_old_flow_revisions
-- Retention: revisions that neither a flow nor a run of it uses.
DELETE FROM flow_revisions
WHERE at < :before
    AND NOT EXISTS (
        SELECT 1 FROM flows AS f WHERE f.namespace = flow_revisions.namespace
            AND f.name = flow_revisions.flow AND f.digest = flow_revisions.digest)
    AND NOT EXISTS (SELECT 1 FROM flow_runs AS r WHERE r.digest = flow_revisions.digest)

-- name: wake_flow
-- Make runs of flows due for a look; locks nothing for it.
INSERT INTO flow_wakes (run_id) VALUES (:run_id::text[])
