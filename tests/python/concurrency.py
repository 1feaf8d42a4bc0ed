"""Threads, processes and signals: concurrency.py FOLDER, which contains a run."""

import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings

import numpy
import torch

import moec
import moec.torch

folder = sys.argv[1]
RUN = folder + "/run"
THREADS, CALLS = 4, 30


def samples(model, seed):
    return numpy.random.default_rng(seed).integers(0, 256, (model.batch, model.context + 1))


def in_threads(work, count=THREADS):
    """Runs work(i) in threads; raises the first of their exceptions."""
    errors = []

    def guarded(i):
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    [one.start() for one in threads]
    [one.join() for one in threads]
    if errors:
        raise errors[0]


def threads():
    """Concurrent threads have the results of a single thread."""
    model = moec.load(RUN, train=True)
    windows = [samples(model, i) for i in range(THREADS)]
    alone = [(model.logits(one[:, :-1]), *model.gradients(one), model.generate(f"seed {i}", tokens=5))
             for i, one in enumerate(windows)]

    def work(i):
        for _ in range(CALLS):
            logits, (loss, gradients) = model.logits(windows[i][:, :-1]), model.gradients(windows[i])
            text = model.generate(f"seed {i}", tokens=5)
            numpy.testing.assert_array_equal(logits, alone[i][0])
            assert abs(loss - alone[i][1]) < 1e-6 and text == alone[i][3]
            for name, gradient in gradients.items():
                numpy.testing.assert_allclose(gradient, alone[i][2][name], rtol=1e-4, atol=1e-6)
            with model.lock:
                view = model.logits(windows[i][:, :-1], copy=False)
                numpy.testing.assert_array_equal(view, alone[i][0])
            try:
                model.decode([300 + i])
            except moec.Error as error:
                assert f"is {300 + i}" in str(error)

    in_threads(work)
    closing = moec.load(RUN)

    def use(i):
        try:
            while True:
                closing.encode("text"), closing.generate("a", tokens=2)
        except ValueError as error:
            assert "closed" in str(error)

    timer = threading.Timer(0.3, closing.close)
    timer.start()
    in_threads(use)
    print("threads on one model")


def modules():
    layer = moec.torch.Module("attention", 16, 2, 8, use="attention", options="heads.q = 2")
    xs = [torch.randn(2, 8, 16, requires_grad=True) for _ in range(THREADS)]
    alone = [torch.autograd.grad(layer(x).square().sum(), x)[0] for x in xs]

    def work(i):
        for _ in range(CALLS):
            dx, = torch.autograd.grad(layer(xs[i]).square().sum(), xs[i])
            assert torch.allclose(dx, alone[i], atol=1e-5)

    in_threads(work)
    print("threads on one module")


def child(model, windows, results):
    results.put((model.loss(windows), model.generate("a", tokens=4)))


def child_loads(path, windows, results):
    child(moec.load(path), windows, results)


def forked(run):
    """The exit code of a forked child; SIGALRM ends a child that hangs."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(200)
            run()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def processes():
    model = moec.load(RUN, train=True)
    windows = samples(model, 1)
    wanted = (model.loss(windows), model.generate("a", tokens=4))
    layer = moec.torch.Module("attention", 16, 2, 8, use="attention", options="heads.q = 2")
    x = torch.randn(2, 8, 16, requires_grad=True)
    dx, = torch.autograd.grad(layer(x).sum(), x)

    def use():
        assert (model.loss(windows), model.generate("a", tokens=4)) == wanted
        model.step(windows)
        assert moec.load(RUN).loss(windows) == wanted[0]
        assert torch.equal(layer(x), y) and forked(lambda: model.generate("b", tokens=2)) == 0

    with torch.no_grad():
        y = layer(x)
    assert forked(use) == 0
    assert model.loss(windows) == wanted[0]  # only the child has trained
    for method, target, given in (("fork", child, model), ("fork", child_loads, RUN), ("spawn", child_loads, RUN)):
        context = multiprocessing.get_context(method)
        results = context.Queue()
        workers = [context.Process(target=target, args=(given, windows, results)) for _ in range(2)]
        [one.start() for one in workers]
        assert [results.get(timeout=120) for _ in workers] == [wanted] * 2, method
        [one.join(60) for one in workers]
        assert [one.exitcode for one in workers] == [0, 0]
    print("fork and spawn")


def signals():
    """Ctrl-C ends a generation after a token; an exception of on_text reaches the caller; the model works after both."""
    model = moec.load(RUN, context=100000, run=False)
    text = model.generate("a", tokens=5)
    pieces = []
    assert model.generate("a", tokens=5, on_text=pieces.append) == text and b"".join(pieces).decode("utf-8", "replace") == text
    assert len(model.generate("a", tokens=50, on_text=lambda piece: True)) <= 4
    raised = [0]

    def fail(piece):
        raised[0] += 1
        raise KeyError("from on_text")

    for call, kind in ((lambda: model.generate("a", tokens=50, on_text=fail), KeyError),
                       (lambda: model.generate("a", tokens=50, on_text=lambda piece: model.generate("b")), moec.Error)):
        try:
            call()
        except kind:
            pass
        else:
            raise AssertionError("no error")
    assert raised == [1] and model.generate("a", tokens=5) == text
    signal.signal(signal.SIGUSR1, lambda number, frame: pieces.append(number))
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    assert model.generate("a", tokens=3000) and pieces[-1] == signal.SIGUSR1  # a handler without an exception
    for _ in range(3):
        began = time.monotonic()
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            model.generate("a", tokens=99990)
        except KeyboardInterrupt:
            assert time.monotonic() - began < 20
        else:
            raise AssertionError("the generation ended before the signal")
    assert model.generate("a", tokens=5) == text
    in_threads(lambda i: model.generate("a", tokens=5), 1)  # the lock is free
    print("signals and callbacks")


if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message=".*multi-threaded.*fork")  # of Python 3.12, about os.fork itself
    for test in (threads, modules, processes, signals):
        if test.__name__ in sys.argv[2:] or not sys.argv[2:]:
            test()
