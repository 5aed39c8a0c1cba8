// SPDX-License-Identifier: Apache-2.0
//! Chooses the mechanism, computes how much RAM it takes, and refuses what cannot be done. Changes nothing.

use crate::Error;
use crate::ram::host_state::HostState;
use crate::ram::objections::{self, refusal};
use crate::ram::plan::{Options, Plan};
use crate::ram::room::Room;
use evidence::{RamAmount, RamMechanism};

/// Makes a plan.
///
/// # Errors
/// [`Error::Refused`] with every reason at once, and what would help against each.
pub fn plan(options: &Options) -> Result<Plan, Error> {
    plan_on(options, &HostState::now()?)
}

/// The mechanism that this machine allows, when the user names none: the same for all arms of an experiment.
pub fn automatic() -> Result<RamMechanism, Error> {
    Ok(choose(None, &HostState::now()?))
}

fn choose(asked: Option<RamMechanism>, host: &HostState) -> RamMechanism {
    let huge = host.overcommit.is_some() && host.before.huge_page_bytes > 0;
    match asked {
        Some(mechanism) => mechanism,
        None if huge && host.root && host.sysctl_writable => RamMechanism::Holder,
        None => RamMechanism::Balloon,
    }
}

pub(crate) fn plan_on(options: &Options, host: &HostState) -> Result<Plan, Error> {
    let mechanism = choose(options.mechanism, host);
    let (room, unit_bytes) = match mechanism {
        RamMechanism::Holder | RamMechanism::Pool => (Room::of_host(&host.before), host.before.huge_page_bytes),
        RamMechanism::Offline => (Room::of_host(&host.before), host.block_bytes),
        RamMechanism::Balloon => (host.room, rustix::param::page_size() as u64),
    };
    let hide = match options.amount {
        RamAmount::Hide(bytes) => bytes.0,
        RamAmount::Leave(bytes) => room.available_bytes.saturating_sub(bytes.0),
    };
    let units = hide.checked_div(unit_bytes).unwrap_or(0);
    let plan = Plan {
        options: options.clone(),
        mechanism,
        before: host.before,
        room,
        unit_bytes,
        units,
        hide_bytes: units * unit_bytes,
        floor_bytes: room.floor_bytes(),
        overcommit_before: host.overcommit.unwrap_or(0),
        pool_before: host.pool,
        warnings: objections::warnings(options, mechanism, host),
    };
    let plan = objections::with_rounding(plan, hide);
    let objections = objections::all(&plan, host);
    if objections.is_empty() { Ok(plan) } else { Err(refusal(objections)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Meminfo;
    use evidence::OomVictim;
    use units::Bytes;

    fn state() -> HostState {
        let before = Meminfo {
            total_bytes: 24 * Bytes::GIB,
            available_bytes: 20 * Bytes::GIB,
            commit_limit_bytes: 12 * Bytes::GIB,
            committed_bytes: 8 * Bytes::GIB,
            huge_page_bytes: 2 * Bytes::MIB,
            ..Meminfo::default()
        };
        HostState {
            before,
            overcommit: Some(3),
            pool: 0,
            block_bytes: 128 * Bytes::MIB,
            blocks: 100,
            sysctl_writable: true,
            strict_commit: false,
            root: true,
            room: Room::of_host(&before),
        }
    }

    fn refused(amount: RamAmount, host: &HostState) -> String {
        let options = Options { mechanism: Some(RamMechanism::Holder), ..Options::new(amount) };
        plan_on(&options, host).expect_err("is refused").to_string()
    }

    #[test]
    fn hide_and_leave() {
        let hide = plan_on(&Options::new(RamAmount::Hide(Bytes::gib(4))), &state()).expect("plans");
        assert_eq!((hide.units, hide.hide_bytes, hide.floor_bytes), (2048, 4 * Bytes::GIB, 24 * Bytes::GIB / 20));
        assert!(hide.changes()[0].change.contains("3 -> 2051"));
        let leave = plan_on(&Options::new(RamAmount::Leave(Bytes::gib(8))), &state()).expect("plans");
        assert_eq!(leave.hide_bytes, 12 * Bytes::GIB);
    }

    #[test]
    fn a_host_that_is_smaller_already_has_nothing_to_hide() {
        let leave = plan_on(&Options::new(RamAmount::Leave(Bytes::gib(30))), &state()).expect("plans");
        assert!(leave.is_nothing() && leave.changes().is_empty());
        let ordinary = HostState { root: false, ..state() };
        assert!(
            plan_on(&Options::new(RamAmount::Leave(Bytes::gib(30))), &ordinary).expect("needs no root").is_nothing()
        );
    }

    #[test]
    fn refusals_name_every_reason() {
        let mut host = HostState { root: false, ..state() };
        host.before.swap_total_bytes = 1;
        host.before.huge_free_pages = 7;
        host.before.huge_reserved_pages = 2;
        let text = refused(RamAmount::Hide(Bytes::gib(19)), &host);
        for word in ["needs root", "swap is on", "5 huge pages", "below the floor", "at most 18.80 GiB"] {
            assert!(text.contains(word), "'{word}' is not in: {text}");
        }
        assert!(refused(RamAmount::Leave(Bytes::mib(512)), &state()).contains("below the floor"));
        let strict = HostState { strict_commit: true, ..state() };
        assert!(refused(RamAmount::Hide(Bytes::gib(6)), &strict).contains("commit limit"));
        let without = HostState { overcommit: None, ..state() };
        assert!(refused(RamAmount::Hide(Bytes::gib(1)), &without).contains("no huge pages"));
    }

    #[test]
    fn memory_blocks_are_whole_and_some_may_refuse() {
        let of = |amount, host: &HostState| {
            let options = Options { mechanism: Some(RamMechanism::Offline), ..Options::new(amount) };
            plan_on(&options, host).map_err(|error| error.to_string())
        };
        let plan = of(RamAmount::Hide(Bytes::mib(1000)), &state()).expect("plans");
        assert_eq!((plan.units, plan.hide_bytes), (7, 896 * Bytes::MIB));
        assert!(plan.warnings.iter().any(|warning| warning.contains("896 MiB")), "{:?}", plan.warnings);
        let few = of(RamAmount::Hide(Bytes::gib(12)), &state()).expect_err("96 of 100 is too near");
        assert!(few.contains("only 100 memory blocks"), "{few}");
        let less = of(RamAmount::Hide(Bytes::mib(64)), &state()).expect_err("half a block");
        assert!(less.contains("less than one piece of 128 MiB"), "{less}");
        let none = of(RamAmount::Hide(Bytes::gib(1)), &HostState { block_bytes: 0, blocks: 0, ..state() });
        assert!(none.expect_err("cannot").contains("cannot be taken offline"));
    }

    #[test]
    fn what_the_machine_allows_decides() {
        let of =
            |host: &HostState| plan_on(&Options::new(RamAmount::Hide(Bytes::gib(1))), host).expect("plans").mechanism;
        assert_eq!(of(&state()), RamMechanism::Holder);
        assert_eq!(of(&HostState { root: false, ..state() }), RamMechanism::Balloon);
        assert_eq!(of(&HostState { sysctl_writable: false, ..state() }), RamMechanism::Balloon, "root in a container");
        assert_eq!(of(&HostState { overcommit: None, ..state() }), RamMechanism::Balloon);
    }

    #[test]
    fn a_balloon_in_a_container_leaves_of_the_containers_own() {
        let room = Room { total_bytes: 4 * Bytes::GIB, available_bytes: 3 * Bytes::GIB, limited: true };
        let host = HostState { root: false, room, ..state() };
        let leave = plan_on(&Options::new(RamAmount::Leave(Bytes::gib(1))), &host).expect("plans");
        assert_eq!((leave.hide_bytes, leave.unit_bytes), (2 * Bytes::GIB, 4096));
        let options = Options { oom_victim: OomVictim::Server, ..Options::new(RamAmount::Hide(Bytes::gib(1))) };
        let refused = plan_on(&options, &host).expect_err("the balloon would be killed first").to_string();
        assert!(refused.contains("the largest process"), "{refused}");
    }
}
