// graphile-worker, in the words of `speaking.py`. PEER_FOLDER has the packages of peers; PEER_BATCH=1 is batch mode.
const { createRequire } = require("module");
const load = createRequire(`${process.env.PEER_FOLDER}/graphile/package.json`);
const { Logger, makeWorkerUtils, run } = load("graphile-worker");

const [verb, url, count = "1"] = process.argv.slice(2);
const BULK = 1000;
const TOLD_EACH = Number(process.env.PEER_TOLD_EACH);
const PERIOD = 20;
const BATCHES = { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } };

const say = (...words) => process.stdout.write(`${words.join(" ")}\n`);
const logger = new Logger(() => () => {});
const cpu = () => { const used = process.cpuUsage(); return (used.user + used.system) / 1e6; };
let ran = 0;

async function work({ sent }) {
  if (sent !== "0") {
    say("start", sent, process.hrtime.bigint());
    return;
  }
  ran += 1;
  if (ran === 1 || ran % TOLD_EACH === 0) say("ran", ran, process.hrtime.bigint(), process.pid);
}

async function serve() {
  const preset = process.env.PEER_BATCH ? BATCHES : {};
  const runner = await run({
    connectionString: url, concurrency: 10, pollInterval: 1000, logger, preset, taskList: { work },
  });
  await runner.promise;
}

async function fill(utils) {
  for (let start = 0; start < Number(count); start += BULK) {
    const size = Math.min(BULK, Number(count) - start);
    await utils.addJobs(Array.from({ length: size }, () => ({ identifier: "work", payload: { sent: "0" } })));
  }
}

async function send(utils) {
  const begun = performance.now();
  for (let number = 0; number < Number(count); number += 1) {
    const wait = begun + number * PERIOD - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    await utils.addJob("work", { sent: String(process.hrtime.bigint()) });
  }
}

async function main() {
  if (verb === "work") return serve();
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  if (verb === "setup") await utils.migrate();
  const begun = performance.now();
  const used = cpu();
  if (verb === "fill") await fill(utils);
  if (verb === "latency") await send(utils);
  say("done", (performance.now() - begun) / 1000, cpu() - used);
  await utils.release();
}

main().catch((error) => { console.error(error); process.exit(1); });
