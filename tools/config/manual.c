/* The manual page around the option table. */
#include "tools/config/manual.h"

#include "stage/stop.h"
#include "tools/config/option_help.h"
#include "tools/config/words/pipetrain_options.h"
#include "tools/phase.h"
#include "tools/version.h"

static const char opening[] =
    ".SH NAME\n"
    "pipetrain \\- train image classifiers from TFRecord shards\n"
    ".SH SYNOPSIS\n"
    ".B pipetrain \\-c\n"
    ".I FILE\n"
    ".RB [ \\-\\-set\n"
    ".IR SECTION . KEY = VALUE ]...\n"
    ".RB [ \\-\\-check | \\-\\-dry\\-run | \\-\\-overfit=\\fIN\\fR ]\n"
    ".br\n"
    ".B pipetrain \\-c\n"
    ".I FILE\n"
    ".BR \\-\\-compare\n"
    ".IR KEY = VALUE , VALUE ...\n"
    ".RI [ OPTION ]...\n"
    ".br\n"
    ".B pipetrain evaluate \\-c\n"
    ".I FILE\n"
    ".RB [ \\-\\-weights\n"
    ".IR FILE ]\n"
    ".br\n"
    ".B pipetrain predict \\-w\n"
    ".I FILE IMAGE...\n"
    ".br\n"
    ".B pipetrain \\-c\n"
    ".I FILE\n"
    ".BR \\-\\-tune [ =\\fISECONDS\\fR ]\n"
    ".RB [ \\-\\-tune\\-write ]\n"
    ".br\n"
    ".BR pipetrain \" \" \\-\\-describe [ =\\fIMODEL\\fR ]\n"
    ".RB [ \\-\\-net ]\n"
    ".RB [ \\-c\n"
    ".IR FILE ]\n"
    ".RB [ \\-\\-set\n"
    ".IR SECTION . KEY = VALUE ]...\n"
    ".br\n"
    ".BR pipetrain \" \" \\-\\-doctor [ =json ]\n"
    ".RB [ \\-c\n"
    ".IR FILE ]\n"
    ".RB [ \\-\\-set\n"
    ".IR SECTION . KEY = VALUE ]...\n"
    ".br\n"
    ".BR pipetrain \" \" \\-\\-help [ =\\fIKEY\\fR ]\n"
    ".SH DESCRIPTION\n"
    "Trains a convolutional network data-parallel over several towers, each a replica of the\n"
    "network, from shards that reader and decoder threads turn into numbered batches ahead of\n"
    "need. The configuration file says what is trained on what; everything else has a default.\n"
    "Wrong settings are reported all at once, each with its line, and nothing is started.\n"
    ".SH COMMANDS\n"
    ".TP\n.B pipetrain evaluate\nEvaluate a trained network on the validation set of a configuration: loss, accuracy,\n"
    "of each class, too, and what is taken for what. See \\fBpipetrain\\-evaluate\\fR(1).\n"
    ".TP\n.B pipetrain predict\nTell what a trained network takes images for: files, folders, shards.\n"
    "See \\fBpipetrain\\-predict\\fR(1).\n"
    ".SH OPTIONS\n";

static const char configuration[] =
    ".SH CONFIGURATION\n"
    "Lines are \\fB[section]\\fR, \\fIkey\\fB = \\fIvalue\\fR or empty. Comments begin with # or ; at the start of\n"
    "a line or after white space; double quotes around a value keep what is inside as it is.\n";

static const struct { int code; const char *meaning; } exit_codes[] = {
    { EXIT_CODE_OK, "done" },
    { EXIT_CODE_INTERNAL, "an error of the program's own" },
    { EXIT_CODE_USAGE, "command line or configuration are wrong" },
    { EXIT_CODE_DATA, "input is missing, unreadable, or damaged beyond the limit" },
    { EXIT_CODE_MEMORY, "not enough memory, or no thread to be had" },
    { EXIT_CODE_OUTPUT, "results could not be written" },
    { EXIT_CODE_STALL, "a device does not answer within \\fBsync.deadline\\fR, or a trial run does not end" },
    { EXIT_CODE_DEVICE, "a device failed" },
    { EXIT_CODE_NONFINITE, "the loss is not a finite number" },
    { EXIT_CODE_UNLEARNT, "\\-\\-overfit: the samples were not learnt" },
    { EXIT_CODE_STOPPED, "ended early by SIGTERM, SIGHUP or SIGUSR1, results saved" },
    { EXIT_CODE_INTERRUPTED, "ended early by SIGINT, results saved, or at once by two signals" },
};

static const char signals[] =
    ".SH SIGNALS\n"
    "\\fBSIGTERM\\fR, \\fBSIGINT\\fR, \\fBSIGHUP\\fR and \\fBSIGUSR1\\fR ask the run to end: the step it is in\n"
    "is finished and the results are saved. Before the first step nothing is written. A second \\fBSIGTERM\\fR or\n"
    "\\fBSIGINT\\fR ends the process at once with 130; \\fBSIGHUP\\fR and \\fBSIGUSR1\\fR never do, as often as\n"
    "they come. What is\n"
    "ignored when the program starts, as by\n.BR nohup (1),\nstays ignored.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B PIPETRAIN_PHASES\n"
    "The number of an open descriptor: a line is written there when a phase begins, without ever waiting for who\n"
    "reads. The phases are";

static const char closing[] =
    ".SH FILES\n"
    "Results are written to \\fBrun.dir\\fR: \\fIsummary.json\\fR, \\fImetrics.jsonl\\fR, the resolved\n"
    "\\fIrun.conf\\fR, with \\fBmodel.file\\fR \\fIrun.net\\fR, and \\fIweights.safetensors\\fR;\n"
    "with \\fBdata.on_corrupt\\fR = skip\n"
    "\\fIquarantine.jsonl\\fR, a line for each damaged record; with \\fBcheckpoint.every\\fR,\n"
    "and where the run was asked to stop, \\fIcheckpoint-*.safetensors\\fR, from which the same command\n"
    "goes on, and with \\fBcheckpoint.keep_best\\fR\n\\fIbest.safetensors\\fR, the state of the best evaluation.\n"
    ".SH SEE ALSO\n"
    ".BR pipetrain\\-convert (1),\n"
    ".BR pipetrain\\-evaluate (1),\n"
    ".BR pipetrain\\-predict (1),\n"
    ".BR pipetrain\\-report (1),\n"
    ".BR pipetrain\\-shards (1)\n";

void manual_write(FILE *out)
{
    fprintf(out, ".TH PIPETRAIN 1 \"\" \"pipetrain %s\"\n", PIPETRAIN_VERSION);
    fputs(opening, out);
    program_option_manual(pipetrain_options, out);
    fputs(configuration, out);
    option_help_manual(out);
    fputs(".SH EXIT STATUS\n", out);
    for (size_t i = 0; i < sizeof(exit_codes) / sizeof(*exit_codes); i++)
        fprintf(out, ".TP\n.B %d\n%s\n", exit_codes[i].code, exit_codes[i].meaning);
    fputs(signals, out);
    for (enum run_phase phase = 0; phase < RUN_PHASE_COUNT; phase++)
        fprintf(out, "%s \\fI%s\\fR", phase == 0 ? "" : ",", phase_name(phase));
    fputs(".\n", out);
    fputs(closing, out);
}
