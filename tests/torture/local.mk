# tests/torture/: programs run while something fails. The libraries that are preloaded into them are built without a
# sanitizer, because their functions come before its own.
script_programs += %D%/torture
script_tests += %D%/test_torture.sh
%C%_torture_SOURCES = %D%/torture.c %D%/scenario.c %D%/tree.c %D%/disk.c %D%/group.c %D%/child.c %D%/judge.c %D%/trial.c \
	%D%/plan_calls.c %D%/plan_power.c %D%/plan_times.c %D%/plan_world.c %D%/power_disk.c %D%/power_log.c
%C%_torture_LDADD = $(LOADER) $(JANSSON_LIBS)
%C%_torture_DEPENDENCIES = stage/libstage.a loader/libloader.a %D%/faults.so %D%/recorder.so
EXTRA_DIST += %D%/faults.c %D%/recorder.c
CLEANFILES += %D%/faults.so %D%/recorder.so
%D%/faults.so %D%/recorder.so: %D%/%.so: $(srcdir)/%D%/%.c $(srcdir)/%D%/board.h $(srcdir)/%D%/op_log.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -shared -fPIC \
	$(if $(filter-out no,$(SANITIZER)),-DHAVE_SANITIZER) -o $@ $< -ldl

# A share of all trials, or what TORTURE says: --all for all of them, which takes hours.
TORTURE = -n 2
check-torture: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS= && $(AM_TESTS_ENVIRONMENT) \
	%D%/torture -b '$(abs_top_builddir)' $(TORTURE)
.PHONY: check-torture
