// Adds jobs. Reads lines of JSON, each a list of tasks, and answers "ok" when they are stored, or an error. Ends with its
// input.
import readline from 'node:readline';
import { Queue } from 'bullmq';

const env = JSON.parse(process.env.HEADWAY_BENCH_ENV);
const queue = new Queue('bench', {
  connection: { url: env.redis_url },
  // Ended jobs are deleted, as in asynq.
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
