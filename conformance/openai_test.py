"""The official client of OpenAI for Python, through the gateway at BASE_URL."""
import asyncio
import io
import json
import os
import threading
import time
import unittest

import openai

BASE_URL = os.environ["BASE_URL"]
HELLO = {"model": "m", "max_tokens": 20, "messages": [{"role": "user", "content": "hello"}]}
client = openai.OpenAI(base_url=BASE_URL, api_key="any")


class Python(unittest.TestCase):
    def test_chat(self):
        answer = client.chat.completions.create(**HELLO)
        self.assertIn("stand-in", answer.choices[0].message.content)
        self.assertGreater(answer.usage.total_tokens, 0)

    def test_headers_of_the_shared_limit(self):
        raw = client.chat.completions.with_raw_response.create(**HELLO)
        self.assertEqual(raw.headers["x-ratelimit-limit-requests"], "5")
        self.assertTrue(raw.parse()._request_id.startswith("req_"))

    def test_stream(self):
        text = ""
        for chunk in client.chat.completions.create(**HELLO, stream=True):
            self.assertIsNone(chunk.usage)
            text += chunk.choices[0].delta.content or ""
        self.assertTrue(text.endswith("tokens."))

    def test_stream_with_its_usage(self):
        usage = None
        for chunk in client.chat.completions.create(**HELLO, stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
        self.assertGreater(usage.total_tokens, 0)

    def test_responses(self):
        answer = client.responses.create(model="m", input="hello", max_output_tokens=20)
        self.assertIn("stand-in", answer.output_text)
        types = [e.type for e in client.responses.create(model="m", input="hello", max_output_tokens=20, stream=True)]
        self.assertEqual((types[0], types[-1]), ("response.created", "response.completed"))

    def test_other_endpoints(self):
        self.assertTrue(client.completions.create(model="m", prompt="hello").choices[0].text)
        self.assertEqual(len(client.embeddings.create(model="m", input=["a", "b"]).data), 2)
        self.assertFalse(client.moderations.create(input="hello").results[0].flagged)
        self.assertEqual(client.models.retrieve("m").id, "m")
        self.assertTrue(list(client.models.list()))

    def test_errors_are_its_own_types(self):
        with self.assertRaises(openai.BadRequestError):
            client.chat.completions.create(model="m", messages=[])
        with self.assertRaises(openai.BadRequestError) as caught:
            client.chat.completions.create(**{**HELLO, "max_tokens": 1_000_000})
        self.assertEqual(caught.exception.code, "request_too_large")
        with self.assertRaises(openai.NotFoundError):
            client.post("/nothing", cast_to=object, body={})

    def test_more_calls_than_the_limit_and_no_429(self):
        failed = []
        once = client.with_options(max_retries=0)

        def call():
            try:
                once.chat.completions.create(**HELLO)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=call) for _ in range(20)]
        for t in threads:
            t.start()
        time.sleep(0.2)
        with self.assertRaises(openai.RateLimitError):  # one that can't start in time is refused at once
            once.chat.completions.create(**HELLO, extra_headers={"Headway-Start-By": "1ms"})
        for t in threads:
            t.join()
        self.assertEqual(failed, [])

    def test_timeout(self):
        patient = {"Headway-Start-By": "1h"}  # else the gateway may refuse the call before its client gives up
        with self.assertRaises(openai.APITimeoutError):
            client.with_options(max_retries=0, timeout=0.001).chat.completions.create(**HELLO, extra_headers=patient)

    def test_async(self):
        async def run():
            async with openai.AsyncOpenAI(base_url=BASE_URL, api_key="any") as other:
                answers = await asyncio.gather(*(other.chat.completions.create(**HELLO) for _ in range(5)))
                text = ""
                async for chunk in await other.chat.completions.create(**HELLO, stream=True):
                    text += chunk.choices[0].delta.content or ""
                return answers, text

        answers, text = asyncio.run(run())
        self.assertEqual(len(answers), 5)
        self.assertTrue(text.endswith("tokens."))

    def test_azure(self):
        azure = openai.AzureOpenAI(azure_endpoint=BASE_URL.replace("/v1", ""), api_key="any", api_version="2024-10-21")
        self.assertIn("stand-in", azure.chat.completions.create(**HELLO).choices[0].message.content)

    def test_files_and_batches(self):
        lines = [json.dumps({"custom_id": f"c{i}", "method": "POST", "url": "/v1/chat/completions", "body": HELLO})
                 for i in range(5)]
        file = client.files.create(file=("in.jsonl", io.BytesIO("\n".join(lines).encode())), purpose="batch")
        batch = client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"a": "b"})
        while batch.status not in ("completed", "failed", "expired", "cancelled"):
            time.sleep(0.2)
            batch = client.batches.retrieve(batch.id)
        counts = batch.request_counts
        self.assertEqual((batch.status, counts.total, counts.completed, counts.failed), ("completed", 5, 5, 0))
        answers = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
        self.assertEqual([a["custom_id"] for a in answers], ["c0", "c1", "c2", "c3", "c4"])
        self.assertIn(batch.id, [b.id for b in client.batches.list(limit=1)])
        with self.assertRaises(openai.ConflictError):
            client.batches.cancel(batch.id)
        self.assertTrue(client.files.delete(file.id).deleted)
        with self.assertRaises(openai.NotFoundError):
            client.files.retrieve(file.id)


if __name__ == "__main__":
    unittest.main(verbosity=2)
