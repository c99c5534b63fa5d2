/* A part of a training run, for tests that start processes: a whole pipeline from fixture shards to towers, which may
 * begin from a file and save one. The file has a format of its own: positions, sums, and the parameters and states of
 * every tower in the plain layout. */
#ifndef PIPETRAIN_RUN_PART_H
#define PIPETRAIN_RUN_PART_H

/* Records of the fixture sets FOLDER/train and FOLDER/validation, which the caller writes. */
enum { RUN_PART_TRAIN = 91, RUN_PART_VALIDATION = 23 };

/* The arguments of main: PROGRAM part FOLDER BEGIN NAME UNTIL [SECTION.KEY=VALUE]...
 *
 * Train as the settings say, from the state in FOLDER/BEGIN.state, or from the start if BEGIN is "-". UNTIL says which
 * state is saved: "end", that at the end of the run; "asked=N", the same, of a run that is asked to stop when batch N
 * is reported; "step=N", that after training step N, while the run continues, and the process ends some batches later.
 * The results up to that state are written to FOLDER/NAME.train and FOLDER/NAME.evaluate, line by line, the state to
 * FOLDER/NAME.state.
 *
 * Returns the exit code; messages go to stderr. */
int run_part_main(int argc, char **argv);

#endif
