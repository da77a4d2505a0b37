// Empties a queue of graphile-worker once, and prints how many seconds that took.
//
//   NODE_PATH=…/node_modules node graphile_worker.js URL NUMBER local|plain
//
// The settings are those of its own page on performance, with batching and without.
"use strict";

process.env.NO_LOG_SUCCESS = "1"; // it is read when the module is loaded
const { runMigrations, runOnce } = require("graphile-worker");
const { Pool } = require("pg");

const CONCURRENCY = 24;
const BATCHED = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const PLAIN = { localQueue: { size: -1 }, completeJobBatchDelay: -1, failJobBatchDelay: -1 };
const ADD = `
  SELECT count(*) FROM graphile_worker.add_jobs(
    ARRAY(SELECT ('job', '{}', NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
          FROM generate_series(1, $1::int)))`;

async function main(url, number, form) {
  const pgPool = new Pool({ connectionString: url, max: CONCURRENCY + 1 });
  pgPool.on("error", (error) => console.error(error));
  pgPool.on("connect", (client) => client.on("error", (error) => console.error(error)));
  const worker = { concurrentJobs: CONCURRENCY, ...(form === "local" ? BATCHED : PLAIN) };
  const options = { preset: { worker }, pgPool, taskList: { job: async () => {} } };
  await runMigrations(options);
  await runOnce(options); // the queue is empty: connections are made, and modules loaded
  await pgPool.query(ADD, [number]);
  await pgPool.query("VACUUM ANALYZE");
  const began = process.hrtime.bigint();
  await runOnce(options);
  while (!(await isEmpty(pgPool))); // the last deletes may be under way
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  await pgPool.end();
  console.log(JSON.stringify({ seconds }));
}

async function isEmpty(pgPool) {
  const { rows } = await pgPool.query("SELECT count(*)::int AS left FROM graphile_worker.jobs");
  return rows[0].left === 0;
}

const [url, number, form] = process.argv.slice(2);
main(url, Number(number), form).catch((error) => {
  console.error(error);
  process.exit(1);
});
