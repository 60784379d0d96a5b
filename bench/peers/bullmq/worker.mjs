// One worker process of BullMQ. HEADWAY_BENCH_ENV describes the run as JSON, and BULLMQ_LIMITER is its limiter. It writes
// the same lines of JSON to stdout as the contestants in Go.
import http from 'node:http';
import { Worker } from 'bullmq';

const flushEveryMs = 100;
const env = JSON.parse(process.env.HEADWAY_BENCH_ENV);
const limiter = process.env.BULLMQ_LIMITER ? JSON.parse(process.env.BULLMQ_LIMITER) : undefined;

// now is the time in nanoseconds since 1970, exact to the microsecond. It is a string, because numbers are not as exact.
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
