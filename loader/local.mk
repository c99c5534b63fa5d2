# loader/: shard files -> full batches
loader_libloader_a_SOURCES = \
	%D%/shards/catalog.c %D%/shards/index_file.c %D%/shards/packed_shard.c %D%/shards/packed_stream.c %D%/shards/pattern.c \
	%D%/shards/range_crc.c %D%/shards/read_batch.c %D%/shards/shard_file.c %D%/shards/shard_index.c \
	%D%/shards/shard_kind.c %D%/shards/shard_list.c %D%/shards/shard_records.c %D%/shards/shard_source.c %D%/shards/text.c \
	%D%/dataset.c %D%/dataset_open.c %D%/dataset_probe.c %D%/dataset_shards.c %D%/dataset_start.c %D%/dataset_survey.c %D%/label_table.c \
	%D%/class_census.c %D%/class_text.c %D%/duplicates.c %D%/index_share.c %D%/set_names.c %D%/shard_counts.c %D%/shard_store.c %D%/window_store.c \
	%D%/augment/apply.c %D%/augment/augment.c %D%/augment/colour.c %D%/augment/mixing.c \
	%D%/augment/operations.c %D%/augment/policy.c \
	%D%/images/encoded.c %D%/images/image_memory.c %D%/images/jpeg.c %D%/images/numbers.c %D%/images/orientation.c \
	%D%/images/pixel_row.c %D%/images/pixel_survey.c %D%/images/png.c %D%/images/raw.c %D%/images/resize.c %D%/images/scale.c \
	%D%/images/scale_axis.c %D%/images/scale_kernels.c %D%/images/stored_pixels.c %D%/images/tensor_image.c \
	%D%/cursor.c %D%/damage.c %D%/label.c %D%/order.c %D%/record.c %D%/sample.c \
	%D%/reader.c %D%/decoder.c %D%/loader.c %D%/loader_libraries.c
if HAVE_LIBURING
loader_libloader_a_SOURCES += %D%/shards/read_ring.c
else
loader_libloader_a_SOURCES += %D%/shards/read_ring_none.c
endif
