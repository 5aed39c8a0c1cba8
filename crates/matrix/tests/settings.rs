// SPDX-License-Identifier: Apache-2.0
//! The settings that a section `[matrix]` describes, and the sections that are refused.
#![allow(clippy::cast_possible_truncation, clippy::unwrap_used)]

use experiment::Experiment;
use matrix::{MOST_CELLS, Matrix, is_matrix};
use std::collections::BTreeSet;

const BASE: &str = r#"schema = 1
name = "m"
[server]
flavour = "mariadb"
[server.options]
innodb_buffer_pool_size = "64M"
[fill]
rows = 1000
[load]
workload = "oltp_point_select"
time = "2s"
"#;

fn of(section: &str) -> Matrix {
    Matrix::parse(&format!("{BASE}{section}")).unwrap_or_else(|problems| panic!("{section}: {problems:#?}"))
}

fn values(matrix: &Matrix, key: &str) -> Vec<String> {
    matrix.settings.iter().map(|setting| setting.values[key].clone()).collect()
}

/// The one problem, as line and words.
fn refused(section: &str) -> String {
    let text = format!("{BASE}{section}");
    let problems = Matrix::parse(&text).expect_err(section);
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{told:#?}");
    let line = text.lines().nth(problems[0].line - 1).unwrap();
    format!("{line} <- {}", told[0])
}

#[track_caller]
fn check_refused(section: &str, line: &str, words: &[&str]) {
    let told = refused(section);
    let (at, said) = told.split_once(" <- ").unwrap();
    assert!(at.contains(line), "{told}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {told}");
    }
}

#[test]
fn crossed_paired_and_left_out() {
    let matrix = of(r#"
[matrix]
blocks = 3
seed = 4
[matrix.cross]
"load.threads" = [1, 8]
"squeeze.cpus" = ["none", 0.5]
[matrix.pair]
"server.flavour" = ["mariadb", "mysql"]
"server.version" = ["10.11", "8.0"]
[[matrix.exclude]]
"load.threads" = 8
"server.flavour" = "mysql"
[[matrix.exclude]]
"squeeze.cpus" = [0.5]
"server.version" = ["8.0"]
"#);
    assert_eq!((matrix.blocks, matrix.seed, matrix.excluded), (3, 4, 3));
    assert_eq!(matrix.keys, ["load.threads", "squeeze.cpus", "server.flavour", "server.version"]);
    let told = |key| values(&matrix, key).join(" ");
    assert_eq!(told("load.threads"), "1 1 1 8 8");
    assert_eq!(told("squeeze.cpus"), "none none 0.5 none 0.5");
    assert_eq!(told("server.version"), "10.11 8.0 10.11 10.11 10.11");
    for setting in &matrix.settings {
        assert!(!is_matrix(&setting.text));
        let read = Experiment::parse(&setting.text).unwrap_or_else(|problems| panic!("{problems:?}\n{}", setting.text));
        assert_eq!(read.server.version, setting.experiment.server.version);
        assert_eq!(read.arms, setting.experiment.arms);
        assert_eq!(read.fill, setting.experiment.fill);
    }
    let order = matrix.order();
    assert_eq!((order.len(), order[0].len(), matrix.cells()), (3, 5, 15));
}

#[test]
fn a_value_may_come_again_beside_another_one() {
    let matrix = of("[matrix.pair]\n\"load.threads\" = [1, 8, 8]\n\"load.seed\" = [1, 1, 2]\n");
    assert_eq!(values(&matrix, "load.threads"), ["1", "8", "8"]);
    let twice = "[matrix.pair]\n\"load.threads\" = [1, 8, 8]\n\"load.seed\" = [1, 2, 2]\n";
    check_refused(twice, "load.seed", &["two settings run the same: load.threads = 8, load.seed = 2"]);
}

#[test]
fn a_key_may_be_written_below_sections_and_a_value_be_a_table() {
    let matrix = of(r#"
[matrix.cross]
squeeze.disk = [{ read = "1ms" }, { read = "2ms", mode = "total" }]
fill.rows = [1000, 2000]
server.options.innodb-io-capacity = [100, 200]
[matrix.cross.observe]
interval = ["1s"]
"#);
    assert_eq!(matrix.settings.len(), 8);
    assert_eq!(values(&matrix, "squeeze.disk")[7], "{ mode = total, read = 2ms }");
    assert_eq!(values(&matrix, "server.options.innodb_io_capacity")[7], "200");
    let options = &matrix.settings[7].experiment.arms[0].server_options;
    assert_eq!(options["innodb_io_capacity"], "200");
    assert_eq!(matrix.blocks, 5, "by default");
}

#[test]
fn keys_follow_others_and_these_again_others() {
    let matrix = of(r#"
[matrix.cross]
"squeeze.server_ram" = ["512M", "1G"]
[matrix.follow]
"server.options.innodb_log_file_size" = "0.25x innodb_buffer_pool_size"
"server.options.innodb_buffer_pool_size" = "0.7x server_ram - 100M"
"#);
    assert_eq!(values(&matrix, "server.options.innodb_buffer_pool_size"), ["258M", "616M"]);
    assert_eq!(values(&matrix, "server.options.innodb_log_file_size"), ["64M", "154M"]);
    assert_eq!(matrix.settings[0].experiment.pool(&matrix.settings[0].experiment.arms[0]).0, 258 << 20);
}

#[test]
fn a_followed_size_is_spelled_as_the_server_reads_it() {
    let base =
        BASE.replace("mariadb", "postgresql").replace("innodb_buffer_pool_size = \"64M\"", "shared_buffers = \"64MB\"");
    let section = "[matrix.cross]\n\"server.options.shared_buffers\" = [\"32MB\", \"10MB\"]\n[matrix.follow]\n\
        \"server.options.temp_buffers\" = \"0.5x pool\"\n\"squeeze.server_ram\" = \"8x pool\"\n";
    let matrix = Matrix::parse(&format!("{base}{section}")).unwrap();
    assert_eq!(values(&matrix, "server.options.temp_buffers"), ["16MB", "5120kB"]);
    assert_eq!(values(&matrix, "squeeze.server_ram"), ["256M", "80M"]);
}

#[test]
fn times_and_numbers_follow_too() {
    let matrix = of("[matrix.cross]\n\"load.threads\" = [2, 3]\n\"load.time\" = [\"3s\"]\n[matrix.follow]\n\
        \"load.warmup\" = \"0.1x load.time\"\n\"load.rate\" = \"2.5x threads\"\n[matrix.pair]\n\"load.arrivals\" = [\"poisson\"]\n");
    assert_eq!(values(&matrix, "load.warmup"), ["300ms", "300ms"]);
    assert_eq!(values(&matrix, "load.rate"), ["5", "8"]);
    let matrix = of("[matrix.cross]\n\"load.time\" = [\"3s\"]\n[matrix.follow]\n\
        \"load.warmup\" = \"0.1x load.time + 1m\"\n");
    assert_eq!(values(&matrix, "load.warmup"), ["60300ms"], "a minute, not a mebibyte");
    check_refused("[matrix.cross]\n\"server.options.x\" = [1.0, inf]\n", "inf", &["not finite"]);
}

#[test]
fn samples_are_different_lie_all_over_and_come_from_the_seed() {
    let section = |seed: u64, count: u32| {
        format!(
            "[matrix]\nseed = {seed}\n[matrix.sample]\nsettings = {count}\n\
            \"server.options.innodb_buffer_pool_size\" = {{ from = \"64M\", to = \"1024M\", scale = \"log\" }}\n\
            \"load.threads\" = {{ from = 1, to = 64 }}\n\"load.distribution\" = [\"uniform\", \"zipfian\"]\n"
        )
    };
    let matrix = of(&section(1, 16));
    assert_eq!(matrix.settings.len(), 16);
    let pools: Vec<f64> = values(&matrix, "server.options.innodb_buffer_pool_size")
        .iter()
        .map(|text| text.strip_suffix('M').unwrap().parse::<f64>().unwrap())
        .collect();
    // of 16 equal parts of the range each has one, but for the rounding down to MiB
    let parts: BTreeSet<u64> = pools.iter().map(|pool| (((pool + 1.0) / 64.0).log2() * 4.0) as u64).collect();
    assert!(parts.len() >= 15, "{pools:?}");
    let even = values(&matrix, "load.distribution").iter().filter(|it| *it == "uniform").count();
    assert_eq!(even, 8);
    let ids = |matrix: &Matrix| matrix.settings.iter().map(|setting| setting.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&matrix), ids(&of(&section(1, 16))));
    assert_ne!(ids(&matrix), ids(&of(&section(2, 16))));
    let few = "[matrix.sample]\nsettings = 4\n\"load.threads\" = [1, 2]\n\"load.prepared\" = [true, false]\n";
    assert_eq!(of(few).settings.len(), 4, "all there are");
    check_refused(&few.replace("= 4", "= 5"), "settings = 5", &["5 settings are to be drawn", "only 4"]);
}

#[test]
fn an_id_is_that_of_what_is_run() {
    let section = "[matrix.cross]\n\"load.threads\" = [1, 2]\n";
    let before = of(section);
    let ids = |matrix: &Matrix| matrix.settings.iter().map(|setting| setting.id.clone()).collect::<Vec<_>>();
    assert_eq!(before.settings[0].id.len(), 12);
    assert_ne!(before.settings[0].id, before.settings[1].id);
    // words, layout, other settings
    let told = format!("# told\n{}description = \"d\"\n{}{section}", &BASE[..11], &BASE[11..]);
    assert_eq!(ids(&before), ids(&Matrix::parse(&told).unwrap()));
    let more = of("[matrix]\nblocks = 9\nseed = 3\n[matrix.cross.load]\nthreads = [4, 2, 1]\n");
    assert_eq!((&more.settings[2].id, &more.settings[1].id), (&before.settings[0].id, &before.settings[1].id));
    // what is run
    let longer = Matrix::parse(&format!("{}{section}", BASE.replace("2s", "3s"))).unwrap();
    assert!(ids(&longer).iter().all(|id| !ids(&before).contains(id)));
}

#[test]
fn a_key_that_names_nothing_is_refused_with_what_it_may_mean() {
    check_refused(
        "[matrix.cross]\n\"load.treads\" = [1, 8]\n",
        "load.treads",
        &["unknown key \"treads\" in [load]", "did you mean \"threads\""],
    );
    check_refused(
        "[matrix.cross]\n\"laod.threads\" = [1, 8]\n",
        "laod.threads",
        &["unknown key \"laod\"", "did you mean \"load\""],
    );
    check_refused("[matrix.cross]\n\"load.time.many\" = [1]\n", "load.time.many", &["load.time is no table"]);
    check_refused(
        "[matrix.corss]\n\"load.threads\" = [1]\n",
        "matrix.corss",
        &["unknown key \"corss\" in [matrix]", "did you mean \"cross\""],
    );
    check_refused(
        "[matrix]\nrepeat = 5\n[matrix.cross]\n\"load.threads\" = [1]\n",
        "repeat = 5",
        &["write blocks = 5"],
    );
}

#[test]
fn a_value_that_no_key_takes_stands_at_its_place() {
    check_refused(
        "[matrix.cross]\n\"load.threads\" = [\n 1,\n \"many\",\n]\n",
        "\"many\"",
        &["load.threads is a text, not a whole number"],
    );
    check_refused("[matrix.cross]\n\"load.threads\" = 8\n", "= 8", &["not a list of values", "[8]"]);
    check_refused("[matrix.cross]\n\"load.threads\" = []\n", "= []", &["has no value"]);
    check_refused("[matrix.cross]\n\"load.threads\" = [1, 2, 1]\n", "[1, 2, 1]", &["the value 1 twice"]);
    check_refused("[matrix.cross]\n\"load.threads\" = [8, \"8\"]\n", "load.threads", &["twice"]);
    check_refused(
        "[matrix]\nblocks = 0\n[matrix.cross]\n\"load.threads\" = [8]\n",
        "blocks = 0",
        &["it goes from 1 to 1000"],
    );
    check_refused("", "schema = 1", &["no section [matrix]"]);
    check_refused("[matrix]\n", "[matrix]", &["varies no key"]);
    check_refused("[matrix.cross]\n\"name\" = [\"a\", \"b\"]\n", "name", &["name cannot vary"]);
    check_refused("[matrix.cross]\n\"arm.x\" = [\"a\", \"b\"]\n", "arm.x", &["arm cannot vary", "in every arm"]);
    check_refused(
        "[matrix.budget]\ntime = \"much\"\n[matrix.cross]\n\"load.threads\" = [8]\n",
        "much",
        &["is not a time"],
    );
}

#[test]
fn keys_that_contradict_each_other() {
    check_refused(
        "[matrix.cross]\n\"load.threads\" = [1]\n[matrix.follow]\n\"load.threads\" = \"2x rows\"\n",
        "2x rows",
        &["said twice"],
    );
    check_refused(
        "[matrix.cross]\n\"squeeze.disk\" = [\"none\"]\n\"squeeze.disk.read\" = [\"1ms\"]\n",
        "squeeze.disk",
        &["one is a part of the other"],
    );
    check_refused(
        "[matrix.pair]\n\"load.threads\" = [1, 2]\n\"load.seed\" = [1]\n",
        "load.seed",
        &["1 values", "has 2"],
    );
    check_refused(
        "[matrix.cross]\n\"load.threads\" = [1, 2]\n[[arm]]\nname = \"x\"\nload.threads = 4\n",
        "\"load.threads\"",
        &["arm \"x\" sets load.threads itself"],
    );
    check_refused(
        "[matrix.cross]\n\"squeeze.disk.read\" = [\"1ms\", \"2ms\"]\n[[arm]]\nname = \"x\"\nsqueeze.disk = { profile = \"gp3\" }\n",
        "\"squeeze.disk.read\"",
        &["arm \"x\" sets keys of squeeze.disk, and replaces the whole table"],
    );
    check_refused(
        "[matrix.cross]\n\"squeeze.server_ram\" = [\"64M\", \"512M\"]\n",
        "64M",
        &["does not hold innodb_buffer_pool_size"],
    );
}

#[test]
fn rules_that_leave_out_nothing_or_everything() {
    let cross = "[matrix.cross]\n\"load.threads\" = [1, 2]\n\"load.seed\" = [1, 2]\n";
    let with = |rule: &str| format!("{cross}[[matrix.exclude]]\n{rule}\n");
    check_refused(&with("\"load.thread\" = 1"), "load.thread\"", &["does not vary", "did you mean \"load.threads\""]);
    check_refused(&with("\"load.threads\" = 3"), "load.threads\" = 3", &["is never 3", "1, 2"]);
    check_refused(&with("\"load.threads\" = [1, 2]"), "[matrix.cross]", &["leaves out every setting"]);
    check_refused(&with(""), "[[matrix.exclude]]", &["names no key"]);
    let pair = "[matrix.pair]\n\"load.threads\" = [1, 2]\n\"load.seed\" = [1, 2]\n[[matrix.exclude]]\n\"load.threads\" = 1\n\"load.seed\" = 2\n";
    check_refused(pair, "[[matrix.exclude]]", &["leaves out nothing"]);
}

#[test]
fn keys_that_cannot_follow() {
    let with = |rules: &str| format!("[matrix.cross]\n\"squeeze.server_ram\" = [\"512M\"]\n[matrix.follow]\n{rules}\n");
    check_refused(&with("\"load.seed\" = \"2x threds\""), "threds", &["which nothing sets"]);
    check_refused(&with("\"load.seed\" = \"server_ram\""), "load.seed", &["does not say what", "0.7x server_ram"]);
    check_refused(&with("\"load.seed\" = 7"), "load.seed", &["does not say what"]);
    check_refused(&with("\"load.seed\" = \"2x workload\""), "2x workload", &["oltp_point_select", "no size"]);
    check_refused(
        &with(
            "\"load.threads\" = \"2x load.seed\"\n\"load.seed\" = \"2x load.events\"\n\"load.events\" = \"1x load.seed\"",
        ),
        "x load.",
        &["circle", "load.events follows load.seed"],
    );
    check_refused(
        &with("\"load.threads\" = \"2x load.threads\""),
        "2x load.threads",
        &["load.threads follows load.threads"],
    );
    check_refused(
        &with("\"server.options.innodb_buffer_pool_size\" = \"0.7x server_ram - 600M\""),
        "600M",
        &["would be -"],
    );
    // 536 bytes are no KiB
    check_refused(
        &with("\"server.options.sort_buffer_size\" = \"0.000001x server_ram\""),
        "0.000001",
        &["would be 0K"],
    );
}

#[test]
fn ranges_that_are_none() {
    let with = |range: &str| format!("[matrix.sample]\nsettings = 3\n\"load.threads\" = {range}\n");
    check_refused(&with("{ from = 8, to = 1 }"), "from = 8", &["from is not below to"]);
    check_refused(&with("{ from = 8 }"), "from = 8", &["to is missing"]);
    check_refused(&with("{ from = 8, to = \"1G\" }"), "1G", &["not of one kind"]);
    check_refused(&with("{ from = 0, to = 8, scale = \"log\" }"), "log", &["no logarithm"]);
    check_refused(&with("{ from = 1, to = 8, scale = \"lgo\" }"), "lgo", &["did you mean \"log\""]);
    check_refused("[matrix.sample]\nsettings = 3\n", "matrix.sample", &["names no key"]);
    check_refused("[matrix.sample]\n\"load.threads\" = [1]\n", "matrix.sample", &["settings is missing"]);
}

#[test]
fn too_many_cells_are_counted_before_anything_is_made() {
    let many: Vec<String> = (1..=40).map(|n| n.to_string()).collect();
    let axes: Vec<String> = ["load.threads", "load.seed", "load.events", "fill.rows", "fill.tables"]
        .map(|key| format!("\"{key}\" = [{}]", many.join(",")))
        .into();
    let began = std::time::Instant::now();
    check_refused(
        &format!("[matrix.cross]\n{}\n", axes.join("\n")),
        "[matrix.cross]",
        &["too many cells: 102400000 settings", "matrix.sample"],
    );
    assert!(began.elapsed().as_secs() < 20, "nothing is made of them");
    let blocks = MOST_CELLS / 40;
    assert_eq!(of(&format!("[matrix]\nblocks = {blocks}\n[matrix.cross]\n{}\n", axes[0])).cells(), 10_000);
    check_refused(
        &format!("[matrix]\nblocks = {}\n[matrix.cross]\n{}\n", blocks + 1, axes[0]),
        "[matrix]",
        &["too many cells"],
    );
}

#[test]
fn everything_wrong_is_told_at_once() {
    let problems = Matrix::parse(&format!("{BASE}[matrix.cross]\n\"load.treads\" = [1]\n\"squeeze.cpuz\" = [1]\n"))
        .expect_err("wrong");
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        Experiment::parse(&format!("{BASE}[matrix.cross]\n\"load.threads\" = [1]\n")).expect_err("a matrix")[0]
            .to_string()
            .contains("wringer matrix plan")
    );
}

/// The lines of all problems, and their words.
fn all_problems(section: &str) -> Vec<(String, String)> {
    let text = format!("{BASE}{section}");
    let problems = Matrix::parse(&text).expect_err(section);
    problems.iter().map(|it| (text.lines().nth(it.line - 1).unwrap().to_owned(), it.to_string())).collect()
}

#[test]
fn what_is_wrong_with_each_key_and_value_is_told_though_the_settings_cannot_be_made() {
    let told = all_problems(
        "[matrix.cross]\n\"name\" = [\"a\", \"b\"]\n\"load.thraeds\" = [1]\n\"nope.key\" = [1]\n\
         \"load.threads\" = [\n1,\n\"two\",\n0,\n]\n[matrix.pair]\n\"load.seed\" = [1, 2]\n\"load.events\" = [1,\n2,\n\"three\"]\n",
    );
    let lines: Vec<&str> = told.iter().map(|(line, _)| line.split(" =").next().unwrap()).collect();
    let expected = ["\"name\"", "\"load.thraeds\"", "\"nope.key\"", "\"two\",", "0,", "\"load.events\"", "\"three\"]"];
    assert_eq!(lines, expected, "{told:#?}");
    // a drawn key, beside a range that is none; too many settings
    let told = all_problems(
        "[matrix.sample]\nsettings = 3\n\"load.threads\" = { from = 8, to = 1 }\n\"load.time\" = [\"1s\", \"soon\"]\n\"fill.rows\" = { from = 0, to = 9 }\n",
    );
    let words: Vec<bool> =
        ["not below to", "soon", "fill.rows"].map(|word| told.iter().any(|(_, it)| it.contains(word))).into();
    assert_eq!((words, told.len()), (vec![true; 3], 3), "{told:#?}");
    let many: Vec<String> = (1..=200).map(|n| n.to_string()).collect();
    let told =
        all_problems(&format!("[matrix.cross]\n\"load.seed\" = [{0}]\n\"load.thraeds\" = [{0}]\n", many.join(",")));
    assert!(told.len() == 2 && told[0].1.contains("too many cells") && told[1].1.contains("did you mean"), "{told:#?}");
}

/// What another key of the matrix would give, or what a rule leaves out, is no problem.
#[test]
fn a_key_that_is_right_only_beside_another_one_is_not_told() {
    let told = all_problems(
        "[matrix]\nblocks = 0\n[matrix.cross]\n\"squeeze.server_ram\" = [\"512M\", \"64M\"]\n[matrix.follow]\n\
         \"server.options.innodb_buffer_pool_size\" = \"0.5x server_ram\"\n",
    );
    assert!(told.len() == 1 && told[0].1.contains("it goes from 1 to 1000"), "{told:#?}");
    let told = all_problems(
        "[matrix]\nblocks = 0\n[matrix.cross]\n\"squeeze.server_ram\" = [\"512M\", \"64M\"]\n[[matrix.exclude]]\n\
         \"squeeze.server_ram\" = \"64M\"\n",
    );
    assert_eq!(told.len(), 1, "{told:#?}");
}

#[test]
fn every_ready_file_with_a_matrix_is_read() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut seen = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let is_named_so = path.file_stem().unwrap().to_string_lossy().starts_with("matrix-");
        assert_eq!(is_matrix(&text), is_named_so, "{}", path.display());
        if is_named_so {
            let matrix = Matrix::parse(&text).unwrap_or_else(|problems| panic!("{}: {problems:#?}", path.display()));
            assert_eq!(matrix.name, path.file_stem().unwrap().to_string_lossy());
            assert!(matrix.blocks >= 3 && matrix.settings.len() >= 2, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 0);
}
