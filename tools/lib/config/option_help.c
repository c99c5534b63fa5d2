/* --help, --help=NAME and the manual page, from the option table. */
#include "tools/lib/config/option_help.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "stage/stop.h"
#include "stage/text/names.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/pipetrain_options.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/phase.h"
#include "tools/lib/version.h"

/* ---- the option table ---- */

#define KEY_COLUMN 18
#define VALUE_TEXT_SIZE 128
#define HELP_TEXT_SIZE 512

/* The length of the singular of a unit: "batches" 5, "steps" 4. */
static int singular_bytes(const char *unit)
{
    const size_t bytes = strlen(unit);
    return (int)bytes - (bytes > 4 && strcmp(unit + bytes - 4, "ches") == 0 ? 2 : 1);
}

/* Write the default with its unit: "4 batches", "1 batch", "chosen"; "" for none. */
static void default_text(const struct option_row *option, char *text, size_t text_size)
{
    if (option->initial_note != NULL)
        snprintf(text, text_size, "%s", option->initial_note);
    else if (option->unit == NULL || *option->initial == '\0')
        snprintf(text, text_size, "%s", option->initial);
    else
        snprintf(text, text_size, "%s %.*s", option->initial,
                 strcmp(option->initial, "1") == 0 ? singular_bytes(option->unit) : (int)strlen(option->unit),
                 option->unit);
}

/* Print the help of an option: wrapped on a terminal; otherwise one line for each key, for grep. */
static void help_line(FILE *out, const struct option_row *option)
{
    char initial[VALUE_TEXT_SIZE], text[HELP_TEXT_SIZE];
    default_text(option, initial, sizeof(initial));
    snprintf(text, sizeof(text), *initial == '\0' ? "%s%s" : "%s [%s]", option->help, initial);
    fprintf(out, "  %-*s", KEY_COLUMN, option->key);
    if (out == stdout && isatty(STDOUT_FILENO))
        program_help_words(text, KEY_COLUMN + 2, KEY_COLUMN + 2, out);
    else
        fputs(text, out);
    fputc('\n', out);
}

static void help_section(FILE *out, enum section section)
{
    fprintf(out, "[%s] %s\n", section_name(section), section_help(section));
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (option->section == section)
            help_line(out, option);
}

static void help_option(FILE *out, const struct option_row *option)
{
    char range[256], text[VALUE_TEXT_SIZE];
    option_range(option, range, sizeof(range));
    default_text(option, text, sizeof(text));
    fprintf(out, "%s.%s: %s\n", section_name(option->section), option->key, option->help);
    if (*range != '\0')
        fprintf(out, "  allowed: %s\n", range);
    if (option->unit != NULL)
        fprintf(out, "  unit:    %s\n", option->unit);
    if (option->initial_note != NULL && *option->initial != '\0')
        fprintf(out, "  default: %s (%s)\n", option->initial, option->initial_note);
    else
        fprintf(out, "  default: %s\n", *text == '\0' ? "none" : text);
}

void option_help_all(FILE *out)
{
    for (enum section section = 0; section < SECTION_COUNT; section++) {
        if (section > 0)
            fputc('\n', out);
        help_section(out, section);
    }
}

/* Whether `name` is "section.key" or "key" of the option. */
static int is_called(const struct option_row *option, const char *name)
{
    const char *section = section_name(option->section);
    const size_t section_bytes = strlen(section);
    if (strncmp(name, section, section_bytes) == 0 && name[section_bytes] == '.')
        name += section_bytes + 1;
    return strcmp(option->key, name) == 0;
}

/* Report an unknown option, with a suggestion. */
static int unknown_name(const char *name, struct problems *problems)
{
    const char *dot = strchr(name, '.');
    struct nearest nearest = { .name = dot == NULL ? name : dot + 1 };
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        nearest_offer(&nearest, option->key, option);
    const struct option_row *near = nearest.best;
    if (near == NULL)
        problems_add(problems, "--help", "there is no option '%.80s'", name);
    else
        problems_add(problems, "--help", "there is no option '%.80s' (did you mean '%s.%s'?)", name,
                     section_name(near->section), near->key);
    return -EINVAL;
}

int option_help_one(FILE *out, const char *name, struct problems *problems)
{
    if (strcmp(name, "man") == 0) {
        manual_write(out);
        return 0;
    }
    const enum section section = section_find(name);
    if (section != SECTION_COUNT) {
        help_section(out, section);
        return 0;
    }
    int found = 0;
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (is_called(option, name)) {
            help_option(out, option);
            found++;
        }
    return found > 0 ? 0 : unknown_name(name, problems);
}

static void manual_option(FILE *out, const struct option_row *option)
{
    char range[256], text[VALUE_TEXT_SIZE];
    option_range(option, range, sizeof(range));
    default_text(option, text, sizeof(text));
    fprintf(out, ".TP\n.B %s\n", option->key);
    program_manual_text(option->help, out);
    if (*range != '\0') {
        fputs(".\nAllowed: ", out);
        program_manual_text(range, out);
    }
    if (*text != '\0') {
        fputs(".\nDefault: ", out);
        program_manual_text(text, out);
    }
    fputs(".\n", out);
}

void option_help_manual(FILE *out)
{
    enum section section = SECTION_COUNT;
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        if (option->section != section)
            fprintf(out, ".SS [%s] %s\n", section_name(option->section), section_help(option->section));
        section = option->section;
        manual_option(out, option);
    }
}

/* ---- the manual page ---- */

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
    ".B pipetrain export \\-w\n"
    ".I FILE\n"
    ".B \\-o\n"
    ".I FILE\n"
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
    "Trains a convolutional network data-parallel on several towers, each a replica of the\n"
    "network. Reader and decoder threads prefetch batches from shards. The configuration file\n"
    "sets the network and the data; everything else has a default. All wrong settings are\n"
    "reported together, each with its line, before anything starts.\n"
    ".PP\n"
    "Started by mpirun, or by srun in a job of Slurm, several processes train one network together, also on several\n"
    "machines. Each of them has \\fBdevices.towers\\fR towers, and the first one prints and writes:\n"
    ".PP\n.nf\n.RS\n"
    "mpirun \\-n 2 pipetrain \\-c run.conf\n"
    ".RE\n.fi\n"
    ".SH COMMANDS\n"
    ".TP\n.B pipetrain evaluate\nEvaluate a trained network on the validation set of a configuration: loss,\n"
    "accuracy, also of each class, and the confusion matrix. See \\fBpipetrain\\-evaluate\\fR(1).\n"
    ".TP\n.B pipetrain predict\nClassify images with a trained network: files, folders, shards.\n"
    "See \\fBpipetrain\\-predict\\fR(1).\n"
    ".TP\n.B pipetrain export\nWrite a trained network as a file for other programs: an ONNX model.\n"
    "See \\fBpipetrain\\-export\\fR(1).\n"
    ".SH OPTIONS\n";

static const char configuration[] =
    ".SH CONFIGURATION\n"
    "Lines are \\fB[section]\\fR, \\fIkey\\fB = \\fIvalue\\fR or empty. Comments begin with # or ; at the start of\n"
    "a line or after white space; text in double quotes is used as it is.\n";

static const struct { int code; const char *meaning; } exit_codes[] = {
    { EXIT_CODE_OK, "done" },
    { EXIT_CODE_INTERNAL, "an error of the program's own" },
    { EXIT_CODE_USAGE, "command line or configuration are wrong" },
    { EXIT_CODE_DATA, "input is missing, unreadable, or damaged beyond the limit" },
    { EXIT_CODE_MEMORY, "not enough memory, or no thread to be had" },
    { EXIT_CODE_OUTPUT, "results could not be written" },
    { EXIT_CODE_STALL, "a device, or another process of the run, does not answer within \\fBsync.deadline\\fR, or a "
                       "trial\nrun does not end" },
    { EXIT_CODE_DEVICE, "a device failed" },
    { EXIT_CODE_RANK, "another process of the run failed (mpirun, srun)" },
    { EXIT_CODE_NONFINITE, "the loss is not a finite number" },
    { EXIT_CODE_UNLEARNT, "\\-\\-overfit: the samples were not learnt" },
    { EXIT_CODE_STOPPED, "ended early by SIGTERM, SIGHUP or SIGUSR1, results saved" },
    { EXIT_CODE_INTERRUPTED, "ended early by SIGINT, results saved, or at once by two signals" },
};

static const char signals[] =
    ".SH SIGNALS\n"
    "\\fBSIGTERM\\fR, \\fBSIGINT\\fR, \\fBSIGHUP\\fR and \\fBSIGUSR1\\fR stop the run after the current\n"
    "step, with all results saved. Before the first step, nothing is written. A second \\fBSIGTERM\\fR or\n"
    "\\fBSIGINT\\fR ends the process at once with status 130; \\fBSIGHUP\\fR and \\fBSIGUSR1\\fR never do.\n"
    "Signals that are ignored when the program starts, as by\n.BR nohup (1),\nstay ignored.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B PIPETRAIN_PHASES\n"
    "The number of an open file descriptor, to which a line is written when a phase begins, without waiting for\n"
    "the reader. The phases are";

static const char closing[] =
    ".SH FILES\n"
    "Results are written to \\fBrun.dir\\fR: \\fIsummary.json\\fR, \\fImetrics.jsonl\\fR, the resolved\n"
    "\\fIrun.conf\\fR, with \\fBmodel.file\\fR \\fIrun.net\\fR, \\fIweights.safetensors\\fR, and where the run\n"
    "evaluates \\fIbest.safetensors\\fR, the weights of the best evaluation, or with \\fBcheckpoint.keep_best\\fR =\n"
    "checkpoint the whole checkpoint;\n"
    "with \\fBdata.on_corrupt\\fR = skip\n"
    "\\fIquarantine.jsonl\\fR, a line for each damaged record; with \\fBcheckpoint.every\\fR,\n"
    "and after a signal, \\fIcheckpoint-*.safetensors\\fR, from which the same command\n"
    "resumes.\n"
    ".SH SEE ALSO\n"
    ".BR pipetrain\\-convert (1),\n"
    ".BR pipetrain\\-evaluate (1),\n"
    ".BR pipetrain\\-export (1),\n"
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
