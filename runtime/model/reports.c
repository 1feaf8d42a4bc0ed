#include "model/reports.h"

#include "base/message.h"

#include <stdio.h>

bool reports_good(MoecCompiler *compiler) {
    if (!moec_failed(compiler)) return true;
    message_reports(moec_reports(compiler));
    return false;
}
