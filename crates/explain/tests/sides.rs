// SPDX-License-Identifier: Apache-2.0
//! Two sides of runs with several arms each.
#![allow(clippy::unwrap_used)] // helpers of tests

use evidence::Evidence;
use explain::sides::{Sides, Wanted, compare};
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
fn what_the_caller_knows_to_be_missing_hinders() {
    let mut one = stored();
    let (other, unmeasured) = (other(&mut one, "a"), vec!["block 2: arm \"a\" ended with out_of_memory".to_owned()]);
    let wanted = Wanted { across: vec!["arm".into()], unmeasured, ..Wanted::default() };
    let sides = compare(&[one], &[other], &wanted).unwrap();
    assert_eq!((sides.not_comparable, sides.comparisons.len()), (wanted.unmeasured, 0));
}
