# Sourced by the scripts that run our programs where CUDA's libraries may be only those of PyTorch's packages.

# library_path FOLDER PYTHON PROGRAM...: prints the LD_LIBRARY_PATH for the programs of FOLDER: lib/ of FOLDER, if there
# is one, and the folders of the libraries that the programs do not find without it. These are searched for in the
# packages of that Python, in /usr/local/cuda, and below /usr/lib; a library that is not found is reported on stderr.
# Do not set this path for PyTorch, which finds its own libraries.
library_path() {
    own=${LD_LIBRARY_PATH-}
    [ ! -d "$1/lib" ] || own=$1/lib${own:+:$own}
    python_found=$2
    shift 2
    found=$(cuda_folders "$python_found" "$own" "$@")
    echo "$own${found:+${own:+:}$found}"
}

# cuda_folders PYTHON OWN PROGRAM...: prints the folders of the libraries that the programs lack when their path is OWN.
cuda_folders() {
    site_packages=$("$1" -c 'import importlib.util, os
print(os.path.dirname(os.path.dirname(importlib.util.find_spec("torch").origin)))' 2>/dev/null) || site_packages=
    own_path=$2
    shift 2
    needed=$(for program in "$@"; do
        LD_LIBRARY_PATH=$own_path ldd "$program" 2>/dev/null || :
    done)
    missing=$(echo "$needed" | awk '/not found/ { print $1 }' | sort -u)
    # Loaded at run time: libcublasLt by our programs, libnvrtc by cuDNN. They are beside libcudart, which may be found
    # by LD_LIBRARY_PATH or ld.so.conf. Programs without libcudart are built without CUDA.
    loaded=
    case $needed in
        *libcudart.so*) loaded='libcublasLt.so.13 libnvrtc.so.13' ;;
    esac
    cudart=$(echo "$needed" | awk '$1 ~ /^libcudart/ && $3 ~ /^\// { print $3; exit }')
    for library in $missing $loaded; do
        for place in ${cudart:+"${cudart%/*}/"} ${site_packages:+"$site_packages/nvidia/"} \
            /usr/local/cuda/ /usr/lib/; do
            library_file=$(find "$place" -name "$library" 2>/dev/null | head -n 1)
            [ -z "$library_file" ] || break
        done
        if [ -n "$library_file" ]; then
            dirname "$library_file"
        else
            echo "there is no $library" >&2
        fi
    done | sort -u | paste -sd:
}
