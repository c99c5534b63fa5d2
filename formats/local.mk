# formats/: bytes <-> values
formats_libformats_a_SOURCES = \
	%D%/class_names.c %D%/crc32c.c %D%/dataset_info.c %D%/gunzip.c %D%/gzip_write.c %D%/html.c %D%/lz4_frame.c \
	%D%/example.c %D%/example_values.c %D%/example_write.c %D%/tfrecord.c \
	%D%/idx.c %D%/json.c %D%/manifest.c %D%/safetensors.c %D%/tensor_proto.c
formats_libformats_a_SOURCES += %D%/npy.c %D%/zip.c
formats_libformats_a_SOURCES += %D%/inputs/csv.c %D%/image_header.c %D%/inputs/safetensors_index.c %D%/inputs/tar.c
formats_libformats_a_SOURCES += %D%/packed/container.c %D%/packed/inflater.c %D%/packed/unpacker.c
formats_libformats_a_SOURCES += %D%/events/tfevent.c %D%/events/proto.c
