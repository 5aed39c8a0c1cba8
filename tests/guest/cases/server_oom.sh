# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# A real server grows, step by step, until the run ends: on a host with hidden RAM that has none left. As a rule the hidden RAM is given back,
# and the server lives until it is stopped; with oom_victim = "server" the kernel kills the server, and the RAM stays hidden until then. The
# second takes as long as the first, and is tried with the word points=all on the kernel's command line.
export WRINGER_HOME=/data/oom-home WRINGER_CACHE=/servers
PATIENCE=600
STEPS=80
killed() { dmesg | sed -n 's/.*Out of memory: Killed process [0-9]* (\([^)]*\)).*/\1/p'; }
measuring_or_over() { grep -q measuring /tmp/run.log || ! kill -0 $run 2>/dev/null; }
ended_by_watchdog() { grep -q 'neutralised: only' "$WRINGER_HOME/journal/watchdog.log"; }
growing() { # growing PAUSE: a statement that makes the server larger by 16 MiB with each step, and pauses before the next, for so many seconds
    # once memory gets short: in all more than there is while RAM is hidden, and less than there is without that
    # one string of many pieces: of single letters, an emulated processor would make it in seconds
    statement="SELECT 0" step=1
    while [ $step -le $STEPS ]; do
        [ $step -le 40 ] && pause=0.05 || pause=$1
        statement="$statement, LENGTH(REPEAT(REPEAT('x', 65535), 256)), SLEEP($pause)"
        step=$((step + 1))
    done
    echo "$statement"
}
runs_until_it_grows() { # runs_until_it_grows VICTIM MECHANISM PAUSE
    cat >/tmp/oom.toml <<END
schema = 1
name = "oom"
[server]
flavour = "mariadb"
[server.options]
performance_schema = "OFF"
innodb_buffer_pool_size = "16M"
innodb_log_file_size = "4M"
[fill]
from = "$ready/mariadb/data"
rows = 100
[load]
workload = "oltp_point_select"
rate = 2
arrivals = "constant"
time = "30m"
[squeeze]
ram = { leave = "1G", oom_victim = "$1", mechanism = "$2" }
END
    dmesg -c >/dev/null
    rm -f "$WRINGER_HOME/journal/watchdog.log"
    # emptied here: the new run may not have come to it when the old lines are looked at
    : >/tmp/run.log
    wringer run /tmp/oom.toml --yes --to /data/oom >/tmp/run.log 2>&1 &
    run=$!
    until_true measuring_or_over && kill -0 $run 2>/dev/null || fail "$1, $2: nothing runs: $(cat /tmp/run.log)"
    [ "$(meminfo Hugetlb)" != 0 ] || fail "$1, $2: no RAM is hidden"
    # returns when the server has gone, or has grown by all steps: then the watchdog must have seen it
    wringer sandbox use "$(basename "$WRINGER_HOME"/sandboxes/oom-*)" "$(growing "$3")" >/tmp/grown 2>&1 && ! ended_by_watchdog && {
        kill -TERM $run
        wait $run || true
        fail "$1, $2: the server has grown by $STEPS steps, and the run goes on"
    }
    code=0
    wait $run || code=$?
    cat /tmp/run.log
    echo "$1, $2: the run ended with $code; killed by the kernel: $(killed | tr '\n' ' ')" | tee /dev/console
    [ $code = 4 ] || fail "$1, $2: the run ended with $code"
    ram_is_back || fail "$1, $2: RAM is still hidden"
    cp /tmp/run.log /tmp/out
    cp /data/oom/result.json /tmp/err
    rm -r /data/oom
}

# a copy of a data directory that was made on the machine below: an emulated processor takes minutes to make one
ready=/tmp/ready
mkdir $ready
mount -t ext4 -o ro /dev/vdb $ready

# memory is touched in pieces of 2 MiB: page by page, an emulated processor takes minutes
huge=/sys/kernel/mm/transparent_hugepage/enabled
usual=$(sed 's/.*\[\(.*\)\].*/\1/' $huge)
echo always >$huge
# the floor of 256 MiB lasts for eight seconds: the watchdog, which looks each second, may be some of them late
runs_until_it_grows holder holder 0.5
killed | grep -q mariadbd && fail "the server was killed"
says "the watchdog ended the run: only" "ending early"

if [ "${points:-}" = all ]; then
    runs_until_it_grows server pool 0.15
    [ "$(killed)" = mariadbd ] || fail "the server was not the only one to be killed: $(killed)"
    says "the server ended by itself, killed by signal 9" "ending early"
fi
echo "$usual" >$huge
umount $ready
rmdir $ready
