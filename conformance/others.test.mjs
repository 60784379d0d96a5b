// Frameworks for Node.js, through the gateway at BASE_URL.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { embed, generateText, streamText } from "ai";

const provider = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: "any" });
const prompt = "hello";

test("ai-sdk: text and stream of chats", async () => {
  const answer = await generateText({ model: provider.chat("m"), prompt, maxOutputTokens: 20 });
  assert.match(answer.text, /stand-in/);
  let text = "";
  for await (const part of streamText({ model: provider.chat("m"), prompt, maxOutputTokens: 20 }).textStream) text += part;
  assert.match(text, /tokens\.$/);
});

test("ai-sdk: responses", async () => {
  const answer = await generateText({ model: provider.responses("m"), prompt, maxOutputTokens: 20 });
  assert.match(answer.text, /stand-in/);
});

test("ai-sdk: embeddings", async () => {
  const answer = await embed({ model: provider.embedding("m"), value: prompt });
  assert.equal(answer.embedding.length, 8);
});

const settings = { model: "m", apiKey: "any", maxTokens: 20, configuration: { baseURL: process.env.BASE_URL } };

test("langchain: chat and stream", async () => {
  const model = new ChatOpenAI(settings);
  assert.match((await model.invoke(prompt)).content, /stand-in/);
  let text = "";
  for await (const chunk of await model.stream(prompt)) text += chunk.content;
  assert.match(text, /tokens\.$/);
});

test("langchain: embeddings", async () => {
  const model = new OpenAIEmbeddings({ model: "m", apiKey: "any", configuration: { baseURL: process.env.BASE_URL } });
  assert.ok((await model.embedQuery(prompt)).length > 0);
});
