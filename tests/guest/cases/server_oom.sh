# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# A real server grows until a host with hidden RAM has none left. As a rule the hidden RAM is given back, and the server lives; with oom_victim =
# "server" the kernel kills the server, and the RAM stays hidden until the run ends of it. Either way the run says so.
export WRINGER_HOME=/data/home WRINGER_CACHE=/servers
PATIENCE=120
killed() { dmesg | sed -n 's/.*Out of memory: Killed process [0-9]* (\([^)]*\)).*/\1/p'; }
serving() { [ "$(meminfo Hugetlb)" != 0 ] && pidof mariadbd >/dev/null; }
serving_or_over() { serving || ! kill -0 $run; }
grown() { # grown MEBIBYTES: a statement that makes a session of the server larger by twice as much, and pauses a moment after every sixteen
    count=$(($1 / 16)) statement="SET @last = 0"
    while [ $count -gt 0 ]; do
        statement="$statement, @part$count = REPEAT('x', 16777216 - 100), @pause = SLEEP(0.02)"
        count=$((count - 1))
    done
    # and stays so for as long as a watchdog takes to look
    echo "$statement, @pause = SLEEP(3)"
}
runs_until_it_grows() { # runs_until_it_grows VICTIM MEBIBYTES
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
rows = 100
[load]
workload = "oltp_point_select"
rate = 2
arrivals = "constant"
time = "10m"
[squeeze]
ram = { leave = "1G", oom_victim = "$1" }
END
    dmesg -c >/dev/null
    wringer run /tmp/oom.toml --yes --to /data/oom >/tmp/run.log 2>&1 &
    run=$!
    until_true serving_or_over
    serving || fail "$1: nothing runs: $(cat /tmp/run.log)"
    score=$(cat "/proc/$(role holder)/oom_score_adj")
    wringer sandbox use "$(basename "$WRINGER_HOME"/sandboxes/oom-*)" "$(grown "$2")" >/tmp/grown 2>&1 || true
    code=0
    wait $run || code=$?
    cat /tmp/run.log
    echo "$1: score $score, run ended with $code; killed by the kernel: $(killed | tr '\n' ' ')" | tee /dev/console
    [ $code = 4 ] || fail "$1: the run ended with $code"
    cp /tmp/run.log /tmp/out
    ram_is_back || fail "$1: RAM is still hidden"
    rm -r /data/oom
}

# memory is touched in pieces of 2 MiB: page by page, an emulated processor takes minutes
huge=/sys/kernel/mm/transparent_hugepage/enabled
usual=$(sed 's/.*\[\(.*\)\].*/\1/' $huge)
echo always >$huge
runs_until_it_grows holder 416
[ "$score" = 1000 ] || fail "the holder's score is $score"
killed | grep -q mariadbd && fail "the server was killed"
says "the watchdog ended the run"

runs_until_it_grows server 1000
[ "$score" = 0 ] || fail "the holder's score is $score"
[ "$(killed)" = mariadbd ] || fail "the server was not the only one to be killed"
says "the server ended by itself"
echo "$usual" >$huge
