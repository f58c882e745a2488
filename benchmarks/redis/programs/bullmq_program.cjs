// BullMQ, in the words of `speaking.py`. PEER_FOLDER has the packages of peers.
const { createRequire } = require("module");
const load = createRequire(`${process.env.PEER_FOLDER}/bullmq/package.json`);
const { Queue, Worker } = load("bullmq");

const [verb, url, count = "1", callers = "1"] = process.argv.slice(2);
const BULK = 1000;
const TOLD_EACH = Number(process.env.PEER_TOLD_EACH);
const PERIOD = 20;
const CONCURRENCY = 50;
const NAME = "bench";
const connection = { url, maxRetriesPerRequest: null };

const say = (...words) => process.stdout.write(`${words.join(" ")}\n`);
const cpu = () => { const used = process.cpuUsage(); return (used.user + used.system) / 1e6; };
let ran = 0;

async function work({ data: { sent } }) {
  if (sent !== "0") {
    say("start", sent, process.hrtime.bigint());
    return;
  }
  ran += 1;
  if (ran === 1 || ran % TOLD_EACH === 0) say("ran", ran, process.hrtime.bigint(), process.pid);
}

async function serve() {
  const worker = new Worker(NAME, work, { connection, concurrency: CONCURRENCY });
  worker.on("error", (error) => console.error(error));
}

async function fill(queue) {
  for (let start = 0; start < Number(count); start += BULK) {
    const size = Math.min(BULK, Number(count) - start);
    await queue.addBulk(Array.from({ length: size }, () => ({ name: "work", data: { sent: "0" } })));
  }
}

async function enqueue(queue) {
  let left = Number(count);
  const caller = async () => { while (left-- > 0) await queue.add("work", { sent: "0" }); };
  await Promise.all(Array.from({ length: Number(callers) }, caller));
}

async function send(queue) {
  const begun = performance.now();
  for (let number = 0; number < Number(count); number += 1) {
    const wait = begun + number * PERIOD - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    await queue.add("work", { sent: String(process.hrtime.bigint()) });
  }
}

async function main() {
  if (verb === "work") return serve();
  const queue = new Queue(NAME, { connection });
  await queue.waitUntilReady();
  const begun = performance.now();
  const used = cpu();
  if (verb === "fill") await fill(queue);
  if (verb === "enqueue") await enqueue(queue);
  if (verb === "latency") await send(queue);
  say("done", (performance.now() - begun) / 1000, cpu() - used);
  await queue.close();
}

main().catch((error) => { console.error(error); process.exit(1); });
