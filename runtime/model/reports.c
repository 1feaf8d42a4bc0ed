#include "model/reports.h"

#include "base/message.h"

#include <stdio.h>

bool reports_good(MoecCompiler *compiler) {
    if (!moec_failed(compiler)) return true;
    fflush(stdout);
    fputs(moec_reports(compiler), message_file());
    return false;
}
