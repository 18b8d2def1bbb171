# Sourced by the scripts in this directory: pinned versions, the cache, and one run at a time.

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
