"""Requests of tests/serve/compare.sh to a server: compare.py ADDRESS FOLDER PROCESS."""

import asyncio
import json
import random
import re
import socket
import subprocess
import sys
import time

import openai

at, folder, process = sys.argv[1:]
host, port = re.match(r"http://(.*):(\d+)", at).groups()
client = openai.OpenAI(base_url=at + "/v1", api_key="none", max_retries=0)
model = client.models.list().data[0].id


def resident():
    """Megabytes of the server."""
    with open(f"/proc/{process}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024


def clients():
    answer = client.completions.create(model=model, prompt="model ", max_tokens=20, temperature=0)
    events = list(client.completions.create(model=model, prompt="model ", max_tokens=20, temperature=0, stream=True))
    assert "".join(e.choices[0].text for e in events) == answer.choices[0].text
    assert events[-1].choices[0].finish_reason == answer.choices[0].finish_reason == "length"
    several = client.completions.create(model=model, prompt=["a", "b"], n=3, seed=1, max_tokens=5, logprobs=2)
    assert [c.index for c in several.choices] == list(range(6))
    for choice in several.choices:
        assert "".join(choice.logprobs.tokens) == choice.text or "\ufffd" in choice.text, choice
        for logprob, best in zip(choice.logprobs.token_logprobs, choice.logprobs.top_logprobs):
            assert logprob in best.values() and len(best) in (2, 3)
    echoed = client.completions.create(model=model, prompt="layer norm", echo=True, logprobs=1, max_tokens=0)
    assert echoed.choices[0].text == "layer norm" and echoed.choices[0].logprobs.token_logprobs[0] is None
    for wrong, kind in (({"prompt": "x", "max_tokens": 9999}, openai.BadRequestError), ({"prompt": []}, openai.BadRequestError),
                        ({"prompt": "x", "temperature": 3}, openai.BadRequestError)):
        try:
            client.completions.create(model=model, **wrong)
        except kind as error:
            assert error.body["message"]
        else:
            raise AssertionError(wrong)
    try:
        client.completions.create(model="other", prompt="x")
    except openai.NotFoundError:
        pass
    chat = [{"role": "system", "content": "short"}, {"role": "user", "content": "layer"}]
    answer = client.chat.completions.create(model=model, messages=chat, max_tokens=20, temperature=0, logprobs=True, top_logprobs=2)
    events = list(client.chat.completions.create(model=model, messages=chat, max_tokens=20, temperature=0, stream=True))
    assert "".join(e.choices[0].delta.content or "" for e in events) == answer.choices[0].message.content
    assert len(answer.choices[0].logprobs.content) == answer.usage.completion_tokens
    print("the openai client: text, chats, events, log-probabilities, errors")


def evaluators():
    """A task of 60 questions about the next word."""
    generator = random.Random(1)
    with open(f"{folder}/text", encoding="utf-8", errors="ignore") as text:
        words = re.findall(r"[a-z_]+", text.read())
    # A word and its letters in another order.
    mixed = lambda word: "".join(generator.sample(word, len(word)))
    with open(f"{folder}/questions.jsonl", "w") as file:
        for _ in range(60):
            position = next(i for i in iter(lambda: generator.randrange(20, len(words)), None) if len(words[i]) > 3)
            choices = [words[position]] + [mixed(words[position]) + generator.choice(["", "e"]) for _ in range(3)]
            order = generator.sample(range(4), 4)
            print(json.dumps({"context": " ".join(words[position - 12:position]), "words": [choices[i] for i in order],
                              "choices": [" " + choices[i] for i in order], "answer": order.index(0)}), file=file)
    with open(f"{folder}/next_word.yaml", "w") as file:
        file.write(f"""task: next_word
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/questions.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{context}}}}"
doc_to_target: answer
doc_to_choice: words
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
""")
    from transformers import PreTrainedTokenizerFast
    PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json").save_pretrained(f"{folder}/tokenizer")
    import lm_eval
    from lm_eval.tasks import TaskManager
    found = lm_eval.simple_evaluate(
        model="local-completions",
        model_args={"model": model, "base_url": at + "/v1/completions", "tokenizer": f"{folder}/tokenizer",
                    "tokenizer_backend": "huggingface", "num_concurrent": 4, "max_retries": 1, "max_length": 256},
        tasks=["next_word"], batch_size=8, task_manager=TaskManager(include_path=folder), bootstrap_iters=0)
    theirs = found["results"]["next_word"]
    ours = json.loads(subprocess.run(["moec", "eval", f"{folder}/run", "--multiple-choice", f"{folder}/questions.jsonl", "--json"],
                                     check=True, capture_output=True).stdout)
    print("lm-evaluation-harness: accuracy", theirs["acc,none"], "by length", theirs["acc_norm,none"])
    assert theirs["acc,none"] == ours["accuracy"] and theirs["acc,none"] > 0.3, (theirs, ours)
    assert theirs["acc_norm,none"] == ours["accuracy_by_length"], (theirs, ours)


async def good(number):
    reader, writer = await asyncio.open_connection(host, port)
    stream = number % 3 == 0
    body = json.dumps({"prompt": "layer " + "x" * (number % 40), "max_tokens": 30, "stream": stream, "seed": number}).encode()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    if b" 429 " in answer[:20]:
        await asyncio.sleep(1)
        return await good(number)
    assert b" 200 " in answer[:20], answer[:300]
    assert (b"[DONE]" if stream else b'"usage"') in answer
    return 1


async def slow(number):
    """Sends a request byte by byte, or does not read the answer."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        if number % 2:
            for byte in b"POST /v1/completions HTTP/1.1\r\nContent-Length: 10\r\n":
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.3)
        else:
            body = b'{"prompt":"x","max_tokens":200,"n":20,"stream":true,"logprobs":5}'
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await asyncio.sleep(8)
    except (ConnectionError, asyncio.TimeoutError):
        pass
    writer.close()
    return 0


async def broken(number):
    """Disconnects during an answer, or does not use HTTP."""
    reader, writer = await asyncio.open_connection(host, port)
    body = b'{"prompt":"layer","max_tokens":200,"n":10,"stream":%s}' % (b"true" if number % 2 else b"false")
    texts = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body,
             b"\x16\x03\x01\x02\x00\x01" + bytes(random.Random(number).randbytes(200)),
             b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n{",
             b"GET /" + b"x" * 60000 + b" HTTP/1.1\r\n\r\n")
    writer.write(texts[number % 4])
    await asyncio.sleep(0.02 * (number % 7))
    writer.transport.abort()
    return 0


async def crowd():
    began = time.time()
    clients = [good(i) for i in range(200)] + [slow(i) for i in range(20)] + [broken(i) for i in range(60)]
    random.Random(2).shuffle(clients)
    served = sum(await asyncio.gather(*clients))
    assert served == 200
    return time.time() - began


def crowds():
    sizes = []
    for _ in range(6):
        seconds = asyncio.run(crowd())
        sizes.append(resident())
        print(f"200 requests beside 20 slow and 60 broken clients: {seconds:.1f} s, {sizes[-1]:.1f} MB")
    assert sizes[-1] < sizes[1] * 1.05 + 1, "memory grows"
    with socket.create_connection((host, int(port))) as one:
        one.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        counted = one.makefile().read()
    assert "moec_texts_active 0" in counted and "moec_texts_waiting 0" in counted, counted


clients()
evaluators()
crowds()
print("good")
