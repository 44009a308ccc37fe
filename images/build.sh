#!/usr/bin/env bash
# Builds the platform's images, with docker where its daemon answers, else with buildah.
#
#   images/build.sh [--prefix PREFIX] [--tag TAG] [TARGET…]
#
#   --prefix PREFIX  names are PREFIX/TARGET:TAG; such as registry.example.com/slipway (default: slipway)
#   --tag TAG        (default: dev)
#   TARGET           operator, api, dataplane, auth, rest, builder (default: all)
#
# Kaniko builds one from the same files:
#   /kaniko/executor --context dir:///workspace --dockerfile images/Dockerfile --target api --destination PREFIX/api:TAG
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' images/build.sh; }
die() { printf 'images/build.sh: %s\n' "$*" >&2; exit 2; }

all=(operator api dataplane auth rest builder)
targets=()
prefix=slipway
tag=dev
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit ;;
    --prefix) prefix=${2:?--prefix needs a value}; shift ;;
    --tag) tag=${2:?--tag needs a value}; shift ;;
    -*) die "unknown option $1; --help lists the options" ;;
    *) [[ " ${all[*]} " == *" $1 "* ]] || die "no target $1; there are ${all[*]}"; targets+=("$1") ;;
  esac
  shift
done
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")

if docker info >/dev/null 2>&1; then build=(docker build)
elif command -v buildah >/dev/null; then build=(buildah build --layers)
else die 'needs docker or buildah'
fi

for target in "${targets[@]}"; do
  begin=$SECONDS
  "${build[@]}" --file images/Dockerfile --target "$target" --tag "$prefix/$target:$tag" .
  printf '✓ %s (%d s)\n' "$prefix/$target:$tag" $((SECONDS - begin)) >&2
done
