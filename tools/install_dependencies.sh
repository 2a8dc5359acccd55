#!/bin/sh
# Installs, from Debian's packages, what the named parts of the work need and the machine lacks:
#   tools/install_dependencies.sh [build] [test] [bench] [lint] [fuzz]        (default: build)
# Fast and silent when nothing is missing. Needs root or sudo only when something is.
set -eu

build="g++ make cmake ninja-build ccache mold pkg-config
  libfmt-dev libxxhash-dev libpcre2-dev libutf8proc-dev libsimdjson-dev nlohmann-json3-dev libyaml-cpp-dev
  libcli11-dev"
test="libgtest-dev libgmock-dev python3"
# oneDNN is a baseline of the benchmarks. Its CMake file asks for OpenCL, which its package does not bring.
bench="libbenchmark-dev libdnnl-dev ocl-icd-opencl-dev"
lint="git clang-format-14 clang-tidy-14 shellcheck python3"
fuzz="clang-14 libclang-rt-14-dev"

wanted=""
for part in "${@:-build}"; do
  case $part in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    bench) wanted="$wanted $bench" ;;
    lint) wanted="$wanted $lint" ;;
    fuzz) wanted="$wanted $fuzz" ;;
    *)
      echo "$0: unknown part '$part'; there are build, test, bench, lint and fuzz" >&2
      exit 2
      ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "$0: this is no Debian or Ubuntu, so nothing is installed. Needed, by Debian's names:$wanted" >&2
  exit 0
fi

# dpkg-query reports packages it never heard of on stderr and by its exit status; both only mean "missing" here.
# shellcheck disable=SC2086 # the lists are words to be split
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null || true)
missing=""
for package in $wanted; do
  case "
$installed
" in
    *"
installed $package
"*) ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "$0: these packages are missing, and installing them needs root. As root, run:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
    exit 1
  fi
  as_root="sudo"
fi

echo "Installing$missing"
# A repository that has nothing to do with us may be out of reach: what counts is whether the install succeeds.
$as_root apt-get update -qq || echo "$0: apt-get update failed; trying with the lists that are there" >&2
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 $missing
