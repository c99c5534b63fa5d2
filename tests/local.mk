# tests/: every program is one source of its name, and links what its folder may use: the helpers
# it calls, the layer it tests and what is below. LDADD has another value for each list of tests.
check_LIBRARIES = %D%/helpers/libhelpers.a
%C%_helpers_libhelpers_a_SOURCES = \
	%D%/feed/feed_fixture.c %D%/fuzz/fuzz_driver.c %D%/helpers/device_memory.c %D%/helpers/encoded_codec.c %D%/helpers/example_fixture.c %D%/helpers/fake_mpi.c \
	%D%/helpers/file_fixture.c %D%/helpers/hex_block.c %D%/helpers/loader_harness.c %D%/helpers/memory_source.c \
	%D%/helpers/network/model_look.c %D%/helpers/network/net_compare.c %D%/helpers/network/network.c \
	%D%/helpers/network/network_check.c %D%/helpers/network/network_distance.c %D%/helpers/network/network_graph.c %D%/helpers/network/tower_fixture.c %D%/helpers/packed_fixture.c \
	%D%/helpers/reduce_bench.c %D%/helpers/run_part.c %D%/helpers/tar_fixture.c %D%/helpers/test_device_kind.c \
	%D%/helpers/tfrecord_fixture.c %D%/helpers/trainer_fixture.c %D%/helpers/zip_maker.c %D%/stage/device_rig.c %D%/tools/run_directory_fixture.c
HELPERS = %D%/helpers/libhelpers.a $(CMOCKA_LIBS)
LDADD = $(FORMATS)

formats_tests = %D%/formats/test_class_names %D%/formats/test_compress %D%/formats/test_crc32c %D%/formats/test_csv \
	%D%/formats/test_example %D%/formats/test_example_conformance %D%/formats/test_idx \
	%D%/formats/test_image_header %D%/formats/test_json %D%/formats/test_manifest %D%/formats/test_npy \
	%D%/formats/test_protobuf %D%/formats/test_safetensors %D%/formats/test_split_name %D%/formats/test_tfevent \
	%D%/formats/test_tfrecord %D%/formats/test_unpacker
$(formats_tests): LDADD = $(HELPERS) $(FORMATS)

stage_tests = %D%/stage/test_accents %D%/stage/test_address_space %D%/stage/test_cpus %D%/stage/test_decimal %D%/stage/test_device \
	%D%/stage/test_device_events %D%/stage/test_file %D%/stage/test_folders %D%/stage/test_log %D%/stage/test_output \
	%D%/stage/test_queue %D%/stage/test_random %D%/stage/test_ring %D%/stage/test_schedule %D%/stage/test_slots \
	%D%/stage/test_stop %D%/stage/test_thread %D%/stage/test_trace %D%/stage/test_utf8 %D%/stage/test_watchdog
$(stage_tests): LDADD = $(HELPERS) $(STAGE)

loader_fuzz = %D%/fuzz/fuzz_catalog %D%/fuzz/fuzz_class_names %D%/fuzz/fuzz_csv %D%/fuzz/fuzz_example \
	%D%/fuzz/fuzz_example_reference %D%/fuzz/fuzz_idx %D%/fuzz/fuzz_image \
	%D%/fuzz/fuzz_image_header %D%/fuzz/fuzz_json_label %D%/fuzz/fuzz_jsonl %D%/fuzz/fuzz_manifest %D%/fuzz/fuzz_npy %D%/fuzz/fuzz_packed \
	%D%/fuzz/fuzz_safetensors %D%/fuzz/fuzz_shard_index %D%/fuzz/fuzz_tfrecord
loader_tests = %D%/loader/test_augment %D%/loader/test_catalog %D%/loader/test_corruption %D%/loader/test_cursor %D%/loader/test_dataset \
	%D%/loader/test_dataset_features %D%/loader/test_dataset_survey %D%/loader/test_dataset_shards %D%/loader/test_decode_context %D%/loader/test_duplicates \
	%D%/loader/test_encoded %D%/loader/test_integer_image %D%/loader/test_jpeg %D%/loader/test_numbers \
	%D%/loader/test_pixel_survey \
	%D%/loader/test_class_text %D%/loader/test_kept_index %D%/loader/test_label %D%/loader/test_lanes \
	%D%/loader/test_layouts \
	%D%/loader/test_loader %D%/loader/test_mixing %D%/loader/test_operations %D%/loader/test_order %D%/loader/test_orientation %D%/loader/test_packed %D%/loader/test_pattern \
	%D%/loader/test_png %D%/loader/test_raw %D%/loader/test_read_batch %D%/loader/test_resize %D%/loader/test_sample \
	%D%/loader/test_scale %D%/loader/test_set_part %D%/loader/test_shard_counts %D%/loader/test_shard_index \
	%D%/loader/test_shard_list %D%/loader/test_shard_source %D%/loader/test_split_folder %D%/loader/test_tensor_image
if HAVE_PROTOBUF_C
nodist_%C%_fuzz_fuzz_example_reference_SOURCES = %D%/fuzz/example_reference.pb-c.c
%C%_fuzz_fuzz_example_reference_SOURCES = %D%/fuzz/fuzz_example_reference.c
%C%_fuzz_fuzz_example_reference_CPPFLAGS = $(AM_CPPFLAGS) -DHAVE_PROTOBUF_C -I%D%/fuzz $(PROTOBUF_C_CFLAGS)
%C%_fuzz_fuzz_example_reference_LDADD = $(HELPERS) $(LOADER) $(PROTOBUF_C_LIBS)
%D%/fuzz/fuzz_example_reference-fuzz_example_reference.$(OBJEXT): %D%/fuzz/example_reference.pb-c.c
%D%/fuzz/example_reference.pb-c.c: %D%/fuzz/example_reference.proto
	$(AM_V_GEN)$(MKDIR_P) %D%/fuzz && \
	$(PROTOC_C) --proto_path=$(srcdir)/%D%/fuzz --c_out=%D%/fuzz $(srcdir)/%D%/fuzz/example_reference.proto
endif
$(loader_tests) $(loader_fuzz): LDADD = $(HELPERS) $(LOADER)

compute_tests = %D%/compute/test_activations %D%/compute/test_arena %D%/compute/test_average %D%/compute/test_counts %D%/compute/test_dropout \
	%D%/compute/test_evaluation %D%/compute/test_frozen \
	%D%/compute/test_fusion %D%/compute/test_graph %D%/compute/test_groups %D%/compute/test_init %D%/compute/test_layer_values \
	%D%/compute/test_layers %D%/compute/test_learning_rate %D%/compute/test_models \
	%D%/compute/test_net %D%/compute/test_net_difference %D%/compute/test_net_file \
	%D%/compute/test_optimizer %D%/compute/test_precisions %D%/compute/test_residual %D%/compute/test_share \
	%D%/compute/test_skip %D%/compute/loss/test_class_weights \
	%D%/compute/loss/test_mixing %D%/compute/loss/test_smoothing %D%/compute/test_snapshot \
	%D%/compute/test_squares %D%/compute/test_team %D%/compute/test_tower %D%/compute/test_tower_parts \
	%D%/compute/test_trajectories %D%/compute/test_update %D%/compute/test_param_groups %D%/compute/test_part_norms \
	%D%/compute/test_values
if HAVE_ONEDNN
compute_tests += %D%/compute/test_bf16 %D%/compute/onednn/test_convolutions %D%/compute/onednn/test_depthwise \
	%D%/compute/test_growing %D%/compute/test_norm_loops \
	%D%/compute/onednn/test_onednn \
	%D%/compute/test_jit_memory %D%/compute/test_winograd
onednn_scripts = %D%/compute/older_cpus.sh
endif
compute_fuzz = %D%/fuzz/fuzz_net_file
$(compute_tests) $(compute_fuzz): LDADD = $(HELPERS) $(COMPUTE)

sync_tests = \
	%D%/sync/ranks/test_abort_notice \
	%D%/sync/ranks/test_launcher \
	%D%/sync/ranks/test_rank_sums \
	%D%/sync/ranks/test_ranks \
	%D%/sync/ranks/test_server_link \
	%D%/sync/test_averaging \
	%D%/sync/test_bucket \
	%D%/sync/test_failing_towers \
	%D%/sync/test_frozen_towers \
	%D%/sync/test_gate \
	%D%/sync/test_halves \
	%D%/sync/test_parts \
	%D%/sync/test_reduce \
	%D%/sync/test_class_weights \
	%D%/sync/test_relaxed \
	%D%/sync/test_server \
	%D%/sync/test_servers \
	%D%/sync/test_shown \
	%D%/sync/test_snapshot_pool \
	%D%/sync/test_staleness_rate \
	%D%/sync/test_step_clock \
	%D%/sync/test_sync \
	%D%/sync/test_trainer
$(sync_tests): LDADD = $(HELPERS) $(SYNC) $(CUPTI_LIBS)

tools_fuzz = %D%/fuzz/fuzz_archive %D%/fuzz/fuzz_cifar %D%/fuzz/fuzz_config %D%/fuzz/fuzz_shards \
	%D%/fuzz/fuzz_webdataset
tools_tests = \
	%D%/tools/compare/test_axes \
	%D%/tools/compare/test_comparison \
	%D%/tools/doctor/test_doctor \
	%D%/tools/doctor/test_sharing \
	%D%/tools/export/test_onnx \
	%D%/tools/export/test_torch_module \
	%D%/tools/observe/test_event_file \
	%D%/tools/observe/test_histogram \
	%D%/tools/observe/test_trace_file \
	%D%/tools/ranks/test_checkpoint_transfer %D%/tools/ranks/test_rank_copy \
	%D%/tools/ranks/test_many_ranks \
	%D%/tools/ranks/test_rank_share \
	%D%/tools/ranks/test_rank_waits \
	%D%/tools/ranks/test_remote_towers \
	%D%/tools/ranks/test_shutdown \
	%D%/tools/ranks/test_startup_check \
	%D%/tools/report/test_report_input \
	%D%/tools/report/test_row_groups \
	%D%/tools/results/test_initial_weights \
	%D%/tools/results/test_saved_parts \
	%D%/tools/results/test_tensor_file \
	%D%/tools/results/test_tensor_match \
	%D%/tools/results/test_tensor_naming \
	%D%/tools/test_about \
	%D%/tools/test_account \
	%D%/tools/test_archive_walk \
	%D%/tools/test_cgroup \
	%D%/tools/test_class_weights \
	%D%/tools/test_checkpoint \
	%D%/tools/test_columns \
	%D%/tools/test_config \
	%D%/tools/test_confusion %D%/tools/test_latencies \
	%D%/tools/test_convert_files \
	%D%/tools/test_convert_npy \
	%D%/tools/test_cost \
	%D%/tools/test_dali_index \
	%D%/tools/test_energy \
	%D%/tools/test_feed_settings \
	%D%/tools/test_found_sample \
	%D%/tools/test_glyph \
	%D%/tools/test_image_change \
	%D%/tools/test_image_check \
	%D%/tools/test_image_copies \
	%D%/tools/test_limits \
	%D%/tools/test_memory_fit \
	%D%/tools/test_memory_needs \
	%D%/tools/test_metrics \
	%D%/tools/test_options \
	%D%/tools/test_parts_gain \
	%D%/tools/test_pixel_order \
	%D%/tools/test_pixels \
	%D%/tools/test_price \
	%D%/tools/test_progress \
	%D%/tools/test_quantity \
	%D%/tools/test_recipes \
	%D%/tools/test_record_queue \
	%D%/tools/test_report \
	%D%/tools/test_resume \
	%D%/tools/test_run_devices \
	%D%/tools/test_run_directory \
	%D%/tools/test_run_files \
	%D%/tools/test_run_plan \
	%D%/tools/test_scan \
	%D%/tools/test_set_commit \
	%D%/tools/test_shards_statistics \
	%D%/tools/test_siblings \
	%D%/tools/test_splits \
	%D%/tools/test_step_stats \
	%D%/tools/test_stop_rule \
	%D%/tools/test_training \
	%D%/tools/test_verdict \
	%D%/tools/test_weights \
	%D%/tools/test_wrapped \
	%D%/tools/trial/test_trial \
	%D%/tools/tune/test_config_edit \
	%D%/tools/tune/test_tune_result
$(tools_tests) $(tools_fuzz): LDADD = $(HELPERS) $(TOOLS)
%D%/fuzz/fuzz_archive %D%/fuzz/fuzz_cifar %D%/fuzz/fuzz_webdataset %D%/tools/test_archive_walk \
	%D%/tools/test_convert_files %D%/tools/test_convert_npy: LDADD = $(HELPERS) $(TOOLS) $(ARCHIVE_LIBS)
feed_tests = %D%/feed/test_feed %D%/feed/test_feed_memory %D%/feed/test_feed_order \
	%D%/feed/test_option_extremes
$(feed_tests): LDADD = $(HELPERS) $(FEED)
script_programs = %D%/feed/order_hash examples/feed
%C%_feed_order_hash_LDADD = $(FEED)
examples_feed_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tools/feed
examples_feed_LDADD = $(FEED)
# Calls that the test sees, and that fail when it says so.
wrap = -Wl,--wrap=
%C%_fuzz_fuzz_cifar_LDFLAGS = $(AM_LDFLAGS) $(wrap)log_message
%C%_fuzz_fuzz_webdataset_LDFLAGS = $(AM_LDFLAGS) $(wrap)log_message
%C%_loader_test_catalog_LDFLAGS = $(AM_LDFLAGS) $(wrap)open
%C%_loader_test_kept_index_LDFLAGS = $(AM_LDFLAGS) $(wrap)ftruncate
%C%_cuda_test_cudnn_conv_LDFLAGS = $(AM_LDFLAGS) $(wrap)nanosleep
%C%_stage_test_file_LDFLAGS = $(AM_LDFLAGS) $(wrap)close $(wrap)fsync
%C%_stage_test_thread_LDFLAGS = $(AM_LDFLAGS) $(wrap)pthread_create
%C%_stage_test_watchdog_LDFLAGS = $(AM_LDFLAGS) $(wrap)pthread_cond_timedwait
%C%_sync_test_staleness_rate_LDFLAGS = $(AM_LDFLAGS) $(wrap)reduce_server_fetch $(wrap)reduce_server_push
%C%_tools_test_run_directory_LDFLAGS = $(AM_LDFLAGS) $(wrap)flock $(wrap)calloc $(wrap)fstatvfs \
	$(wrap)renameat $(wrap)unlinkat
%C%_tools_observe_test_trace_file_LDFLAGS = $(AM_LDFLAGS) $(wrap)file_read_some
%C%_sync_ranks_test_server_link_LDFLAGS = $(AM_LDFLAGS) $(wrap)server_fetch $(wrap)server_link_fetch $(wrap)server_link_push \
	$(wrap)server_push
rank_sums_wraps = $(wrap)memfd_create $(wrap)thread_start
%C%_sync_ranks_test_rank_sums_LDFLAGS = $(AM_LDFLAGS) $(rank_sums_wraps)
%C%_sync_ranks_test_ranks_LDFLAGS = $(AM_LDFLAGS) $(wrap)calloc $(wrap)gethostname $(wrap)getpid $(wrap)memfd_create \
	$(wrap)munmap $(wrap)pthread_cond_wait
%C%_sync_ranks_test_abort_notice_LDFLAGS = $(AM_LDFLAGS) $(wrap)clock_gettime $(wrap)launcher_abort
%C%_tools_test_set_commit_LDFLAGS = $(AM_LDFLAGS) $(wrap)fsync $(wrap)renameat $(wrap)unlinkat
%C%_tools_ranks_test_many_ranks_LDFLAGS = $(AM_LDFLAGS) $(wrap)aligned_alloc $(wrap)calloc $(wrap)gethostname $(wrap)open
%C%_tools_ranks_test_rank_copy_LDFLAGS = $(AM_LDFLAGS) $(wrap)ranks_flush $(wrap)ranks_receive $(wrap)ranks_send_all
%C%_tools_ranks_test_checkpoint_transfer_LDFLAGS = $(AM_LDFLAGS) $(wrap)ranks_rank $(wrap)ranks_receive $(wrap)ranks_send \
	$(wrap)ranks_send_all
%C%_feed_test_feed_memory_LDFLAGS = $(AM_LDFLAGS) $(wrap)malloc $(wrap)calloc $(wrap)realloc $(wrap)aligned_alloc
%C%_tools_test_weights_LDFLAGS = $(AM_LDFLAGS) $(wrap)malloc $(wrap)calloc $(wrap)realloc

script_programs += %D%/e2e/decode_image %D%/e2e/json_value %D%/e2e/model_steps %D%/e2e/run_at %D%/e2e/shard_maker \
	%D%/e2e/observe/event_dump %D%/e2e/resume/option_rows %D%/e2e/resume/tensors_near %D%/e2e/trace/trace_check \
	%D%/e2e/use/jpeg_maker %D%/e2e/limits/pipetrain_slow %D%/peers/apply_operations
%C%_e2e_decode_image_LDADD = $(LOADER)
%C%_e2e_observe_event_dump_LDADD = $(FORMATS)
%C%_e2e_resume_option_rows_LDADD = $(TOOLS)
%C%_e2e_use_jpeg_maker_LDADD = $(TOOLS)
%C%_peers_apply_operations_LDADD = $(LOADER)
%C%_e2e_limits_pipetrain_slow_SOURCES = tools/pipetrain.c %D%/e2e/limits/slow.c
%C%_e2e_limits_pipetrain_slow_LDADD = $(TOOLS)
%C%_e2e_limits_pipetrain_slow_LDFLAGS = $(slow_ldflags)
slow_ldflags = $(AM_LDFLAGS) $(wrap)read_batch_run $(wrap)sample_read $(wrap)host_call \
	$(wrap)team_run $(wrap)host_copy $(wrap)tower_forward $(wrap)tower_backward $(wrap)tower_update $(wrap)report_interval $(wrap)fsync \
	$(wrap)energy_open $(wrap)energy_read
%C%_e2e_model_steps_LDADD = $(HELPERS) $(COMPUTE)
if HAVE_ONEDNN
script_programs += %D%/compute/onednn/few_graphs
%C%_compute_onednn_few_graphs_LDADD = $(HELPERS) $(COMPUTE)
endif
# Of several processes, which no other test may run beside: make check-cluster.
cluster_tests = %D%/cluster/equal.sh %D%/cluster/async.sh %D%/cluster/files.sh %D%/cluster/start.sh %D%/cluster/launchers.sh %D%/cluster/hosts.sh \
    %D%/cluster/devices.sh %D%/cluster/slurm.sh %D%/cluster/ends.sh %D%/cluster/parts.sh %D%/cluster/cost.sh \
    %D%/cluster/slow_rank.sh \
    %D%/cluster/sim_equal.sh %D%/cluster/sim_async.sh %D%/cluster/sim_hosts.sh %D%/cluster/sim_ends.sh %D%/cluster/sim_nccl.sh \
    %D%/cluster/sim_parts.sh %D%/cluster/sim_killed.sh
# Of the sources, whatever they are built into.
tree_tests = %D%/tree/format.sh %D%/tree/layers.sh
script_tests = \
	%D%/cluster/sim_ipc.sh \
	%D%/cluster/sim_two.sh \
	%D%/e2e/sim_batches.sh \
	%D%/e2e/sim_gpu.sh \
	%D%/e2e/sim_networks.sh \
	%D%/e2e/sim_statistics.sh \
	%D%/e2e/sim_threads.sh \
	%D%/e2e/sim_towers.sh \
	%D%/e2e/e2e_accumulate.sh \
	%D%/e2e/e2e_allocations.sh \
	%D%/e2e/e2e_augment.sh \
	%D%/e2e/e2e_bad_input.sh \
	%D%/e2e/e2e_batches.sh \
	%D%/e2e/e2e_catalog.sh \
	%D%/e2e/e2e_cli.sh \
	%D%/e2e/e2e_class_weights.sh \
	%D%/e2e/e2e_doubts.sh \
	%D%/e2e/e2e_ema.sh \
	%D%/e2e/e2e_environment.sh \
	%D%/e2e/e2e_hang.sh \
	%D%/e2e/e2e_many_shards.sh \
	%D%/e2e/e2e_memory.sh \
	%D%/e2e/e2e_mixing.sh \
	%D%/e2e/e2e_train_size.sh \
	%D%/e2e/e2e_models.sh \
	%D%/e2e/e2e_networks.sh \
	%D%/e2e/e2e_outputs.sh \
	%D%/e2e/e2e_phases.sh \
	%D%/e2e/resume/e2e_options.sh \
	%D%/e2e/resume/e2e_other_towers.sh \
	%D%/e2e/resume/e2e_parts.sh \
	%D%/e2e/resume/e2e_resume.sh \
	%D%/e2e/resume/e2e_states.sh \
	%D%/e2e/e2e_signals.sh \
	%D%/e2e/sync/e2e_sync.sh \
	%D%/e2e/e2e_lanes.sh \
	%D%/e2e/e2e_parts_settings.sh \
	%D%/e2e/e2e_parts_bits.sh \
	%D%/e2e/e2e_slices.sh \
	%D%/e2e/e2e_threads.sh \
	%D%/e2e/e2e_towers.sh \
	%D%/e2e/e2e_unread.sh \
	%D%/e2e/hardening.sh \
	%D%/feed/feed_order.sh \
	%D%/e2e/compare/e2e_compare.sh \
	%D%/e2e/tune/e2e_tune.sh \
	%D%/e2e/limits/e2e_images.sh \
	%D%/e2e/limits/e2e_limits.sh \
	%D%/e2e/ends/e2e_best.sh \
	%D%/e2e/ends/e2e_best_by.sh \
	%D%/e2e/ends/e2e_ends.sh \
	%D%/e2e/ends/e2e_lengths.sh \
	%D%/e2e/ends/e2e_moved.sh \
	%D%/e2e/ends/e2e_nan.sh \
	%D%/e2e/ends/e2e_overfit.sh \
	%D%/e2e/ends/e2e_stall.sh \
	%D%/e2e/ends/e2e_stop.sh \
	%D%/e2e/observe/e2e_histograms.sh \
	%D%/e2e/observe/sim_histograms.sh \
	%D%/e2e/observe/e2e_prometheus.sh \
	%D%/e2e/observe/e2e_tensorboard.sh \
	%D%/e2e/trace/e2e_trace.sh \
	%D%/e2e/trace/sim_trace.sh \
	%D%/e2e/use/sim_predict_stream.sh \
	%D%/e2e/use/e2e_add_model.sh \
	%D%/e2e/use/e2e_classes.sh \
	%D%/e2e/use/e2e_evaluate.sh \
	%D%/e2e/use/e2e_export.sh \
	%D%/e2e/use/e2e_export_torch.sh \
	%D%/e2e/use/e2e_fine_tune.sh \
	%D%/e2e/use/e2e_predict.sh \
	%D%/e2e/use/e2e_predict_outputs.sh \
	%D%/e2e/use/e2e_predict_stream.sh \
	%D%/e2e/use/e2e_unused.sh \
	%D%/e2e/use/e2e_weights_agree.sh \
	%D%/e2e/use/e2e_report.sh \
	%D%/e2e/use/e2e_report_browser.sh \
	%D%/feed/feed_library.sh \
	%D%/gpu/test_first_light.sh \
	%D%/gpu/test_gpu_table.sh \
	%D%/e2e/use/e2e_doctor.sh \
	%D%/e2e/use/e2e_cost.sh \
	%D%/e2e/use/e2e_manual.sh \
	%D%/e2e/use/e2e_terminal.sh \
	%D%/e2e/test_convert.sh \
	%D%/e2e/test_convert_files.sh \
	%D%/e2e/test_convert_metadata.sh \
	%D%/e2e/test_convert_parquet.sh \
	%D%/e2e/test_convert_samples.sh \
	%D%/e2e/test_convert_unreadable.sh \
	%D%/peers/test_operations.sh \
	%D%/tools/test_python.sh \
	%D%/peers/test_pytorch.sh \
	%D%/e2e/test_real_images.sh \
	%D%/e2e/test_real_shards.sh \
	%D%/e2e/test_shards.sh \
	%D%/peers/test_tensorboard.sh \
	%D%/peers/test_tensorflow.sh \
	%D%/peers/test_torchvision.sh \
	$(onednn_scripts) \
	$(tree_tests)

fuzz_tests = $(loader_fuzz) $(compute_fuzz) $(tools_fuzz)
unit_tests = $(formats_tests) $(stage_tests) $(loader_tests) $(compute_tests) $(sync_tests) $(tools_tests) $(feed_tests) $(sim_tests)
program_tests = $(unit_tests) $(sim_twins) $(fuzz_tests)
if HAVE_TESTS
check_PROGRAMS = $(unit_tests) $(fuzz_tests) $(script_programs)
check_SCRIPTS = $(sim_twins)
# Scripts take longer and begin first, so that none ends alone.
all_tests = $(script_tests) $(program_tests)
TESTS = $(all_tests)
# Where threads meet: what continuous integration runs under the thread sanitizer (check-tsan runs all). The threads of
# the converters meet in the tests of tools.
threaded_tests = %D%/e2e/e2e_towers.sh %D%/e2e/e2e_threads.sh %D%/e2e/e2e_phases.sh %D%/e2e/e2e_signals.sh \
	%D%/e2e/test_shards.sh \
	$(stage_tests) $(sim_stage_tests) $(sim_stage_twins) $(filter-out %/test_bucket,$(sync_tests)) \
	$(filter %/test_snapshot_pool_sim,$(sim_sync_twins)) \
	%D%/loader/test_dataset %D%/loader/test_decode_context %D%/loader/test_loader %D%/loader/test_packed \
	%D%/loader/test_read_batch %D%/loader/test_shard_source \
	%D%/compute/test_snapshot %D%/compute/test_team %D%/compute/test_tower \
	%D%/tools/test_convert_files %D%/tools/test_record_queue %D%/tools/test_scan $(feed_tests)
# Under the address and undefined sanitizers in continuous integration (check-asan runs all): the test programs, but for
# those that compute long and touch no memory that another one does not, and the scripts in which the programs read and
# write the most kinds of files and end in the most ways. Kernels are tested one by one, and in backends and layers.
long_programs = %D%/compute/test_winograd %D%/compute/test_growing %D%/compute/test_activations %D%/compute/onednn/test_convolutions \
	%D%/compute/test_update_sim %D%/compute/test_frozen_sim %D%/compute/test_graph_sim %D%/compute/test_precisions_sim \
	%D%/compute/test_activations_sim tests/cuda/test_cuda_launches tests/cuda/test_cudnn_models \
	tests/cuda/test_cudnn_fused tests/cuda/test_cudnn_planning %D%/fuzz/fuzz_cifar \
	%D%/tools/test_resume %D%/tools/test_resume_sim $(filter-out %/test_snapshot_pool_sim,$(sim_sync_twins))
sanitized_tests = $(filter-out $(long_programs),$(program_tests)) %D%/e2e/sim_gpu.sh %D%/e2e/e2e_bad_input.sh %D%/e2e/e2e_cli.sh \
	%D%/e2e/e2e_outputs.sh %D%/e2e/resume/e2e_states.sh %D%/e2e/trace/e2e_trace.sh %D%/e2e/use/e2e_predict.sh \
	%D%/e2e/test_convert.sh %D%/e2e/test_convert_files.sh %D%/e2e/test_convert_metadata.sh %D%/e2e/test_convert_samples.sh \
	%D%/e2e/test_convert_unreadable.sh %D%/e2e/test_shards.sh
check-local: check-TESTS
	@$(SHELL) $(top_srcdir)/%D%/slowest.sh $(TEST_LOGS:.log=.trs)
else
check-local:
	@echo 'make check needs cmocka: install libcmocka-dev, then configure again' >&2; exit 1
endif
.SECONDEXPANSION:
$(program_tests): $$(filter %.a %.$(OBJEXT),$$(LDADD))

TEST_EXTENSIONS = .sh
SH_LOG_COMPILER = $(SHELL)
# With the seconds that each took; the slowest are listed at the end.
timed_driver = $(SHELL) $(top_srcdir)/%D%/driver.sh $(top_srcdir)/build-aux/test-driver
LOG_DRIVER = $(timed_driver)
SH_LOG_DRIVER = $(timed_driver)
AM_TESTS_ENVIRONMENT = export PIPETRAIN_BUILD='$(abs_top_builddir)' PIPETRAIN_SANITIZER='$(SANITIZER)' \
	PIPETRAIN_CONVERT='$(abs_top_builddir)/pipetrain-convert' \
	PIPETRAIN_CPPFLAGS='$(ONEDNN_CPPFLAGS) $(CUDA_CPPFLAGS)' PIPETRAIN_COMPILE='$(COMPILE)' \
	PIPETRAIN_LINK='$(CCLD) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS)' \
	PIPETRAIN_LIBRARIES='$(TOOLS) $(LIBS)' PIPETRAIN_TEST_LIBRARIES='$(HELPERS) $(COMPUTE) $(LIBS)' \
	LSAN_OPTIONS='suppressions=$(abs_top_srcdir)/%D%/leak.supp:print_suppressions=0' \
	TSAN_OPTIONS='suppressions=$(abs_top_srcdir)/%D%/thread.supp';
