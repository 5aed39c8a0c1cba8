// SPDX-License-Identifier: Apache-2.0
//! Flags of other tools, and Wringer's equivalents, so that a user of such a flag gets a better answer than "unexpected argument".
//! Only flags that Wringer does not have.

/// The answer for this flag, which may have a value.
pub fn hint(flag: &str) -> Option<&'static str> {
    let name = flag.split('=').next().unwrap_or(flag).replace('_', "-");
    let of = |words: &&(&str, &'static str)| words.0.split(' ').any(|word| word == name);
    FLAGS.iter().find(of).map(|(_, hint)| *hint)
}

const FLAGS: &[(&str, &str)] = &[
    // sysbench 0.5 and 1.0
    ("--num-threads --clients --client --concurrency -c", "connections are --threads=N (`load`)"),
    ("--max-time --duration --runtime --run-time -T", "how long is --time=60 (`load`, `observe`)"),
    ("--max-requests --transactions --number-of-queries", "how many is --events=N (`load`)"),
    ("--tx-rate", "so many transactions a second is --rate=N (`load`)"),
    ("--oltp-table-size --oltp-tables-count", "tables are --tables=N, rows --table-size=N (`load`, `fill`)"),
    ("--test", "the workload is the first word: `wringer load oltp_read_write ...`"),
    ("--oltp-read-only", "`wringer load oltp_read_only` reads alone"),
    ("--oltp-skip-trx", "--skip-trx=on (`load`)"),
    ("--init-rng --rand-init", "--rand-seed=N draws the same keys again; 0 is by the clock (`load`)"),
    ("--verbosity --debug --db-debug", "--quiet leaves data and errors; --dry-run shows what would be sent (`load`)"),
    ("--forced-shutdown", "a load ends by itself: statements that run are waited for 30 s at most"),
    ("--validate", "errors are counted by code; --assert errors=0 makes them an exit code (`load`)"),
    (
        "--mysql-ignore-errors --pgsql-ignore-errors",
        "no error ends a load: each is counted by its code, and deadlocks are tried again (`wringer doc load`)",
    ),
    ("--reconnect", "a connection that breaks is made again by itself, and counted"),
    (
        "--thread-init-timeout --thread-stack-size --luajit-cmd",
        "there are neither Lua nor threads a connection here: leave it out",
    ),
    ("--mysql-compression --mysql-ssl-cipher", "the protocol goes uncompressed; --mysql-ssl=require encrypts it"),
    (
        "--mysql-table-options --create-table-options",
        "tables are the server's default engine; `sandbox deploy ... -c default_storage_engine=...`",
    ),
    // pgbench
    ("--jobs -j", "our own threads are --workers=N; connections --threads=N (`load`)"),
    ("--progress -P", "a line every so often is --report-interval=1 (`load`)"),
    ("--initialize -i", "`wringer fill --pgbench SCALE` makes pgbench's tables"),
    ("--select-only -S", "`wringer load pgbench_select_only`"),
    ("--skip-some-updates -N", "`wringer load pgbench_simple_update`"),
    ("--protocol -M", "--db-ps-mode=disable sends statements as text (`load`)"),
    (
        "--builtin -b",
        "pgbench's scripts are workloads: pgbench_tpcb_like, pgbench_simple_update, pgbench_select_only (`load`)",
    ),
    ("--file -f", "a workload of your own is a TOML file: `wringer load my.toml` (`wringer doc workloads`)"),
    ("--aggregate-interval --log", "-o json has a timeline; its slots are --timeline-interval (`load`)"),
    // the servers' own clients
    ("--host -h", "--mysql-host=HOST or --pgsql-host=HOST; or --dsn, or --sandbox NAME"),
    ("--port -p", "--mysql-port=PORT or --pgsql-port=PORT; or --dsn, or --sandbox NAME"),
    ("--user --username -u -U", "--mysql-user=NAME or --pgsql-user=NAME; or --dsn, or --sandbox NAME"),
    (
        "--password -W",
        "MYSQL_PWD or PGPASSWORD in the environment, ~/.my.cnf or ~/.pgpass: `ps` shows flags to everyone",
    ),
    ("--socket", "--mysql-socket=PATH; PostgreSQL's is the folder in --pgsql-host; or --sandbox NAME"),
    ("--database --dbname -D -d", "--mysql-db=NAME or --pgsql-db=NAME; or --dsn"),
    ("--execute -e --command", "`wringer sandbox use NAME 'SELECT 1'`; scripts come from standard input"),
    // docker, systemd-run, cgroups
    ("--memory -m --memory-limit", "--ram 4G (`squeeze`, `sandbox start`); in experiments squeeze.server_ram"),
    ("--memory-swap", "--swap off, or a size (`squeeze`, `sandbox start`)"),
    ("--cpuset-cpus", "--cpuset 0,2-3 (`squeeze`, `sandbox start`)"),
    ("--cpu-quota --cpu-period --cpu-shares", "--cpus 0.5 is half of one CPU (`squeeze`, `sandbox start`)"),
    (
        "--device-read-iops --device-write-iops --device-read-bps --device-write-bps --blkio-weight",
        "--disk PATH=iops=3000 or PATH=bandwidth=125M (`squeeze`); --iops, --bandwidth (`disk delay`)",
    ),
    ("--property", "--ram, --cpus, --cpuset, --swap say the same as MemoryMax=, CPUQuota=, AllowedCPUs= (`squeeze`)"),
    // dm-delay, tc, stress-ng, fio, ioping
    (
        "--delay --read-delay --write-delay --latency",
        "--read=10ms, --write=1ms, --sync=2ms (`disk delay`); `sandbox start --disk read=10ms`",
    ),
    (
        "--vm --vm-bytes",
        "`wringer ram hide SIZE` takes RAM away from the whole host; `squeeze --ram` limits one program",
    ),
    (
        "--rw --iodepth --bs --ioengine --filename --numjobs",
        "`wringer probe read PATH --help`: how fast a disk reads; it is no general I/O generator",
    ),
    // dbdeployer
    ("--sandbox-home --sandbox-directory", "WRINGER_HOME names the folder of all sandboxes; --name one of them"),
    (
        "--my-cnf-options --init-options",
        "`sandbox deploy ... -c KEY=VALUE` for all starts, `sandbox start ... -c KEY=VALUE` for one",
    ),
    ("--nodes --topology", "`sandbox deploy ... --replicas N`: one primary with N replicas"),
    ("--gtid", "replicas follow by GTID always: `sandbox deploy ... --replicas N`"),
    ("--remote-access --bind-address", "a sandbox listens on 127.0.0.1 alone (`wringer doc refusals`)"),
    (
        "--db-user --db-password --rpl-user --rpl-password",
        "account and password are made; `sandbox export NAME` prints how to connect",
    ),
    ("--sandbox-binary", "`sandbox unpack TARBALL`, then `sandbox deploy FLAVOUR VERSION`"),
    // flags of several tools
    ("--json --format", "-o json"),
    ("--verbose -v", "there is nothing more to say; --quiet says less, -o json all"),
    (
        "--config --defaults-extra-file",
        "--defaults-file=FILE is an option file (`load`, `fill`); an experiment is `wringer run FILE.toml`",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_another_tool_has_a_hint() {
        for (flag, words) in [
            ("--num-threads=4", "--threads"),
            ("--num_threads", "--threads"),
            ("--oltp-table-size", "--table-size"),
            ("-T", "--time"),
            ("--cpuset-cpus=0", "--cpuset"),
            ("--my-cnf-options", "-c KEY=VALUE"),
        ] {
            assert!(hint(flag).is_some_and(|hint| hint.contains(words)), "{flag}: {:?}", hint(flag));
        }
        assert_eq!(hint("--no-such-flag"), None);
    }

    /// Each flag is in one row only.
    #[test]
    fn rows_do_not_overlap() {
        let mut all: Vec<&str> = FLAGS.iter().flat_map(|(flags, _)| flags.split(' ')).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
