# Sourced by the scripts in this directory: pinned versions, the cache, one run at a time, and what is fetched and built alike.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=versions.env
source "$here/versions.env"

# Outside the checkout, so that a fresh clone finds what was fetched or built before.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sallyport

say() { echo "tools: $*" >&2; }
fail() { say "$*"; exit 3; }

# once holds a lock until the script ends: two makes at a time must not write the same files.
once() {
  mkdir -p "$cache"
  exec 9>"$cache/.lock"
  flock 9
}

# build MODULE DIRECTORY PACKAGE PROGRAM [LDFLAGS] builds a static program of one of the modules in e2e/cluster/tools
# into the directory, unless it is there. Who comes second waits for the first and then finds the program.
build() {
  local module=$1 directory=$2 package=$3 program=$4 flags=${5:--s -w}
  [[ ! -x $directory/$program ]] || return 0
  mkdir -p "$directory"
  exec 8>"$directory/.lock"
  flock 8
  if [[ ! -x $directory/$program ]]; then
    local began=$SECONDS
    say "building $program of $(basename "$directory")"
    (cd "$root/e2e/cluster/tools/$module" &&
      CGO_ENABLED=0 nice go build -mod=readonly -trimpath -ldflags "$flags" -o "$directory/.$program" "$package") >&2
    mv "$directory/.$program" "$directory/$program"
    say "built $program in $((SECONDS - began)) s"
  fi
  exec 8>&-
}

# pip COMMAND ARGUMENTS… fetches what a requirements file names, and those bytes only.
pip() {
  local command=$1
  shift
  local run=(python3 -m pip)
  "${run[@]}" --version >/dev/null 2>&1 || run=(pip3)
  "${run[@]}" --disable-pip-version-check "$command" --quiet --no-deps --require-hashes "$@"
}
