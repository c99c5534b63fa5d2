/* Writes a network as an ONNX model. */
#include "tools/export/onnx_file.h"

#include "stage/log.h"
#include "stage/stop.h"

int onnx_file_write(const struct export_subject *subject, struct export_output *output)
{
    (void)subject, (void)output;
    log_message(LOG_ERROR, "export: this version cannot write ONNX yet");
    return EXIT_CODE_USAGE;
}
