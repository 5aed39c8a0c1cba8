# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# Runs one case between two snapshots of the machine, and says what came of it in one line. Below: the words that cases use.
# usage: sh /lib.sh frame CASE

export WRINGER_HOME=${WRINGER_HOME:-/tmp/home} WRINGER_CACHE=/tmp/cache HOME=/tmp WRINGER_FILLS_LIMIT=0
export PATIENCE=60

# --- the words of a case -------------------------------------------------------------------------

fail() { # fail MESSAGE...: the case ends here
    echo "reason: $*"
    exit 1
}

expect() { # expect CODE ARGUMENTS...: runs wringer; its exit code must be CODE
    expected=$1
    shift
    code=0
    wringer "$@" >/tmp/out 2>/tmp/err || code=$?
    echo "+ wringer $*   ($code, at $(cut -d" " -f1 /proc/uptime) s)"
    [ "$code" -eq "$expected" ] && return 0
    cat /tmp/out /tmp/err
    fail "wringer $* ended with $code, not $expected"
}

says() { # says WORDS...: each is in what the last `expect` printed
    for words in "$@"; do
        cat /tmp/out /tmp/err | grep -qF -- "$words" && continue
        cat /tmp/out /tmp/err
        fail "'$words' was not said"
    done
}

value() { # value KEY: the first number under this key in what the last `expect` printed as JSON
    sed -n "s/^ *\"$1\": *\([0-9]*\).*/\1/p" /tmp/out | head -1
}

meminfo() { # meminfo NAME: as it stands in /proc/meminfo, in kB or pages
    sed -n "s/^$1: *\([0-9]*\).*/\1/p" /proc/meminfo
}

role() { # role holder|watchdog|supervise|slowfs: the process that Wringer runs as this; fails when there is none
    for process in /proc/[0-9]*; do
        case "$(tr '\0' ' ' 2>/dev/null <"$process/cmdline")" in
        *"wringer internal $1 "*) echo "${process#/proc/}" && return 0 ;;
        esac
    done
    return 1
}

kill_together() { # kill_together PID...: stopped first, so that none of them acts on the end of another
    kill -STOP "$@"
    kill -9 "$@"
}

until_true() { # until_true COMMAND...: waits for it, PATIENCE seconds at most
    end=$(($(date +%s) + PATIENCE))
    until "$@"; do
        [ "$(date +%s)" -lt "$end" ] || return 1
        usleep 100000
    done
}

# An emulated processor takes a second for psql, and many times that for Wringer's program, which is not optimized here.
postgresql_does() { # postgresql_does STATEMENTS: in the sandbox of this name, from the disk of programs
    sandbox=$WRINGER_HOME/sandboxes/postgresql tree=$(echo /servers/servers/postgresql-*/tree/usr)
    LD_LIBRARY_PATH=$tree/lib/x86_64-linux-gnu PGPASSWORD=$(cat "$sandbox/secret") "$(echo "$tree"/lib/postgresql/*/bin/psql)" -X -q -v ON_ERROR_STOP=1 \
        -h "$sandbox/run" -p "$(sed -n "s/^port = '*\([0-9]*\).*/\1/p" "$sandbox/server.cnf")" -U wringer -d sbtest -c "$1"
}

answers() { # answers: whether PostgreSQL does
    postgresql_does "SELECT 1" >/dev/null 2>&1
}

pool_of() { # pool_of NODE FILE: of the pool of pages of 2 MiB on this NUMA node
    cat "/sys/devices/system/node/node$1/hugepages/hugepages-2048kB/$2"
}

set_pool() { # set_pool NODE PAGES
    echo "$2" >"/sys/devices/system/node/node$1/hugepages/hugepages-2048kB/nr_hugepages"
}

tells() { # tells KEY VALUES: those of the nodes, the first one's first, in the first list "nodes" that the last `expect` printed as JSON
    told=$(sed -n '/"nodes": \[/,/\]/p' /tmp/out | sed -n "s/^ *\"$1\": *\([0-9]*\).*/\1/p" | tr '\n' ' ' | sed 's/ $//')
    [ "$told" = "$2" ] || fail "$1 of the nodes: told '$told', and it is '$2': $(cat /tmp/out)"
    echo "$1 of the nodes: $2"
}

ram_is_back() {
    [ "$(meminfo Hugetlb)" = 0 ]
}

sectors_read() { # sectors_read DISK: so far, in units of 512 bytes
    awk '{ print $3 }' "/sys/block/$1/stat"
}

expect_near() { # expect_near NAME GOT ASKED TOLERANCE
    echo "$1: got $2, asked $3"
    [ "$2" -ge $(($3 - $4)) ] && [ "$2" -le $(($3 + $4)) ] || fail "$1: got $2, asked $3 within $4"
}

milliseconds() { # milliseconds FILE: of 20 reads past the page cache, one after the other
    start=$(tr -d . </proc/uptime | cut -d' ' -f1)
    dd if="$1" of=/dev/null bs=4k count=20 iflag=direct 2>/dev/null
    echo $((($(tr -d . </proc/uptime | cut -d' ' -f1) - start) * 10))
}

clock() { # sets $now, in hundredths of a second, without a process of its own
    read -r now _ </proc/uptime
    now=${now%.*}${now#*.}
}

shortest_of() { # shortest_of COUNT COMMAND...: sets $shortest, in milliseconds; the command finds its number in $at
    count=$1 shortest=''
    shift
    for at in $(seq 0 $((count - 1))); do
        clock
        started=$now
        "$@"
        clock
        took=$(((now - started) * 10))
        [ -n "$shortest" ] && [ "$shortest" -le "$took" ] || shortest=$took
    done
}

one_read() { # one_read FILE: block $at, past the page cache
    dd if="$1" of=/dev/null bs=4k skip="$at" count=1 iflag=direct 2>/dev/null
}

# A pause of the machine below makes some of them longer, and none shorter: so the shortest are compared. A read may seem shorter than what
# was asked by 14 ms: dm-delay counts ticks of the kernel's timer (4 ms with HZ=250), the first of which may be nearly over when the read
# comes, and the clock here has steps of 10 ms.
expect_delayed() { # expect_delayed FILE READS MILLISECONDS BARE: reads of FILE take so long each, and reads of BARE nothing
    shortest_of "$2" one_read "$4"
    bare=$shortest
    shortest_of "$2" one_read "$1"
    got=$shortest
    shortest_of "$2" usleep $(($3 * 1000))
    told="the shortest of $2 reads with $3 ms took $got ms; of as many naps $shortest ms, and of reads without a delay $bare ms"
    echo "$told"
    [ "$got" -ge $(($3 - 14)) ] && [ "$got" -le $((shortest + bare + $3 / 4)) ] || fail "$told"
}

make_loop() { # make_loop MEBIBYTES: prints a loop device on a file in RAM
    dd if=/dev/urandom of=/tmp/image bs=1M count="$1" 2>/dev/null
    loop=$(losetup -f)
    losetup "$loop" /tmp/image
    echo "$loop"
}

remove_loop() { # remove_loop DEVICE
    losetup -d "$1"
    rm /tmp/image
}

mapped() { # mapped: the path of the slow device that there is
    ls /dev/mapper/wringer-*
}

# --- the frame -----------------------------------------------------------------------------------

snapshot() {
    host-snapshot
    # nobody else is on this machine: every program but the shell's must be the same, too
    for process in /proc/[0-9]*; do
        [ -e "$process/exe" ] && [ ! "$process/exe" -ef /bin/busybox ] && read -r name <"$process/comm" && echo "program $name"
    done 2>/dev/null | sort
}

same_as_before() {
    snapshot >/tmp/snapshot.after
    cmp -s /tmp/snapshot.before /tmp/snapshot.after
}

nothing_changed() { # nothing_changed: as before the case, also by Wringer's own account
    until_true same_as_before || {
        diff /tmp/snapshot.before /tmp/snapshot.after || true
        fail "the machine is not as before"
    }
    expect 0 status
    says "nothing is changed"
}

nothing_is_handed_down() { # nothing_is_handed_down WHERE: no controller of a cgroup
    [ -z "$(cat /sys/fs/cgroup/cgroup.subtree_control)" ] || fail "$1: a controller is still handed down"
}

dies_at_every_point() { # dies_at_every_point LEAST COMMAND...: at every thirteenth of its crash points, of which there are more than LEAST; with the
    # word points=all on the kernel's command line at each of them
    least=$1
    shift
    point=1 step=13
    [ "${points:-}" = all ] && step=1
    while [ $point -lt 200 ]; do
        code=0
        WRINGER_CRASH=$point "$@" >/tmp/out 2>&1 || code=$?
        [ $code -eq 0 ] && break
        [ $code -eq 137 ] || fail "point $point: $(cat /tmp/out)"
        expect 0 undo
        nothing_is_handed_down "point $point"
        point=$((point + step))
    done
    echo "$point crash points"
    [ $point -gt "$least" ] || fail "only $point crash points: are they compiled in?"
    nothing_changed
}

dies_with_its_watchdog() { # dies_with_its_watchdog POINTS COMMAND...: both, at these points
    points=$1
    shift
    for point in $points; do
        WRINGER_CRASH_WATCHDOG=1 WRINGER_CRASH=$point "$@" >/tmp/out 2>&1 && fail "point $point: it was not killed"
        expect 0 undo
        nothing_is_handed_down "point $point"
    done
}

frame() { # frame CASE
    echo "GUEST case $1"
    start=$(cut -d. -f1 /proc/uptime)
    snapshot >/tmp/snapshot.before
    # a shell of its own: -e does not hold below an `if`
    code=0
    sh -eu /lib.sh body "$1" >/tmp/said 2>&1 || code=$?
    if [ $code -eq 0 ]; then
        outcome=ok
    else
        sed 's/^/| /' /tmp/said
        outcome="FAILED $(sed -n 's/^reason: //p' /tmp/said | tail -1)"
        # the next case starts as this one did, as far as that goes
        umount /tmp/mnt 2>/dev/null && rmdir /tmp/mnt
        wringer undo >/dev/null 2>&1
        for image in /sys/block/loop*/loop/backing_file; do
            [ ! -e "$image" ] || losetup -d "/dev/$(echo "$image" | cut -d/ -f4)"
        done
        rm -rf /data/slow /tmp/image
    fi
    echo "CASE $1 $outcome ($(($(cut -d. -f1 /proc/uptime) - start)) s)"
}

case ${1:-} in
body)
    . "/cases/$2.sh"
    nothing_changed
    ;;
frame) frame "$2" ;;
esac
