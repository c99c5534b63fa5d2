#!/bin/sh
# One item of tests/gpu/first_light.sh: runs a command within a time limit and reports it the moment it ends. Several
# items may run side by side.
#
#     tests/gpu/item.sh STAGE ITEM SECONDS [VARIABLE=VALUE]... COMMAND [ARGUMENT]...
#
# The report is a line in OUT/log and on stdout, a line of JSON in OUT/results.jsonl and a row in OUT/table; what the
# command printed is in OUT/logs/STAGE.ITEM.log. Results: passed, failed, limit (it took longer), skipped (exit code 77,
# or there is no such command), late (not begun: less than a third of its time was left). Exits with 0 when it passed.
#
# FIRST_LIGHT_OUT     the folder OUT
# FIRST_LIGHT_BEGUN   when the run began, in seconds since 1970
# FIRST_LIGHT_END     when the run has to be over; time limits are cut to the time that is left
# FIRST_LIGHT_ONLY    names of the items to run; all others exit without a report (empty: run all)
# FIRST_LIGHT_LIMITS  other limits: 'ITEM=SECONDS ...'
# FIRST_LIGHT_VALUES  a file with a JSON object to add to the result; without it, the last line of the command's output
#                     that is a JSON object
# FIRST_LIGHT_SHOWN   number of lines of its output to report when it passed
# FIRST_LIGHT_STRICT  yes: a skipped item is reported as failed
set -u
stage=$1 item=$2 limit=$3
shift 3
out=$FIRST_LIGHT_OUT

case " ${FIRST_LIGHT_ONLY:-$item} " in
    *" $item "*) ;;
    *) exit 0 ;;
esac
for entry in ${FIRST_LIGHT_LIMITS-}; do
    [ "${entry%=*}" != "$item" ] || limit=${entry##*=}
done

log=$out/logs/$stage.$(echo "$item" | tr '/ ' '__').log
report=$log.report
now=$(date +%s)
result= why= code=0 ms=0

# A text as the inside of a JSON string.
quoted() { printf %s "$1" | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g'; }

for word; do
    case $word in
        *=*) ;;
        *) break ;;
    esac
done
if ! command -v "$word" >/dev/null 2>&1; then
    result=skipped why="there is no ${word##*/}" code=77
elif [ -n "${FIRST_LIGHT_END-}" ]; then
    left=$((FIRST_LIGHT_END - now - 2))
    if [ $((left * 3)) -lt "$limit" ]; then
        result=late why="$((left > 0 ? left : 0)) s were left, its limit is $limit s" code=75
    elif [ "$left" -lt "$limit" ]; then
        limit=$left
    fi
fi

if [ -z "$result" ]; then
    began=$(date +%s%N)
    timeout -k 2 "$limit" env "$@" >"$log" 2>&1 </dev/null
    code=$?
    ms=$((($(date +%s%N) - began) / 1000000))
    case $code in
        0) result=passed ;;
        77) result=skipped why=$(tail -n 1 "$log" | cut -c1-160) ;;
        124) result=limit why="longer than $limit s" ;;
        *) result=failed why="exit code $code" ;;
    esac
    # Killed, because it went on after the first signal.
    if [ $code -eq 137 ] && [ $ms -ge $((limit * 1000)) ]; then
        result=limit why="longer than $limit s, and had to be killed"
    fi
fi
[ "$result" != skipped ] || [ "${FIRST_LIGHT_STRICT-}" != yes ] || { result=failed why="skipped: $why"; }

values=
if [ -n "${FIRST_LIGHT_VALUES-}" ]; then
    [ ! -f "$FIRST_LIGHT_VALUES" ] || values=$(tr -d '\n' <"$FIRST_LIGHT_VALUES")
elif [ -f "$log" ]; then
    values=$(grep -a '^{".*}$' "$log" | tail -n 1)
fi
# value KEY: the first number of that name.
value() { printf '%s' "$values" | grep -oE "\"$1\": *-?[0-9][0-9.eE+-]*" | head -n 1 | sed 's/.*: *//'; }
shown=$(
    [ -z "$(value images_per_second)" ] || printf '%.0f images/s  ' "$(value images_per_second)"
    [ -z "$(value loss)" ] || printf 'loss %.6f  ' "$(value loss)"
    [ -z "$(value ratio)" ] || printf '%.4g / %.4g = %.4f  ' "$(value of)" "$(value by)" "$(value ratio)"
    wanted=$(printf '%s' "$values" | sed -n 's/.*"wanted": "\([^"]\{1,\}\)".*/\1/p')
    [ -z "$wanted" ] || printf 'wanted: %s' "$wanted"
    [ -z "$(value input_wait)" ] || printf 'input wait %.4f  copies hidden %.4f' "$(value input_wait)" "$(value hidden)"
)
seconds=$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))
{
    printf '[%4d s] %-10s %-36s %-7s %8s s  %s\n' $(($(date +%s) - FIRST_LIGHT_BEGUN)) "$stage" "$item" "$result" \
        "$seconds" "${why:-$shown}"
    case $result in
        passed) head -n "${FIRST_LIGHT_SHOWN:-0}" "$log" | sed 's/^/             /' ;;
        failed | limit)
            if [ -f "$log" ]; then
                grep -aE 'FAILED|ERROR|[Ee]rror|instead|=========' "$log" | head -n 12 >"$report.lines"
                [ -s "$report.lines" ] || tail -n 12 "$log" >"$report.lines"
                cut -c1-200 "$report.lines" | sed 's/^/             /'
                rm -f "$report.lines"
            fi ;;
    esac
} >"$report"
cat "$report" >>"$out/log"
cat "$report"
printf '{"stage": "%s", "item": "%s", "result": "%s", "code": %d, "seconds": %s, "why": "%s"%s}\n' "$stage" \
    "$(quoted "$item")" $result $code "$seconds" "$(quoted "$why")" "${values:+, \"values\": $values}" >"$report"
cat "$report" >>"$out/results.jsonl"
printf '%s\t%s\t%s\t%s\t%s\n' "$stage" "$item" $result "$seconds" "${why:-$shown}" >"$report"
cat "$report" >>"$out/table"
rm -f "$report"
[ $result = passed ]
