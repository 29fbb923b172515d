"""Bash scripts that read and write files where Twinrig itself does not run, or not as root.

Each ends with 0 or with one of the codes below; their arguments travel as ``$1`` ..., never
quoted into the text.
"""

from __future__ import annotations

import hashlib

from twinrig.domain.ports import Script

ABSENT_CODE = 73
UNREADABLE_CODE = 74
CONFLICT_CODE = 75
CUT_CODE = 76
TOO_LARGE_CODE = 77

ANY_CONTENT = "-"
"""In the place of an expected hash: whatever is there may be replaced."""

_EXPAND = "case $1 in '~/'*) set -- \"$HOME/${1#'~/'}\" \"${@:2}\" ;; esac\n"

# $1 path, $2 mode, $3 expected sha256 ("" = must not exist), $4 "remove" or "write",
# $5 sha256 of what comes on standard input: a cut-off input must not replace a whole file.
WRITE_FILE = f"""
set -eu; umask 022
{_EXPAND}path=$(readlink -m -- "$1")
if [ "$3" != {ANY_CONTENT} ]; then
  found=
  if [ -e "$path" ]; then found=$(sha256sum < "$path" | cut -d ' ' -f 1); fi
  [ "$found" = "$3" ] || exit {CONFLICT_CODE}
fi
if [ "$4" = remove ]; then rm -f -- "$1"; exit 0; fi
mkdir -p -- "$(dirname -- "$path")"
new=$(mktemp -- "$(dirname -- "$path")/.$(basename -- "$path").XXXXXX")
trap 'rm -f -- "$new"' EXIT
cat > "$new"
[ "$(sha256sum < "$new" | cut -d ' ' -f 1)" = "$5" ] || exit {CUT_CODE}
chmod -- "$2" "$new"
if [ -e "$path" ]; then chown --reference="$path" -- "$new" 2>/dev/null || true; fi
sync -- "$new"
mv -fT -- "$new" "$path"
trap - EXIT
"""

_STAT = f"""
export LC_ALL=C
{_EXPAND}kind=$(stat -L -c %F -- "$1" 2>&1) || case $kind in
  *'No such file or directory' | *'Not a directory') exit {ABSENT_CODE} ;;
  *) printf '%s' "${{kind##*: }}" >&2; exit {UNREADABLE_CODE} ;;
esac
"""

# $1 path, $2 limit in bytes
READ_FILE = f"""{_STAT}
case $kind in
  'regular file' | 'regular empty file') ;;
  *) printf 'not a regular file' >&2; exit {UNREADABLE_CODE} ;;
esac
[ -r "$1" ] || {{ printf 'Permission denied' >&2; exit {UNREADABLE_CODE}; }}
size=$(stat -L -c %s -- "$1")
[ "$size" -le "$2" ] || exit {TOO_LARGE_CODE}
head -c "$(($2 + 1))" -- "$1" || exit {UNREADABLE_CODE}
"""

# $1 path. Names between NUL bytes, an empty one, then kind, size and name of those that lead
# somewhere.
LIST_FOLDER = f"""{_STAT}
[ "$kind" = directory ] || exit {ABSENT_CODE}
cd -- "$1" 2>/dev/null && [ -r . ] || {{ printf 'Permission denied' >&2; exit {UNREADABLE_CODE}; }}
shopt -s dotglob nullglob
names=(*)
[ "${{#names[@]}}" -gt 0 ] || exit 0
printf '%s\\0' "${{names[@]}}"
printf '\\0'
printf './%s\\0' "${{names[@]}}" | xargs -0 stat -L --printf '%F\\0%s\\0%n\\0' -- 2>/dev/null
exit 0
"""

# $1 most folders, $2 most bytes; patterns of folders, "--", patterns of files. Home; for every
# entry its folder, name, kind and size; an empty one; for every file its name and size ("-": it is
# not among the contents); an empty one, all with NUL bytes behind; then the contents.
GLANCE = """
most=$1 bytes=$2; shift 2
shopt -s nullglob
IFS=
expand() {
  case $1 in
    '~') found=("$HOME") ;;
    '~/'*) found=("$HOME"/${1#'~/'}) ;;
    *) found=($1) ;;
  esac
}
sizes() { [ "$#" = 0 ] || printf '%s\\0' "$@" | xargs -0 stat -L --printf '%s\\0%n\\0' --; }
printf '%s\\0' "$HOME"
folders=()
while [ "$#" -gt 0 ] && [ "$1" != -- ]; do expand "$1"; folders+=("${found[@]}"); shift; done
shift
printf '%s\\0' "${folders[@]:0:most}" | xargs -0 sh -c \
  'exec find -L "$@" -mindepth 1 -maxdepth 1 -printf "%H\\0%f\\0%y\\0%s\\0"' find 2>/dev/null
printf '\\0'
files=()
for pattern; do
  expand "$pattern"
  for file in "${found[@]}"; do [ ! -f "$file" ] || files+=("$file"); done
done
taken=()
while read -r -d '' size && read -r -d '' file; do
  if [ -r "$file" ] && [ "$size" -le "$bytes" ]; then
    taken+=("$file"); bytes=$((bytes - size))
  else
    size=-
  fi
  printf '%s\\0%s\\0' "$file" "$size"
done < <(sizes "${files[@]}")
printf '\\0'
[ "${#taken[@]}" = 0 ] || printf '%s\\0' "${taken[@]}" | xargs -0 cat --
exit 0
"""

# What /proc says of every process: FILE:CONTENT for stat, then a line of dashes, then
# FILE:WORD for every word of the command lines and for the run ids, each between NUL bytes.
PROCESSES = """
cd /proc
grep -asH '' [0-9]*/stat
printf -- '----\\n'
grep -azsH '' [0-9]*/cmdline
grep -azsH "^$1=" [0-9]*/environ
exit 0
"""

# $1 a line NAME=VALUE of the environment. Two rounds: a fork between look and kill.
KILL_MARKED = """
for round in 1 2; do
  for file in $(grep -azslx -- "$1" /proc/[0-9]*/environ); do
    pid=${file#/proc/}; pid=${pid%/environ}
    [ "$pid" = "$$" ] || [ "$pid" = "$PPID" ] || kill -KILL "$pid" 2>/dev/null
  done
done
exit 0
"""


def write_file(path: str, data: bytes | None, mode: int, expected_sha256: str | None) -> Script:
    """The script that replaces a file by what comes on standard input, None removes it."""
    expected = ANY_CONTENT if expected_sha256 is None else expected_sha256.lower()
    action = "remove" if data is None else "write"
    digest = hashlib.sha256(data or b"").hexdigest()
    return Script("write-file", WRITE_FILE, (path, f"{mode:o}", expected, action, digest))
