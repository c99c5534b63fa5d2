# formats/: bytes <-> values
formats_libformats_a_SOURCES = \
	%D%/class_names.c %D%/compress.c %D%/crc32c.c %D%/csv.c %D%/example.c %D%/html.c %D%/idx.c \
	%D%/image_header.c %D%/json.c %D%/json_label.c %D%/jsonl.c %D%/manifest.c %D%/npy.c %D%/protobuf.c %D%/safetensors.c \
	%D%/split_name.c \
	%D%/tensor_proto.c %D%/tfevent.c %D%/tfrecord.c %D%/unpacker.c
