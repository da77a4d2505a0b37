// Shared by the programs of peers on Node.js.
"use strict";

/** Wait as long as a job of `later` shall take. */
exports.hold = () =>
  new Promise((resolve) => {
    const seconds = Number(process.env.DUEBOOK_BENCH_HOLD || 0);
    if (seconds) setTimeout(resolve, seconds * 1000);
    else resolve();
  });

/** Say that the work could begin, and wait until it shall. */
exports.untilSpokenTo = () =>
  new Promise((resolve) => {
    process.stdin.once("data", () => {
      process.stdin.pause();
      resolve();
    });
    console.log("ready");
  });
