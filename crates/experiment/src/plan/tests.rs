// SPDX-License-Identifier: Apache-2.0
use super::{HostFacts, Plan, disk_mechanism, plan};
use crate::Experiment;
use crate::squeezed::Squeezed;
use evidence::{DiskMechanism, RamMechanism};
use units::Bytes;

const TEXT: &str = r#"schema = 1
name = "sample"
[server]
flavour = "mariadb"
[fill]
size = "1.5x pool"
rows_per_page = 4
[squeeze]
ram = { leave = "8G" }
[load]
workload = "oltp_point_select"
time = "20s"
warmup = "2s"
preheat = "1x rows"
[[arm]]
name = "no delay"
[[arm]]
name = "10 ms"
squeeze.disk.read = "10ms"
"#;

fn root() -> HostFacts {
    HostFacts {
        as_root: true,
        mem_total_bytes: 24 * Bytes::GIB,
        mem_available_bytes: 20 * Bytes::GIB,
        cpus: 2,
        disk_free_bytes: Some(100 * Bytes::GIB),
        data_folder: "/var/lib/wringer/sandboxes".into(),
        ram_mechanism: RamMechanism::Holder,
        fuse: true,
        preload: false,
        huge_pool: true,
        huge_unclaimed_bytes: 0,
        host_thp: Some("madvise".into()),
        memory_cgroup: "v2".into(),
        cpu_cgroup: "v2".into(),
        cpuset_cgroup: "v2".into(),
        server_binary: Some("/usr/sbin/mariadbd".into()),
        log_seconds: std::collections::BTreeMap::new(),
    }
}

fn plan_of(text: &str, host: &HostFacts) -> Plan {
    plan(&Experiment::parse(text).unwrap(), host)
}

/// `station: first words` of each step.
fn outline(plan: &Plan) -> Vec<String> {
    let words = |text: &str| text.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    plan.steps.iter().map(|step| format!("{}: {}", step.station, words(&step.text))).collect()
}

#[test]
fn the_steps_come_in_the_order_they_are_done() {
    let plan = plan_of(TEXT, &root());
    let expected = [
        "journal: open the undo",
        "sandbox: use MariaDB: /usr/sbin/mariadbd",
        "sandbox: make a data",
        "fill: fill 1 table:",
        "sandbox: stop the server:",
        "squeeze: evict the data",
        "squeeze: put the slow",
        "sandbox: start MariaDB, innodb_buffer_pool_size",
        "squeeze: measure what the",
        "load: fill the server's",
        "squeeze: hide about 12",
        "squeeze: set delay 0;",
        "load: warm up: oltp_point_select",
        "load: measure: oltp_point_select for",
        "squeeze: set delay read",
        "load: warm up: oltp_point_select",
        "load: measure: oltp_point_select for",
        "release: neutralise: delay to",
        "release: dismantle, newest step",
        "sandbox: delete the sandbox,",
        "report: explain the recording;",
    ];
    assert_eq!(outline(&plan), expected);
    assert!(plan.steps.iter().enumerate().all(|(index, step)| step.number == index + 1));
    assert!(plan.blockers.is_empty() && plan.left_out.is_empty(), "{plan:#?}");
    assert!((60.0..120.0).contains(&plan.seconds), "{}", plan.seconds);
}

#[test]
fn what_is_asserted_is_planned() {
    let text = TEXT.replace("name = \"10 ms\"", "name = \"10 ms\"\nassert = [\"p99<20ms\", \"errors = 0\"]");
    let plan = plan_of(&text, &root());
    let asserting: Vec<_> = plan.steps.iter().filter(|step| step.text.starts_with("hold the result to")).collect();
    let [step] = &asserting[..] else { panic!("one arm asserts: {asserting:?}") };
    assert_eq!((step.arm.as_deref(), step.station.as_str()), (Some("10 ms"), "load"));
    assert!(step.text.contains(": p99<20ms, errors = 0; where one fails"), "{}", step.text);
}

#[test]
fn one_of_a_thing_is_in_the_singular() {
    let plan = plan_of(TEXT, &root());
    let has = |words: &str| plan.steps.iter().any(|step| step.text.contains(words));
    assert!(has("fill 1 table: ") && has(" with 1 transaction a row of "), "{:#?}", plan.steps);
}

#[test]
fn each_change_has_its_undo_beside_it() {
    let text = TEXT.replace("[squeeze]", "[squeeze]\nserver_ram = \"1G\"");
    for step in plan_of(&text, &root()).steps {
        assert_eq!(step.change.is_some(), step.undo.is_some(), "{step:?}");
    }
}

#[test]
fn an_ordinary_user_is_told_what_is_left_out_and_why() {
    let plan = plan_of(TEXT, &HostFacts { as_root: false, ..root() });
    assert!(!outline(&plan).iter().any(|step| step.contains("hide")));
    let [left] = &plan.left_out[..] else { panic!("one thing is left out") };
    assert!(left.why.contains("only root's runs") && left.instead.contains("O_DIRECT"), "{left:?}");
}

/// The plan describes the mechanism that hides RAM on this host.
#[test]
fn where_huge_pages_cannot_be_had_the_plan_names_the_balloon() {
    let change = |ram_mechanism| {
        let plan = plan_of(TEXT, &HostFacts { ram_mechanism, ..root() });
        plan.steps.into_iter().find(|step| step.text.starts_with("hide ")).unwrap().change.unwrap()
    };
    for (mechanism, words) in [("pool", "vm.nr_hugepages raised by 12 GiB"), ("offline", "blocks of 12 GiB go offline")]
    {
        let text = TEXT.replace("leave = \"8G\"", &format!("leave = \"8G\", mechanism = \"{mechanism}\""));
        let plan = plan_of(&text, &root());
        assert!(plan.steps.iter().any(|step| step.change.as_deref().is_some_and(|it| it.contains(words))), "{words}");
    }
    let (pages, balloon) = (change(RamMechanism::Holder), change(RamMechanism::Balloon));
    assert!(pages.contains("vm.nr_overcommit_hugepages") && pages.contains("12 GiB in huge pages"), "{pages}");
    assert!(balloon.contains("12 GiB of its own memory") && !balloon.contains("huge"), "{balloon}");
}

#[test]
fn only_what_was_squeezed_is_given_back() {
    let released = |text: &str| {
        let plan = plan_of(text, &root());
        let texts = plan.steps.into_iter().filter(|step| step.station == "release").map(|step| step.text);
        texts.collect::<Vec<_>>().join("\n")
    };
    let bare = TEXT.replace("ram = { leave = \"8G\" }", "").replace("squeeze.disk.read = \"10ms\"", "");
    let bare_release = released(&bare);
    for word in ["delay", "RAM", "layer", "cgroup"] {
        assert!(!bare_release.contains(word), "{word}: {bare_release}");
    }
    let all = released(&TEXT.replace("[squeeze]", "[squeeze]\nserver_ram = \"1G\""));
    for words in ["neutralise: delay to 0, hidden RAM back", "end the slow layer, remove the memory cgroup;"] {
        assert!(all.contains(words), "{words}: {all}");
    }
}

/// How much is hidden depends on how much the server has taken, and a server starts without hidden RAM.
#[test]
fn ram_is_hidden_anew_where_the_server_is_started_anew() {
    let steps = |last: &str| {
        let plan = plan_of(&TEXT.replace("squeeze.disk.read = \"10ms\"", last), &root());
        let wanted = ["give the hidden", "hide about 12", "start MariaDB,"];
        let words = |step: &String| wanted.iter().position(|words| step.contains(words));
        outline(&plan).iter().filter_map(words).collect::<Vec<_>>()
    };
    assert_eq!(steps("squeeze.disk.read = \"10ms\""), [2, 1], "one server, one squeeze");
    assert_eq!(steps("server.options.innodb_buffer_pool_size = \"64M\""), [2, 1, 0, 2, 1]);
}

#[test]
fn a_server_is_started_in_cgroups_of_its_own() {
    let text = TEXT.replace("[squeeze]", "[squeeze]\nserver_ram = \"1G\"\nswap = \"off\"\ncpus = 0.5\ncpuset = \"0\"");
    let text = text.replace("squeeze.disk.read = \"10ms\"", "squeeze.cpus = \"none\"");
    let texts =
        |host: &HostFacts| plan_of(&text, host).steps.into_iter().map(|it| it.text).collect::<Vec<_>>().join("\n");
    let all = texts(&root());
    for words in [
        "memory cgroup (v2) for the server, limit 1 GiB, swap off",
        "cpu cgroup (v2) for the server, the time of 0.5 CPUs",
        "cpu cgroup (v2) for the server, no quota in this arm",
        "cpuset cgroup (v2) for the server, CPU 0",
        "remove the memory cgroup, remove the cgroups of CPUs;",
    ] {
        assert!(all.contains(words), "{words}: {all}");
    }
    let none = || "none".to_owned();
    let ordinary = HostFacts { cpuset_cgroup: none(), ..root() };
    assert!(texts(&ordinary).contains("start the server on CPU 0 alone (CPU affinity)"));
    let ordinary = HostFacts { cpu_cgroup: none(), ..ordinary };
    let [blocker] = &plan_of(&text, &ordinary).blockers[..] else { panic!("one problem, in one line") };
    assert!(blocker.line == 11 && blocker.message.contains("needs a cpu cgroup"), "{blocker}");
    let [more] = &plan_of(&text.replace("0.5", "3").replace("cpuset = \"0\"", ""), &root()).blockers[..] else {
        panic!("one problem")
    };
    assert!(more.message.contains("the host has 2"), "{more}");
}

#[test]
fn a_delay_of_nothing_changes_nothing() {
    let plan = plan_of(TEXT, &root());
    let changes = |words: &str| plan.steps.iter().find(|step| step.text.contains(words)).unwrap().change.is_some();
    assert_eq!((changes("set delay 0;"), changes("set delay read 10 ms")), (false, true));
}

/// The host has less RAM than is to be left: nothing is hidden, and nothing blocks the run.
#[test]
fn leaving_more_than_there_is_hides_nothing() {
    let small = HostFacts { mem_available_bytes: 6 * Bytes::GIB, mem_total_bytes: 8 * Bytes::GIB, ..root() };
    let plan = plan_of(TEXT, &small);
    assert!(plan.blockers.is_empty(), "{:#?}", plan.blockers);
    assert!(!outline(&plan).iter().any(|step| step.contains("hide")));
    let [left] = &plan.left_out[..] else { panic!("one thing is left out") };
    assert!(left.why.contains("only 6 GiB is available"), "{left:?}");
}

#[test]
fn what_exceeds_the_host_is_a_problem_with_its_line() {
    let check = |from: &str, to: &str, host: &HostFacts, line: usize, message: &str| {
        let plan = plan_of(&TEXT.replace(from, to), host);
        let fits =
            plan.blockers.len() == 1 && plan.blockers[0].line == line && plan.blockers[0].message.contains(message);
        assert!(fits, "{to}: {:#?}", plan.blockers);
    };
    check("leave = \"8G\"", "hide = \"22G\"", &root(), 9, "only 20 GiB is available");
    check("leave = \"8G\"", "hide = \"19.8G\"", &root(), 9, "need about 1 GiB");
    check("[squeeze]\n", "[squeeze]\nserver_ram = \"30G\"\n", &root(), 9, "the host has 24 GiB");
    check("1.5x pool", "900x pool", &HostFacts { disk_free_bytes: Some(Bytes::GIB), ..root() }, 6, "1 GiB free");
    check("leave", "leave", &HostFacts { fuse: false, ..root() }, 19, "/dev/fuse");
}

#[test]
fn a_missing_server_is_fetched_and_the_plan_counts_it() {
    let with = plan_of(TEXT, &root());
    let without = plan_of(TEXT, &HostFacts { server_binary: None, ..root() });
    assert!(outline(&without)[1].starts_with("sandbox: fetch MariaDB"));
    assert!(without.disk_bytes > with.disk_bytes && without.seconds > with.seconds);
}

/// Whether a source has the version is known to that source alone.
#[test]
fn where_a_missing_server_would_come_from_is_told() {
    let told = |flavour: &str, host: &HostFacts| {
        let plan = plan_of(&TEXT.replace("\"mariadb\"", &format!("\"{flavour}\"\nversion = \"11.4\"")), host);
        (plan.steps[1].text.clone(), plan.not_asked)
    };
    let absent = HostFacts { server_binary: None, ..root() };
    let sources = ["the distribution or Maven's repository:", "the distribution or another suite of it:"];
    for ((flavour, name), from) in [("mariadb", "MariaDB"), ("mysql", "MySQL")].into_iter().zip(sources) {
        let (step, not_asked) = told(flavour, &absent);
        assert!(step.contains(&format!("fetch {name} 11.4 into the cache, from {from}")), "{step}");
        assert!(step.contains("up to 400 MiB"), "{step}");
        let [not_asked] = &not_asked[..] else { panic!("{not_asked:?}") };
        assert!(not_asked.contains(&format!("whether {name} 11.4 can be fetched")), "{not_asked}");
        assert!(told(flavour, &root()).1.is_empty());
    }
    assert!(told("percona", &absent).1.is_empty(), "it cannot be fetched, and that is in the way");
}

#[test]
fn repeated_arms_are_laid_out_turn_by_turn() {
    let plan = plan_of(&format!("repeat = 2\n{TEXT}"), &root());
    let turns: Vec<_> = plan
        .steps
        .iter()
        .filter(|step| step.text.starts_with("measure:"))
        .filter_map(|step| step.arm.clone())
        .collect();
    assert_eq!(turns, ["no delay #1", "10 ms #1", "no delay #2", "10 ms #2"]);
}

#[test]
fn every_flavour_is_planned() {
    let plan = plan_of(&TEXT.replace("\"mariadb\"", "\"mysql\""), &root());
    assert!(plan.blockers.is_empty(), "{:#?}", plan.blockers);
    assert!(plan.steps.iter().any(|step| step.text.contains("MySQL")), "{:#?}", plan.steps);
}

/// No package client that Wringer uses has Percona Server.
#[test]
fn percona_is_planned_where_it_is_and_else_in_the_way() {
    let text = TEXT
        .replace("\"mariadb\"", "\"percona\"")
        .replace("[fill]", "[server.options]\ninnodb_buffer_pool_size = \"64M\"\n[fill]");
    let plan = plan_of(&text, &root());
    assert!(
        plan.blockers.is_empty() && plan.steps.iter().any(|step| step.text.contains("start Percona Server")),
        "{plan:#?}"
    );
    let [blocker] = &plan_of(&text, &HostFacts { server_binary: None, ..root() }).blockers[..] else { panic!("one") };
    assert!(blocker.line == 4 && blocker.suggestion.as_ref().unwrap().contains("sandbox unpack"), "{blocker:?}");
}

#[test]
fn what_is_filled_is_planned() {
    let fill = "rows_per_page = 4\nk_distribution = \"zipfian\"\nsecondary_indexes = 2\npgbench = 3";
    let text = TEXT.replace("rows_per_page = 4", fill).replace("\"oltp_point_select\"", "\"pgbench_tpcb_like\"");
    let plan = plan_of(&text, &root());
    let has = |words: &str| plan.steps.iter().any(|step| step.text.contains(words));
    for words in [
        "4 rows a page, values of k zipfian, indexes on k and pad; read",
        "at scale 3: 300000 accounts",
        "measure: pgbench_tpcb_like",
    ] {
        assert!(has(words), "{words}: {plan:#?}");
    }
    let preheat =
        plan.steps.iter().find(|step| step.text.contains("with 1 transaction a row of pgbench_tpcb_like")).unwrap();
    assert_eq!(preheat.seconds, 75.0, "300000 accounts");
}

#[test]
fn a_disk_is_slowed_by_fuse_where_it_can_be_and_else_by_a_library() {
    let experiment = |mechanism: &str| {
        let disk = format!("squeeze.disk = {{ read = \"10ms\"{mechanism} }}");
        Experiment::parse(&TEXT.replace("squeeze.disk.read = \"10ms\"", &disk))
    };
    let chosen = |mechanism: &str, host: &HostFacts| disk_mechanism(&experiment(mechanism).unwrap(), host);
    let both = HostFacts { preload: true, ..root() };
    let library_alone = HostFacts { fuse: false, ..both.clone() };
    assert_eq!(chosen("", &both), Some(DiskMechanism::Fuse));
    assert_eq!(chosen("", &library_alone), Some(DiskMechanism::Preload));
    assert_eq!(chosen(", mechanism = \"preload\"", &both), Some(DiskMechanism::Preload));
    let plan = plan(&experiment("").unwrap(), &library_alone);
    assert!(plan.blockers.is_empty(), "{:?}", plan.blockers);
    assert!(plan.steps.iter().any(|step| step.change.as_deref().is_some_and(|change| change.contains("LD_PRELOAD"))));
    let plan = super::plan(&experiment(", mechanism = \"fuse\"").unwrap(), &library_alone);
    assert!(plan.blockers[0].suggestion.as_ref().unwrap().contains("preload"), "{:?}", plan.blockers);
    assert!(experiment(", mechanism = \"loop\"").is_err());
    let two = TEXT.replace("squeeze.disk.read = \"10ms\"", "squeeze.disk.mechanism = \"preload\"");
    let two = two.replacen("name = \"no delay\"", "name = \"no delay\"\nsqueeze.disk.mechanism = \"fuse\"", 1);
    let problems = Experiment::parse(&two).unwrap_err();
    assert!(problems[0].message.contains("another squeeze.disk.mechanism"), "{problems:?}");
}

#[test]
fn a_driver_is_a_process_that_ends_with_the_run() {
    let (head, _) = TEXT.split_once("workload = ").unwrap();
    let text = format!("{head}driver = \"command\"\ncommand = [\"./my-load\"]\ntime = \"30s\"\n");
    let plan = plan_of(&text, &root());
    let step = plan.steps.iter().find(|step| step.station == "load").unwrap();
    assert!(
        step.text.starts_with("run command ./my-load in place of Wringer's own load, ended after 30 s"),
        "{}",
        step.text
    );
    assert_eq!((step.seconds, step.change.as_deref()), (30.0, Some("a process, command")));
    let text = format!("{head}driver = \"sysbench\"\narguments = [\"oltp_insert\"]\nwarmup = \"7s\"\n");
    let plan = plan_of(&text, &root());
    let step = plan.steps.iter().find(|step| step.station == "load").unwrap();
    assert!(step.text.starts_with("warm up: run sysbench oltp_insert for 7 s on its own"), "{}", step.text);
    assert_eq!((step.seconds, step.undo.is_some()), (7.0, true));
}

/// A squeeze that would only be left out, with a note, is refused when it is required, with its line: in the file, and from outside.
#[test]
fn a_required_squeeze_is_never_left_out() {
    let poor = HostFacts { as_root: false, memory_cgroup: "none".into(), ..root() };
    let text = TEXT.replace("ram = { leave = \"8G\" }", "server_ram = \"512M\"");
    assert!(plan_of(&text, &poor).blockers.is_empty(), "left out and said");
    let required = text.replace("server_ram = ", "required = true\nserver_ram = ");
    let [blocker] = &plan_of(&required, &poor).blockers[..] else { panic!("one for the line") };
    assert!(blocker.line == 10 && blocker.message.contains("squeeze.server_ram is required"), "{blocker:?}");
    assert!(plan_of(&required, &root()).blockers.is_empty(), "where it can be had, nothing is in the way");

    let mut demanded = Experiment::parse(&text).unwrap();
    assert_eq!(demanded.require(&[Squeezed::Cpus]), Err(Squeezed::Cpus), "no arm asks for it");
    demanded.require(&[Squeezed::ServerRam]).unwrap();
    assert_eq!(plan(&demanded, &poor).blockers.len(), 1);
    let mut ram = Experiment::parse(TEXT).unwrap();
    ram.require(&[Squeezed::Ram]).unwrap();
    let said = plan(&ram, &poor);
    assert!(said.blockers.iter().any(|it| it.message.contains("only root's runs")), "{:?}", said.blockers);
    assert!(plan(&ram, &root()).blockers.is_empty());
}

/// Only one arm requires the squeeze. In another arm, which asks for it without requiring it, it is left out.
#[test]
fn an_arm_may_require_what_others_do_not() {
    let poor = HostFacts { memory_cgroup: "none".into(), ..root() };
    let text = TEXT.replace("ram = { leave = \"8G\" }", "server_ram = \"512M\"");
    let text = text.replace("squeeze.disk.read = \"10ms\"", "squeeze.disk.read = \"10ms\"\nsqueeze.required = true");
    assert_eq!(plan_of(&text, &poor).blockers.len(), 1);
    let unsqueezed = text.replace("squeeze.required", "squeeze.server_ram = \"none\"\nsqueeze.required");
    assert!(plan_of(&unsqueezed, &poor).blockers.is_empty(), "the arm that requires asks for nothing");
}
