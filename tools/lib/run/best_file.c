/* Reads the description of the best weights: for a run that is resumed, for its end, and for the commands that use
 * weights. */
#include "tools/lib/run/best_file.h"

#include <errno.h>
#include <unistd.h>

#include "tools/lib/results/checkpoint_format.h"
#include "tools/lib/results/tensor_file.h"

static int read_description(struct best_file *best, const struct safetensors_index *index)
{
    const char *const position_text = safetensors_index_text(index, CHECKPOINT_KEY_POSITION);
    const char *const progress_text = safetensors_index_text(index, CHECKPOINT_KEY_PROGRESS);
    struct position position;
    if (position_text == NULL || progress_text == NULL || checkpoint_position_read(&position, position_text) != 0 ||
        run_progress_read(&best->progress, progress_text) != 0)
        return -ENOENT;
    best->is_checkpoint = safetensors_index_text(index, CHECKPOINT_KEY_VERSION) != NULL;
    best->epoch = checkpoint_epoch(position);
    best->step = position.step;
    return best->progress.best_images > 0 && best->progress.best_step == best->step ? 0 : -ENOENT;
}

int best_file_read(struct best_file *best_out, const char *path, bool verifies)
{
    const struct safetensors_tensor *damaged;
    struct best_file best = { .step = 0 };
    struct tensor_file file;
    char problem[256];
    if (access(path, F_OK) != 0)
        return -ENOENT;
    int rc = tensor_file_open(&file, path, problem, sizeof(problem));
    if (rc != 0)
        return rc;
    rc = read_description(&best, &file.index);
    if (rc == 0 && verifies)
        rc = tensor_file_verify(&file, &damaged);
    tensor_file_close(&file);
    if (rc == 0)
        *best_out = best;
    return rc == -EILSEQ ? -EBADMSG : rc;
}
