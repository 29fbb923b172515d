# Sourced by run and full: runs named stages, keeps their logs, counts tests, sums up.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export CI=true PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1 QT_QPA_PLATFORM="${QT_QPA_PLATFORM:-offscreen}"
unset TWINRIG_HOME TWINRIG_RUN_ID DISPLAY WAYLAND_DISPLAY
python=.venv/bin/python
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
passed=0
failed=0
skipped=0
faults=()
began=$SECONDS

count() { grep -Eo "[0-9]+ $2" "$1" | tail -n 1 | cut -d' ' -f1 || true; }

# stage NAME COMMAND...: a stage that fails does not keep the others from running.
stage() {
    local name=$1 log="$logs/$1.log" from=$SECONDS code=0 number
    shift
    printf '\n=== %s\n' "$name"
    # No pipe: a server that a test left behind must not keep this script waiting for its output.
    "$@" >"$log" 2>&1 </dev/null || code=$?
    if [ "$code" -eq 0 ]; then tail -n 12 "$log"; else tail -n 120 "$log"; fi
    # The last line of pytest is the count of that stage.
    local last
    last=$(grep -E '[0-9]+ (passed|failed|error|skipped)' "$log" | tail -n 1 || true)
    printf '%s\n' "$last" >"$log.last"
    number=$(count "$log.last" passed); passed=$((passed + ${number:-0}))
    number=$(count "$log.last" failed); failed=$((failed + ${number:-0}))
    number=$(count "$log.last" error); failed=$((failed + ${number:-0}))
    number=$(count "$log.last" skipped); skipped=$((skipped + ${number:-0}))
    printf -- '--- %s: %s in %s s\n' "$name" "$([ "$code" -eq 0 ] && echo fine || echo "FAILED ($code)")" "$((SECONDS - from))"
    [ "$code" -eq 0 ] || faults+=("$name")
}

# need NAME COMMAND...: as stage, but without it nothing else makes sense.
need() {
    stage "$@"
    [ "${#faults[@]}" -eq 0 ] || finish
}

finish() {
    printf '\n%s s in all' "$((SECONDS - began))"
    if [ "${#faults[@]}" -gt 0 ]; then
        printf '; failed stages: %s\n' "${faults[*]}"
        [ "$failed" -gt 0 ] || failed=${#faults[@]}
    else
        printf '\n'
    fi
    printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
    [ "${#faults[@]}" -eq 0 ] && exit 0
    exit 1
}

# What the tests need of the system; a machine that has it all is not touched.
packages() {
    local wanted=(xvfb xauth openbox trayer xdotool imagemagick x11-utils dbus fonts-dejavu-core fonts-noto-cjk procps)
    local missing=() name
    # The libraries of Qt, by the list that start.py uses.
    for name in $(PYTHONPATH=installer python3 -c 'from bootstrap.libraries import missing; print(*missing(True))'); do
        missing+=("$name")
    done
    for name in "${wanted[@]}"; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
    done
    [ "${#missing[@]}" -eq 0 ] && { echo "system packages: all there"; return 0; }
    echo "system packages to install: ${missing[*]}"
    [ "$(id -u)" -eq 0 ] || { echo "run as root: apt-get install ${missing[*]}"; return 1; }
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update && apt-get -q install -y --no-install-recommends "${missing[@]}"
}

# A limit for the whole command: a hang inside native code escapes the limit of a single test.
newcomer() { timeout -k 10 900 python3 installer/start.py test; }

lint() {
    "$python" -m ruff format --check . && "$python" -m ruff check .
}

types() {
    "$python" -m mypy &&
        (cd installer && ../"$python" -m mypy --strict --config-file ../pyproject.toml -p bootstrap -p windows) &&
        MYPYPATH=tests/windows:tests/doubles/windows "$python" -m mypy --config-file pyproject.toml tests/windows/*.py &&
        "$python" -m mypy --strict .ci/i18n.py && "$python" -m mypy --strict .ci/requirements.py &&
        "$python" -m mypy --strict .ci/windows_types.py && "$python" .ci/windows_types.py
}

imports() { .venv/bin/lint-imports; }
pins() { "$python" .ci/requirements.py check; }
i18n() { "$python" .ci/i18n.py check; }
wheel() { "$python" .ci/wheel.py; }

# pytest's 5 (no test ran) is a failure here: a marker that selects nothing hides lost tests.
tests() { timeout -k 10 "${stage_limit:-900}" "$python" -m pytest -q "$@"; }

# What two late stages download and unpack for minutes, while others use one core only.
beforehand() {
    { .ci/vllm-env; .ci/wine packages; } >"$logs/beforehand" 2>&1 </dev/null &
    preparing=$!
}

# A preparation that failed is done again, and told, by the stage that needs it.
prepared() { [ -z "${preparing:-}" ] || wait "$preparing" || true; }

windows() {
    prepared
    timeout -k 10 900 .ci/wine
}

xserver() { timeout -k 10 "${stage_limit:-900}" .ci/xserver "$python" -m pytest -q "$@"; }

real() {
    local environment
    prepared
    environment=$(.ci/vllm-env) || return 1
    TWINRIG_REAL_VLLM=$environment timeout -k 10 "${stage_limit:-900}" "$python" -m pytest -q -s "$@"
}

# The option table, read by the command line of several released versions.
parsers() {
    local environment older newer
    environment=$(.ci/vllm-env) && older=$(.ci/vllm-version 0.28.0) && newer=$(.ci/vllm-version 0.33.0) || return 1
    TWINRIG_REAL_VLLM=$environment TWINRIG_VLLM_VERSIONS="0.28.0=$older:0.32.0=:0.33.0=$newer" \
        timeout -k 10 "${stage_limit:-900}" "$python" -m pytest -q -s tests/real/test_parsers.py
}
