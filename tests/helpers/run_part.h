/* A part of a training run, for programs that are a process of their own: a whole pipeline from
 * fixture shards to towers, that may begin from a file and leave one behind. The file is the
 * test's own: places, sums and the state of every tower as it is, the plain form of parameters
 * one after the other. */
#ifndef PIPETRAIN_RUN_PART_H
#define PIPETRAIN_RUN_PART_H

/* Records of the fixture sets FOLDER/train and FOLDER/validation, which the caller writes. */
enum { RUN_PART_TRAIN = 91, RUN_PART_VALIDATION = 23 };

/* The arguments of main: PROGRAM part FOLDER BEGIN NAME UNTIL [SECTION.KEY=VALUE]...
 *
 * Train as the settings say, from the state in FOLDER/BEGIN.state on, or from the start when BEGIN
 * is "-". UNTIL says what is saved: "end", the state the run ends with; "asked=N", the same, and
 * when batch N is reported the run is asked to stop; "step=N", the state behind training step N,
 * while the run continues, and the process ends some batches later. What was trained and evaluated
 * up to the checkpoint is printed line by line in FOLDER/NAME.train and FOLDER/NAME.evaluate, the
 * state is FOLDER/NAME.state.
 *
 * Returns the exit code, 0 when all went well; messages go to stderr. */
int run_part_main(int argc, char **argv);

#endif
