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
# The trainer's own library does not know the programs and commands beside it.
if grep -rnE --include='*.[ch]' '#include "tools/' tools/lib | grep -v '#include "tools/lib/'; then
    echo '  ^ tools/lib may include of tools/ only: tools/lib'; failed=1
fi
exit $failed
