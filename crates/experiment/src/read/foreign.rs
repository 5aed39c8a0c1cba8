// SPDX-License-Identifier: Apache-2.0
//! The words of other tools for keys, and the keys here that mean the same.

/// What to write instead of `key` in this section; `None`: no known tool has this word.
pub(super) fn hint(section: &str, key: &str) -> Option<&'static str> {
    let key = key.replace('-', "_").to_lowercase();
    // an arm's own sections are named like the file's
    let section = section.rsplit('.').next().unwrap_or(section);
    let of = |row: &&(&str, &str, &'static str)| row.0 == section && row.1.split(' ').any(|word| word == key);
    KEYS.iter().find(of).map(|(_, _, hint)| *hint)
}

const KEYS: &[(&str, &str, &str)] = &[
    ("", "matrix", "a file with [matrix] is many runs: `wringer matrix plan FILE`, `wringer matrix run FILE`"),
    ("matrix", "repeat repeats repetitions replicates", "write blocks = 5: each block runs every setting once"),
    ("matrix", "vary grid product full", "write the keys below [matrix.cross], each with a list of values"),
    ("matrix", "zip paired pairs", "write the keys below [matrix.pair]"),
    ("matrix", "random sampled samples", "write the keys below [matrix.sample], with settings = 12"),
    ("matrix", "skip except exclusions", "write [[matrix.exclude]]"),
    ("matrix", "set derive linked links depends", "write the keys below [matrix.follow]"),
    ("load", "num_threads connections clients concurrency", "write threads = 16"),
    ("load", "max_time duration runtime run_time", "write time = \"60s\""),
    ("load", "max_requests transactions number_of_queries", "write events = 100000"),
    ("load", "warmup_time ramp_time ramp_up", "write warmup = \"10s\""),
    ("load", "tables tables_count oltp_tables_count", "write tables = 4 below [fill]: all arms share them"),
    ("load", "table_size oltp_table_size rows", "write rows = 100000 below [fill]: all arms share them"),
    ("load", "test script benchmark", "write workload = \"oltp_read_write\""),
    ("load", "rand_type", "write distribution = \"zipfian\""),
    ("load", "rand_seed random_seed", "write seed = 7"),
    ("load", "tx_rate target_rate", "write rate = 500 and arrivals = \"poisson\""),
    ("load", "db_ps_mode protocol", "write prepared = false to send statements as text"),
    ("load", "report_interval progress", "write interval = \"1s\" below [observe]"),
    ("load", "percentile histogram percentiles", "leave it out: all of the distribution is recorded and reported"),
    ("load", "scale scale_factor", "write pgbench = 100 below [fill]"),
    (
        "load",
        "mysql_host mysql_socket pgsql_host dsn host port user password",
        "leave it out: the server is the experiment's own",
    ),
    ("fill", "table_size oltp_table_size", "write rows = 100000"),
    ("fill", "scale scale_factor", "write pgbench = 100"),
    ("fill", "create_secondary", "write secondary = true"),
    ("fill", "rand_type", "write k_distribution = \"zipfian\""),
    ("fill", "dump import restore load_dump data datadir", "write from = \"dump.sql\""),
    (
        "squeeze",
        "memory memory_max memory_limit mem mem_limit",
        "write server_ram = \"4G\" for the server, ram = { hide = \"4G\" } for the host",
    ),
    ("squeeze", "memory_swap swap_max", "write swap = \"off\", or a size"),
    ("squeeze", "cpu cpu_quota cpu_limit cpu_max", "write cpus = 0.5"),
    ("squeeze", "cpuset_cpus allowed_cpus cpu_affinity", "write cpuset = \"0,2-3\""),
    ("squeeze", "latency disk_latency delay disk_delay io_delay", "write disk = { read = \"10ms\", write = \"1ms\" }"),
    (
        "squeeze",
        "iops read_iops write_iops device_read_iops",
        "write disk = { iops = 3000 }, or a disk by name: disk = { profile = \"gp3\" }",
    ),
    (
        "squeeze",
        "bandwidth bps read_bps write_bps",
        "write disk = { bandwidth = \"125M\" }, or a disk by name: disk = { profile = \"gp3\" }",
    ),
    ("server", "image engine type db_driver", "write flavour = \"mariadb\" (mysql, percona, postgresql)"),
    ("server", "my_cnf my_cnf_options config settings mysqld", "write the options below [server.options], one a line"),
    ("server", "hugepages large_pages use_huge_pages", "write huge_pages = true"),
    ("server", "allocator malloc_lib ld_preload", "write malloc = \"jemalloc\", or the path of a library"),
    ("server", "transparent_hugepage transparent_huge_pages", "write thp = \"never\""),
    ("server", "pooler pool_size", "write pgbouncer = 80"),
    ("server", "memory cpus", "limits of the server stand below [squeeze]: server_ram, cpus"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_tool_has_a_hint() {
        assert_eq!(hint("load", "num-threads"), Some("write threads = 16"));
        assert_eq!(hint("arm.0.squeeze", "memory"), hint("squeeze", "memory"));
        assert!(hint("squeeze", "cpu_quota").is_some_and(|hint| hint.contains("cpus = 0.5")));
        assert_eq!((hint("load", "colour"), hint("server", "num_threads")), (None, None));
    }
}
