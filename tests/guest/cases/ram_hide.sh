# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# RAM is hidden by as much as was asked, the kernel's cap is back at once, and everything is back after the release.
asked=$((512 << 20))
before=$(meminfo MemAvailable)
expect 0 ram hide 512M -o json
expect_near "hidden, as Wringer says" "$(value hidden_bytes)" $asked 0
expect_near "Hugetlb, kB" "$(meminfo Hugetlb)" $((asked >> 10)) 0
expect_near "HugePages_Rsvd" "$(meminfo HugePages_Rsvd)" 256 0
expect_near "fall of MemAvailable, kB" $((before - $(meminfo MemAvailable))) $((asked >> 10)) 65536
[ "$(cat /proc/sys/vm/nr_overcommit_hugepages)" = 0 ] || fail "the cap is still raised"
[ "$(cat "/proc/$(role holder)/oom_score_adj")" = 1000 ] || fail "the holder would not be the first to die"
expect 3 ram hide 64M
says "wringer ram release"
expect 0 ram release
ram_is_back || fail "the RAM is not back"
