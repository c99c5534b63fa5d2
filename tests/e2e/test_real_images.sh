#!/bin/sh
# JPEG files that are hard on a decoder: each is decoded to the very pixels of djpeg, the program of libjpeg-turbo, or
# refused with its words or the name of what it is. PIPETRAIN_REAL_DATA names a folder with them in jpeg-edge/;
# doc/conformance.md says where they come from. The files of any folder will do, in folders or not.
. "$(dirname "$0")/e2e.sh"

data=${PIPETRAIN_REAL_DATA:-}
[ -n "$data" ] || skip 'PIPETRAIN_REAL_DATA names no folder of real files'
command -v djpeg >/dev/null 2>&1 || skip 'djpeg (Debian: libjpeg-turbo-progs) is not here'
decode_image=$build/tests/e2e/decode_image
decoded=0 refused=0

# refused_as FILE - the words are those of the library, or name another format, as its first bytes tell
refused_as() {
    expect_code 3 "$1 is refused, as by djpeg"
    case $(head -c 4 "$1" | od -An -tx1 | tr -d ' ') in
        ffd8*) expect_err "holds a JPEG image that cannot be decoded: $(head -n 1 "$work/reference.err")" ;;
        424d*) expect_err 'holds a BMP image: JPEG, PNG and raw pixels can be read' ;;
        50*) expect_err 'holds a PNM image: JPEG, PNG and raw pixels can be read' ;;
        4949* | 4d4d*) expect_err 'holds a TIFF image: JPEG, PNG and raw pixels can be read' ;;
        *) fail "what $1 is should be known to this test" ;;
    esac
    refused=$((refused + 1))
}

# same_pixels FILE REFERENCE
same_pixels() {
    expect_code 0 "$1 is decoded"
    expect_same_file "$work/out" "$2" "pixels of $1"
    decoded=$((decoded + 1))
}

find "$data/jpeg-edge" -type f | sort >"$work/files"
[ -s "$work/files" ] || fail "no file in $data/jpeg-edge"
while read -r file; do
    run "$decode_image" "$file"
    png=$(head -c 4 "$file" | od -An -tx1 | tr -d ' ')
    if djpeg "$file" >"$work/reference" 2>"$work/reference.err"; then
        same_pixels "$file" "$work/reference"
    elif [ "$png" = 89504e47 ] && [ -f "${file%png.jpeg}ppm.jpeg" ]; then
        same_pixels "$file" "${file%png.jpeg}ppm.jpeg"      # the same image
    else
        refused_as "$file"
    fi
done <"$work/files"
echo "$decoded files decoded to the pixels of the reference, $refused refused with words"
finish
