"""Bash scripts that start a server on the Linux side, and find and end what is left of it.

A run is known by ``TWINRIG_RUN_ID`` in the environment of its processes. vLLM's workers overwrite
theirs, so a watcher beside the server also writes down who belongs to it. First line of that file:
the boot's id and, as PID:START, the shells that are not of the server; then PID START a line. START
is the time of the start in clock ticks since boot: it tells a process from a later one of the same
number.
"""

from __future__ import annotations

RUN_FOLDER = ".local/state/twinrig/runs"
"""Below the home of the distribution's user."""

STARTED, REFUSED = "STARTED", "REFUSED"
"""First word of the first line of ``LAUNCH``; then PID and START, or kind, what and why."""

# members FILE PIDS SESSION: process, parent and start of every live member. Members are PIDS, those
# written down that still have the same start, their sessions, and all descendants; never SESSION.
# The kernel gives a session's number to nobody else while a member lives. The name in a line of
# stat may hold blanks and ")".
_MEMBERS = r"""
members() {
  local first=
  { IFS= read -r first < "$1"; } 2>/dev/null
  local file=$1 shells=${first#* }
  [ "${first%% *}" = "$boot" ] || file=/dev/null shells=
  cat /proc/[0-9]*/stat 2>/dev/null | awk -v proven="$2" -v own="$3" -v file="$file" \
    -v shells="$shells" '
    BEGIN { count = split(proven, list, " "); for (i = 1; i <= count; i++) known[list[i]] = 1
      count = split(shells, list, " ")
      for (i = 1; i <= count; i++) if (split(list[i], part, ":") == 2) shell[part[1]] = part[2]
      while ((getline line < file) > 0)
        if (split(line, part, " ") == 2 && part[2] !~ /:/) kept[part[1]] = part[2] }
    { pid = $1; rest = $0; sub(/^.*\) /, "", rest); split(rest, part, " ")
      if (part[1] ~ /[ZXx]/) next
      parent[pid] = part[2]; session[pid] = part[4]; start[pid] = part[20] }
    END { for (pid in start) {
        if ((pid in shell) && shell[pid] == start[pid]) { aside[pid] = 1; member[pid] = 1 }
        if ((pid in known) || ((pid in kept) && kept[pid] == start[pid])) member[pid] = 1 }
      for (pid in member) if (session[pid] != own && session[pid] > 1) taken[session[pid]] = 1
      for (pid in start) if (session[pid] in taken) member[pid] = 1
      do { more = 0
        for (pid in start)
          if (!(pid in member) && (parent[pid] in member)) { member[pid] = 1; more = 1 }
      } while (more)
      for (pid in member)
        if ((pid in start) && !(pid in aside) && session[pid] != own && pid > 1)
          print pid, parent[pid], start[pid] }'
}
ticks() {
  local line
  { IFS= read -r line < "/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${line##*) }
  printf %s "${20}"
}
boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
"""

# On standard input, each with a NUL behind it, since anybody may read a command line: run id and
# folder ("" = home); lists, each after its length: files as mode, "keep" or "", path, content, then
# names to unset, then variables; the program with its words, and END. The server stays in the
# foreground: in the background it would ignore SIGINT, and this shell could not tell its end.
LAUNCH = (
    _MEMBERS
    + f"runs=$HOME/{RUN_FOLDER}\n"
    + r"""
refuse() {
  local why=${3%%$'\n'*}
  printf 'REFUSED\t%s\t%s\t%s\n' "$1" "$2" "${why##*: }"
  exit 70
}
write_file() {
  local path new
  path=$(readlink -m -- "$3") && mkdir -p -- "${path%/*}" || return 1
  if [ "$2" = keep ] && [ -f "$path" ] && printf %s "$4" | cmp -s - "$path"; then return 0; fi
  new=$(umask 077; mktemp -- "${path%/*}/.${path##*/}.XXXXXX") || return 1
  if printf %s "$4" > "$new" && chmod -- "$1" "$new" && sync -- "$new" &&
    { [ "$2" != keep ] || [ ! -e "$path" ] || cp -p -- "$path" "$path.previous"; } &&
    mv -fT -- "$new" "$path"; then return 0; fi
  rm -f -- "$new"
  return 1
}
mapfile -d '' -t words
[ "${words[-1]}" = END ] || refuse input '' 'cut off'
unset 'words[-1]'
set -- "${words[@]}"
unset words
run_id=$1; folder=${2:-$HOME}; count=$3; shift 3
while [ "$count" -gt 0 ]; do
  why=$(write_file "${@:1:4}" 2>&1) || refuse file "$3" "$why"
  shift 4; count=$((count - 1))
done
count=$1; shift; dropped=("${@:1:count}"); shift "$count"
count=$1; shift; variables=("${@:1:count}"); shift "$count"
why=$(cd -- "$folder" 2>&1) || refuse folder "$folder" "$why"
cd -- "$folder"
case $1 in /*) PATH="${1%/*}:$PATH" ;; esac
type -P -- "$1" >/dev/null || refuse program "$1" 'No such file or directory'
mkdir -p -- "$runs" 2>/dev/null
find "$runs" -type f -mtime +7 -delete 2>/dev/null
file=$runs/$run_id
note() {
  local found
  found=$(members "$file" "$server $$" 0) || return
  { printf '%s %s\n' "$boot" "$shells"
    printf '%s\n' "$found" | while read -r pid _ start; do printf '%s %s\n' "$pid" "$start"; done
  } > "$file.new" && mv -f -- "$file.new" "$file"
} 2>/dev/null
watch() {
  local pause=1 age=0 hold
  exec {hold}<> <(:)
  while [ "$(ticks "$server")" = "$began" ]; do
    note
    read -r -t "$pause" -u "$hold"
    age=$((age + pause))
    [ "$age" -lt 60 ] || pause=3
    [ "$age" -lt 300 ] || pause=10
  done
}
exec {told}<> <(:)
( read -r server began _ <&"$told"
  shells="$PPID:$(ticks "$PPID") $$:$(ticks "$$") $BASHPID:$(ticks "$BASHPID")"
  watch ) </dev/null >/dev/null 2>&1 &
watcher=$!
( began=$(ticks "$BASHPID")
  printf '%s %s .\n%s %s .\n' "$BASHPID" "$began" "$BASHPID" "$began" >&"$told"
  exec {told}>&-
  printf 'STARTED\t%s\t%s\n' "$BASHPID" "$began"
  for name in $(compgen -e); do
    case $name in
      HOME | USER | LOGNAME | LANG | LANGUAGE | TZ | TMPDIR | PATH | XDG_* | WSL_DISTRO_NAME) ;;
      SSL_CERT_FILE | SSL_CERT_DIR | REQUESTS_CA_BUNDLE | CURL_CA_BUNDLE) ;;
      http_proxy | https_proxy | no_proxy | all_proxy) ;;
      HTTP_PROXY | HTTPS_PROXY | NO_PROXY | ALL_PROXY) ;;
      *) unset "$name" ;;
    esac
  done 2>/dev/null
  for name in "${dropped[@]}"; do unset -v "$name"; done 2>/dev/null
  for pair in "${variables[@]}"; do export "$pair"; done 2>/dev/null
  # The run id comes last: a title written over the environment begins at its start. The program
  # env takes a word with "=" for a variable.
  case $1 in *=*) export TWINRIG_RUN_ID="$run_id"; exec "$@" ;; esac
  exec /usr/bin/env "TWINRIG_RUN_ID=$run_id" "$@"
) </dev/null
status=$?
read -r server began _ <&"$told"
shells="$PPID:$(ticks "$PPID") $$:$(ticks "$$")"
kill "$watcher" 2>/dev/null
note
exit "$status"
"""
)

# $1 run id, $2 "drop" when its file may go once nobody is left. PID PARENT START TITLE a line.
SURVIVORS = (
    _MEMBERS
    + f"file=$HOME/{RUN_FOLDER}/$1\n"
    + r"""
proven=$(grep -lFzx -e "TWINRIG_RUN_ID=$1" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n')
IFS= read -r line < /proc/self/stat
set -- "$2" ${line##*) }
found=$(members "$file" "$(printf '%s ' $proven)" "$5")
if [ -z "$found" ]; then
  [ "$1" != drop ] || rm -f -- "$file" "$file.new"
  exit 0
fi
printf '%s\n' "$found" | while read -r pid parent start; do
  title=$(tr '\0\n' '  ' < "/proc/$pid/cmdline" | head -c 200)
  printf '%s %s %s %s\n' "$pid" "$parent" "$start" "$title"
done 2>/dev/null
exit 0
"""
)

# $1 signal, then PID:START; whoever has another start is a stranger.
SIGNAL = (
    _MEMBERS
    + r"""
name=$1; shift
for word; do
  [ "$(ticks "${word%%:*}")" != "${word#*:}" ] || kill -s "$name" -- "${word%%:*}" 2>/dev/null
done
exit 0
"""
)

# $1 pid
ENVIRONMENT = 'cat -- "/proc/$1/environ" 2>/dev/null || exit 1'

_IN_USE = r"""
in_use() {
  local pid
  for pid; do
    grep -aoE '/dev/shm/[^[:cntrl:]]*$' "/proc/$pid/maps"
    find "/proc/$pid/fd" -maxdepth 1 -type l -lname '/dev/shm/*' -printf '%l\n'
  done 2>/dev/null | grep -v ' (deleted)$' | sort -u
}
"""

# Process ids; names of files they have mapped or open, a line each.
SHARED_MEMORY = _IN_USE + 'in_use "$@"; exit 0\n'

# Names; those that are files of this user, directly in /dev/shm, used by nobody, are removed.
REMOVE_SHARED_MEMORY = (
    _IN_USE
    + r"""
used=$(cd /proc && in_use [0-9]*)
for name; do
  case ${name#/dev/shm/} in */* | '' | "$name") continue ;; esac
  [ -f "$name" ] && [ ! -L "$name" ] && [ -O "$name" ] || continue
  printf '%s\n' "$used" | grep -qFx -e "$name" || rm -f -- "$name"
done
exit 0
"""
)
