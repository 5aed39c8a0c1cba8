// SPDX-License-Identifier: Apache-2.0
mod assertions;

use crate::{Experiment, FillSize, Preheat, Problem, RamSqueeze, RowShape, WatchStalls};
use evidence::{Arrivals, OomVictim, RamAmount, RamMechanism};
use units::{Bytes, Span, Swap};
use workload::distribution::Kind;

const GOOD: &str = r#"schema = 1
name = "sample"
[server]
flavour = "mariadb"
[server.options]
innodb-buffer-pool-size = "128M"
skip_log_bin = true
[fill]
size = "1.5x pool"
rows_per_page = 4
[squeeze]
ram = { leave = "8G" }
[load]
workload = "oltp_point_select"
time = "20s"
distribution = "uniform"
preheat = "1x rows"
[[arm]]
name = "no delay"
[[arm]]
name = "10 ms"
squeeze.disk.read = "10ms"
squeeze.ram = { hide = "1G" }
load = { threads = 2, rate = 50, arrivals = "poisson" }
"#;

#[test]
fn arms_are_laid_over_the_sections() {
    let experiment = Experiment::parse(GOOD).unwrap();
    assert_eq!(experiment.fill.size, Some(FillSize::TimesPool(1.5)));
    assert_eq!(experiment.fill.rows, RowShape::PerPage(4));
    let [first, second] = &experiment.arms[..] else { panic!("two arms") };
    let of = |amount| RamSqueeze { amount, oom_victim: OomVictim::Holder, mechanism: None };
    assert_eq!(first.squeeze.ram, Some(of(RamAmount::Leave(Bytes::gib(8)))));
    assert_eq!(second.squeeze.ram, Some(of(RamAmount::Hide(Bytes::gib(1)))), "exclusive keys replace, not merge");
    assert_eq!(second.squeeze.disk.as_ref().unwrap().read_median_us(), 10_000.0);
    assert!(first.squeeze.disk.as_ref().unwrap().is_none(), "all arms use one mechanism");
    assert_eq!((first.load.threads, second.load.threads), (1, 2));
    assert_eq!(second.load.arrivals, Arrivals::Poisson { per_second: 50.0 });
    assert_eq!(second.load.time, Some(Span::secs(20)), "what the arm does not say, the section says");
    assert_eq!(second.load.preheat, Some(Preheat::TimesRows(1.0)));
    assert_eq!(first.server_options["innodb_buffer_pool_size"], "128M");
    assert_eq!(first.server_options["skip_log_bin"], "ON");
    assert_eq!(experiment.pool(first), Bytes::mib(128));
    assert_eq!(second.overrides["squeeze.disk.read"], "10ms");
    assert!(!second.restart);
}

#[test]
fn a_watch_for_stalls_is_asked_for() {
    let with = |keys: &str| Experiment::parse(&GOOD.replacen("[[arm]]", &format!("[observe]\n{keys}\n[[arm]]"), 1));
    let stalls = |observe: &str| with(observe).unwrap().observe.stalls;
    assert_eq!(stalls("stalls = false"), None);
    let usual = WatchStalls { interval: None, least: None, deep: false, probes: false };
    assert_eq!(stalls("stalls = true"), Some(usual));
    let finer = "stalls_interval = \"5ms\"\nstalls_min = \"20ms\"";
    let ms = |ms| Span(std::time::Duration::from_millis(ms));
    assert_eq!(stalls(finer), Some(WatchStalls { interval: Some(ms(5)), least: Some(ms(20)), ..usual }));
    assert_eq!(stalls("stalls_deep = true"), Some(WatchStalls { deep: true, ..usual }));
    let all = WatchStalls { deep: true, probes: true, ..usual };
    assert_eq!(stalls("stalls = true\nstalls_deep = true\nstalls_probes = true"), Some(all));
    assert_eq!(stalls("stalls = false\nstalls_deep = true"), None, "the plain word counts");
    assert_eq!(stalls("stalls_deep = false"), None);
    let wrong = ["stalls = 1", "stalls_interval = \"1us\"", "stalls_min = \"1ms\"", "stalls_probes = \"yes\""];
    assert!(wrong.iter().all(|it| with(it).is_err()));
}

#[test]
fn inventories_of_the_servers_memory_are_asked_for() {
    let with = |keys: &str| Experiment::parse(&GOOD.replacen("[[arm]]", &format!("[observe]\n{keys}\n[[arm]]"), 1));
    assert_eq!(["", "memory = \"10s\""].map(|it| with(it).unwrap().observe.memory), [None, Some(Span::secs(10))]);
    assert!(["\"99ms\"", "\"61m\"", "true"].iter().all(|wrong| with(&format!("memory = {wrong}")).is_err()));
}

#[test]
fn an_arms_profile_says_everything_and_single_keys_lie_over_the_sections() {
    let disk = |section: &str, arm: &str| {
        let good = GOOD.replacen("squeeze.disk.read = \"10ms\"", &format!("squeeze.disk = {{ {arm} }}"), 1);
        let text = good.replacen("[squeeze]", &format!("[squeeze]\ndisk = {{ {section} }}"), 1);
        Experiment::parse(&text).unwrap().arms[1].squeeze.disk.clone().unwrap().to_string()
    };
    assert!(disk("read = \"0\"", "profile = \"gp3\"").starts_with("delay gp3: read (p50 550 us"));
    let over = disk("profile = \"gp3\"", "read = \"10ms\", iops = 500");
    assert!(over.starts_with("delay gp3: read 10 ms, write (p50 550 us") && over.contains("500 IOPS"), "{over}");
}

#[test]
fn without_arms_there_is_one() {
    let text = GOOD.split("[[arm]]").next().unwrap();
    let experiment = Experiment::parse(text).unwrap();
    assert_eq!(experiment.arms.len(), 1);
    assert_eq!(experiment.arms[0].name, "baseline");
    assert!(!experiment.slow_layer());
}

#[test]
fn an_arm_with_other_variables_restarts_the_server_and_so_does_the_way_back() {
    let text =
        format!("repeat = 2\n{GOOD}\n[[arm]]\nname = \"small\"\nserver.options.innodb_buffer_pool_size = \"64M\"\n");
    let restarts: Vec<_> = Experiment::parse(&text).unwrap().arms.iter().map(|arm| arm.restart).collect();
    assert_eq!(restarts, [true, false, true], "with repetitions the first arm follows the last");
}

/// One change to the good file, then the one problem it must give: line, a part of the message, a part of the suggestion.
fn check(from: &str, to: &str, line: usize, message: &str, suggestion: &str) {
    assert!(GOOD.contains(from), "{from}");
    let problems = Experiment::parse(&GOOD.replacen(from, to, 1)).expect_err(to);
    let fits = |problem: &Problem| {
        problem.line == line
            && problem.message.contains(message)
            && problem.suggestion.as_deref().unwrap_or_default().contains(suggestion)
    };
    assert!(
        problems.len() == 1 && fits(&problems[0]),
        "{to}: wanted {line}: {message}; {suggestion}\ngot {problems:#?}"
    );
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_one() {
    check("time = ", "tiem = ", 15, "unknown key \"tiem\" in [load]", "\"time\"");
    check("[fill]", "[fills]\nx = 1\n[fill]", 8, "unknown key \"fills\"", "\"fill\"");
    check("ram = { leave", "ram = { laeve = \"1G\", leave", 12, "unknown key \"laeve\"", "\"leave\"");
    check("load = { threads", "load = { thread = 1, threads", 24, "unknown key \"thread\"", "\"threads\"");
    check("squeeze.disk.read", "sqeeze = 1\nsqueeze.disk.read", 22, "unknown key \"sqeeze\" in [[arm]]", "\"squeeze\"");
    check("squeeze.disk.read", "squeeze.disk.raed", 22, "unknown key \"raed\" in [squeeze.disk]", "\"read\"");
    check("[fill]", "[matrx]\nblocks = 3\n[fill]", 8, "unknown key \"matrx\"", "\"matrix\"");
    check("name = \"sample\"", "name = \"sample\"\ncolour = 1", 3, "unknown key \"colour\"", "valid here: ");
}

#[test]
fn impossible_values_are_refused_with_what_is_possible() {
    check("schema = 1", "schema = 2", 1, "schema cannot be 2", "from 1 to 1");
    check("\"mariadb\"", "\"mariadbb\"", 4, "flavour cannot be \"mariadbb\"", "\"mariadb\"");
    check("\"oltp_point_select\"", "\"oltp_point_selects\"", 14, "workload cannot be", "\"oltp_point_select\"");
    check("threads = 2", "threads = 0", 24, "load.threads cannot be 0", "from 1");
    check("\"20s\"", "\"0s\"", 15, "load.time cannot be 0", "20s");
    check("\"20s\"", "20", 15, "no unit", "time = \"20s\"");
    check("\"20s\"", "\"20 parsecs\"", 15, "not a time", "time = \"20s\"");
    check("\"10ms\"", "\"1h\"", 22, "squeeze.disk.read cannot be", "10 s is the most");
    check("\"10ms\"", "\"gamma:1ms,2ms\"", 22, "\"gamma\" is no distribution", "lognormal:p50=TIME");
    check("\"10ms\"", "\"normal:1ms,1ms\"", 22, "many times below 0", "lognormal");
    let disk = |words: &str| format!("squeeze.disk = {{ {words} }}");
    let read = "squeeze.disk.read = \"10ms\"";
    check(read, &disk("profile = \"gp4\""), 22, "no disk profile \"gp4\"", "gp2, gp3, hdd-7200");
    check(read, &disk("profile = \"gp3:iops=1\""), 22, "gp3 cannot have iops=1", "from 3000 to 80000");
    check(read, &disk("iops = \"300,burst=3000\""), 22, "squeeze.disk.iops", "capacity=");
    check(read, &disk("iops = true"), 22, "squeeze.disk.iops is", "has the words");
    check(read, &disk("bandwidth = \"fast\""), 22, "\"fast\" is no amount", "write 125M");
    check(read, &disk("depth = 0"), 22, "squeeze.disk.depth cannot be 0", "from 1 to 4096");
    check(read, &disk("stalls = \"often\""), 22, "no part of a stall", "every=60s");
    check("rows_per_page = 4", "rows_per_page = 1", 10, "rows_per_page cannot be 1", "from 2 to 60");
    check("\"1.5x pool\"", "\"much\"", 9, "not a size", "192M");
    check("\"1.5x pool\"", "\"0x pool\"", 9, "0 times the pool", "0.001x");
    check("\"8G\"", "\"1M\"", 12, "cannot leave the host 1 MiB", "512 MiB");
    check("\"1x rows\"", "\"x rows\"", 17, "preheat cannot be", "1x rows");
    check("\"uniform\"", "\"unifrom\"", 16, "distribution cannot be", "\"uniform\"");
    check("name = \"sample\"", "name = \"../etc\"", 2, "becomes the name of folders", "letters");
    check("skip_log_bin = true", "skip_log_bin = [1]", 7, "is a list", "a text");
}

/// Spellings with which the server would refuse to start, after the data directory was made.
#[test]
fn the_pool_is_written_as_the_server_reads_it() {
    check("\"128M\"", "\"128MB\"", 6, "mariadb does not read \"128MB\"", "write \"128M\"");
    check("\"128M\"", "\"1.5GiB\"", 6, "does not read", "write \"1536M\"");
    let postgresql = |size: &str| {
        let text = GOOD.replace("\"mariadb\"", "\"postgresql\"").replace("skip_log_bin = true", "");
        Experiment::parse(&text.replace("innodb-buffer-pool-size = \"128M\"", &format!("shared_buffers = {size}")))
    };
    for good in ["\"128MB\"", "\"16384\"", "16384", "\"1GB\""] {
        postgresql(good).expect(good);
    }
    let [problem] = &postgresql("\"128M\"").expect_err("it has no M")[..] else { panic!("one problem") };
    assert!(problem.message.contains("postgresql does not read"), "{problem:?}");
    assert_eq!((problem.line, problem.suggestion.as_deref()), (6, Some("write \"128MB\"")));
}

#[test]
fn contradictions_are_refused_with_the_reason() {
    check("\"1.5x pool\"", "\"1.5x pool\"\nrows = 5", 9, "both say how much", "keep one");
    check("rows_per_page = 4", "rows_per_page = 4\nrow_bytes = \"4000\"", 11, "both say how wide", "keep one");
    check("leave = \"8G\"", "leave = \"8G\", hide = \"1G\"", 12, "both how much to leave", "keep one");
    check("leave = \"8G\"", "leave = \"8G\", oom_victim = \"host\"", 12, "oom_victim", "server");
    check("leave = \"8G\"", "", 12, "neither", "leave = \"8G\"");
    check(", arrivals = \"poisson\"", "", 24, "nothing says how they arrive", "arrivals = \"constant\"");
    check(" rate = 50,", "", 24, "needs a rate", "rate = 1000");
    check("\"poisson\"", "\"closed\"", 24, "a closed loop has no rate", "leave rate out");
    check("skip_log_bin", "datadir = \"/x\"\nskip_log_bin", 7, "set by the sandbox", "leave it out");
    check("skip_log_bin", "shared_buffers = 1\nskip_log_bin", 7, "a variable of PostgreSQL", "innodb_buffer_pool_size");
    check(
        "threads = 2",
        "threads = 2, range_size = 5",
        24,
        "oltp_point_select has no option range_size",
        "oltp_read_only",
    );
    check(
        "distribution",
        "rand_pareto_h = 0.2\ndistribution",
        16,
        "no meaning with distribution \"uniform\"",
        "pareto",
    );
    check("name = \"10 ms\"", "name = \"no delay\"", 21, "two arms are named \"no delay\"", "own name");
    check("[squeeze]", "[squeeze]\nserver_ram = \"100M\"", 12, "would kill the server", "320 MiB");
}

#[test]
fn what_cannot_vary_between_arms_is_refused_with_the_reason() {
    check("squeeze.disk.read", "fill.rows = 5\nsqueeze.disk.read", 22, "all arms run on the same data", "second file");
    check("squeeze.disk.read", "server.version = \"11\"\nsqueeze.disk.read", 22, "same data directory", "second file");
    check("squeeze.disk.read", "repeat = 2\nsqueeze.disk.read", 22, "can vary", "out of the arm");
}

#[test]
fn missing_keys_are_named_with_what_to_write() {
    check("schema = 1\n", "", 1, "schema is missing", "schema = 1");
    check("flavour = \"mariadb\"\n", "", 3, "server.flavour is missing", "postgresql");
    check("size = \"1.5x pool\"\n", "", 8, "fill.size is missing", "rows = 100000");
    check("name = \"10 ms\"\n", "", 21, "arm 2 has no name", "name =");
}

#[test]
fn what_is_not_toml_is_shown_with_its_place() {
    check("time = \"20s\"", "time = 20s", 15, "", "");
    let problems = Experiment::parse("schema = 1\nname = \n[server\n").unwrap_err();
    assert!(problems.iter().any(|problem| problem.line == 2) && problems.iter().any(|problem| problem.line == 3));
}

#[test]
fn all_problems_come_at_once_in_the_order_of_the_text() {
    let text =
        GOOD.replace("\"mariadb\"", "\"oracle\"").replace("\"20s\"", "\"0s\"").replace("threads = 2", "threads = 0");
    let problems = Experiment::parse(&text).unwrap_err();
    let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [4, 15, 24], "{problems:#?}");
}

#[test]
fn the_place_of_a_problem_counts_from_one() {
    let problems = Experiment::parse(&GOOD.replace("\"20s\"", "\"0s\"")).unwrap_err();
    assert_eq!((problems[0].line, problems[0].column), (15, 8));
    assert!(problems[0].to_string().starts_with("15:8: load.time cannot be 0; write how long"));
}

#[test]
fn an_arm_takes_a_squeeze_away_with_none() {
    let experiment = Experiment::parse(&GOOD.replace("{ hide = \"1G\" }", "\"none\"")).unwrap();
    assert!(experiment.arms[0].squeeze.ram.is_some() && experiment.arms[1].squeeze.ram.is_none());
}

#[test]
fn ram_is_hidden_by_one_mechanism_in_all_arms() {
    let text = GOOD.replace("{ leave = \"8G\" }", "{ leave = \"8G\", mechanism = \"pool\" }");
    let arms = Experiment::parse(&text).unwrap().arms;
    let mechanisms: Vec<_> = arms.iter().map(|arm| arm.squeeze.ram.unwrap().mechanism).collect();
    assert_eq!(mechanisms, [Some(RamMechanism::Pool); 2], "the arm that replaces the amount keeps it");
    let two = text.replace("{ hide = \"1G\" }", "{ hide = \"1G\", mechanism = \"balloon\" }");
    let [problem] = &Experiment::parse(&two).expect_err("two mechanisms")[..] else { panic!("one problem") };
    assert!(problem.line == 21 && problem.message.contains("another mechanism than arm \"no delay\""), "{problem}");
    check("leave = \"8G\"", "leave = \"8G\", mechanism = \"ballon\"", 12, "mechanism cannot be", "balloon");
}

/// The values are read as by `wringer squeeze`. An arm with other limits than the one before restarts the server, because limits are set at its
/// start.
#[test]
fn a_server_and_its_load_have_cpus_and_swap_of_their_own() {
    let limits = "cpus = 1.5\ncpuset = \"0-1\"\nswap = \"off\"\n[load]\ncpuset = \"1\"";
    let text = GOOD.replace("[load]", limits).replace("squeeze.disk.read = \"10ms\"", "squeeze.cpus = \"none\"");
    let experiment = Experiment::parse(&format!("{text}[[arm]]\nname = \"third\"\nsqueeze.swap = \"64M\"\n")).unwrap();
    let [first, second, third] = &experiment.arms[..] else { panic!("three arms") };
    assert_eq!((first.squeeze.cpus, first.squeeze.swap), ("1.5".parse().ok(), Some(Swap::Off)));
    assert_eq!((&first.squeeze.cpuset, &first.load.cpuset), (&"0-1".parse().ok(), &"1".parse().ok()));
    assert_eq!((second.squeeze.cpus, second.restart), (None, true));
    assert_eq!((third.squeeze.swap, third.restart), (Some(Swap::Most(Bytes::mib(64))), true));
    assert!(experiment.cpu_group(), "the arm without a quota is in a cgroup of CPU time, too");

    check("[squeeze]", "[squeeze]\ncpus = 0", 12, "squeeze.cpus cannot be \"0\"", "cpus = 1.5");
    check("[squeeze]", "[squeeze]\ncpus = true", 12, "squeeze.cpus is", "cpus = 1.5");
    check("[squeeze]", "[squeeze]\ncpuset = \"3-1\"", 12, "squeeze.cpuset cannot be \"3-1\"", "by number");
    check("[squeeze]", "[squeeze]\nswap = \"on\"", 12, "squeeze.swap cannot be \"on\"", "off");
    check("[load]", "[load]\ncpuset = \"all\"", 14, "load.cpuset cannot be \"all\"", "by number");
    check("[squeeze]", "[squeeze]\ncpus = 2\ncpuset = \"0\"", 12, "more than the CPUs of", "leave one");
}

fn driven(load: &str) -> String {
    let (head, _) = GOOD.split_once("[load]").unwrap();
    format!("{head}[load]\n{load}\n[[arm]]\nname = \"one\"\n")
}

fn driven_on_postgresql(load: &str) -> String {
    let text =
        driven(load).replace("\"mariadb\"", "\"postgresql\"").replace("innodb-buffer-pool-size", "shared_buffers");
    text.replace("128M", "128MB").replace("skip_log_bin = true", "")
}

#[test]
fn a_driver_gets_what_the_keys_say_as_its_own_options() {
    let words = |load: &str| {
        let experiment = Experiment::parse(&driven(load)).unwrap();
        let load = experiment.arms[0].load.clone();
        (load.workload, load.driver.unwrap().arguments.join(" "), load.time)
    };
    let (ten, twenty) = (Some(Span::secs(10)), Some(Span::secs(20)));
    assert_eq!(
        words("driver = \"sysbench\"\narguments = [\"oltp_read_only\"]\nthreads = 4\ntime = \"20s\""),
        ("sysbench oltp_read_only".into(), "oltp_read_only --threads=4 --time=20".into(), twenty)
    );
    assert_eq!(
        words("driver = \"sysbench\"\narguments = [\"./mine.lua\", \"--time=20\", \"run\"]"),
        ("sysbench ./mine.lua".into(), "./mine.lua --time=20".into(), twenty)
    );
    let events = words("driver = \"sysbench\"\narguments = [\"oltp_insert\"]\nevents = 9").1;
    assert_eq!(events, "oltp_insert --events=9 --time=0", "sysbench would stop after 10 s");
    assert_eq!(
        words("driver = \"command\"\ncommand = [\"sh\", \"-c\", \"exit 0\"]"),
        ("command sh".into(), "sh -c exit 0".into(), None)
    );
    let pgbench = "driver = \"pgbench\"\narguments = [\"-f\", \"mine.sql@3\"]\nthreads = 2";
    let experiment = Experiment::parse(&driven_on_postgresql(pgbench)).unwrap();
    let load = &experiment.arms[0].load;
    let driver = load.driver.as_ref().unwrap();
    assert_eq!((driver.arguments.join(" ").as_str(), load.time), ("-f mine.sql@3 --client=2 --time=10", ten));
    assert_eq!(driver.files(), ["mine.sql"]);
    let own = "[[arm]]\nname = \"one\"\nload = { driver = \"sysbench\", arguments = [\"a.lua\", \"--time=9\"] }\n";
    let (head, _) = GOOD.split_once("[load]").unwrap();
    let overrides = Experiment::parse(&format!("{head}{own}")).unwrap().arms[0].overrides.clone();
    assert_eq!(overrides["load.arguments"], "[a.lua, --time=9]", "the report says what it was told");
}

/// Wringer sets the length of the driver's warm-up, and the driver writes no log of it.
#[test]
fn a_driver_warms_up_as_it_is_measured_but_for_its_length() {
    let words = |text: &str| {
        let load = Experiment::parse(text).unwrap().arms[0].load.clone();
        load.driver.unwrap().for_warmup(load.warmup).arguments.join(" ")
    };
    let sysbench =
        "driver = \"sysbench\"\narguments = [\"oltp_insert\", \"--rate=9\"]\nevents = 9\nthreads = 2\nwarmup = \"10s\"";
    assert_eq!(words(&driven(sysbench)), "oltp_insert --rate=9 --threads=2 --time=10 --events=0");
    let pgbench = "driver = \"pgbench\"\narguments = [\"-f\", \"m.sql\", \"-t\", \"200\", \"-l\", \"--aggregate-interval=1\", \"-n\"]\nwarmup = \"2s\"";
    assert_eq!(words(&driven_on_postgresql(pgbench)), "-f m.sql -n --time=2");
    let joined = "driver = \"pgbench\"\narguments = [\"-fm.sql\", \"-T20\", \"-c2\"]\nwarmup = \"2s\"";
    assert_eq!(words(&driven_on_postgresql(joined)), "-fm.sql -c2 --time=2");
}

#[test]
fn what_a_driver_cannot_be_told_is_refused() {
    let said = |load: &str| {
        let problems = Experiment::parse(&driven(load)).expect_err(load);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    for (load, expected) in [
        ("driver = \"sysbensh\"", "did you mean \"sysbench\""),
        ("driver = \"sysbench\"", "load.arguments is missing"),
        ("driver = \"sysbench\"\narguments = [\"oltp_insert\", \"prepare\"]", "its tables come from [fill]"),
        ("driver = \"sysbench\"\narguments = [\"oltp_insert\", \"--mysql_user=me\"]", "Wringer's to say"),
        ("driver = \"sysbench\"\narguments = [\"oltp_insert\", \"--time=5\"]\ntime = \"9s\"", "both say it"),
        ("driver = \"sysbench\"\narguments = [\"oltp_insert\"]\ntime = \"1500ms\"", "whole seconds"),
        ("driver = \"sysbench\"\narguments = [\"oltp_insert\"]\nwarmup = \"500ms\"", "load.warmup cannot be 500 ms"),
        ("driver = \"sysbench\"\narguments = [\"oltp_insert\"]\npreheat = \"5s\"", "write warmup = \"20s\""),
        ("driver = \"command\"\ncommand = [\"sh\"]\nwarmup = \"5s\"", "load.warmup has no meaning beside load.driver"),
        (
            "driver = \"sysbench\"\narguments = [\"oltp_insert\"]\nrate = 5",
            "load.rate has no meaning beside load.driver",
        ),
        ("driver = \"sysbench\"\nworkload = \"oltp_insert\"\narguments = [\"x\"]", "load.workload has no meaning"),
        ("driver = \"sysbench\"\narguments = \"oltp_insert\"", "not a list of texts"),
        ("driver = \"pgbench\"", "pgbench speaks to PostgreSQL"),
        ("driver = \"pgbench\"", "nothing makes their tables"),
        ("driver = \"command\"\nthreads = 3\ncommand = [\"sh\"]", "write it into the command"),
        ("driver = \"command\"\narguments = [\"x\"]", "load.command is missing"),
        ("driver = \"command\"\ncommand = [\"sh\", \"-p{password}\"]", "write {password_file}"),
        ("workload = \"oltp_insert\"\ncommand = [\"x\"]", "load.command has no meaning without a driver"),
    ] {
        let said = said(load);
        assert!(said.contains(expected), "{load}: {said}");
    }
}

#[test]
fn the_values_and_indexes_of_a_fill_are_those_of_the_command() {
    let fill = |text: &str| Experiment::parse(&GOOD.replace("rows_per_page = 4", text)).unwrap().fill;
    let skewed = fill("k_distribution = \"pareto\"\nrand_pareto_h = 0.1\nsecondary_indexes = 3");
    assert_eq!((skewed.k_distribution.kind, skewed.k_distribution.pareto_h), (Kind::Pareto, 0.1));
    assert_eq!((skewed.secondary_indexes, fill("secondary = true").secondary_indexes), (3, 1));
    assert_eq!((fill("pgbench = 2").secondary_indexes, fill("pgbench = 2").k_distribution.kind), (0, Kind::Uniform));
    let bad = |text: &str, line, message: &str, hint: &str| check("rows_per_page = 4", text, line, message, hint);
    bad("k-distribution = \"pareto\"", 10, "unknown key \"k-distribution\" in [fill]", "\"k_distribution\"");
    bad("k_distribution = \"normal\"", 10, "fill.k_distribution cannot be \"normal\"", "valid here: uniform");
    bad(
        "rand_zipfian_exp = 1",
        10,
        "fill.rand_zipfian_exp has no meaning with k_distribution \"uniform\"",
        "\"zipfian\"",
    );
    bad("keep = true", 10, "fill.keep is for data of your own", "kept in any case");
    bad("secondary_indexes = 4", 10, "secondary_indexes cannot be 4", "from 0 to 3");
    bad("secondary = true\nsecondary_indexes = 2", 10, "both say which indexes", "keep one");
}

#[test]
fn pgbenchs_scripts_need_pgbenchs_tables() {
    let text = GOOD.replace("\"oltp_point_select\"", "\"pgbench_simple_update\"");
    let [problem] = &Experiment::parse(&text).expect_err("no tables")[..] else { panic!("one problem") };
    assert!(
        problem.line == 8 && problem.message.contains("sends pgbench_simple_update, and nothing makes"),
        "{problem}"
    );
    assert_eq!(problem.suggestion.as_deref(), Some("write pgbench = 1, their scale, below [fill]"));
    let filled = text.replace("rows_per_page = 4", "pgbench = 2");
    let experiment = Experiment::parse(&filled).unwrap();
    assert!(experiment.arms.iter().all(|arm| arm.load.is_pgbench()));
    let option = filled.replace("threads = 2", "threads = 2, point_selects = 5");
    let said = Experiment::parse(&option).unwrap_err()[0].to_string();
    assert!(said.contains("pgbench_simple_update has no option point_selects"), "{said}");
}

#[test]
fn percona_is_a_server_as_mysql_is() {
    let text = GOOD.replace("\"mariadb\"", "\"percona\"");
    let experiment = Experiment::parse(&text).unwrap();
    assert_eq!((experiment.server.flavour.name(), experiment.pool(&experiment.arms[0])), ("percona", Bytes::mib(128)));
    let other = Experiment::parse(&text.replace("skip_log_bin = true", "shared_buffers = \"1GB\"")).unwrap_err();
    assert!(other[0].message.contains("a variable of PostgreSQL, and the server is percona"), "{other:?}");
}

proptest::proptest! {
    /// For any text, the reader returns an experiment or a list of problems that is not empty.
    #[test]
    fn any_text_is_answered(at in 0..GOOD.len(), len in 0usize..40, put in "[ -~\n]{0,20}") {
        let end = (at + len).min(GOOD.len());
        let text = format!("{}{put}{}", &GOOD[..at], &GOOD[end..]);
        if let Err(problems) = Experiment::parse(&text) {
            proptest::prop_assert!(!problems.is_empty());
            let lines = text.lines().count() + 1;
            proptest::prop_assert!(problems.iter().all(|problem| (1..=lines).contains(&problem.line)));
        }
    }
}

/// An option that [`workload::SETTINGS`] offers to experiments is accepted for the workloads that have it, within the same limits as in the load.
#[test]
fn every_setting_of_a_workload_is_a_key_with_its_limits() {
    for setting in workload::SETTINGS {
        let mut asked = workload::Options::default();
        let (good, bad) = match setting.slot(&mut asked) {
            workload::Slot::Flag(flag) => {
                *flag = !*flag;
                (flag.to_string(), "1".to_owned())
            }
            workload::Slot::Count { value, limits } => {
                *value = *limits.end();
                (value.to_string(), (limits.end() + 1).to_string())
            }
        };
        let with = |workload: workload::Name, value: &str| {
            let named = GOOD.replace("oltp_point_select", workload.as_str());
            Experiment::parse(&named.replace("threads = 2", &format!("threads = 2, {} = {value}", setting.name)))
        };
        for name in workload::Name::ALL.into_iter().filter(|name| name.in_experiments() && !name.is_pgbench()) {
            let taken = with(name, &good).map(|experiment| experiment.arms[1].load.options.clone());
            let takes = setting.in_experiments && setting.of.contains(&name);
            assert_eq!(taken.as_ref().ok(), takes.then_some(&asked), "{name}, {}: {taken:?}", setting.name);
            assert!(with(name, &bad).is_err(), "{name}, {} = {bad}", setting.name);
        }
    }
}
