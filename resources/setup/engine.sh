# Steps of setting up an engine on the Linux side, in a folder of its own. Nothing outside it is
# touched. Fed to bash; nothing is ever quoted into this text.
#
#   $1 step   $2 folder of the engine   further arguments as each step says
#
# Layout below the folder: NAME/venv is an environment, NAME itself a source that is run in place;
# NAME/.partial marks one that is not proven; `current` and `previous` are links to a NAME; wheels/
# holds what is downloaded; `.lock` is held while a step runs, by its orphans too.
# Codes: 0 done, 75 another set-up is at work, else that of the program.
export LC_ALL=C.UTF-8 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONNOUSERSITE=1 PYTHONUNBUFFERED=1
export PATH="${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
unset PYTHONHOME PYTHONPATH VIRTUAL_ENV CDPATH BASH_ENV ENV
step=$1 root=$2
shift 2

hold() {
  mkdir -p "$root" || exit
  exec 9>"$root/.lock" || exit
  flock -n 9 || exit 75
}

# "python PATH VERSION yes|no" (can make environments), "free BYTES", "current NAME", "partial NAME",
# "wheels BYTES", "group": what a cut set-up was about
step_look() {
  local python place name
  for python in python3.12 python3.13 python3.11 python3.10 python3.14 python3; do
    place=$(type -P "$python") || continue
    case $place in /mnt/*) continue ;; esac
    "$place" -I -S -c 'import importlib.util as u, platform, sys
able = all(u.find_spec(n) for n in ("venv", "ensurepip"))
print("python", sys.argv[1], platform.python_version(), "yes" if able else "no")' "$place" 2>/dev/null
  done
  place=$root
  while [ ! -d "$place" ]; do place=${place%/*}; [ -n "$place" ] || place=/; done
  df -Pk "$place" | awk 'NR == 2 { printf "free %.0f\n", $4 * 1024 }'
  name=$(readlink "$root/current") && echo "current $name"
  for place in "$root"/*/.partial; do
    [ ! -e "$place" ] || { name=${place%/.partial}; echo "partial ${name##*/}"; }
  done
  [ ! -d "$root/wheels" ] || echo "wheels $(du -sk "$root/wheels" | awk '{ printf "%.0f", $1 * 1024 }')"
  [ ! -r "$root/wheels/.about" ] || echo "about $(head -n 1 "$root/wheels/.about")"
  return 0
}

# NAME PYTHON ABOUT: an environment in a new folder; wheels of another set-up are dropped
step_make() {
  hold
  mkdir -p "$root/$1" && : >"$root/$1/.partial" || return
  mkdir -p "$root/wheels" || return
  if [ "$(cat "$root/wheels/.about" 2>/dev/null)" != "$3" ]; then
    find "$root/wheels" -mindepth 1 -delete
    printf '%s\n' "$3" >"$root/wheels/.about" || return
  fi
  "$2" -I -m venv "$root/$1/venv" 2>&1
}

# NAME URL: the archive of a source, unpacked into the folder of the environment
step_source() {
  hold
  local kept=$root/wheels/source.zip
  if [ ! -e "$kept" ]; then
    "$root/$1/venv/bin/python" -I -c '
import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=60) as answer, open(sys.argv[2], "wb") as out:
    shutil.copyfileobj(answer, out)
    told = answer.headers.get("Content-Length")
    if told is not None and out.tell() != int(told):
        sys.exit("IncompleteRead: the archive was cut off")
' "$2" "$kept.part" 2>&1 || return
    mv "$kept.part" "$kept" || return
  fi
  "$root/$1/venv/bin/python" -I -c '
import os, sys, zipfile
target = os.path.realpath(sys.argv[2])
try:
    archive = zipfile.ZipFile(sys.argv[1])
    names = archive.infolist()
except (zipfile.BadZipFile, OSError) as error:
    os.unlink(sys.argv[1])
    sys.exit("BadZipFile: %s" % error)
for entry in names:
    name = entry.filename.split("/", 1)[-1]
    place = os.path.realpath(os.path.join(target, name))
    if not name or entry.is_dir():
        continue
    if not place.startswith(target + os.sep):
        sys.exit("BadZipFile: a name leads out of the archive")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with archive.open(entry) as data, open(place, "wb") as out:
        out.write(data.read())
' "$kept" "$root/$1" 2>&1
}

# NAME GROUP: what the source's own pyproject.toml asks for, one requirement a line, into wheels/
step_requirements() {
  hold
  "$root/$1/venv/bin/python" -I -c '
import sys
try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib
with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
wanted = project.get("dependencies", []) + project["optional-dependencies"][sys.argv[2]]
print("\n".join(wanted), file=open(sys.argv[3], "w"))
' "$root/$1/pyproject.toml" "$2" "$root/wheels/requirements.txt" 2>&1
}

# NAME REQUIREMENT...: lines for pip, into wheels/
step_require() {
  hold
  shift
  printf '%s\n' "$@" >"$root/wheels/requirements.txt"
}

# NAME INDEX EXTRA: download all wheels; what is there and whole is not downloaded again
step_fetch() {
  hold
  local python=$root/$1/venv/bin/python file options=()
  [ -z "$2" ] || export PIP_INDEX_URL=$2
  [ -z "$3" ] || export PIP_EXTRA_INDEX_URL=$3
  for file in "$root"/wheels/*.whl; do
    [ ! -e "$file" ] || "$python" -I -c 'import sys, zipfile; sys.exit(not zipfile.is_zipfile(sys.argv[1]))' "$file" ||
      rm -f -- "$file"
  done
  case $("$python" -I -m pip --version) in
    "pip 2"[0-3].* | "pip 24.0"* | "pip "[0-9].* | "pip 1"*) options=(--progress-bar off) ;;
    *) options=(--progress-bar raw) ;;
  esac
  "$python" -I -m pip download --resume-retries 0 --help >/dev/null 2>&1 && options+=(--resume-retries 5)
  "$python" -I -m pip download --prefer-binary "${options[@]}" -d "$root/wheels" \
    -r "$root/wheels/requirements.txt" 2>&1 || return
  for file in "$root"/wheels/*.tar.gz; do
    [ -e "$file" ] || continue
    "$python" -I -m pip wheel --no-deps -w "$root/wheels" "$file" 2>&1 && rm -f -- "$file" || return
  done
}

# NAME: names of the downloaded wheels, one a line
step_wheels() {
  local file
  for file in "$root"/wheels/*.whl; do
    [ ! -e "$file" ] || printf '%s\n' "${file##*/}"
  done
}

# NAME: install what was downloaded, and nothing else
step_install() {
  hold
  "$root/$1/venv/bin/python" -I -m pip install --no-index --no-deps "$root"/wheels/*.whl 2>&1
}

# NAME NONCE IMPORTS NATIVE: "NONCE torch_cuda VALUE" after all imports went well
step_prove() {
  cd "$root/$1" || return
  "$root/$1/venv/bin/python" -c '
import importlib, sys
nonce, imports, native = sys.argv[1], sys.argv[2].split(), sys.argv[3].split()
for name in imports:
    importlib.import_module(name)
faults = []
for name in native:
    try:
        importlib.import_module(name)
        break
    except ImportError as error:
        faults.append("%s: %s" % (name, error))
else:
    sys.exit("ImportError: " + "; ".join(faults))
torch = sys.modules.get("torch")
print(nonce, "torch_cuda", getattr(getattr(torch, "version", None), "cuda", None))
' "$2" "$3" "$4" 2>&1
}

# NAME: a port of loopback that is free now
step_port() {
  "$root/$1/venv/bin/python" -I -c '
import socket
with socket.socket() as line:
    line.bind(("127.0.0.1", 0))
    print(line.getsockname()[1])
'
}

# NAME NONCE FOLDER MODEL PROGRAM REQUEST: MODEL writes a tiny model below FOLDER, PROGRAM starts
# the server of REQUEST and asks for a reply; "NONCE tokens N" when there was one
step_reply() {
  hold
  local python=$root/$1/venv/bin/python code
  mkdir -p "$3" || return
  "$python" -I -c "$4" "$3/model" --layers 1 --hidden 256 --head-dim 64 --shards 1 --dtype float16 --spare 125 2>&1 &&
    "$python" -I -c "$5" "$2" "$6" 2>&1
  code=$?
  rm -rf -- "$3"
  return "$code"
}

# NAME SHARED CARRIED: folders beside all versions, files of the version in use
step_adopt() {
  hold
  local name
  for name in $2; do
    mkdir -p "$root/shared/$name" || return
    [ ! -d "$root/$1/$name" ] || [ -L "$root/$1/$name" ] || rm -rf -- "${root:?}/$1/$name"
    ln -sfn "../shared/$name" "$root/$1/$name" || return
  done
  for name in $3; do
    [ ! -f "$root/current/$name" ] || cp -p -- "$root/current/$name" "$root/$1/$name" || return
  done
}

# NAME: proven; nothing is switched yet, but what is in use now is kept beside it
step_seal() {
  hold
  local now
  now=$(readlink "$root/current") || now=
  if [ -n "$now" ]; then
    ln -sfn "$now" "$root/.previous" && mv -T "$root/.previous" "$root/previous" || return
  fi
  sync
  rm -f -- "$root/$1/.partial"
}

# KEEP_WHEELS: drop what is neither in use, current, previous nor running
step_clean() {
  hold
  local place name current previous
  current=$(readlink "$root/current") || current=
  previous=$(readlink "$root/previous") || previous=
  for place in "$root"/*/; do
    place=${place%/}
    name=${place##*/}
    case $name in wheels | shared | "$current" | "$previous" | current | previous) continue ;; esac
    # A server that was started before the switch still reads its files.
    printf '%s/' "$place" | grep -qsF -f - /proc/[0-9]*/maps /proc/[0-9]*/cmdline || rm -rf -- "$place"
  done
  [ "$1" = yes ] || rm -rf -- "${root:?}/wheels"
}

case $step in
  look | make | source | requirements | require | fetch | wheels | install | prove | port | reply | adopt | seal | clean)
    "step_$step" "$@"
    ;;
  *) exit 64 ;;
esac
