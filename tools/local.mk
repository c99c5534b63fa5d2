# tools/: the programs
tools_libtools_a_SOURCES = \
	%D%/cpu_times.c %D%/describe.c %D%/limits.c %D%/phase.c %D%/signals.c \
	%D%/config/config.c %D%/config/hints.c %D%/config/intervals.c %D%/config/option_help.c \
	%D%/config/option_needs.c %D%/config/option_value.c %D%/config/options.c %D%/config/overfit.c \
	%D%/config/pipetrain_options.c %D%/config/pixels.c %D%/config/problems.c %D%/config/program_option.c \
	%D%/config/recipes.c %D%/config/settings.c %D%/config/settings_model.c %D%/config/training.c \
	%D%/doctor/cores.c %D%/doctor/data.c %D%/doctor/doctor.c %D%/doctor/finding.c %D%/doctor/gpu.c \
	%D%/doctor/libraries.c %D%/doctor/machine.c %D%/doctor/memory.c %D%/doctor/nvml.c \
	%D%/run/about.c \
	%D%/run/account.c \
	%D%/run/conclusion.c \
	%D%/run/core_share.c \
	%D%/run/device_plan.c \
	%D%/run/device_share.c \
	%D%/run/environment.c \
	%D%/run/far_towers.c \
	%D%/run/feed.c \
	%D%/run/launched.c \
	%D%/run/meeting.c %D%/run/meeting_facts.c %D%/run/meeting_report.c \
	%D%/run/memory_plan.c \
	%D%/run/pipeline.c \
	%D%/run/progress_display.c \
	%D%/run/rank_share.c \
	%D%/run/report.c \
	%D%/run/run.c \
	%D%/run/run_data.c \
	%D%/run/run_plan.c \
	%D%/run/run_progress.c \
	%D%/run/run_resume.c \
	%D%/run/run_state.c \
	%D%/run/run_trace.c \
	%D%/run/plan_doubts.c \
	%D%/run/step_stats.c \
	%D%/run/stop_rule.c \
	%D%/run/summary.c \
	%D%/run/state_mail.c %D%/run/team_wait.c \
	%D%/run/tower_pipeline.c \
	%D%/run/trace_file.c \
	%D%/run/verdict.c \
	%D%/run/observe/event_file.c %D%/run/observe/histogram.c %D%/run/observe/observers.c %D%/run/observe/prometheus.c \
	%D%/run/observe/tensorboard.c \
	%D%/results/checkpoint_format.c %D%/results/checkpoint_reader.c %D%/results/checkpoint_sender.c %D%/results/checkpoint_writer.c \
	%D%/results/earlier_run.c %D%/results/file_list.c %D%/results/initial_weights.c %D%/results/named_classes.c %D%/results/trained_shards.c %D%/results/results.c \
	%D%/results/lock_file.c %D%/results/output_locks.c %D%/results/run_directory.c %D%/results/run_names.c %D%/results/tensor_file.c %D%/results/tensor_match.c \
	%D%/results/weights_agree.c \
	%D%/results/weights.c \
	%D%/predict/confusion.c %D%/predict/evaluate.c %D%/predict/evaluation_report.c %D%/predict/inference.c \
	%D%/predict/known_names.c %D%/predict/predict.c %D%/predict/predict_images.c %D%/predict/prediction.c \
	%D%/predict/trained.c \
	%D%/compare/axes.c %D%/compare/compare.c %D%/compare/compare_report.c %D%/compare/comparison.c \
	%D%/trial/trial.c %D%/trial/trial_command.c %D%/trial/trial_process.c \
	%D%/tune/config_edit.c %D%/tune/tune.c %D%/tune/tune_report.c %D%/tune/tune_result.c \
	%D%/text/columns.c %D%/text/number.c %D%/text/progress.c %D%/text/progress_line.c %D%/text/quantity.c %D%/text/terminal.c %D%/text/wrapped.c \
	%D%/convert/archive_walk.c %D%/convert/chunk_board.c %D%/convert/conversion.c \
	%D%/convert/convert_archive.c %D%/convert/convert_cifar.c %D%/convert/convert_csv.c \
	%D%/convert/convert_digits.c %D%/convert/convert_folder.c %D%/convert/convert_mnist.c %D%/convert/convert_npy.c \
	%D%/convert/convert_tfrecord.c %D%/convert/csv_columns.c %D%/convert/csv_table.c %D%/convert/glyph.c %D%/convert/image_change.c \
	%D%/convert/image_copies.c %D%/convert/image_flaws.c %D%/convert/image_folder.c %D%/convert/image_layout.c %D%/convert/image_repeats.c %D%/convert/image_set.c %D%/convert/image_tally.c %D%/convert/jpeg_write.c \
	%D%/convert/pixel_order.c \
	%D%/convert/record_maker.c %D%/convert/set_description.c %D%/convert/shard_set.c %D%/convert/shard_writer.c \
	%D%/convert/siblings.c %D%/convert/splits.c \
	%D%/report/page.c %D%/report/report_input.c \
	%D%/shards/command_check.c %D%/shards/command_extract.c %D%/shards/command_head.c %D%/shards/command_index.c \
	%D%/shards/command_list.c %D%/shards/command_stats.c %D%/shards/dali_index.c %D%/shards/found_sample.c \
	%D%/shards/image_check.c %D%/shards/result_file.c %D%/shards/scan.c \
	%D%/shards/shard_walk.c %D%/shards/shards_command.c %D%/shards/shards_statistics.c

bin_PROGRAMS = pipetrain pipetrain-convert pipetrain-report pipetrain-shards
pipetrain_SOURCES = %D%/pipetrain.c
pipetrain_LDADD = $(TOOLS)
pipetrain_convert_SOURCES = %D%/convert/convert.c
pipetrain_convert_LDADD = $(TOOLS) $(ARCHIVE_LIBS)
pipetrain_report_SOURCES = %D%/report/report_program.c
pipetrain_report_LDADD = $(TOOLS)
pipetrain_shards_SOURCES = %D%/shards/shards.c
pipetrain_shards_LDADD = $(TOOLS)

# The template of the report page as C: a string for each of its lines.
%D%/report/page_html.inc: %D%/report/page.html
	$(AM_V_GEN)$(MKDIR_P) %D%/report && \
	sed 's/[\\"]/\\&/g; s/^/"/; s/$$/\\n",/' $(srcdir)/%D%/report/page.html > $@.tmp && mv $@.tmp $@
%D%/report/page.$(OBJEXT): %D%/report/page_html.inc
