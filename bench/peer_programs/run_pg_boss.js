// pg-boss with four workers of 500 jobs at once, polling as often as it allows.
//
//   NODE_PATH=…/node_modules node run_pg_boss.js fill|drain|later|work URL …
//
// The commands are described in common.py.
"use strict";

const fs = require("fs");
const PgBoss = require("pg-boss");
const { hold, untilSpokenTo } = require("./common.js");

const WORKERS = 4;
const BATCH = 500;
const OPTIONS = { batchSize: BATCH, pollingIntervalSeconds: 0.5 };
const AT_ONCE = 5000;

const [mode, url, ...rest] = process.argv.slice(2);

async function main() {
  const boss = new PgBoss(url);
  boss.on("error", () => {});
  await boss.start();
  await boss.createQueue("job");
  await boss.createQueue("note");
  if (mode === "fill") {
    const [number, ms] = rest.map(Number);
    await insert(boss, Array.from({ length: number }, () => ({ name: "job", data: { ms } })));
  } else if (mode === "later") {
    const [begin, rate, seconds] = rest.map(Number);
    const times = Array.from({ length: Math.round(rate * seconds) }, (_, n) => begin + n / rate);
    const toJob = (due) => ({ name: "note", data: { due }, startAfter: new Date(due * 1000) });
    await insert(boss, times.map(toJob));
  } else if (mode === "drain") {
    await untilSpokenTo();
    for (let n = 0; n < WORKERS; n++) await boss.work("job", OPTIONS, perform);
    while ((await boss.getQueueSize("job", { before: "completed" })) > 0);
    console.log("done");
  } else {
    process.on("SIGTERM", () => boss.stop({ graceful: false, close: true }).then(() => process.exit(0)));
    for (let n = 0; n < WORKERS; n++) await boss.work("note", OPTIONS, note);
    return;
  }
  await boss.stop({ graceful: false, close: true });
  process.exit(0);
}

async function insert(boss, jobs) {
  for (let n = 0; n < jobs.length; n += AT_ONCE) await boss.insert(jobs.slice(n, n + AT_ONCE));
}

async function perform(jobs) {
  const { ms } = jobs[0].data;
  if (ms) await new Promise((resolve) => setTimeout(resolve, ms));
}

async function note(jobs) {
  await hold();
  const now = Date.now() / 1000;
  fs.appendFileSync(rest[0], jobs.map((job) => `${job.data.due} ${now}\n`).join(""));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
