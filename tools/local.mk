# tools/: the programs
tools_libtools_a_SOURCES = \
	%D%/compare/axes.c \
	%D%/compare/compare.c \
	%D%/compare/compare_report.c \
	%D%/compare/comparison.c \
	%D%/convert/archive_store.c \
	%D%/convert/archive_walk.c \
	%D%/convert/conversion.c \
	%D%/convert/convert_archive.c \
	%D%/convert/convert_cifar.c \
	%D%/convert/convert_csv.c \
	%D%/convert/convert_digits.c \
	%D%/convert/convert_folder.c \
	%D%/convert/convert_mnist.c \
	%D%/convert/convert_npy.c \
	%D%/convert/convert_tfrecord.c \
	%D%/convert/convert_webdataset.c \
	%D%/convert/csv_columns.c \
	%D%/convert/csv_table.c \
	%D%/convert/glyph.c \
	%D%/convert/image_change.c \
	%D%/convert/image_copies.c \
	%D%/convert/image_flaws.c \
	%D%/convert/image_folder.c \
	%D%/convert/image_layout.c \
	%D%/convert/image_repeats.c \
	%D%/convert/image_set.c \
	%D%/convert/image_summary.c \
	%D%/convert/jpeg_write.c \
	%D%/convert/metadata.c \
	%D%/convert/pixel_order.c \
	%D%/convert/record_maker.c \
	%D%/convert/record_queue.c \
	%D%/convert/set_description.c \
	%D%/convert/shard_names.c \
	%D%/convert/shard_set.c \
	%D%/convert/shard_writer.c \
	%D%/convert/siblings.c \
	%D%/convert/splits.c \
	%D%/describe.c \
	%D%/doctor/cores.c \
	%D%/doctor/data.c \
	%D%/doctor/doctor.c \
	%D%/doctor/finding.c \
	%D%/doctor/gpu.c \
	%D%/doctor/libraries.c \
	%D%/doctor/machine.c \
	%D%/doctor/memory.c \
	%D%/doctor/sharing.c \
	%D%/export/export.c \
	%D%/export/export_output.c \
	%D%/export/folded_norm.c \
	%D%/export/onnx_file.c \
	%D%/export/onnx_graph.c \
	%D%/export/onnx_metadata.c \
	%D%/export/python_text.c \
	%D%/export/torch_code.c \
	%D%/export/torch_module.c \
	%D%/export/torch_tree.c \
	%D%/lib/config/intervals.c \
	%D%/lib/config/model_hints.c \
	%D%/lib/config/option_help.c \
	%D%/lib/config/overfit.c \
	%D%/lib/config/pipetrain_options.c \
	%D%/lib/config/price.c \
	%D%/lib/config/program_option.c \
	%D%/lib/config/recipes.c \
	%D%/lib/config/settings_finish.c \
	%D%/lib/config/settings_model.c \
	%D%/lib/config/training.c \
	%D%/lib/cpu_times.c \
	%D%/lib/nvml.c \
	%D%/lib/phase.c \
	%D%/lib/results/checkpoint_format.c \
	%D%/lib/results/checkpoint_reader.c \
	%D%/lib/results/checkpoint_sender.c \
	%D%/lib/results/checkpoint_writer.c \
	%D%/lib/results/class_measures.c \
	%D%/lib/results/earlier_run.c \
	%D%/lib/results/file_list.c \
	%D%/lib/results/initial_weights.c \
	%D%/lib/results/lock_file.c \
	%D%/lib/results/named_classes.c \
	%D%/lib/results/output_locks.c \
	%D%/lib/results/result_file.c \
	%D%/lib/results/results.c \
	%D%/lib/results/run_directory.c \
	%D%/lib/results/run_names.c \
	%D%/lib/results/tensor_file.c \
	%D%/lib/results/tensor_match.c \
	%D%/lib/results/tensor_naming.c \
	%D%/lib/results/tensor_writer.c \
	%D%/lib/results/trained_shards.c \
	%D%/lib/results/weights.c \
	%D%/lib/results/weights_agree.c \
	%D%/lib/run/about.c \
	%D%/lib/run/account.c \
	%D%/lib/run/balanced_order.c \
	%D%/lib/run/best_file.c \
	%D%/lib/run/class_weights.c \
	%D%/lib/run/cost.c \
	%D%/lib/run/energy.c \
	%D%/lib/run/environment.c \
	%D%/lib/run/feed.c \
	%D%/lib/run/memory_needs.c \
	%D%/lib/run/metrics.c \
	%D%/lib/run/observe/event_file.c \
	%D%/lib/run/observe/histogram.c \
	%D%/lib/run/observe/observers.c \
	%D%/lib/run/observe/prometheus.c \
	%D%/lib/run/observe/tensorboard.c \
	%D%/lib/run/parts_gain.c \
	%D%/lib/run/pipeline.c \
	%D%/lib/run/plan_doubts.c \
	%D%/lib/run/progress_display.c \
	%D%/lib/run/ranks/checkpoint_transfer.c \
	%D%/lib/run/ranks/core_share.c \
	%D%/lib/run/ranks/device_share.c \
	%D%/lib/run/ranks/energy_share.c \
	%D%/lib/run/ranks/data_share.c %D%/lib/run/ranks/rank_copy.c %D%/lib/run/ranks/rank_share.c \
	%D%/lib/run/ranks/rank_waits.c \
	%D%/lib/run/ranks/remote_towers.c \
	%D%/lib/run/ranks/shutdown.c \
	%D%/lib/run/ranks/startup_abort.c \
	%D%/lib/run/ranks/startup_check.c \
	%D%/lib/run/ranks/startup_facts.c \
	%D%/lib/run/ranks/startup_report.c \
	%D%/lib/run/report.c \
	%D%/lib/run/run.c \
	%D%/lib/run/run_data.c \
	%D%/lib/run/run_devices.c \
	%D%/lib/run/run_identity.c \
	%D%/lib/run/run_plan.c \
	%D%/lib/run/run_progress.c \
	%D%/lib/run/run_resume.c \
	%D%/lib/run/run_state.c \
	%D%/lib/run/run_trace.c \
	%D%/lib/run/step_stats.c \
	%D%/lib/run/stop_rule.c \
	%D%/lib/run/summary.c \
	%D%/lib/run/team_wait.c \
	%D%/lib/run/tower_pipeline.c \
	%D%/lib/run/trace_file.c \
	%D%/lib/run/verdict.c \
	%D%/lib/signals.c \
	%D%/lib/text/columns.c \
	%D%/lib/text/progress.c \
	%D%/lib/text/progress_line.c \
	%D%/lib/text/terminal.c \
	%D%/lib/text/wrapped.c \
	%D%/lib/trial/trial.c \
	%D%/lib/trial/trial_command.c \
	%D%/lib/trial/trial_process.c \
	%D%/lib/trial/trial_round.c \
	%D%/predict/confusion.c \
	%D%/predict/evaluate.c \
	%D%/predict/evaluation_result.c \
	%D%/predict/found_weights.c \
	%D%/predict/image_decoder.c \
	%D%/predict/image_stream.c \
	%D%/predict/known_names.c \
	%D%/predict/latencies.c \
	%D%/predict/predict.c \
	%D%/predict/predict_images.c \
	%D%/predict/prediction.c \
	%D%/predict/rows_file.c \
	%D%/predict/trained.c \
	%D%/report/page.c \
	%D%/report/report_input.c \
	%D%/report/row_groups.c \
	%D%/shards/command_check.c \
	%D%/shards/command_extract.c \
	%D%/shards/command_head.c \
	%D%/shards/command_catalog.c %D%/shards/command_index.c \
	%D%/shards/command_list.c \
	%D%/shards/command_stats.c \
	%D%/shards/dali_index.c \
	%D%/shards/found_sample.c \
	%D%/shards/image_check.c \
	%D%/shards/scan.c \
	%D%/shards/shard_walk.c \
	%D%/shards/shards_command.c \
	%D%/shards/shards_statistics.c \
	%D%/tune/config_edit.c \
	%D%/tune/tune.c \
	%D%/tune/tune_report.c \
	%D%/tune/tune_result.c

# The options, which are all that libpipetrain-feed needs of these folders, and the names of optimizers in their table.
tools_lib_libsettings_a_SOURCES = \
	%D%/lib/config/config.c \
	%D%/lib/config/data_options.c \
	%D%/lib/config/feed_settings.c \
	%D%/lib/config/hints.c \
	%D%/lib/config/input_checks.c \
	%D%/lib/config/option_needs.c \
	%D%/lib/config/option_value.c \
	%D%/lib/config/options.c \
	%D%/lib/config/pixels.c \
	%D%/lib/config/problems.c \
	%D%/lib/config/settings.c \
	%D%/lib/limits.c \
	%D%/lib/text/number.c \
	%D%/lib/text/quantity.c
tools_lib_libsettings_a_LIBADD = compute/libcompute_a-optimizer.$(OBJEXT)

bin_PROGRAMS = pipetrain pipetrain-convert pipetrain-report pipetrain-shards
pipetrain_SOURCES = %D%/pipetrain.c
pipetrain_LDADD = $(TOOLS)
pipetrain_convert_SOURCES = %D%/convert/convert.c
pipetrain_convert_LDADD = $(TOOLS) $(ARCHIVE_LIBS)
pipetrain_report_SOURCES = %D%/report/report_program.c
pipetrain_report_LDADD = $(TOOLS)
pipetrain_shards_SOURCES = %D%/shards/shards.c
pipetrain_shards_LDADD = $(TOOLS)

# The template of the report page as C: a string for each of its lines. ? is escaped, because ??= is a trigraph.
%D%/report/page_html.inc: %D%/report/page.html
	$(AM_V_GEN)$(MKDIR_P) %D%/report && \
	sed 's/[\\"?]/\\&/g; s/^/"/; s/$$/\\n",/' $(srcdir)/%D%/report/page.html > $@.tmp && mv $@.tmp $@
%D%/report/page.$(OBJEXT): %D%/report/page_html.inc
