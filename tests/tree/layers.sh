#!/bin/sh
# Layers only look down: which of the top folders each one may include. The order of the archives at the link proves the
# same for functions.
cd "$(dirname "$0")/../.." || exit 99
failed=0
while read -r folder below; do
    allowed=$(echo $folder/ $below | tr ' ' '|')
    if grep -rnE --include='*.[ch]' --include='*.cu' --include='*.cuh' '#include "[a-z_]+/' "$folder" | grep -vE "#include \"($allowed)"; then
        echo "  ^ $folder may include only: $folder $below"; failed=1
    fi
done <<'END'
formats stage/text/utf8.h
stage
loader formats/ stage/
compute stage/
sync compute/ stage/
tools formats/ stage/ loader/ compute/ sync/
END
# The loader for other programs is above the loader and the table of options.
if grep -rnE --include='*.[ch]' '#include "[a-z_]+/' tools/feed | grep -vE '#include "(formats|stage|loader|tools/feed|tools/lib/config|tools/lib/text)/|#include "tools/lib/[a-z_]*\.h"'; then
    echo '  ^ tools/feed may include only: tools/feed formats stage loader, and of tools/lib config, text and the files beside them'
    failed=1
fi
# The trainer's own library does not know the programs and commands beside it.
if grep -rnE --include='*.[ch]' '#include "tools/' tools/lib | grep -v '#include "tools/lib/'; then
    echo '  ^ tools/lib may include of tools/ only: tools/lib'; failed=1
fi
# Inside the library: its own files are below all folders but text.
below=text
for folder in config results run trial; do
    below="$below|$folder"
    if grep -rnE --include='*.[ch]' '#include "tools/lib/[a-z_]+/' "tools/lib/$folder" | grep -vE "#include \"tools/lib/($below)/"; then
        echo "  ^ tools/lib/$folder may include of tools/lib/*/ only: $below"; failed=1
    fi
done
if grep -nE '#include "tools/lib/' tools/lib/text/*.[ch] tools/lib/*.[ch] | grep -vE '^tools/lib/text/[^:]*:[0-9]*:#include "tools/lib/text/|^tools/lib/[a-z_]*\.[ch]:[0-9]*:#include "tools/lib/(text/)?[a-z_]*\.h"'; then
    echo '  ^ of tools/lib, text may include only text, and the files beside the folders only each other and text'; failed=1
fi
exit $failed
