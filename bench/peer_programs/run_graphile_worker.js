// graphile-worker with the settings from its own page on performance, with and without batching.
//
//   NODE_PATH=…/node_modules node run_graphile_worker.js fill|drain|later|work URL … local|plain
//
// The commands are described in common.py.
"use strict";

process.env.NO_LOG_SUCCESS = "1"; // read when the module is loaded
const fs = require("fs");
const { Logger, run, runMigrations, runOnce } = require("graphile-worker");
const { Pool } = require("pg");
const { hold, untilSpokenTo } = require("./common.js");

const CONCURRENCY = 24;
const BATCHED = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const PLAIN = { localQueue: { size: -1 }, completeJobBatchDelay: -1, failJobBatchDelay: -1 };
const ADD = `
  SELECT count(*) FROM graphile_worker.add_jobs(
    ARRAY(SELECT ('job', json_build_object('ms', $2::float8), NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
          FROM generate_series(1, $1::int)))`;
const ADD_LATER = `
  SELECT count(*) FROM graphile_worker.add_jobs(
    ARRAY(SELECT ('note', json_build_object('due', at), NULL, to_timestamp(at), NULL, NULL, NULL, NULL)::graphile_worker.job_spec
          FROM unnest($1::float8[]) AS at))`;

const words = process.argv.slice(2);
const form = words.pop();
const [mode, url, ...rest] = words;

async function main() {
  const pgPool = new Pool({ connectionString: url, max: CONCURRENCY + 1 });
  pgPool.on("error", () => {});
  pgPool.on("connect", (client) => client.on("error", () => {}));
  const worker = { concurrentJobs: CONCURRENCY, ...(form === "local" ? BATCHED : PLAIN) };
  const quiet = new Logger(() => (level, message) => level === "error" && console.error(message));
  const options = { preset: { worker }, pgPool, taskList: { job, note }, logger: quiet };
  await runMigrations(options);
  if (mode === "fill") {
    await pgPool.query(ADD, rest.map(Number));
    await pgPool.query("VACUUM ANALYZE");
  } else if (mode === "later") {
    const [begin, rate, seconds] = rest.map(Number);
    const times = Array.from({ length: Math.round(rate * seconds) }, (_, n) => begin + n / rate);
    await pgPool.query(ADD_LATER, [times]);
  } else if (mode === "drain") {
    await untilSpokenTo();
    await runOnce(options);
    while (!(await isEmpty(pgPool))); // the last deletes may still be running
    console.log("done");
  } else {
    const runner = await run(options);
    await runner.promise;
  }
  await pgPool.end();
}

async function job(payload) {
  if (payload.ms) await new Promise((resolve) => setTimeout(resolve, payload.ms));
}

async function note(payload) {
  await hold();
  fs.appendFileSync(rest[0], `${payload.due} ${Date.now() / 1000}\n`);
}

async function isEmpty(pgPool) {
  const { rows } = await pgPool.query("SELECT count(*)::int AS left FROM graphile_worker.jobs");
  return rows[0].left === 0;
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
