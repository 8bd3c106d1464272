#!/usr/bin/env bash
# The programs that are given to people, with all that goes with them.
#
#   packaging/build.sh [x86_64] [aarch64] [windows] [macos]
#
# Where none is named: those whose tools are there, and x86_64 in any case.
# Takes minutes, and so is no part of .ci/run. Needs, as Debian names them:
# musl-tools for x86_64; gcc-aarch64-linux-gnu, musl-dev:arm64 (or its headers,
# see below) and qemu-user-static for aarch64; gcc-mingw-w64-x86-64 and wine64 for
# windows; a Mac, or a compiler and a linker with Apple's SDK, for macos; zstd, file and
# python3 to check.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=$((15 * 1000 * 1000)) # bytes a program may have
out=${OUT:-target/package}
target_dir=${CARGO_TARGET_DIR:-target}
# Headers of musl for aarch64. Without them as a package of the system's:
#   apt-get download musl-dev:arm64 && dpkg -x musl-dev_*_arm64.deb DIR
#   AARCH64_MUSL_INCLUDE=DIR/usr/include/aarch64-linux-musl
aarch64_include=${AARCH64_MUSL_INCLUDE:-/usr/include/aarch64-linux-musl}

fail() { echo "packaging/build.sh: $*" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }
need() { command -v "$1" >/dev/null || fail "$1 is missing (Debian: $2)"; }

# Paths of the machine that builds are no part of what is built.
home=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=coremap --remap-path-prefix=$home=cargo"

# target_of NAME: the compiler's name for it.
target_of() {
    case $1 in
    x86_64 | aarch64) echo "$1-unknown-linux-musl" ;;
    windows) echo x86_64-pc-windows-gnu ;;
    macos) echo aarch64-apple-darwin ;;
    *) fail "no such system: $1" ;;
    esac
}

# program_of NAME: the file that is given to people.
program_of() {
    case $1 in
    windows) echo coremap-x86_64-windows.exe ;;
    macos) echo coremap-aarch64-macos ;;
    *) echo "coremap-$1-linux" ;;
    esac
}

# build NAME: compile for it.
build() {
    local target
    target=$(target_of "$1")
    rustup target list --installed 2>/dev/null | grep -qx "$target" || rustup target add "$target"
    case $1 in
    x86_64)
        need musl-gcc musl-tools
        ;;
    aarch64)
        need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
        [ -e "$aarch64_include/stdio.h" ] || fail "no musl headers in $aarch64_include (Debian: musl-dev:arm64)"
        # The compiler is made for glibc: its headers would name glibc's functions.
        local own
        own=$(aarch64-linux-gnu-gcc -print-file-name=include)
        export CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_musl=aarch64-linux-gnu-ar
        export CFLAGS_aarch64_unknown_linux_musl="-nostdinc -isystem $aarch64_include -isystem $own -U_FORTIFY_SOURCE -mno-outline-atomics"
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc
        ;;
    windows)
        need x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
        ;;
    macos)
        [ "$(uname -s)" = Darwin ] || [ -n "${CARGO_TARGET_AARCH64_APPLE_DARWIN_LINKER:-}" ] ||
            fail "macos needs a Mac, or CARGO_TARGET_AARCH64_APPLE_DARWIN_LINKER and CC_aarch64_apple_darwin"
        ;;
    esac
    cargo build --locked --profile dist --features full --bin coremap --target "$target"
}

# Cores that every program is asked about: packed ones, so that the C parts run too; native, .NET, Java, Python.
cores=(native-aarch64-qemu/core.zst native-glibc-kernel/core.gz dotnet31-gcore/core.xz java17-threads/core.zst python311/core.zst)

# answers NAME: what it says of each of them, without the path. What has no heap has nothing to say of it.
answers() {
    local core question
    for core in "${cores[@]}"; do
        for question in summary regions threads malloc heapstat; do
            echo "== $question $core"
            { WINEDEBUG=-all "${run[@]}" "$out/$(program_of "$1")" "$question" --json "testdata/cores/$core" || true; } | python3 -c '
import json, sys
text = sys.stdin.read()
if text:
    answer = json.loads(text)
    answer["core"].pop("path")
    print(json.dumps(answer, indent=1, sort_keys=True))'
        done
    done
}

# check NAME: what it is, small, and it runs and answers as the first one did.
check() {
    local program size
    program=$out/$(program_of "$1")
    run=()
    need file file
    need zstd zstd
    need python3 python3
    file -b "$program"
    size=$(stat -c %s "$program")
    echo "$size bytes"
    [ "$size" -lt "$limit" ] || fail "$program has $size bytes, over $limit"
    case $1 in
    windows)
        need wine wine
        # Up to wine 8 there is no library that Rust's standard library asks for random numbers (every Windows from 7 on has it).
        local dlls=$target_dir/wine
        mkdir -p "$dlls"
        dlls=$(realpath "$dlls")
        printf '#include <windows.h>\n#include <ntsecapi.h>\n__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *at, SIZE_T n) { return RtlGenRandom(at, n); }\n' |
            x86_64-w64-mingw32-gcc -shared -x c - -o "$dlls/bcryptprimitives.dll" -ladvapi32
        run=(env "WINEPATH=Z:${dlls//\//\\}" wine)
        ;;
    macos)
        [ "$(uname -s)" = Darwin ] || { echo "not run: this is no Mac"; return; }
        ;;
    *)
        file -b "$program" | grep -Eq 'statically linked|static-pie linked' || fail "$program is not static"
        if readelf -lW "$program" | grep -q INTERP; then fail "$program asks for a loader"; fi
        if [ "$1" != "$(uname -m)" ]; then
            need "qemu-$1-static" qemu-user-static
            run=("qemu-$1-static")
        fi
        ;;
    esac
    WINEDEBUG=-all "${run[@]}" "$program" --version
    answers "$1" >"$out/answers-$1.json" 2>"$out/answers-$1.log"
    [ "$(grep -c '"command": "summary"' "$out/answers-$1.json")" = ${#cores[@]} ] || fail "$program does not answer: $(tail -3 "$out/answers-$1.log")"
    [ -n "${first:-}" ] || first=$1
    cmp "$out/answers-$first.json" "$out/answers-$1.json" || fail "$program answers otherwise than $first"
    echo "${#cores[@]} cores: the same answers as $first"
}

if [ $# -eq 0 ]; then
    set -- x86_64
    if command -v aarch64-linux-gnu-gcc >/dev/null && [ -e "$aarch64_include/stdio.h" ]; then set -- "$@" aarch64; fi
    if command -v x86_64-w64-mingw32-gcc >/dev/null && command -v wine >/dev/null; then set -- "$@" windows; fi
    if [ "$(uname -s)" = Darwin ]; then set -- "$@" macos; fi
fi
mkdir -p "$out"
first=
for name; do
    step "build $name"
    build "$name"
    ending=
    [ "$name" != windows ] || ending=.exe
    install -m 755 "$target_dir/$(target_of "$name")/dist/coremap$ending" "$out/$(program_of "$name")"
    step "check $name"
    check "$name"
    # packaging/Containerfile takes it by the name that builders of images use.
    case $name in x86_64) image=amd64 ;; aarch64) image=arm64 ;; *) continue ;; esac
    mkdir -p "$out/image"
    ln -f "$out/coremap-$name-linux" "$out/image/$image"
done
rm -f "$out"/answers-*

step "what goes with them"
native=$out/coremap-$(uname -m)-linux
if [ -x "$native" ]; then
    "$native" man --dir "$out/man"
    mkdir -p "$out/completions"
    for shell in bash elvish fish powershell zsh; do "$native" completions "$shell" >"$out/completions/coremap.$shell"; done
    "$native" schema >"$out/coremap.schema.json"
fi
cp LICENSE-APACHE LICENSE-MIT CHANGELOG.md "$out/"
(cd "$out" && shopt -s nullglob && sha256sum coremap-*-linux coremap-*-windows.exe coremap-*-macos >SHA256SUMS && cat SHA256SUMS)
