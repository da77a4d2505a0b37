-- What may be wrong with books: each block names what the checker must say, then the fault, then
-- how right books are made wrong so.

-- I1: 2 runs | a due time has two runs
DROP INDEX runs_due;
CREATE TEMP TABLE one AS SELECT * FROM runs WHERE status = 'succeeded' AND due_at IS NOT NULL
    LIMIT 1;
UPDATE one SET id = 'another';
INSERT INTO ended_runs SELECT * FROM one

-- I1: skip executed | a run is gone that was executed
DELETE FROM ended_runs WHERE status = 'succeeded' AND schedule_id = (SELECT id FROM schedules WHERE name
    = 'skip');
DELETE FROM run_attempts WHERE run_id NOT IN (SELECT id FROM runs)

-- I2: all-1 | a due time is lost
DELETE FROM ended_runs WHERE id = (SELECT id FROM runs WHERE origin = 'schedule' AND schedule_id =
    (SELECT id FROM schedules WHERE name = 'all-1') LIMIT 1)

-- I2: skip | an entry is gone
DELETE FROM ledger

-- I2: skip | an entry counts wrong
UPDATE ledger SET count = count + 1

-- I2: skip | an entry is there twice
INSERT INTO ledger (schedule_id, version, due_from, due_to, count, exact, verdict, reason, facts,
    at) SELECT schedule_id, version, due_from, due_to, count, exact, verdict, reason, facts, at
    FROM ledger

-- I2: all-1 | a due time ran and was left out
INSERT INTO ledger (schedule_id, version, due_from, due_to, count, exact, verdict, reason, facts,
    at) SELECT schedule_id, version, due_at, due_at, 1, true, 'skipped', 'overlap', '{}', now()
    FROM runs WHERE due_at IS NOT NULL AND schedule_id = (SELECT id FROM schedules WHERE name =
    'all-1') LIMIT 1

-- I2: skip | a reason that the policy does not know
UPDATE ledger SET reason = 'missed'

-- I2: | a run at a time that is none
UPDATE ended_runs SET due_at = due_at + interval '100 ms' WHERE id = (SELECT id FROM runs WHERE status =
    'succeeded' AND due_at IS NOT NULL LIMIT 1)

-- I2: run | a run that never ends
CREATE TEMP TABLE one AS SELECT * FROM runs WHERE status = 'succeeded' AND due_at IS NOT NULL
    LIMIT 1;
DELETE FROM ended_runs WHERE id IN (SELECT id FROM one);
UPDATE one SET status = 'queued', session_id = NULL, finished_at = NULL;
INSERT INTO active_runs SELECT * FROM one

-- I3: attempt | work beyond the lease
UPDATE node_sessions SET expires_at = started_at

-- I4: run | an attempt that was never counted
DELETE FROM run_attempts WHERE run_id IN (SELECT run_id FROM run_attempts WHERE outcome = 'lost'
    LIMIT 1)

-- I4: attempt | an attempt of a node that did not own it
UPDATE node_sessions SET pid = pid + 1

-- I4: attempt | a success that never was
UPDATE ended_runs SET status = 'succeeded', exit_code = 0 WHERE status = 'failed'

-- I4: attempt | a failure that never was
UPDATE ended_runs SET status = 'failed', exit_code = 3 WHERE id = (SELECT id FROM runs WHERE status =
    'succeeded' AND due_at IS NOT NULL LIMIT 1)

-- I5: a has versions | an event is gone
DELETE FROM events WHERE version = 2

-- I5: a has positions | events in the wrong order
UPDATE events SET position = 10 - position

-- I5: us | an event that nobody got
INSERT INTO events (id, namespace, topic, type, key, slot, aggregate, version, data, meta, at)
    VALUES ('e4', 'default', 't', 't', 'k', 1, 'a', 4, '{}', '{}', now())

-- I6: | an answer without its run
DELETE FROM ended_runs WHERE origin = 'manual'

-- I6: | an answer without its revision
UPDATE schedules SET version = 1 WHERE name = 'cron';
DELETE FROM schedule_revisions WHERE version = 2

-- I7: run | a claim before its time
UPDATE ended_runs SET claimed_at = due_at - interval '1 ms' WHERE id = (SELECT id FROM runs WHERE status
    = 'succeeded' AND due_at IS NOT NULL LIMIT 1)

-- I8: run | a dead node that nobody followed for long
UPDATE run_attempts SET finished_at = finished_at + interval '1 minute' WHERE outcome = 'lost'

-- I9: run | another outcome
UPDATE ended_runs SET status = 'cancelled' WHERE id = (SELECT id FROM runs WHERE status = 'succeeded'
    AND due_at IS NOT NULL LIMIT 1)

-- I9: run | an end at another time
UPDATE ended_runs SET finished_at = finished_at + interval '1 ms' WHERE id = (SELECT id FROM runs WHERE
    status = 'succeeded' AND due_at IS NOT NULL LIMIT 1)

-- I9: run | a run opened again by nobody
UPDATE ended_runs SET attempt = attempt + 1 WHERE id = (SELECT id FROM runs WHERE status = 'succeeded'
    AND due_at IS NOT NULL LIMIT 1)
