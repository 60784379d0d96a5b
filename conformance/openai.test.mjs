// The official client of OpenAI for Node.js, through the gateway at BASE_URL.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { AzureOpenAI, toFile } from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "any" });
const hello = { model: "m", max_tokens: 20, messages: [{ role: "user", content: "hello" }] };

test("openai: chat", async () => {
  const answer = await client.chat.completions.create(hello);
  assert.match(answer.choices[0].message.content, /stand-in/);
  assert.ok(answer.usage.total_tokens > 0);
});

test("openai: headers of the shared limit", async () => {
  const { response } = await client.chat.completions.create(hello).withResponse();
  assert.equal(response.headers.get("x-ratelimit-limit-requests"), "5");
  assert.match(response.headers.get("x-request-id"), /^req_/);
});

test("openai: stream", async () => {
  const stream = await client.chat.completions.create({ ...hello, stream: true });
  let text = "";
  for await (const chunk of stream) {
    assert.equal(chunk.usage, undefined);
    text += chunk.choices[0].delta.content ?? "";
  }
  assert.match(text, /tokens\.$/);
});

test("openai: stream with its usage", async () => {
  const stream = await client.chat.completions.create({
    ...hello, stream: true, stream_options: { include_usage: true },
  });
  let usage;
  for await (const chunk of stream) usage = chunk.usage ?? usage;
  assert.ok(usage.total_tokens > 0);
});

test("openai: stream helper", async () => {
  const done = await client.chat.completions.stream(hello).finalChatCompletion();
  assert.match(done.choices[0].message.content, /tokens\.$/);
});

test("openai: responses", async () => {
  const answer = await client.responses.create({ model: "m", input: "hello", max_output_tokens: 20 });
  assert.match(answer.output_text, /stand-in/);
});

test("openai: responses, streamed", async () => {
  const stream = await client.responses.create({ model: "m", input: "hello", max_output_tokens: 20, stream: true });
  const types = [];
  for await (const event of stream) types.push(event.type);
  assert.equal(types[0], "response.created");
  assert.equal(types.at(-1), "response.completed");
});

test("openai: completions, embeddings, moderations, models", async () => {
  assert.ok((await client.completions.create({ model: "m", prompt: "hello" })).choices[0].text);
  assert.equal((await client.embeddings.create({ model: "m", input: ["a", "b"] })).data.length, 2);
  assert.equal((await client.moderations.create({ input: "hello" })).results[0].flagged, false);
  assert.ok((await client.models.list()).data.length > 0);
  assert.equal((await client.models.retrieve("m")).id, "m");
});

test("openai: errors are its own types", async () => {
  await assert.rejects(client.chat.completions.create({ model: "m", messages: [] }), OpenAI.BadRequestError);
  await assert.rejects(client.post("/nothing", { body: {} }), OpenAI.NotFoundError);
  const large = { ...hello, max_tokens: 1_000_000 };
  await assert.rejects(client.chat.completions.create(large), (error) =>
    error instanceof OpenAI.BadRequestError && error.code === "request_too_large");
});

test("openai: a call that can't start in time is refused at once, and not tried again", async () => {
  const many = Array.from({ length: 12 }, () => client.chat.completions.create(hello));
  await new Promise((done) => setTimeout(done, 100));
  await assert.rejects(
    client.chat.completions.create(hello, { headers: { "Headway-Start-By": "1ms" }, maxRetries: 0 }),
    OpenAI.RateLimitError,
  );
  await Promise.all(many);
});

test("openai: more calls than the limit lets start, and no 429", async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => client.chat.completions.create(hello, { maxRetries: 0 })),
  );
  assert.equal(answers.length, 20);
});

test("openai: abort", async () => {
  const stop = new AbortController();
  const call = client.chat.completions.create(hello, { signal: stop.signal });
  setTimeout(() => stop.abort(), 10);
  await assert.rejects(call, OpenAI.APIUserAbortError);
});

test("openai: abort of a stream", async () => {
  const stream = await client.chat.completions.create({ ...hello, stream: true });
  for await (const _ of stream) break;
  assert.ok(stream.controller.signal.aborted);
});

test("openai: timeout", async () => {
  await assert.rejects(
    client.chat.completions.create(hello, { timeout: 1, maxRetries: 0 }), OpenAI.APIConnectionTimeoutError);
});

test("openai: Azure's client", async () => {
  const azure = new AzureOpenAI({
    endpoint: process.env.BASE_URL.replace("/v1", ""), apiKey: "any", apiVersion: "2024-10-21", deployment: "m",
  });
  const answer = await azure.chat.completions.create(hello);
  assert.match(answer.choices[0].message.content, /stand-in/);
});

test("openai: files and batches", async () => {
  const lines = Array.from({ length: 5 }, (_, i) => JSON.stringify({
    custom_id: `c${i}`, method: "POST", url: "/v1/chat/completions", body: hello,
  }));
  const file = await client.files.create({
    purpose: "batch", file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl"),
  });
  let batch = await client.batches.create({
    input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h", metadata: { a: "b" },
  });
  assert.equal(batch.status, "validating");
  while (batch.status !== "completed") {
    await new Promise((done) => setTimeout(done, 200));
    batch = await client.batches.retrieve(batch.id);
  }
  assert.deepEqual(batch.request_counts, { total: 5, completed: 5, failed: 0 });
  const answers = (await (await client.files.content(batch.output_file_id)).text()).trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(answers.map((a) => a.custom_id), ["c0", "c1", "c2", "c3", "c4"]);
  const listed = [];
  for await (const b of client.batches.list({ limit: 1 })) listed.push(b.id);
  assert.ok(listed.includes(batch.id));
  await assert.rejects(client.batches.cancel(batch.id), OpenAI.ConflictError);
  assert.equal((await client.files.delete(file.id)).deleted, true);
  await assert.rejects(client.files.retrieve(file.id), OpenAI.NotFoundError);
});
