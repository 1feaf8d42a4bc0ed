"""Requests of tests/serve/json.sh to a server: json_client.py ADDRESS."""

import concurrent.futures
import enum
import json
import random
import sys

import jsonschema
import openai
import pydantic

client = openai.OpenAI(base_url=f"http://{sys.argv[1]}/v1", api_key="none", max_retries=0)
model = client.models.list().data[0].id
chat = [{"role": "user", "content": "hi"}]


class Color(enum.Enum):
    red = "red"
    green = "green"


class Part(pydantic.BaseModel):
    color: Color
    sizes: list[float] = pydantic.Field(max_length=3)
    next: "Part | None"


class Name(pydantic.BaseModel):
    first: str = pydantic.Field(max_length=9)
    last: str | None = pydantic.Field(max_length=9)
    parts: list[Part] = pydantic.Field(max_length=2)


def schema_of(generator, depth=0):
    """A random schema of the supported keywords, whose texts are short."""
    kinds = ["integer", "boolean", "null", "string", "enum", "number"] + ["object", "array", "any"] * (depth < 3)
    kind = generator.choice(kinds)
    if kind == "string":
        least = generator.randrange(4)
        return {"type": "string", "minLength": least, "maxLength": least + generator.randrange(6)}
    if kind == "enum":
        return {"enum": generator.sample(["a", "é\"\\", 1, 1.5, True, None, [1, {"b": 2}], {}], generator.randrange(1, 5))}
    if kind == "object":
        names = generator.sample(["a", "b", "long name", "é", "\"", "n\n"], generator.randrange(5))
        return {"type": "object", "additionalProperties": False, "properties": {name: schema_of(generator, depth + 1) for name in names},
                "required": [name for name in names if generator.random() < 0.6]}
    if kind == "array":
        least = generator.randrange(3)
        return {"type": "array", "items": schema_of(generator, depth + 1), "minItems": least, "maxItems": least + generator.randrange(3)}
    if kind == "any":
        return {"anyOf": [schema_of(generator, depth + 1) for _ in range(generator.randrange(1, 4))]}
    return {"type": kind}


def schemas(count=120):
    generator = random.Random(3)
    all_schemas = [schema_of(generator) for _ in range(count)]

    def check(number):
        schema = all_schemas[number]
        answer = client.chat.completions.create(
            model=model, messages=chat, max_tokens=900, seed=number, temperature=number % 2,
            response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}})
        choice = answer.choices[0]
        if choice.finish_reason == "length":
            return 0
        assert choice.finish_reason == "stop", choice
        jsonschema.validate(json.loads(choice.message.content), schema)
        return 1

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        complete = sum(pool.map(check, range(count)))
    assert complete > count * 0.9, complete
    print(f"random schemas: {complete} of {count} values complete and valid, the others reached the limit")


def parsed():
    complete = 0
    for seed in range(20):
        try:
            answer = client.chat.completions.parse(model=model, messages=chat, max_tokens=700, seed=seed, response_format=Name)
            assert isinstance(answer.choices[0].message.parsed, Name)
            complete += 1
        except openai.LengthFinishReasonError:
            pass
    assert complete >= 10, complete
    print(f"pydantic models: {complete} of 20 complete")


weather = {"type": "function", "function": {"name": "weather", "description": "of a city", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Rome", "Paris"]}, "days": {"type": "integer"}},
    "required": ["city", "days"], "additionalProperties": False}}}
clock = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


def called(choice):
    arguments = json.loads(choice.message.tool_calls[0].function.arguments)
    if choice.message.tool_calls[0].function.name == "weather":
        jsonschema.validate(arguments, weather["function"]["parameters"])
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    return choice.message.tool_calls[0]


def tools():
    names = set()
    for seed in range(12):
        answer = client.chat.completions.create(model=model, messages=chat, tools=[weather, clock], tool_choice="required", max_tokens=300,
                                                seed=seed, parallel_tool_calls=False)
        call = called(answer.choices[0])
        names.add(call.function.name)
        # The answer and a result go back as they came.
        turns = chat + [answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "fine"}]
        client.chat.completions.create(model=model, messages=turns, tools=[weather, clock], max_tokens=3, tool_choice="none")
    assert names == {"weather"} or names == {"weather", "now"} or names == {"now"}, names
    named = client.chat.completions.create(model=model, messages=chat, tools=[weather, clock], max_tokens=300, n=3,
                                           tool_choice={"type": "function", "function": {"name": "weather"}})
    assert all(called(choice).function.name == "weather" for choice in named.choices)
    with client.chat.completions.stream(model=model, messages=chat, tools=[weather], tool_choice="required", max_tokens=300) as stream:
        final = stream.get_final_completion()
    assert called(final.choices[0]).function.name == "weather"
    free = client.chat.completions.create(model=model, messages=chat, tools=[weather], max_tokens=5)
    assert free.choices[0].message.tool_calls is None and free.choices[0].finish_reason == "length"
    try:
        client.chat.completions.create(model=model, messages=chat, tools=[weather], tool_choice={"type": "function", "function": {"name": "no"}})
    except openai.BadRequestError as error:
        assert error.param == "tool_choice"
    else:
        raise AssertionError("an unknown function is accepted")
    print("function calls: required, named, in events, results, none")


schemas()
parsed()
tools()
