// The official client of Anthropic for Node.js, through the gateway at BASE_URL.
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: process.env.BASE_URL.replace("/v1", ""), apiKey: "any" });
const hello = { model: "claude-m", max_tokens: 20, messages: [{ role: "user", content: "hello" }] };

test("anthropic: message", async () => {
  const { data, response } = await client.messages.create(hello).withResponse();
  assert.match(data.content[0].text, /stand-in/);
  assert.equal(response.headers.get("anthropic-ratelimit-requests-limit"), "5");
});

test("anthropic: stream", async () => {
  const message = await client.messages.stream(hello).finalMessage();
  assert.match(message.content[0].text, /tokens\.$/);
  assert.ok(message.usage.output_tokens > 0);
});

test("anthropic: errors are its own types", async () => {
  await assert.rejects(client.messages.create({ ...hello, messages: [] }), Anthropic.BadRequestError);
  const many = Array.from({ length: 12 }, () => client.messages.create(hello));
  await new Promise((done) => setTimeout(done, 100));
  await assert.rejects(
    client.messages.create(hello, { headers: { "Headway-Start-By": "1ms" }, maxRetries: 0 }), Anthropic.RateLimitError);
  await Promise.all(many);
});
