// SPDX-License-Identifier: Apache-2.0
use super::*;
use clap::Parser;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    args: Args,
}

fn parse(line: &str) -> Args {
    Program::try_parse_from(["load"].into_iter().chain(line.split_whitespace())).unwrap().args
}

#[test]
fn a_sysbench_command_line_is_understood() {
    let args = parse(
        "oltp_read_write --threads=4 --time=60 --report_interval=1 --rand-type=special --table_size=1000 --tables=2 \
         --mysql-socket=/s --mysql_user=me --mysql-db=test --db-ps-mode=disable --skip-trx --range_selects=off --histogram=on \
         --create_secondary=off --mysql-storage-engine=innodb run",
    );
    let spec = args.spec(load::Protocol::Mysql, args.threads[0], None).unwrap();
    assert_eq!((spec.connections, spec.time, spec.prepared), (4, Some(Duration::from_secs(60)), false));
    assert!(args.oltp.settings.0.skip_trx && !args.oltp.settings.0.range_selects && args.histogram);
    let target = args.connection.target().unwrap();
    assert_eq!((target.user.as_str(), target.database.as_deref()), ("me", Some("test")));
}

#[test]
fn times_take_units_and_zero_means_no_limit() {
    let spec = parse("oltp_point_select --time=0 --events=5 --warmup-time=500ms --rate=10")
        .spec(load::Protocol::Mysql, 1, None)
        .unwrap();
    assert_eq!((spec.time, spec.events, spec.warmup), (None, Some(5), Duration::from_millis(500)));
    assert_eq!(spec.arrivals, Arrivals::Poisson { per_second: 10.0 });
}

#[test]
fn a_percentile_is_from_0_to_100() {
    assert_eq!(parse("oltp_point_select --percentile=0,99.99,100").percentile, [0.0, 99.99, 100.0]);
    for wrong in ["150", "-1", "nan", "x", ""] {
        let refused = Program::try_parse_from(["load", "oltp_point_select", &format!("--percentile={wrong}")]);
        let told = refused.err().unwrap().to_string();
        assert!(told.contains(&format!("'{wrong}' is no percentile: write numbers from 0 to 100")), "{told}");
    }
}

#[test]
fn a_spacing_without_a_rate_is_refused() {
    let spaced = |line: &str| parse(line).spec(load::Protocol::Mysql, 1, None);
    let even = spaced("oltp_point_select --rate=10 --arrivals=constant").unwrap();
    assert_eq!(even.arrivals, Arrivals::Constant { per_second: 10.0 });
    let refused = spaced("oltp_point_select --arrivals=constant").err().unwrap();
    assert!(refused.exit == Exit::Usage && refused.error.to_string().contains("no --rate"), "{refused:?}");
}
