/* What is exported: a trained network, and how its input should look. Every kind of file has a function that writes it,
 * with a row in the table of tools/export/export.c. */
#ifndef PIPETRAIN_EXPORT_SUBJECT_H
#define PIPETRAIN_EXPORT_SUBJECT_H

#include <stdbool.h>

#include "compute/net.h"
#include "tools/export/export_output.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/results/initial_weights.h"

enum export_layout { EXPORT_NCHW, EXPORT_NHWC };
enum export_input { EXPORT_UINT8, EXPORT_FLOAT };       /* of pixels from 0 to 255; the file contains the transform */

struct export_options {
    enum export_layout layout;
    enum export_input input;
    bool keeps_norms;           /* batch normalisation is not folded into convolutions and dense layers */
};

/* All pointers are borrowed. */
struct export_subject {
    const struct settings *settings;    /* for evaluation: how images are scaled, as the weights say */
    const struct net *net;
    const struct initial_weights *weights;      /* they fit the net */
    const char *weights_path;
    const char **names;         /* of all classes, "" for one without a name; NULL: no class has a name */
    struct export_options options;
};

/* Write the file. Returns an exit code, after a message unless it is EXIT_CODE_OK; the caller discards a part of the
 * output that was written. */
typedef int export_writer(const struct export_subject *subject, struct export_output *output);

#endif
