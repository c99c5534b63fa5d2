/* Putting a set of shards in the place of another so that one of the two is always there. All new files are complete
 * and synced under temporary names when the new manifest becomes MANIFEST_COMMIT_FILE, which is one renaming: until
 * then the old set is whole, and from then on the new one, which the marker lists, is only ever rolled forward: the old
 * manifest goes, the shards get their names, those that the set does not have go, and last the marker becomes the
 * manifest. What is cut short or fails in between is taken up by set_commit_resume. Called by main, the folder
 * locked. */
#ifndef PIPETRAIN_SET_COMMIT_H
#define PIPETRAIN_SET_COMMIT_H

#include <stdbool.h>

#include "tools/convert/set_folder.h"

#define SET_COMMIT_MANIFEST ".dataset.json.tmp"     /* the new manifest before the commit */

/* Refuse a folder in which something other than a file has the name of a shard or of the manifest, before anything is
 * lost: it could be neither replaced nor removed. 0, or a negative errno after stop_fail. */
int set_commit_check(const struct set_folder *folder);
/* Commit what SET_COMMIT_MANIFEST, synced like the shards it lists, says; `text` is what it holds. *begun_out, set in
 * all cases: the old set has been given up, and what is temporary must stay. 0, or a negative errno after stop_fail. */
int set_commit_run(struct set_folder *folder, const char *text, bool *begun_out);
/* Finish a commit that another run began here, if there is one, and say so. 0, or a negative errno after stop_fail:
 * then what is temporary must stay. */
int set_commit_resume(struct set_folder *folder);
/* The same for a directory that is to be read, which is opened and locked only where a commit was begun; what is no
 * directory has none. */
int set_commit_resume_in(const char *path, struct stop *stop);

#endif
