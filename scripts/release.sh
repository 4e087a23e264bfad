#!/usr/bin/env bash
# Makes what a release has for the system of this machine: an archive of the program and a wheel, with their checksums. It
# lists what to push where, and pushes nothing. It runs on Linux and macOS, and on Windows in Git's bash.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf 'release.sh: %s\n' "$*" >&2
    exit 1
}
checksum() {
    if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi
}

for tool in cargo rustc tar; do
    command -v "$tool" >/dev/null || fail "$tool is not installed"
done
python=$(command -v python3 || command -v python) || fail "Python is not installed"
version=$(cargo pkgid --locked --package millstream-cli)
version=${version##*[#@]}
target=$(rustc -vV | sed -n 's/^host: //p')
built=${CARGO_TARGET_DIR:-target}
out=$built/publish
name=millstream-$version-$target
rm -rf "$out"
mkdir -p "$out/$name/completions"

# jemalloc runs on pages as large as those that it is built for, and smaller ones. ARM machines have up to 64 KiB.
case $target in aarch64-*-linux-*) export JEMALLOC_SYS_WITH_LG_PAGE=16 ;; esac

# The program.
exe=
case $target in *-windows-*) exe=.exe ;; esac
cargo rustc --release --locked --package millstream-cli --bin millstream -- -C strip=symbols
program=$built/release/millstream$exe
[ "$("$program" --version)" = "millstream $version" ] || fail "$program is not version $version"
cp "$program" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$out/$name"
"$python" scripts/third_party.py millstream-cli "$target" >"$out/$name/LICENSE-THIRD-PARTY"
"$program" completions bash >"$out/$name/completions/millstream.bash"
"$program" completions fish >"$out/$name/completions/millstream.fish"
"$program" completions powershell >"$out/$name/completions/_millstream.ps1"
"$program" completions zsh >"$out/$name/completions/_millstream"
# macOS's tar would add a file for the attributes of each.
COPYFILE_DISABLE=1 tar -czf "$out/$name.tar.gz" -C "$out" "$name"
rm -r "${out:?}/$name"

# The wheel, optimised as a whole: it is a sixth smaller, and takes twice as long to build.
export CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
packages="maturin==1.16.0 twine==7.0.0"
options=
case $target in
    *-linux-gnu)
        options="--compatibility manylinux_2_28"
        glibc=$(getconf GNU_LIBC_VERSION)
        # zig links with the C library that the wheel promises to do with, where this one is newer.
        if [ "${glibc#*.}" -gt 28 ]; then
            packages+=" ziglang==0.17.1"
            options+=" --zig"
        fi
        ;;
    *-linux-*) fail "wheels for Linux are built with glibc, and this is $target" ;;
esac
"$python" -m venv "$built/publish-tools"
tools=$built/publish-tools/bin
[ -d "$tools" ] || tools=$built/publish-tools/Scripts
PATH=$(cd "$tools" && pwd):$PATH
# shellcheck disable=SC2086 # Several words each.
python -m pip install --quiet $packages
# One system's sources are enough.
if [ "$target" = x86_64-unknown-linux-gnu ]; then
    maturin sdist --manifest-path python/Cargo.toml --out "$out"
fi
trap 'rm -f python/LICENSE-THIRD-PARTY' EXIT
python scripts/third_party.py millstream-python "$target" >python/LICENSE-THIRD-PARTY
# shellcheck disable=SC2086
maturin build --release --locked --manifest-path python/Cargo.toml --out "$out" $options
wheel=$(echo "$out"/*.whl)
[ "$(wc -c <"$wheel")" -lt 20000000 ] || fail "$wheel has 20 MB or more; find what has grown: unzip -lv $wheel"
python -m twine check --strict "$wheel"
python -m pip install --quiet --force-reinstall --no-deps --no-index "$wheel"
[ "$(python -m millstream --version)" = "millstream $version" ] || fail "$wheel is not version $version"

(cd "$out" && for file in *.tar.gz *.whl; do checksum "$file" >"$file.sha256"; done)

printf '\n%s has:\n' "$out"
ls -l "$out"
grep -q "^## $version" CHANGELOG.md || printf '\nCHANGELOG.md has no heading for %s with its date yet.\n' "$version"
cat <<END

To release $version, push this, in this order. What cargo and twine have uploaded can never be changed.

  git tag v$version && git push origin v$version
      .github/workflows/release.yml then makes the files for the other systems
  cargo publish --workspace
      millstream, millstream-train and millstream-cli
  twine upload WHEELS $out/millstream-$version.tar.gz
      the wheels of all systems, and the package's sources
END
