/* Decoding images for predictions. Called by decoding threads. */
#include "tools/predict/image_decoder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/images/image.h"
#include "loader/images/orientation.h"
#include "stage/file/file.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)

int image_decoder_open(struct image_decoder *decoder, const struct run_plan *plan)
{
    *decoder = (struct image_decoder){ .plan = plan };
    return image_encoded_ops.open(&decoder->codec);
}

void image_decoder_close(struct image_decoder *decoder)
{
    if (decoder->codec != NULL)
        image_encoded_ops.close(decoder->codec);
    scratch_release(&decoder->file);
}

int image_decoder_bytes(struct image_decoder *decoder, const void *bytes, size_t byte_count, uint64_t number,
                        uint8_t *pixels, char problem[IMAGE_PROBLEM_BYTES])
{
    const struct batch_layout *const layout = &decoder->plan->layout;
    const struct batch_image *const sample = &layout->of[PHASE_EVALUATE];
    const struct orientation orientation = orientation_of(bytes, byte_count);
    const struct stored_image image = {
        .bytes = bytes,
        .byte_count = byte_count,
        .height.said = IMAGE_SIZE_UNSAID,
        .width.said = IMAGE_SIZE_UNSAID,
        .channels.said = IMAGE_SIZE_UNSAID,
    };
    const struct image_request request = {
        .augment = &decoder->plan->augment,
        .phase = PHASE_EVALUATE,
        .position = number,
        .shape = { sample->height, sample->width, layout->channels },
    };
    problem[0] = '\0';
    decoder->is_turned = !orientation_is_upright(&orientation);
    return image_encoded_ops.decode(decoder->codec, &image, &request, pixels, problem, IMAGE_PROBLEM_BYTES);
}

/* ---- a file ---- */

static int read_open(struct image_decoder *decoder, int fd, size_t *bytes_out, char *problem)
{
    struct stat status = { .st_size = 0 };
    int rc = fstat(fd, &status) == 0 ? 0 : -errno;
    if (rc == 0 && !S_ISREG(status.st_mode)) {
        snprintf(problem, IMAGE_PROBLEM_BYTES, "is %s, not a file",
                 S_ISDIR(status.st_mode) ? "a folder" : file_kind(status.st_mode));
        return -EBADMSG;
    }
    const size_t bytes = (size_t)status.st_size;
    if (rc == 0 && bytes > FILE_BYTES_MAX)
        rc = -EFBIG;
    if (rc == 0 && scratch_need(&decoder->file, bytes + 1) == NULL)
        rc = -ENOMEM;
    if (rc == 0)
        rc = file_read_whole(fd, decoder->file.memory, bytes);
    *bytes_out = bytes;
    if (rc != 0)
        snprintf(problem, IMAGE_PROBLEM_BYTES, "cannot be read: %s",
                 rc == -EBADMSG ? "it changed while it was read" : strerror(-rc));
    return rc;
}

static int read_file(struct image_decoder *decoder, const char *path, size_t *bytes_out, char *problem)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(problem, IMAGE_PROBLEM_BYTES, "cannot be read: %s", strerror(errno));
        return -ENODATA;
    }
    const int rc = read_open(decoder, fd, bytes_out, problem);
    close(fd);
    return rc;
}

int image_decoder_file(struct image_decoder *decoder, const char *path, uint64_t number, uint8_t *pixels,
                       char problem[IMAGE_PROBLEM_BYTES])
{
    size_t bytes;
    decoder->is_turned = false;
    if (read_file(decoder, path, &bytes, problem) != 0)
        return -EBADMSG;
    return image_decoder_bytes(decoder, decoder->file.memory, bytes, number, pixels, problem);
}
