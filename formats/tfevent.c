/* Encoding TensorBoard's events: the fields of the Event, Summary and HParamsPluginData messages that are used here.
 * Called by the observers of a run. */
#include "formats/tfevent.h"

#include <string.h>

#include "formats/tfrecord.h"

#define VERSION_TEXT "brain.Event:2"

enum event_field {
    EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7
};
enum session_field { SESSION_STATUS = 1 };
enum { SESSION_STATUS_START = 1 };
enum { SUMMARY_VALUE = 1 };
enum value_field { VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_HISTOGRAM = 5, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum histogram_field {
    HISTOGRAM_LEAST = 1, HISTOGRAM_MOST = 2, HISTOGRAM_COUNT = 3, HISTOGRAM_SUM = 4, HISTOGRAM_SQUARES = 5,
    HISTOGRAM_LIMITS = 6, HISTOGRAM_COUNTS = 7
};
enum tensor_field { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRINGS = 8 };
enum { SHAPE_DIMENSION = 2, DIMENSION_SIZE = 1 };
enum { TYPE_FLOAT = 1, TYPE_STRING = 7 };
enum metadata_field { METADATA_PLUGIN = 1, METADATA_CLASS = 4 };
enum { PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };
enum { CLASS_TENSOR = 2 };
enum { CONTENT_SESSION_BEGIN = 3, CONTENT_SESSION_END = 4 };
enum session_begin_field { BEGIN_PARAMETER = 1, BEGIN_GROUP = 4, BEGIN_TIME = 5 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { END_STATUS = 1, END_TIME = 2 };
enum { END_STATUS_SUCCESS = 1 };

enum { WORTH_NUMBER = 2, WORTH_WORDS = 3, WORTH_FLAG = 4 };     /* fields of google.protobuf.Value */

void tfevent_init(struct tfevent *event)
{
    proto_init(&event->proto);
    event->has_summary = false;
}

void tfevent_release(struct tfevent *event)
{
    proto_release(&event->proto);
}

int tfevent_reserve(struct tfevent *event, size_t bytes)
{
    return proto_reserve(&event->proto, bytes);
}

void tfevent_begin(struct tfevent *event, double wall_time, uint64_t step)
{
    static const uint8_t header[TFRECORD_HEADER_BYTES];
    proto_reset(&event->proto);
    event->has_summary = false;
    proto_raw(&event->proto, header, sizeof(header));
    proto_double(&event->proto, EVENT_WALL_TIME, wall_time);
    if (step > 0)
        proto_varint(&event->proto, EVENT_STEP, step);
}

void tfevent_version(struct tfevent *event)
{
    proto_string(&event->proto, EVENT_FILE_VERSION, VERSION_TEXT);
}

void tfevent_start(struct tfevent *event)
{
    proto_open_message(&event->proto, EVENT_SESSION_LOG);
    proto_varint(&event->proto, SESSION_STATUS, SESSION_STATUS_START);
    proto_close_message(&event->proto);
}

static void open_value(struct tfevent *event, const char *tag)
{
    if (!event->has_summary)
        proto_open_message(&event->proto, EVENT_SUMMARY);
    event->has_summary = true;
    proto_open_message(&event->proto, SUMMARY_VALUE);
    proto_string(&event->proto, VALUE_TAG, tag);
}

void tfevent_scalar(struct tfevent *event, const char *tag, float value)
{
    open_value(event, tag);
    proto_float(&event->proto, VALUE_SIMPLE, value);
    proto_close_message(&event->proto);
}

void tfevent_histogram(struct tfevent *event, const char *tag, const struct tfevent_histogram *histogram)
{
    struct proto *const proto = &event->proto;
    open_value(event, tag);
    proto_open_message(proto, VALUE_HISTOGRAM);
    proto_double(proto, HISTOGRAM_LEAST, histogram->least);
    proto_double(proto, HISTOGRAM_MOST, histogram->most);
    proto_double(proto, HISTOGRAM_COUNT, histogram->count);
    proto_double(proto, HISTOGRAM_SUM, histogram->sum);
    proto_double(proto, HISTOGRAM_SQUARES, histogram->squares);
    proto_doubles(proto, HISTOGRAM_LIMITS, histogram->limits, histogram->buckets);
    proto_doubles(proto, HISTOGRAM_COUNTS, histogram->counts, histogram->buckets);
    proto_close_message(proto);
    proto_close_message(proto);
}

/* Begin a one-dimensional tensor with `size` elements and leave its message open. */
static void open_tensor(struct proto *proto, uint64_t type, uint64_t size)
{
    proto_open_message(proto, VALUE_TENSOR);
    proto_varint(proto, TENSOR_TYPE, type);
    proto_open_message(proto, TENSOR_SHAPE);
    proto_open_message(proto, SHAPE_DIMENSION);
    if (size > 0)
        proto_varint(proto, DIMENSION_SIZE, size);
    proto_close_message(proto);
    proto_close_message(proto);
}

void tfevent_text(struct tfevent *event, const char *tag, const char *text)
{
    struct proto *const proto = &event->proto;
    open_value(event, tag);
    open_tensor(proto, TYPE_STRING, 1);
    proto_string(proto, TENSOR_STRINGS, text);
    proto_close_message(proto);
    proto_open_message(proto, VALUE_METADATA);
    proto_open_message(proto, METADATA_PLUGIN);
    proto_string(proto, PLUGIN_NAME, "text");
    proto_close_message(proto);
    proto_varint(proto, METADATA_CLASS, CLASS_TENSOR);
    proto_close_message(proto);
    proto_close_message(proto);
}

/* Begin a value of the hparams plugin and leave its content, the message with this field number, open. */
static void open_session(struct tfevent *event, const char *tag, uint32_t content)
{
    struct proto *const proto = &event->proto;
    open_value(event, tag);
    open_tensor(proto, TYPE_FLOAT, 0);
    proto_close_message(proto);
    proto_open_message(proto, VALUE_METADATA);
    proto_open_message(proto, METADATA_PLUGIN);
    proto_string(proto, PLUGIN_NAME, "hparams");
    proto_open_message(proto, PLUGIN_CONTENT);
    proto_open_message(proto, content);
}

static void close_session(struct tfevent *event)
{
    for (int i = 0; i < 5; i++)         /* five messages: the one in content, content, plugin, metadata, value */
        proto_close_message(&event->proto);
}

void tfevent_open_session(struct tfevent *event)
{
    open_session(event, "_hparams_/session_start_info", CONTENT_SESSION_BEGIN);
}

/* Begin a hyperparameter and leave the message of its value open. */
static void open_entry(struct proto *proto, const char *name)
{
    proto_open_message(proto, BEGIN_PARAMETER);
    proto_string(proto, ENTRY_KEY, name);
    proto_open_message(proto, ENTRY_VALUE);
}

static void close_entry(struct proto *proto)
{
    proto_close_message(proto);
    proto_close_message(proto);
}

void tfevent_number(struct tfevent *event, const char *name, double value)
{
    open_entry(&event->proto, name);
    proto_double(&event->proto, WORTH_NUMBER, value);
    close_entry(&event->proto);
}

void tfevent_words(struct tfevent *event, const char *name, const char *value)
{
    open_entry(&event->proto, name);
    proto_string(&event->proto, WORTH_WORDS, value);
    close_entry(&event->proto);
}

void tfevent_flag(struct tfevent *event, const char *name, bool value)
{
    open_entry(&event->proto, name);
    proto_varint(&event->proto, WORTH_FLAG, value);
    close_entry(&event->proto);
}

void tfevent_close_session(struct tfevent *event, const char *group, double time)
{
    proto_string(&event->proto, BEGIN_GROUP, group);
    proto_double(&event->proto, BEGIN_TIME, time);
    close_session(event);
}

void tfevent_end_session(struct tfevent *event, double time)
{
    open_session(event, "_hparams_/session_end_info", CONTENT_SESSION_END);
    proto_varint(&event->proto, END_STATUS, END_STATUS_SUCCESS);
    proto_double(&event->proto, END_TIME, time);
    close_session(event);
}

const uint8_t *tfevent_frame(struct tfevent *event, size_t *bytes_out)
{
    struct proto *const proto = &event->proto;
    if (event->has_summary)
        proto_close_message(proto);
    event->has_summary = false;
    if (proto->failed != 0)
        return NULL;
    const size_t payload_bytes = proto->count - TFRECORD_HEADER_BYTES;
    uint8_t footer[TFRECORD_FOOTER_BYTES];
    tfrecord_write_header(payload_bytes, proto->bytes);
    tfrecord_write_footer(proto->bytes + TFRECORD_HEADER_BYTES, payload_bytes, footer);
    proto_raw(proto, footer, sizeof(footer));
    if (proto->failed != 0)
        return NULL;
    *bytes_out = proto->count;
    return proto->bytes;
}
