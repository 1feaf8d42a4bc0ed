"""Claims about a running server, measured: claims.py ADDRESS CLAIM [NUMBER...].

company COUNT PROCESS   mixed requests, alone one after the other, then all at once: equal answers, with all logarithms of
                        probabilities; prints the seconds of both, the processor seconds of the server and a digest of the answers
switch TOKENS           an answer of that many tokens, during which short requests come and go, is the one alone; with a draft, it
                        speculates in between
leftover TOKENS         an answer is the same after one that a stop sequence ended, which leaves proposals of a draft
speed PORT TOKENS [FACTOR]  tokens/s of one client, compared with the server at PORT: at least FACTOR times as many; equal answers
join TOKENS             a short request ends before three of that many tokens that began before it
prefix TOKENS [FACTOR]  the time to the first token of a prompt whose first TOKENS tokens were sent before; at least FACTOR times
                        faster than at first
flat PROCESS COUNT      the memory of the process does not grow over that many requests

The tokens are bytes. The last line says what was measured; a claim that does not hold ends with 1.
"""

import concurrent.futures
import hashlib
import http.client
import json
import os
import random
import re
import statistics
import sys
import threading
import time
import urllib.request

address, claim, *numbers = sys.argv[1:]
host, port = address.split(":")


def connect():
    return http.client.HTTPConnection(host, int(port), timeout=300)


def ask(body, connection=None):
    connection = connection or connect()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    assert response.status == 200, text
    return json.loads(text)


def events(body):
    """The time of each event with a token."""
    connection = connect()
    connection.request("POST", "/v1/completions", json.dumps({**body, "stream": True, "logprobs": 0}), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    for line in response:
        if b'"token_logprobs":[' in line and b'"token_logprobs":[]' not in line:
            yield time.monotonic()


def text(generator, length):
    return "".join(generator.choice("abcdefgh klmnop\n") for _ in range(length))


def mixed(count, longest=440):
    """Requests of many lengths, greedy and drawn."""
    generator = random.Random(5)
    common = text(generator, longest // 2)
    bodies = []
    for i in range(count):
        prompt = text(generator, generator.randrange(1, longest))
        if i % 5 == 4:
            prompt = common + prompt[:longest // 2]
        bodies.append({"prompt": prompt, "max_tokens": generator.randrange(1, 70), "logprobs": i % 3,
                       "temperature": i % 2, "seed": i, "top_p": 1 if i % 4 else 0.9})
    return bodies


def processor_seconds(process):
    with open(f"/proc/{process}/stat") as stat:
        user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def company(count, process):
    bodies = mixed(count)
    began, used = time.monotonic(), processor_seconds(process)
    alone = [ask(body)["choices"] for body in bodies]
    seconds_alone, used_alone = time.monotonic() - began, processor_seconds(process) - used
    began, used = time.monotonic(), processor_seconds(process)
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        together = [answer["choices"] for answer in pool.map(ask, bodies)]
    seconds, used = time.monotonic() - began, processor_seconds(process) - used
    wrong = [i for i in range(count) if alone[i] != together[i]]
    texts = [i for i in wrong if alone[i][0]["text"] != together[i][0]["text"]]
    print(f"company: {count - len(wrong)} of {count} answers equal, {len(texts)} with another text; "
          f"alone {seconds_alone:.2f} s ({used_alone:.2f} of processors), together {seconds:.2f} s ({used:.2f}); "
          f"digest {hashlib.sha256(json.dumps(alone).encode()).hexdigest()[:16]}")
    return not wrong


def metrics():
    with urllib.request.urlopen(f"http://{address}/metrics") as response:
        lines = response.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def switch(tokens):
    body = {"prompt": text(random.Random(3), 100), "max_tokens": tokens, "seed": 3, "ignore_eos": True}
    alone, before = ask(body)["choices"], metrics()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer, shorts = pool.submit(ask, body), 0
        while not answer.done():
            ask({"prompt": "short", "max_tokens": 4})
            shorts += 1
            time.sleep(0.004)
    after = metrics()
    same = answer.result()["choices"] == alone
    difference = {name: after[f"moec_{name}_total"] - before[f"moec_{name}_total"] for name in ("steps", "step_rows", "accepted_tokens")}
    shared = difference["step_rows"] - difference["steps"]
    print(f"switch: {'the same' if same else 'another'} answer with {shorts} short requests, {shared:.0f} shared steps and "
          f"{difference['accepted_tokens']:.0f} accepted tokens")
    return same and shorts > 1 and shared > 0 and difference["accepted_tokens"] > 0


def leftover(tokens):
    common = {"max_tokens": tokens, "temperature": 0, "logprobs": 1}
    made = ask({"prompt": "layer", **common})["choices"][0]["text"]
    bodies = [{"prompt": "param" + made[:end - 1], **common} for end in range(2, tokens)]
    before = [ask(body)["choices"] for body in bodies]
    wrong = []
    for end, (body, answer) in enumerate(zip(bodies, before), 2):
        ask({"prompt": "layer", "stop": made[:end], **common})
        if ask(body)["choices"] != answer:
            wrong.append(end)
    print(f"leftover: {len(bodies) - len(wrong)} of {len(bodies)} answers equal")
    return not wrong


def speed(other, tokens, factor=1.0):
    """The medians of 7 pairs, after one that warms up."""
    body, pairs = {"prompt": "option norm: layer = rms_norm ", "max_tokens": tokens, "temperature": 0, "ignore_eos": True}, []
    for _ in range(8):
        rates, answers = [], []
        for server in (other, port):
            began = time.monotonic()
            answers.append(ask(body, http.client.HTTPConnection(host, int(server), timeout=300))["choices"])
            rates.append(tokens / (time.monotonic() - began))
        assert answers[0] == answers[1], answers
        pairs.append((rates[1] / rates[0], *rates))
    ratio, before, after = (statistics.median(values) for values in zip(*pairs[1:]))
    counted = metrics()
    print(f"speed: {after:.1f} tokens/s compared with {before:.1f}, median ratio {ratio:.2f}; "
          f"{counted['moec_accepted_tokens_total']:.0f} of {counted['moec_draft_tokens_total']:.0f} proposals accepted")
    return ratio >= factor


def join(tokens):
    ends = {}

    def run(name, tokens):
        for ends[name] in events({"prompt": name, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}):
            pass

    threads = []
    for name in ("long", "late", "later", "short"):
        threads.append(threading.Thread(target=run, args=(name, 8 if name == "short" else tokens)))
        threads[-1].start()
        while name not in ends and threads[0].is_alive():
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    order = sorted(ends, key=ends.get)
    print("join: the requests ended in the order", " ".join(order))
    return order[0] == "short"


def prefix(tokens=1000, factor=5):
    """The median of three prompts."""
    generator = random.Random(time.time())
    ratios = []
    for _ in range(3):
        common = text(generator, tokens)
        times = []
        for tail in (text(generator, 0), text(generator, 10)):
            began = time.monotonic()
            times.append(next(events({"prompt": common + tail, "max_tokens": 2})) - began)
        ratios.append((times[0] / times[1], *times))
    ratio, first, second = sorted(ratios)[1]
    print(f"prefix: first token of {tokens} tokens after {first * 1000:.1f} ms, then after {second * 1000:.1f} ms: {ratio:.1f} times faster")
    return ratio >= factor


def resident(process):
    with open(f"/proc/{process}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1000


def flat(process, count=2000):
    """A quarter of the requests warms up."""
    generator = random.Random(7)
    bodies = [{"prompt": text(generator, generator.randrange(1, 300)), "max_tokens": generator.randrange(1, 20),
               "n": 1 + i % 2, "logprobs": i % 3, "stream": i % 4 == 3} for i in range(count)]

    def send(body):
        return list(events(body)) if body.pop("stream") else ask(body)

    sizes = []
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for part in range(4):
            list(pool.map(send, bodies[part * count // 4:(part + 1) * count // 4]))
            sizes.append(resident(process))
    print(f"flat: {count} requests, memory after each quarter", " ".join(f"{size:.1f}" for size in sizes), "MB")
    return sizes[-1] <= sizes[0] * 1.02 + 1


holds = globals()[claim](*(float(number) if "." in number else int(number) for number in numbers))
sys.exit(0 if holds else 1)
