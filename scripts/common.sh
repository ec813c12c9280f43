# Sourced by the scripts: messages, logged steps, timing. Every line fits 80 columns where its parts do.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
logs=$root/build/logs
if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
    bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m' wipe=$'\r\e[K'
else
    bold='' dim='' red='' green='' plain='' wipe=''
fi

heading() { printf '%s%s%s\n' "$bold" "$*" "$plain"; }
# done_line WHAT FACT: one finished step.
done_line() { printf '%s  %-18s %s\n' "$wipe" "$1" "$2"; }
# What is going on, overwritten by the next line on a terminal.
progress() { if [[ -n $wipe ]]; then printf '%s  %-18s %s%s%s' "$wipe" "$1" "$dim" "$2" "$plain"; fi; }

# fail WHAT NEXT-STEP...: ends the script.
fail() {
    printf '%s%serror:%s %s\n' "$wipe" "$red" "$plain" "$1" >&2
    shift
    local line
    for line in "$@"; do printf '       %s\n' "$line" >&2; done
    exit 1
}

# Seconds since the epoch with tenths, from bash alone.
now() { local t=$EPOCHREALTIME; t=${t/[.,]/}; echo "${t:0:-5}"; }
# elapsed START: "12.3 s" or "2 min 5 s".
elapsed() {
    local d=$(($(now) - $1))
    if ((d < 1000)); then echo "$((d / 10)).$((d % 10)) s"; else echo "$((d / 600)) min $((d / 10 % 60)) s"; fi
}

# logged NAME WHAT COMMAND...: runs with all output in build/logs/NAME.log, showing its last line as progress.
logged() {
    local log=$logs/$1.log what=$2 start shown pid
    shift 2
    mkdir -p "$logs"
    start=$(now)
    printf '$ %s\n' "$*" >>"$log"
    "$@" >>"$log" 2>&1 </dev/null &
    pid=$!
    trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
    if [[ -n $wipe ]]; then
        while kill -0 "$pid" 2>/dev/null; do
            shown=$(tail -c 400 "$log" | tr '\r' '\n' | tail -n 1 | tr -cd '[:print:]')
            progress "$what" "$(elapsed "$start")  ${shown:0:44}"
            sleep 0.3
        done
    fi
    local status=0
    wait "$pid" || status=$?
    trap - INT TERM
    return "$status"
}

# The end of a log, for an error message.
show_log() {
    printf '%s--- the end of build/logs/%s.log ---\n' "$wipe" "$1" >&2
    tail -n 25 "$logs/$1.log" >&2
}
