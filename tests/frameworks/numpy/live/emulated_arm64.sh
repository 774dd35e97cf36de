#!/usr/bin/env bash
# The tests of the NumPy backend on arm64, by an emulator: make test-arm64. Needs Debian (or what has its apt and keyring)
# with qemu-user, and the network: Debian's Python for arm64 and NumPy's wheels for it, 150 MB under build/arm64. RELEASE=trixie
# takes Python 3.13. An emulator on x86-64 orders memory as x86-64 does: it cannot show what only an arm64 processor reorders.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
release=${RELEASE:-bookworm}
case $release in
  bookworm) version=3.11 ssl=libssl3 readline=libreadline8 ;;
  trixie) version=3.13 ssl=libssl3t64 readline=libreadline8t64 ;;
  *) echo "RELEASE is bookworm (Python 3.11) or trixie (Python 3.13), not $release" >&2; exit 2 ;;
esac
for tool in qemu-aarch64 apt-get dpkg-deb; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: this needs Debian, and apt-get install qemu-user" >&2; exit 2; }
done
here=$PWD/build/arm64/$release
python=$here/python
if [ ! -x "$python" ]; then
  rm -rf "$here"
  mkdir -p "$here"/{lists/partial,cache/archives/partial,packages,root/usr/lib}
  ln -s usr/lib "$here/root/lib" # Debian's packages of 2025 and later have no /lib of their own
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $release main" >"$here/sources.list"
  apt() {
    apt-get -q -o Dir::Etc::sourcelist="$here/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$here/lists" \
      -o Dir::Cache="$here/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root "$@"
  }
  apt update
  (
    cd "$here/packages"
    apt download python$version-minimal libpython$version-{minimal,stdlib} libc6 libgcc-s1 libstdc++6 zlib1g $ssl $readline \
      libexpat1 libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libncursesw6 libtinfo6 libuuid1
    for package in *.deb; do dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$here/root"; done
  )
  ${PYTHON:-python3} -m pip wheel --quiet --no-deps --wheel-dir "$here/wheel" .
  # shellcheck disable=SC2046 # a word for each platform
  ${PYTHON:-python3} -m pip install --quiet --target "$here/site" --only-binary=:all: --python-version $version \
    $(printf -- '--platform manylinux%s_aarch64 ' _2_28 _2_27 _2_17 2014) \
    "$here"/wheel/*.whl scipy hypothesis pytest-xdist
  rm -rf "$here/site/pytest_opprof" # this tree's is tested
  # The system starts no program of another processor: processes that the tests start get the emulator by this name.
  echo "import sys; sys.executable = sys._base_executable = '$python'" >"$here/site/sitecustomize.py"
  printf '#!/bin/sh\nexec qemu-aarch64 -L %q %q "$@"\n' "$here/root" "$here/root/usr/bin/python$version" >"$python.new"
  chmod +x "$python.new"
  mv "$python.new" "$python"
fi
export PYTHONPATH=$PWD:$here/site
"$python" -m pytest_opprof.frameworks.numpy.live.selftest
exec "$python" -m pytest -n auto --maxprocesses=4 -o strict_config=false "$@" tests/frameworks/numpy
