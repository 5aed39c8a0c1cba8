// SPDX-License-Identifier: Apache-2.0

#[path = "../preload/build/library.rs"]
mod library;

fn main() {
    library::build("wringer_asked", &[]);
}
