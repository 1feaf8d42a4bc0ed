"""Runs a function or a module of PyTorch for `moec verify --against`; see client.c for the messages.

Arguments: FILE NAME DEVICE. Messages arrive at descriptor 3 and answers leave by descriptor 4.
"""
import ctypes
import importlib.util
import inspect
import json
import os
import sys
import traceback

requests, answers = os.fdopen(3, "rb"), os.fdopen(4, "wb")


class Refused(Exception):
    """An error with a text to type."""

    def __init__(self, text, help=None):
        super().__init__(text)
        self.help = help


def answer(message, tensors=()):
    answers.write(json.dumps(message).encode() + b"\n")
    for tensor in tensors:
        answers.write(ctypes.string_at(tensor.data_ptr(), 8 * tensor.numel()) if tensor.numel() else b"")
    answers.flush()


def line_of(error, file):
    """FILE:LINE of the innermost frame in the file of the code."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if os.path.abspath(frame.filename) == os.path.abspath(file):
            return f"{file}:{frame.lineno}"
    return file


def report(error, file):
    if isinstance(error, Refused):
        return {"error": str(error), "help": error.help}
    if isinstance(error, SyntaxError) and error.filename:
        return {"error": f"{type(error).__name__}: {error.msg}", "where": f"{error.filename}:{error.lineno}"}
    return {"error": f"{type(error).__name__}: {error}", "where": line_of(error, file)}


def value_of(text):
    """An option of the spec as a value of Python."""
    words = {"true": True, "false": False, "none": None}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def signature(function, name):
    """The parameters of a function: [(name, required)], and whether it accepts any others by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise Refused(f"{name} has no readable signature: {error}", "wrap it in a function with named parameters")
    plain = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    unnamed = [one.name for one in parameters if one.kind == one.POSITIONAL_ONLY]
    if unnamed:
        raise Refused(f"{name} has positional-only parameters: {', '.join(unnamed)}", "arguments are passed by name")
    return [(one.name, one.default is one.empty) for one in plain], any(one.kind == one.VAR_KEYWORD for one in parameters)


def option_called(options, name):
    """The option of the spec with the name of a parameter: `heads_q` is `heads.q`."""
    for path in options:
        if path.replace(".", "_") == name:
            return path
    return None


class Code:
    """The function or the module."""

    def __init__(self, file, name, device):
        self.file, self.name, self.device = file, name, device
        sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
        spec = importlib.util.spec_from_file_location(os.path.basename(file)[:-3], file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        self.code = getattr(module, name, None)
        if self.code is None or not callable(self.code):
            found = [one for one, value in vars(module).items() if callable(value) and getattr(value, "__module__", "") == spec.name]
            raise Refused(f"{file} has no function or module of that name", f"it defines {', '.join(found) or 'none'}")

    def describe(self, options):
        self.options = {}
        if isinstance(self.code, type) and issubclass(self.code, torch.nn.Module):
            accepted, _ = signature(self.code, self.name)
            given = {one: value_of(options[option_called(options, one)]) for one, _ in accepted if option_called(options, one)}
            missing = [one for one, required in accepted if required and one not in given]
            if missing:
                raise Refused(f"the constructor of {self.name} requires {', '.join(missing)}",
                              f"options of the spec are passed by name: {', '.join(sorted(options))}")
            self.code = self.code(**given)
        self.module = self.code if isinstance(self.code, torch.nn.Module) else None
        accepted, self.any = signature(self.module.forward if self.module else self.code, self.name)
        self.accepted = [one for one, _ in accepted]
        self.options = {one: value_of(options[option_called(options, one)]) for one in self.accepted if option_called(options, one)}
        tensors = []
        if self.module:
            self.module.to(self.device)
            tensors = [{"name": one, "shape": list(value.shape)} for one, value in self.module.named_parameters()]
        return {"kind": "module" if self.module else "function", "any": self.any, "options": list(self.options),
                "arguments": [{"name": one, "required": required} for one, required in accepted], "tensors": tensors,
                "buffers": [one for one, _ in self.module.named_buffers()] if self.module else []}

    def call(self, given):
        """given: (description, tensor) pairs."""
        parameters, arguments = {}, {}
        for description, tensor in given:
            name = description["name"]
            if self.module and description["role"] != "argument":
                parameters[name] = tensor
            elif name in self.accepted:
                arguments[name] = tensor
            elif name.replace(".", "_") in self.accepted:
                arguments[name.replace(".", "_")] = tensor
            elif self.any:
                arguments[name] = tensor
        arguments.update({one: value for one, value in self.options.items() if one not in arguments})
        if self.module:
            known = {one for one, _ in self.module.named_parameters()} | {one for one, _ in self.module.named_buffers()}
            parameters = {one: value for one, value in parameters.items() if one in known}
            return torch.func.functional_call(self.module, parameters, (), arguments)
        return self.code(**arguments)


def named_results(returned, wanted):
    """Results by the names of the spec: a tensor, a tuple in the order of the spec, or a dictionary."""
    if isinstance(returned, torch.Tensor):
        returned = [returned]
    if isinstance(returned, dict):
        return dict(returned)
    if not isinstance(returned, (tuple, list)):
        raise Refused(f"the code returned {type(returned).__name__}", "return a tensor, a tuple or a dictionary of tensors")
    names = [one["name"] for one in wanted]
    return {names[i] if i < len(names) else f"result {i + 1}": one for i, one in enumerate(returned)}


def gradients_of(given, results, wanted, cotangents):
    """Gradients of the sum of all results times their cotangents, and of all terms of the loss."""
    leaves = [(description, tensor) for description, tensor in given if description["gradient"]]
    terms, factors = [], []
    for one in wanted:
        result = results[one["name"]]
        if (one["term"] or one["cotangent"]) and result.requires_grad:
            terms.append(result)
            factors.append(torch.ones_like(result) if one["term"] else cotangents[one["name"]].to(result.dtype))
    if not terms:
        return [None] * len(leaves), leaves
    return torch.autograd.grad(terms, [tensor for _, tensor in leaves], factors, allow_unused=True), leaves


def run(code, message):
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}[message["type"]]

    def receive(description):
        count = 1
        for size in description["shape"]:
            count *= size
        data = bytearray(requests.read(8 * count))
        values = torch.frombuffer(data, dtype=torch.float64).reshape(description["shape"]) if count else torch.empty(description["shape"])
        return values.to(torch.int64 if description.get("integer") else dtype).to(code.device)

    given = [(one, receive(one)) for one in message["tensors"]]
    wanted = message["results"]
    cotangents = {one["name"]: receive(one) for one in wanted if one["cotangent"]}
    for description, tensor in given:
        tensor.requires_grad_(description["gradient"])
    results = named_results(code.call(given), wanted)
    for name, result in results.items():
        if not isinstance(result, torch.Tensor):
            results[name] = torch.tensor(result, dtype=torch.float64)
    shapes = [{"name": name, "shape": list(result.shape)} for name, result in results.items()]
    if sorted((one["name"], one["shape"]) for one in shapes) != sorted((one["name"], one["shape"]) for one in wanted):
        return answer({"results": shapes, "gradients": []})
    gradients, leaves = gradients_of(given, results, wanted, cotangents)
    described, values = [], []

    def add(tensor):
        values.append(tensor.detach().to("cpu", torch.float64).contiguous())

    for result in results.values():
        add(result)
    for gradient, (description, tensor) in zip(gradients, leaves):
        described.append({"name": description["name"], "missing": gradient is None})
        add(torch.zeros_like(tensor) if gradient is None else gradient)
    answer({"results": shapes, "gradients": described}, values)


def main():
    file, name, device = sys.argv[1:4]
    code = None
    for line in requests:
        message = json.loads(line)
        try:
            if code is None:
                code = Code(file, name, device)
                answer(code.describe(message["options"]))
            else:
                run(code, message)
        except KeyboardInterrupt:
            return
        except BaseException as error:
            if code is None or not hasattr(code, "accepted"):
                return answer(report(error, file))
            answer(report(error, file))


try:
    import torch
except ImportError as error:
    requests.readline()
    answer({"error": f"{sys.executable} cannot import PyTorch: {error}", "help": "pip install torch, or set PYTHON to a Python that has it"})
else:
    main()
