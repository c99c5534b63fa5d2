# tools/feed/: the loader as a library for other programs
noinst_LIBRARIES += %D%/libfeed.a
tools_feed_libfeed_a_SOURCES = %D%/feed.c %D%/feed_facts.c %D%/feed_open.c %D%/feed_state.c %D%/supply.c
include_HEADERS = %D%/pipetrain-feed.h
FEED = tools/feed/libfeed.a $(TOOLS)
