# tools/feed/: the loader as a library for other programs
noinst_LIBRARIES += %D%/libfeed.a
tools_feed_libfeed_a_SOURCES = %D%/feed.c %D%/feed_facts.c %D%/feed_open.c %D%/feed_state.c %D%/supply.c
include_HEADERS = %D%/pipetrain-feed.h
FEED = %D%/libfeed.a tools/lib/libsettings.a $(LOADER)

# libpipetrain-feed: these functions with what they call of the objects that programs consist of, too. The link leaves out
# functions that no exported one calls, and fails where one is missing (those of a sanitizer are in the program).
FEED_LIBRARY = libpipetrain-feed.so.0
feed_map = $(srcdir)/%D%/pipetrain-feed.map
feed_link = -shared -Wl,-soname,$(FEED_LIBRARY) -Wl,--version-script,$(feed_map) -Wl,-Bsymbolic -Wl,--gc-sections \
	-Wl,--as-needed $(if $(filter no,$(SANITIZER)),-Wl$(comma)-z$(comma)defs)
comma = ,
feedlibdir = $(libdir)
feedlib_DATA = $(FEED_LIBRARY)
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = pipetrain-feed.pc
$(FEED_LIBRARY): $(filter %.a,$(FEED)) $(feed_map)
	$(AM_V_CCLD)$(CC) $(LANGUAGE_CFLAGS) $(SANITIZER_CFLAGS) $(CFLAGS) $(filter-out -pie,$(HARDENING_LDFLAGS)) $(LDFLAGS) \
	$(feed_link) -o $@ -Wl,--whole-archive $(firstword $(FEED)) -Wl,--no-whole-archive $(wordlist 2,99,$(FEED)) $(LIBS)
# Installs the library alone: what it does not need is not built.
feed_link_name = $(LN_S) -f $(FEED_LIBRARY) libpipetrain-feed.so
install-feed: install-feedlibDATA install-includeHEADERS install-pkgconfigDATA
	cd '$(DESTDIR)$(libdir)' && $(feed_link_name)
uninstall-feed: uninstall-feedlibDATA uninstall-includeHEADERS uninstall-pkgconfigDATA
	rm -f '$(DESTDIR)$(libdir)/libpipetrain-feed.so'
.PHONY: install-feed uninstall-feed
