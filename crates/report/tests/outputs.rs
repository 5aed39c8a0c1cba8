// SPDX-License-Identifier: Apache-2.0
//! The three outputs of whole recordings, and of broken ones.

mod common;

use common::{Sample, cut_off, empty, hostile, sample};
use report::Context;

fn context(sample: &Sample) -> Context<'_> {
    Context::assemble(&sample.evidence, sample.views(), sample.findings.clone())
}

fn html(sample: &Sample) -> String {
    let mut page = Vec::new();
    report::write_html(&context(sample), &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

#[test]
fn text_of_a_run() {
    insta::assert_snapshot!(report::text(&context(&sample())));
}

#[test]
fn text_of_a_run_that_was_cut_off() {
    insta::assert_snapshot!(report::text(&context(&cut_off())));
}

#[test]
fn findings_as_text() {
    insta::assert_snapshot!(report::findings_text(&context(&sample())));
}
