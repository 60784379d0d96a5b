// One worker process of BullMQ. It is given what a run is as JSON in HEADWAY_BENCH_ENV and its limiter in BULLMQ_LIMITER, and
// tells what it saw on stdout, a line of JSON at a time, as the contestants in Go do.
import http from 'node:http';
import { Worker } from 'bullmq';

const flushEveryMs = 100;
const env = JSON.parse(process.env.HEADWAY_BENCH_ENV);
const limiter = process.env.BULLMQ_LIMITER ? JSON.parse(process.env.BULLMQ_LIMITER) : undefined;

// now is the moment in nanoseconds since 1970, exact to the microsecond; a string, as numbers are not exact that far.
const now = () => `${Math.round((performance.timeOrigin + performance.now()) * 1000)}000`;

let ready = false;
let delivered = [];
let started = [];

const flush = () => {
  if (!ready && delivered.length + started.length === 0) return;
  const fields = [];
  if (ready) fields.push('"ready":true');
  if (delivered.length) fields.push(`"delivered":[${delivered}]`);
  if (started.length) fields.push(`"started":[${started}]`);
  [ready, delivered, started] = [false, [], []];
  process.stdout.write(`{${fields}}\n`);
};

const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });

const call = (task) =>
  new Promise((resolve, reject) => {
    const query = new URLSearchParams({ key: task.key ?? '', seq: task.seq, used: task.used });
    const request = http.request(`${env.provider_url}/call?${query}`, { method: 'POST', agent }, (response) => {
      response.resume();
      response.on('error', reject);
      response.on('end', () =>
        response.statusCode === 200 ? resolve() : reject(new Error(`the provider answered ${response.statusCode}`)));
    });
    request.on('error', reject);
    request.end();
  });

const worker = new Worker('bench', async (job) => {
  delivered.push(now());
  if (env.provider_url) await call(job.data);
  else started.push(now());
}, {
  connection: { url: env.redis_url, maxRetriesPerRequest: null },
  concurrency: env.slots,
  limiter,
});
worker.on('error', (error) => console.error(`worker: ${error.message}`));
worker.on('failed', (job, error) => console.error(`job ${job?.id}: ${error.message}`));

const flushing = setInterval(flush, flushEveryMs);

const stop = async () => {
  await worker.close();
  clearInterval(flushing);
  flush();
  agent.destroy();
};
process.once('SIGTERM', stop);
process.once('SIGINT', stop);

await worker.waitUntilReady();
ready = true;
flush();
