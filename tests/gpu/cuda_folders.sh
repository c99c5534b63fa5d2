# Sourced by the scripts that run our programs where CUDA's libraries may be only those of PyTorch's packages.

# cuda_folders PYTHON PROGRAM...: the folders of the CUDA libraries that the programs do not find by themselves, joined
# by colons: in the packages of that Python, in /usr/local/cuda, or below /usr/lib. What is nowhere is named on stderr.
# PyTorch itself must not get this path: it has its own way to its libraries.
cuda_folders() {
    site_packages=$("$1" -c 'import importlib.util as u, os; print(os.path.dirname(os.path.dirname(u.find_spec("torch").origin)))' \
        2>/dev/null)
    shift
    # libcublasLt is not linked but loaded at run time, libnvrtc by cuDNN; both are beside the runtime.
    missing=$(for program in "$@"; do ldd "$program" 2>/dev/null; done | awk '/not found/ { print $1 }' | sort -u)
    for library in $missing libcublasLt.so.13; do
        for place in ${site_packages:+"$site_packages/nvidia/"} /usr/local/cuda/ /usr/lib/; do
            library_path=$(find "$place" -name "$library" 2>/dev/null | head -n 1)
            [ -z "$library_path" ] || break
        done
        if [ -n "$library_path" ]; then
            dirname "$library_path"
        else
            echo "there is no $library" >&2
        fi
    done | sort -u | paste -sd:
}
