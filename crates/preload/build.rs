// SPDX-License-Identifier: Apache-2.0

#[path = "build/library.rs"]
mod library;

fn main() {
    library::build("wringer_preload", &["../diskmodel/src/class.rs", "../slowfs/src/overshoot.rs"]);
}
