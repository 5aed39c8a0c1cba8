# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# A squeezed machine whose power is cut from outside, any time after "POWER may go". First it looks at what the cut before has left.
# Its disk keeps Wringer's home, as a real machine's does. Variables of the kernel's command line: acknowledged=N, lines that
# were durable before the cut.
export WRINGER_HOME=/data/home
mkdir -p /data/files

# --- after a cut ---
if [ -e /data/files/sums ]; then
    (cd /data/files && md5sum -s -c sums) || fail "a file is damaged"
    lines=$(wc -l </data/files/log)
    [ "$lines" -ge "${acknowledged:-0}" ] || fail "$acknowledged lines were durable, $lines are there"
    # every line is whole
    [ "$(grep -c '^line [0-9]* ends$' /data/files/log)" = "$lines" ] || fail "a line is damaged"
    expect 0 status -o json
    runs=$(grep -c '"condition": ' /tmp/out) || true
    stale=$(grep -c '"condition": "stale"' /tmp/out) || true
    # cut off before the first record of its journal was durable, a run had changed nothing: it is over, and has no step
    begun=$(grep -c '"condition": "over"' /tmp/out) || true
    [ $((stale + begun)) = "$runs" ] || fail "a run of another boot is not called stale: $(cat /tmp/out)"
    [ "$begun" -le 1 ] && [ "$(grep -c '"steps": \[\]' /tmp/out)" -ge "$begun" ] || fail "a run with steps is called over: $(cat /tmp/out)"
    echo "POWER $stale stale runs, $lines lines of ${acknowledged:-0}" >/dev/console
    expect 0 undo
    expect 0 undo
    says "nothing to undo"
    nothing_changed
    [ "${last:-no}" = yes ] && return 0
else
    for name in a b c; do dd if=/dev/urandom of=/data/files/$name bs=1M count=1; done 2>/dev/null
    : >/data/files/log
    (cd /data/files && md5sum a b c >sums)
    sync
fi

# --- until the next one: a machine that has gone through this can be squeezed again ---
write_lines() {
    number=$(wc -l </data/files/log)
    while [ -e /tmp/writing ]; do
        number=$((number + 1))
        printf 'line %d ends\n' $number | dd of=/data/files/log bs=64 oflag=append conv=notrunc,fsync 2>/dev/null
        echo "POWER line $number" >/dev/console
    done
}

loop=$(make_loop 2)
echo "POWER may go" >/dev/console
while :; do
    expect 0 ram hide 64M
    expect 0 disk delay "$loop" --write 5ms
    expect 0 disk delay /data/files --write 5ms --sync 10ms
    : >/tmp/writing
    write_lines &
    sleep 2
    # its last line is whole, and nobody has the file open any more
    rm /tmp/writing
    wait
    expect 0 disk release
    expect 0 ram release
done
