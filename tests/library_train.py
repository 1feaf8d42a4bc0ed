"""Trains with moec.train, for checks/library_train.sh: library_train.py SPEC DATA OUT. Prints step and loss of each step. The first
call ends with an exception after step 7, the second one resumes the run."""

import sys

import moec

spec, data, out = sys.argv[1:]


def on_step(progress):
    print(progress.step, format(progress.loss, ".9g"))
    if progress.step == 7:
        raise KeyError("stopped")


try:
    moec.train(spec, data=data, out=out, on_step=on_step)
except KeyError:
    pass
else:
    raise AssertionError("the exception of on_step is lost")
for wrong in (lambda: moec.train(spec, data=data, out=out), lambda: moec.train(spec, data=data + ".none", out=out + ".none")):
    try:
        wrong()
    except moec.Error as error:
        assert "already contains a run" in str(error) or "no data found" in str(error), error
    else:
        raise AssertionError("no error")
last = moec.train(spec, data=data, out=out, resume=True, on_step=on_step)
assert last.step == last.steps and last.evaluated and last.val_loss > 0, last
assert moec.train(spec, data=data, out=out, resume=True) is None
