// SPDX-License-Identifier: Apache-2.0
use crate::*;
use capability::Flavour;
use std::collections::BTreeMap;

fn mysql(
    settings: &[(&str, &str)],
    accounts: &[(&str, i64, &str)],
    looks: &[&[(&str, u64, Option<u64>)]],
) -> ServerReading {
    let account = |(user, limit, right): &(&str, i64, &str)| AccountSeen {
        account: Account::at(*user, "%"),
        limit: *limit,
        rights: right.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect(),
        may_log_in: true,
    };
    let sessions = |(user, count, bytes): &(&str, u64, Option<u64>)| Sessions {
        user: (*user).into(),
        client: Some("localhost".into()),
        count: *count,
        bytes_max: *bytes,
        ..Sessions::default()
    };
    let look = |all: &&[(&str, u64, Option<u64>)]| Look {
        at_us: 0,
        in_use: Some(all.iter().map(|(_, count, _)| count).sum()),
        sessions: all.iter().map(sessions).collect(),
    };
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    ServerReading {
        flavour: Flavour::Mysql,
        version: "9.7.4".parse().unwrap(),
        variables: settings.collect(),
        status: BTreeMap::new(),
        own: Some(Account::at("me", "%")),
        accounts: Some(accounts.iter().map(account).collect()),
        databases: Vec::new(),
        looks: looks.iter().map(look).collect(),
        pooler: None,
        missing: Vec::new(),
    }
}

fn asked(limits: &[(&str, u64)]) -> PlanRequest {
    let limits = limits.iter().map(|(account, limit)| ((*account).to_owned(), *limit)).collect();
    PlanRequest { headroom: 1.5, floor: 5, share: 0.8, limits }
}

fn limit_and_why(plan: &Plan, account: &str) -> (Option<u64>, String) {
    let found = plan.accounts.iter().find(|it| it.account == account).unwrap();
    (found.limit, found.why.clone())
}

/// MariaDB's variable is not for its administrators, and shuts out all others when it is below zero.
#[test]
fn the_default_limit_of_mariadb_leaves_out_administrators() {
    let limits_of = |flavour, version: &str, right, default: &str| {
        let settings = [("max_connections", "100"), ("max_user_connections", default)];
        let mut seen = mysql(&settings, &[("app", 0, ""), ("boss", 0, right), ("own", 7, right)], &[]);
        (seen.flavour, seen.version) = (flavour, version.parse().unwrap());
        audit(&seen).accounts.iter().map(|it| it.limit_that_holds).collect::<Vec<_>>()
    };
    let limits = |flavour, default: &str| limits_of(flavour, "10.11.19", "SUPER", default);
    // since 11.0.1, SUPER is no such right
    let of_11 = |right| limits_of(Flavour::Mariadb, "11.4.5", right, "40");
    assert_eq!(
        (of_11("SUPER"), of_11("CONNECTION ADMIN")),
        (vec![Some(40), Some(40), Some(7)], vec![Some(40), None, Some(7)])
    );
    assert_eq!(limits(Flavour::Mariadb, "40"), [Some(40), None, Some(7)]);
    assert_eq!(limits(Flavour::Mariadb, "-1"), [Some(0), None, Some(7)]);
    assert_eq!(limits(Flavour::Mysql, "40"), [Some(40), Some(40), Some(7)]);
}

#[test]
fn peaks_are_of_one_look_and_now_is_the_last() {
    let seen = mysql(
        &[("max_connections", "100")],
        &[("app", 0, ""), ("batch", 7, "")],
        &[&[("app", 3, None), ("app", 4, None), ("batch", 6, None)], &[("app", 2, None), ("stranger", 1, None)]],
    );
    let audit = audit(&seen);
    let of = |index: usize| (audit.accounts[index].in_use, audit.accounts[index].peak);
    assert_eq!((of(0), of(1)), ((2, 7), (0, 6)));
    assert_eq!((audit.server.in_use, audit.server.peak), (Some(3), Some(13)));
    assert_eq!((audit.unassigned[0].user.as_str(), audit.unassigned[0].peak), ("stranger", 1));
}

#[test]
fn grouped_sessions_are_as_many() {
    let look = [("app", 3, None), ("app", 4, Some(9)), ("batch", 6, None)];
    let mut seen = mysql(&[], &[("app", 0, ""), ("batch", 0, "")], &[&look]);
    let before = audit(&seen);
    seen.looks[0].group();
    assert_eq!((seen.looks[0].sessions.len(), seen.looks[0].sessions[0].count), (2, 7));
    assert_eq!(audit(&seen), before);
}

#[test]
fn what_is_promised_is_summed_over_ordinary_accounts() {
    let sum = |settings: &[(&str, &str)]| {
        let accounts = [("app", 60, ""), ("batch", 0, ""), ("root", 0, "SUPER"), ("mysql.sys", 0, "")];
        audit(&mysql(settings, &accounts, &[&[]])).overbooking
    };
    let none = sum(&[("max_connections", "100")]);
    assert_eq!(
        (none.limits_sum, none.unlimited.as_slice(), none.is_overbooked),
        (60, &["batch@%".to_owned()][..], Some(true))
    );
    let default = sum(&[("max_connections", "100"), ("max_user_connections", "40")]);
    assert_eq!((default.limits_sum, default.unlimited.len(), default.is_overbooked), (100, 0, Some(false)));
    assert_eq!((none.limited, default.limited), (1, 2));
    assert_eq!(sum(&[]).is_overbooked, None, "the server's limit is not known");
}

#[test]
fn a_limit_follows_from_peak_headroom_floor_and_share() {
    let accounts = [
        ("app", 0, ""),
        ("small", 0, ""),
        ("large", 0, ""),
        ("kept", 30, ""),
        ("low", 3, ""),
        ("idle", 0, ""),
        ("root", 0, "SUPER"),
    ];
    let look = [
        ("app", 9, None),
        ("small", 1, None),
        ("large", 70, None),
        ("kept", 10, None),
        ("low", 4, None),
        ("root", 2, None),
    ];
    let seen = mysql(&[("max_connections", "100")], &accounts, &[&look]);
    let plan = plan(&seen, &asked(&[])).unwrap();
    let limit = |account: &str| limit_and_why(&plan, account).0;
    assert_eq!(
        [limit("app@%"), limit("small@%"), limit("large@%"), limit("low@%")],
        [Some(14), Some(5), Some(80), Some(6)]
    );
    assert_eq!([limit("kept@%"), limit("idle@%"), limit("root@%")], [None, None, None]);
    assert!(limit_and_why(&plan, "kept@%").1.contains("between its need of 15 and its share of 80"));
    assert!(plan.doubts.iter().any(|doubt| doubt.contains("sum to 135")), "{:?}", plan.doubts);
    assert!(
        plan.doubts.iter().any(|doubt| doubt.contains("idle@%"))
            && plan.doubts.iter().any(|doubt| doubt.contains("looked at once"))
    );
    let low = plan.changes.iter().find(|change| change.account.user == "low").unwrap();
    assert_eq!(
        (low.former, low.wanted, low.restore.as_str()),
        (3, 6, "ALTER USER `low`@`%` WITH MAX_USER_CONNECTIONS 3")
    );
    assert_eq!((plan.statements.len(), plan.restore.len()), (4, 4));
}

#[test]
fn never_below_what_was_seen() {
    let seen = mysql(&[("max_connections", "100")], &[("app", 0, "")], &[&[("app", 95, None)]]);
    assert_eq!(limit_and_why(&plan(&seen, &asked(&[])).unwrap(), "app@%").0, Some(95));
    let tight = plan(&seen, &asked(&[("app", 20)])).unwrap();
    assert!(tight.doubts.iter().any(|doubt| doubt.contains("it will be refused")), "{:?}", tight.doubts);
}

#[test]
fn what_is_asked_for_one_account() {
    let accounts = [("app", 0, ""), ("me", 0, ""), ("root", 0, "SUPER"), ("mysql.sys", 0, "")];
    let mut seen = mysql(&[("max_connections", "100")], &accounts, &[&[]]);
    let of = |seen: &ServerReading, account: &str| plan(seen, &asked(&[(account, 9)])).map(|plan| plan.statements);
    for written in ["app", "app@%", "'app'@'%'"] {
        assert_eq!(of(&seen, written).unwrap(), ["ALTER USER `app`@`%` WITH MAX_USER_CONNECTIONS 9"]);
    }
    assert!(of(&seen, "root").is_ok(), "MySQL holds an administrator to its limit");
    assert!(matches!(of(&seen, "nobody"), Err(Unplanned::NoSuchAccount { those, .. }) if those.is_empty()));
    for refused in ["me", "mysql.sys"] {
        assert!(matches!(of(&seen, refused), Err(Unplanned::Refused { .. })), "{refused}");
    }
    let second = AccountSeen { account: Account::at("app", "localhost"), may_log_in: true, ..AccountSeen::default() };
    seen.accounts.as_mut().unwrap().push(second);
    assert!(matches!(of(&seen, "app"), Err(Unplanned::NoSuchAccount { those, .. }) if those.len() == 2));
    seen.accounts = None;
    assert_eq!(of(&seen, "app"), Err(Unplanned::AccountsUnknown));
}

#[test]
fn an_account_without_a_known_size_claims_nothing_and_is_named() {
    let accounts = [("app", 0, ""), ("batch", 4, ""), ("idle", 0, "")];
    let look = [("app", 2, Some(100)), ("batch", 4, Some(1000))];
    let plan = plan(&mysql(&[("max_connections", "100")], &accounts, &[&look]), &asked(&[])).unwrap();
    assert_eq!(plan.accounts[0].claim_bytes, Some(5 * 100));
    assert_eq!(plan.memory_planned.bytes, Some(5 * 100 + 6 * 1000), "batch may have 4 x 1.5");
    assert_eq!(plan.memory_now.bytes, Some(4 * 1000 + 96 * 100), "app may have the rest");
    assert_eq!(plan.memory_now.unknown, ["idle@%"]);
}

#[test]
fn postgresql_has_its_reserve_inside_and_limits_of_nothing() {
    let mut seen = mysql(
        &[("max_connections", "20"), ("superuser_reserved_connections", "3"), ("reserved_connections", "2")],
        &[],
        &[&[]],
    );
    (seen.flavour, seen.version) = (Flavour::Postgresql, "18.6".parse().unwrap());
    let role = |name: &str, limit, right: &str| AccountSeen {
        account: Account::role(name),
        limit,
        rights: right.split_whitespace().map(str::to_owned).collect(),
        may_log_in: true,
    };
    seen.accounts = Some(vec![role("app", -1, ""), role("shut", 0, ""), role("root", 5, "superuser")]);
    seen.databases = vec![DatabaseSeen { name: "d".into(), limit: 4 }, DatabaseSeen { name: "e".into(), limit: -1 }];
    let audit = audit(&seen);
    assert_eq!((audit.server.ordinary, audit.server.reserve.inside), (Some(15), 5));
    let limits: Vec<Option<u64>> = audit.accounts.iter().map(|it| it.limit_that_holds).collect();
    assert_eq!(limits, [None, Some(0), None], "a limit of 0 lets nobody in; a superuser is above its own");
    assert_eq!((audit.databases[0].limit, audit.databases[1].limit), (Some(4), None));
    let hit = explain("FATAL: too many connections for database \"d\"", Some(&audit)).unwrap();
    assert_eq!(hit.hits.unwrap()[0].value, Some(4));
    let of = |account: &str| plan(&seen, &asked(&[(account, 9)])).map(|plan| plan.restore);
    assert_eq!(of("app").unwrap(), ["ALTER ROLE \"app\" CONNECTION LIMIT -1"]);
    assert!(matches!(of("root"), Err(Unplanned::Refused { why, .. }) if why.contains("superuser")));
}

#[test]
fn a_member_of_the_reserve_is_ordinary_but_for_the_reserve() {
    let with_reserve = |reserve: &str| {
        let settings =
            [("max_connections", "20"), ("superuser_reserved_connections", "3"), ("reserved_connections", reserve)];
        let mut seen = mysql(&settings, &[], &[&[("agent", 4, None)]]);
        (seen.flavour, seen.version) = (Flavour::Postgresql, "18.6".parse().unwrap());
        let role = |name: &str, right: &str| AccountSeen {
            account: Account::role(name),
            limit: -1,
            rights: vec![right.to_owned()],
            may_log_in: true,
        };
        seen.accounts = Some(vec![role("agent", "pg_use_reserved_connections"), role("root", "superuser")]);
        seen
    };
    for (reserve, by) in [("0", None), ("2", Some("pg_use_reserved_connections"))] {
        let seen = with_reserve(reserve);
        let audit = audit(&seen);
        assert_eq!(audit.accounts[0].reserve_by.as_deref(), by, "a reserve of {reserve}");
        assert_eq!(audit.accounts[1].reserve_by.as_deref(), Some("superuser"), "a reserve of {reserve}");
        assert_eq!(audit.overbooking.unlimited, ["agent"], "a reserve of {reserve}");
        assert_eq!(audit.overbooking.is_overbooked, Some(true), "a reserve of {reserve}");
    }
    let plan = |reserve| plan(&with_reserve(reserve), &asked(&[])).unwrap();
    assert_eq!(limit_and_why(&plan("0"), "agent"), (Some(6), "peak 4 x 1.5".into()));
    let (limit, why) = limit_and_why(&plan("2"), "agent");
    assert!(limit.is_none() && why.contains("meant to get in"), "{limit:?}: {why}");
    let names_it = |doubt: &String| doubt.contains("could still take all connections: agent");
    assert!(plan("2").doubts.iter().any(names_it), "{:?}", plan("2").doubts);
}
