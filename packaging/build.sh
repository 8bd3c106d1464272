#!/usr/bin/env bash
# The static programs that are given to people, with all that goes with them.
#
#   packaging/build.sh [x86_64] [aarch64]      both where none is named
#
# Takes minutes, and so is no part of .ci/run. Needs, as Debian names them:
# musl-tools for x86_64; gcc-aarch64-linux-gnu, musl-dev:arm64 (or its headers,
# see below) and qemu-user-static for aarch64; zstd and file to check.
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

# build ARCH: compile for it.
build() {
    local target=$1-unknown-linux-musl
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
    *) fail "no such architecture: $1" ;;
    esac
    cargo build --locked --profile dist --bin coremap --target "$target"
}

# check ARCH: static, small, and it runs.
check() {
    local program=$out/coremap-$1-linux size run=()
    need file file
    need zstd zstd
    file -b "$program"
    file -b "$program" | grep -Eq 'statically linked|static-pie linked' || fail "$program is not static"
    if readelf -lW "$program" | grep -q INTERP; then fail "$program asks for a loader"; fi
    size=$(stat -c %s "$program")
    echo "$size bytes"
    [ "$size" -lt "$limit" ] || fail "$program has $size bytes, over $limit"
    if [ "$1" != "$(uname -m)" ]; then
        need "qemu-$1-static" qemu-user-static
        run=("qemu-$1-static")
    fi
    "${run[@]}" "$program" --version
    # A core of the very architecture, and one of .NET: packed ones, so that the
    # C parts run too.
    local core
    for core in native-aarch64-qemu/core.zst dotnet31-gcore/core.xz; do
        "${run[@]}" "$program" summary "testdata/cores/$core" | head -n 4
    done
}

[ $# -gt 0 ] || set -- x86_64 aarch64
mkdir -p "$out"
for arch; do
    step "build $arch"
    build "$arch"
    install -m 755 "$target_dir/$arch-unknown-linux-musl/dist/coremap" "$out/coremap-$arch-linux"
    step "check $arch"
    check "$arch"
    # packaging/Containerfile takes it by the name that builders of images use.
    case $arch in x86_64) image=amd64 ;; aarch64) image=arm64 ;; esac
    mkdir -p "$out/image"
    ln -f "$out/coremap-$arch-linux" "$out/image/$image"
done

step "what goes with them"
native=$out/coremap-$(uname -m)-linux
if [ -x "$native" ]; then
    "$native" man --dir "$out/man"
    mkdir -p "$out/completions"
    for shell in bash elvish fish powershell zsh; do "$native" completions "$shell" >"$out/completions/coremap.$shell"; done
    "$native" schema >"$out/coremap.schema.json"
fi
cp LICENSE-APACHE LICENSE-MIT CHANGELOG.md "$out/"
(cd "$out" && sha256sum coremap-*-linux >SHA256SUMS && cat SHA256SUMS)
