#!/bin/sh
# The programs as built: position independent, nothing writable after start, no executable
# stack, and no way to start another program (execv starts this program once more, see
# tools/lib/run/team_wait.h, and nothing else).
set -eu

command -v readelf >/dev/null 2>&1 && command -v nm >/dev/null 2>&1 || { echo 'no readelf or nm here'; exit 77; }
failed=0

expect() {
    if ! printf '%s\n' "$2" | grep -Eq -- "$3"; then
        echo "$program: $1"
        failed=1
    fi
}

refuse() {
    if printf '%s\n' "$2" | grep -Eq -- "$3"; then
        echo "$program: $1"
        failed=1
    fi
}

for program in pipetrain pipetrain-convert pipetrain-report pipetrain-shards; do
    file=$PIPETRAIN_BUILD/$program
    header=$(readelf -hW "$file")
    segments=$(readelf -lW "$file")
    dynamic=$(readelf -dW "$file")
    symbols=$(nm -uD "$file" 2>/dev/null || nm -u "$file")
    expect 'not position independent' "$header" 'Type:[[:space:]]*DYN'
    expect 'no relocation read-only segment' "$segments" 'GNU_RELRO'
    expect 'relocations are not all done at start' "$dynamic" 'BIND_NOW|FLAGS.*NOW'
    expect 'no stack segment' "$segments" 'GNU_STACK'
    refuse 'executable stack' "$segments" 'GNU_STACK.*RWE'
    refuse 'writable and executable segment' "$segments" 'LOAD.*RWE'
    refuse 'can start other programs' "$symbols" ' (system|popen|execl|execle|execlp|execve|execvp|execvpe|fexecve|posix_spawn|posix_spawnp|wordexp)(@|$)'
    if [ "$PIPETRAIN_SANITIZER" = no ]; then
        expect 'no stack protector' "$symbols" ' __stack_chk_fail'
        expect 'no checked copies' "$symbols" ' __[a-z]+_chk(@|$)'
    fi
done
exit $failed
