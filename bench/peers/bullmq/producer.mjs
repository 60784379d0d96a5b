// Adds jobs: reads a line of JSON, a list of tasks, and answers "ok" when they are stored, or what went wrong. Ends with its input.
import readline from 'node:readline';
import { Queue } from 'bullmq';

const env = JSON.parse(process.env.HEADWAY_BENCH_ENV);
const queue = new Queue('bench', {
  connection: { url: env.redis_url },
  // Jobs that ended are not kept; asynq does not keep them either.
  defaultJobOptions: { removeOnComplete: true },
});
queue.on('error', (error) => console.error(`queue: ${error.message}`));

for await (const line of readline.createInterface({ input: process.stdin })) {
  try {
    await queue.addBulk(JSON.parse(line).map((data) => ({ name: 'bench', data })));
    process.stdout.write('ok\n');
  } catch (error) {
    process.stdout.write(`${error.message.replaceAll('\n', ' ')}\n`);
  }
}
await queue.close();
