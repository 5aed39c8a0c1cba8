// SPDX-License-Identifier: Apache-2.0
//! Two sides of runs with several arms each.
#![allow(clippy::unwrap_used)] // helpers of tests

use evidence::Evidence;
use explain::sides::{Differs, Sides, Wanted, compare, conditions, differs};
use recording::Recording;

fn stored() -> Evidence {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/v1-repeated/recording.sqlite");
    let mut evidence = Recording::read(path.as_ref()).unwrap();
    evidence.arms.iter_mut().for_each(|arm| arm.broke_off = None);
    evidence
}

/// Another run, with another workload in all arms, one of which has a name of words, dots and quotes.
fn other(own: &mut Evidence, name: &str) -> Evidence {
    let renamed = own.arms[0].cell.clone();
    own.arms.iter_mut().filter(|arm| arm.cell == renamed).for_each(|arm| arm.cell = name.to_owned());
    let mut other = own.clone();
    other.run_id = "another".into();
    other.arms.iter_mut().filter_map(|arm| arm.load.as_mut()).for_each(|load| load.workload = "oltp_insert".into());
    other
}

#[test]
fn a_condition_of_several_arms_may_differ_like_that_of_one() {
    let mut one = stored();
    let other = other(&mut one, "5 ms. \"x\"");
    let (one, other) = ([one], [other]);
    let compared = |across: &str, also: &str| -> Sides {
        let words = |text: &str| text.split_terminator(' ').map(str::to_owned).collect();
        compare(&one, &other, &Wanted { across: words(across), also: words(also), ..Wanted::default() }).unwrap()
    };
    let forbidden = compared("", "");
    assert_eq!(forbidden.not_comparable.len(), forbidden.differs.len(), "{forbidden:?}");
    assert!(forbidden.differs.len() > 1 && forbidden.differs[0].key.ends_with(".load.workload"), "{forbidden:?}");
    for allowed in
        [compared("arm.load", ""), compared("arm", ""), compared("", "arm"), compared("arm.load.workload", "")]
    {
        assert_eq!(allowed.not_comparable, Vec::<String>::new());
        assert_eq!(allowed.comparisons.len(), forbidden.differs.len(), "one for each arm");
    }
    assert!(!compared("", "arm.delay").not_comparable.is_empty());
}

#[test]
fn a_workload_s_file_of_the_same_name_and_another_content_is_another_load() {
    let with = |name: &str, text: &str| Evidence { files: [(name.into(), text.into())].into(), ..stored() };
    let keys = |a: Evidence, mut b: Evidence| -> Vec<String> {
        b.run_id = "another".into();
        let sides = compare(&[a], &[b], &Wanted::default()).unwrap();
        assert_eq!(sides.not_comparable.is_empty(), sides.differs.is_empty());
        sides.differs.into_iter().map(|one| one.key).collect()
    };
    let shop = || with("shop.toml", "rows = 5");
    assert_eq!(keys(shop(), with("shop.toml", "rows = 6")), ["files.shop.toml"]);
    assert!(keys(shop(), with("shop.toml", "# as it was\nrows=5")).is_empty(), "only a comment");
    let script = |first: &str| with("load.sh", &format!("{first}\nROWS=5\n"));
    assert_eq!(keys(script("#!/bin/sh"), script("#!/bin/bash")), ["files.load.sh"], "it begins with no comment");
    assert!(
        keys(shop(), with("b/shop.toml", "rows = 6")).is_empty() && keys(shop(), stored()).is_empty(),
        "one side has it"
    );
}

/// As far as the experiment's file tells which arm has the file.
#[test]
fn a_file_of_an_arm_that_is_not_compared_hinders_nothing() {
    let both = |experiment: &str, wanted: &Wanted| -> Vec<String> {
        let run = |text: &str| {
            let files = ["shop.toml", "b/other.sql"].map(|name| (name.to_owned(), text.to_owned())).into();
            Evidence { experiment: experiment.into(), files, run_id: text.into(), ..stored() }
        };
        let sides = compare(&[run("rows = 5")], &[run("rows = 6")], wanted).unwrap();
        sides.differs.into_iter().map(|one| one.key).collect()
    };
    let (mut one, mut other) = (Wanted::default(), Wanted::default());
    let cells: Vec<String> = cells(&stored());
    (one.arm, other.arm) = (Some(cells[0].clone()), Some(cells[1].clone()));
    let arms = |load: [&str; 2]| -> String {
        let arm = |(name, load): (&String, &str)| format!("[[arm]]\nname = {name:?}\n{load}\n");
        cells.iter().zip(load).map(arm).collect()
    };
    let (shop, script) = ("load.workload = \"shop.toml\"", "load.arguments = [\"--file=b/other.sql@3\"]");
    let own = arms([shop, script]);
    assert_eq!(both(&own, &one), ["files.shop.toml"]);
    assert_eq!(both(&own, &other), ["files.b/other.sql"]);
    assert_eq!(both(&own, &Wanted::default()).len(), 2, "all arms are compared");
    one.across = vec!["files.b/other.sql".into()];
    assert_eq!(both(&own, &one), ["files.shop.toml"], "what does not count may be named");
    one.across.clear();

    let shared = format!(
        "[fill]\ncommand = [\"./fill\", \"b/other.sql\"]\n[load]\nworkload = \"shop.toml\"\n{}",
        arms(["", script])
    );
    assert_eq!(both(&shared, &one).len(), 2, "what stands outside of arms is of all");
    let replaced = shared.replace(script, &format!("{script}\nload.driver = \"pgbench\""));
    assert_eq!(both(&replaced, &other), ["files.b/other.sql"], "but a load that the arm replaces");
    assert_eq!(both("", &one).len(), 2, "nothing tells whose they are");
}

fn cells(run: &Evidence) -> Vec<String> {
    let mut cells: Vec<String> = run.arms.iter().map(|arm| arm.cell.clone()).collect();
    cells.sort();
    cells.dedup();
    cells
}

/// What the file has for all arms, and no measurement tells.
#[test]
fn what_is_written_for_all_arms_is_compared() {
    let written = |experiment: &str| Evidence { experiment: experiment.into(), ..stored() };
    let keys = |a: Evidence, mut b: Evidence| -> Vec<String> {
        b.run_id = "another".into();
        let sides = compare(&[a], &[b], &Wanted::default()).unwrap();
        assert_eq!(sides.not_comparable.is_empty(), sides.differs.is_empty());
        sides.differs.into_iter().map(|one| one.key).collect()
    };
    let plain = "[load]\nthreads = 4\ntime = 3\n[squeeze]\ndisk = \"read=10ms\"\n";
    assert!(keys(written(plain), written(plain)).is_empty());
    assert!(keys(written(plain), written(&plain.replace("= 3", "= 9"))).is_empty(), "the time is told elsewhere");
    assert!(keys(written(plain), written("")).is_empty(), "a recording without a file");
    let skips = plain.replace("time = 3", "skip_trx = true");
    assert_eq!(keys(written(plain), written(&skips)), ["experiment.load.skip_trx"]);
    let bare = "[load]\nthreads = 4\n";
    let skips = format!("{bare}skip_trx = true\n");
    assert_eq!(keys(written(bare), written(&skips)), ["experiment.load.skip_trx"], "nothing else is written");
    assert!(keys(written(bare), written(&format!("{bare}skip_trx = false\n"))).is_empty(), "as without the key");
    let limited = plain.replace("10ms", "10ms,iops=100");
    assert_eq!(keys(written(plain), written(&limited)), ["experiment.squeeze.disk"], "the same delay, another disk");
    let mut slower = written(&limited);
    slower.arms.iter_mut().filter_map(|arm| arm.delay.as_mut()).for_each(|delay| delay.read_us += 1000);
    let told = keys(written(plain), slower.clone());
    assert!(told.len() > 1 && told.contains(&"experiment.squeeze.disk".to_owned()), "its limit, too: {told:?}");
    slower.experiment = plain.replace("10ms", "11ms");
    let told = keys(written(plain), slower);
    assert!(!told.is_empty() && told.iter().all(|key| key.contains(".delay.")), "{told:?}");
}

#[test]
fn what_the_caller_knows_to_be_missing_hinders() {
    let mut one = stored();
    let (other, unmeasured) = (other(&mut one, "a"), vec!["block 2: arm \"a\" ended with out_of_memory".to_owned()]);
    let wanted = Wanted { across: vec!["arm".into()], unmeasured, ..Wanted::default() };
    let sides = compare(&[one], &[other], &wanted).unwrap();
    assert_eq!((sides.not_comparable, sides.comparisons.len()), (wanted.unmeasured, 0));
}

/// A build is known of newer recordings only: a recording without it hinders nothing, and hides no difference of the others.
#[test]
fn another_build_under_the_same_name_is_a_difference() {
    let built = |number: u32, build: &str| {
        let mut run = stored();
        run.run_id = format!("{number}");
        run.conditions.server.build = build.into();
        run
    };
    let reasons = |a: [&str; 2], b: &str, across: &[&str]| {
        let a: Vec<_> = (0..).zip(a).map(|(number, build)| built(number, build)).collect();
        let wanted = Wanted { across: across.iter().map(|it| (*it).to_owned()).collect(), ..Wanted::default() };
        compare(&a, &[built(9, b)], &wanted).unwrap().not_comparable
    };
    assert_eq!(reasons(["x", "x"], "x", &[]), Vec::<String>::new());
    assert_eq!(reasons(["x", "x"], "y", &[]), ["server.build is not the same: x and y"]);
    assert_eq!(reasons(["", "x"], "y", &[]), ["server.build is not the same: x and y"]);
    assert_eq!(reasons(["", "x"], "", &[]), Vec::<String>::new());
    for across in ["server", "server.build", "server.version"] {
        assert_eq!(reasons(["x", "x"], "y", &[across]), Vec::<String>::new(), "{across}");
    }
}

#[test]
fn another_version_comes_with_its_own_variables_and_not_with_other_settings() {
    let one = stored();
    let mut other = one.clone();
    other.run_id = "another".into();
    let server = &mut other.conditions.server;
    server.version = "11.4.5".into();
    server.source = "another package".into();
    for (name, value) in [("version_source_revision", "abc"), ("new_in_this_version", "1"), ("sync_binlog", "7")] {
        server.variables.insert(name.into(), value.into());
    }
    let mut one = one;
    one.conditions.server.variables.insert("sync_binlog".into(), "0".into());
    let forbidden = |across: &str| -> Vec<String> {
        let wanted = Wanted { across: vec![across.to_owned()], ..Wanted::default() };
        let sides = compare(std::slice::from_ref(&one), std::slice::from_ref(&other), &wanted).unwrap();
        sides.differs.into_iter().filter(|it| !it.allowed).map(|it| it.key).collect()
    };
    assert_eq!(forbidden("server.version"), ["server.variables.sync_binlog"], "a setting is a setting");
    assert_eq!(forbidden("server"), Vec::<String>::new());
}

/// What the caller asks to vary may be another on the other side, and not from run to run of one side.
#[test]
fn a_condition_with_one_value_on_each_side_may_differ_and_two_values_on_one_side_hinder() {
    let run = |version: &str, id: &str| {
        let mut run = stored();
        (run.conditions.server.version, run.run_id) = (version.into(), id.into());
        run
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let wanted = Wanted { also: words(&["server"]), one_each: words(&["server.version"]), ..Wanted::default() };
    let hinders = |of_a: [&str; 2], of_b: [&str; 2], wanted: &Wanted| {
        let side = |versions: [&str; 2], name: &str| {
            (0..).zip(versions).map(|(n, version): (u8, _)| run(version, &format!("{name}{n}"))).collect::<Vec<_>>()
        };
        let (a, b) = (side(of_a, "a"), side(of_b, "b"));
        let flat = |side: &[Evidence]| side.iter().map(conditions).collect::<Vec<_>>();
        let alone: Vec<String> = differs(&flat(&a), &flat(&b), wanted).iter().filter_map(Differs::reason).collect();
        let told = compare(&a, &b, wanted).unwrap().not_comparable;
        assert_eq!(told, alone, "both look at the same");
        told
    };
    assert_eq!(hinders(["1", "1"], ["2", "2"], &wanted), Vec::<String>::new());
    let of_one_side = hinders(["1", "2"], ["2", "2"], &wanted);
    assert_eq!(of_one_side, ["server.version is not the same: 1 or 2 and 2"]);
    assert_eq!(hinders(["2", "2"], ["2", "1"], &wanted), ["server.version is not the same: 2 and 2 or 1"]);
    let asked = Wanted { across: words(&["server.version"]), ..wanted };
    assert_eq!(hinders(["1", "2"], ["2", "2"], &asked), Vec::<String>::new());
    // a side without runs hides nothing of the other one
    let both = [run("1", "a"), run("2", "b")].map(|run| conditions(&run));
    assert_eq!(differs(&both, &[], &Wanted::default()).len(), 1);
    assert_eq!(differs(&both[..1], &[], &Wanted::default()), Vec::new());
}

/// No run of one side got to the load of this arm: the others must not pass for all.
#[test]
fn an_arm_that_was_measured_on_one_side_only_hinders() {
    let one = stored();
    let mut other = one.clone();
    other.run_id = "another".into();
    for arm in other.arms.iter_mut().filter(|arm| arm.cell == "10 ms") {
        (arm.load, arm.broke_off) = (None, Some("the server cannot start".into()));
    }
    let told = |arm: Option<&str>| {
        let wanted = Wanted { arm: arm.map(str::to_owned), ..Wanted::default() };
        compare(std::slice::from_ref(&one), std::slice::from_ref(&other), &wanted).unwrap().not_comparable
    };
    let expected = "arm \"10 ms\" was measured on one side only: the server cannot start";
    assert!(told(None).contains(&expected.to_owned()), "{:?}", told(None));
    assert!(told(Some("no delay")).iter().all(|it| !it.contains("one side only")), "{:?}", told(Some("no delay")));
}

#[test]
fn an_arm_that_no_run_has_is_told_with_those_there_are() {
    let mut one = stored();
    let other = other(&mut one, "a");
    let wanted = Wanted { arm: Some("nope".into()), unmeasured: vec!["block 1".into()], ..Wanted::default() };
    let told = compare(&[one], &[other], &wanted).unwrap_err().to_string();
    assert_eq!(told, "no run has an arm \"nope\"; there are \"10 ms\", \"a\"");
}

#[test]
fn a_side_without_a_run_has_only_its_reasons() {
    let compared = |unmeasured: &[&str]| {
        let unmeasured = unmeasured.iter().map(|why| (*why).to_owned()).collect();
        let wanted = Wanted { across: vec!["server".into()], unmeasured, paired: true, ..Wanted::default() };
        let sides = compare(&[], &[], &wanted).unwrap();
        assert_eq!((sides.differs.len(), sides.comparisons.len()), (0, 0));
        sides.not_comparable
    };
    assert_eq!(compared(&["block 1 failed"]), ["block 1 failed"]);
    assert_eq!(compared(&[]), ["a side has no run"]);
}
