# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# A directory gets slow by as much as was asked, and fast again.
mkdir /data/slow
dd if=/dev/urandom of=/data/slow/file bs=1M count=2 2>/dev/null
sum=$(md5sum </data/slow/file)
cp /data/slow/file /data/bare

echo "without: $(milliseconds /data/slow/file) ms"
# timed beside naps: an emulated processor beside others wakes late, and the probe says by how much
expect 0 disk delay /data/slow --read 400ms -o json
grep -q '"what": "disk.read.median"' /tmp/out || fail "reads were not measured: $(cat /tmp/out)"
grep -q " /data/slow fuse.wringer " /proc/mounts || fail "nothing is mounted"
expect_delayed /data/slow/file 10 400 /data/bare
expect 0 disk delay /data/slow --write 1ms
took=$(milliseconds /data/slow/file)
# with the delay of before they would take 8 s
[ "$took" -lt 7800 ] || fail "20 reads without a delay took $took ms"
[ "$(md5sum </data/slow/file)" = "$sum" ] || fail "the file reads differently"
echo written through the layer >/data/slow/new
expect 0 disk release /data/slow
[ "$(cat /data/slow/new)" = "written through the layer" ] || fail "a file written through the layer is not there"
[ "$(md5sum </data/slow/file)" = "$sum" ] || fail "the file is damaged"
rm -r /data/slow /data/bare
